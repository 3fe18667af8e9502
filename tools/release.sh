#!/usr/bin/env bash
# release.sh KEY: makes dist/release of the packages that `make deb` and `make rpm` have put into build:
# the packages, what they are linked of (SPDX), SHA256SUMS, and its signature by the GPG key KEY.
# It refuses a build that no commit names.
set -euo pipefail
cd "$(dirname "$0")/.."
key=${1:?a GPG key: make release KEY=ID}
said=$(build/bin/cgpu --version)
version=$(sed -n '1s/cgpu //p' <<<"$said")
commit=$(sed -n 's/^commit //p' <<<"$said")
case $commit in
*[!0-9a-f]*)
  echo "error: the build's commit is $commit" >&2
  echo "hint: commit the changes, then make release" >&2
  exit 1
  ;;
esac
rm -rf dist/release
mkdir -p dist/release
cp build/cgpu{,-exporter,-kubernetes}_"$version"_*.deb build/cgpu{,-exporter,-kubernetes}-"$version"-*.rpm \
  dist/release
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} \
  python3 -B tools/sbom.py build dist/release >dist/release/cgpu-"$version".spdx.json
tools/sign_release.sh dist/release "$key"
ls dist/release
