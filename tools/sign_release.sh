#!/usr/bin/env bash
# sign_release.sh FOLDER KEY: writes FOLDER/SHA256SUMS of all files there, and SHA256SUMS.asc, its
# signature by the GPG key that KEY names (an id, a fingerprint or an address). This checks the files,
# where the public key is known:
#
#   gpg --verify SHA256SUMS.asc SHA256SUMS && sha256sum --check --strict SHA256SUMS
set -euo pipefail
folder=${1:?a folder}
key=${2:?a GPG key}
cd "$folder"
rm -f SHA256SUMS SHA256SUMS.asc
sums=$(find . -maxdepth 1 -type f -printf '%f\n' | LC_ALL=C sort | xargs -d '\n' sha256sum)
echo "$sums" >SHA256SUMS
gpg --batch --yes --armor --local-user "$key" --detach-sign --output SHA256SUMS.asc SHA256SUMS
