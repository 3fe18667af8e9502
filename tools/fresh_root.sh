#!/usr/bin/env bash
# fresh_root.sh SLIM FOLDER PACKAGE.deb: makes FOLDER the root of a Debian 12 with Docker, of SLIM
# (slim_root.sh) and Debian's mirror, for tests that follow the tutorials there. What PACKAGE.deb needs
# is downloaded and not installed: apt does that in the test, which has no network. Python is there for
# the test. Does nothing where FOLDER is such a root already, and the package needs what it needed then.
set -euo pipefail

slim=$1 folder=$2 package=$3
needs=$(dpkg-deb --field "$package" Depends Recommends)
[ "$needs" != "$(cat "$folder/complete" 2>/dev/null)" ] || exit 0
rm -rf "$folder"
cp -a "$slim" "$folder"
printf '#!/bin/sh\nexit 101\n' >"$folder/usr/sbin/policy-rc.d"  # no service of it starts meanwhile
chmod 755 "$folder/usr/sbin/policy-rc.d"
cp "$package" "$folder/tmp/package.deb"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
chroot "$folder" apt-get update -qq
chroot "$folder" apt-get install -y -qq --no-install-recommends systemd python3 ca-certificates \
  docker.io busybox-static >&2
chroot "$folder" apt-get clean
chroot "$folder" apt-get install -y -qq --download-only /tmp/package.deb >&2
rm "$folder/tmp/package.deb" "$folder/usr/sbin/policy-rc.d"
echo "$needs" >"$folder/complete"
