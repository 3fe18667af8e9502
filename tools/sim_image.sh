#!/usr/bin/env bash
# sim_image.sh SLIM PACKAGE.deb IMAGE.tar: makes an OCI image of a simulated node, for docker load and
# podman load: a copy of the root SLIM (slim_root.sh) with the package, what it needs of Debian's mirror,
# and deploy/sim-image/cgpu-sim-node as the entry point. The same root, package and SOURCE_DATE_EPOCH
# give the same bytes.
set -euo pipefail

slim=$1 package=$2 image=$3
here=$(dirname "$0")
root=$(mktemp -d "$image.XXXXXX")
trap 'rm -rf "$root"' EXIT
cp -a "$slim/." "$root"
chmod 755 "$root"
cp "$package" "$root/tmp/package.deb"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
chroot "$root" apt-get update -qq
chroot "$root" apt-get install -y -qq --no-install-recommends tini /tmp/package.deb >&2
install -m 755 "$here/../deploy/sim-image/cgpu-sim-node" "$root/usr/bin/"
cd "$root"
# Drops what apt and dpkg make again, what belongs to a machine, and texts that an image does not need.
rm -rf tmp/package.deb etc/{hostname,resolv.conf,machine-id} etc/*- var/log/* var/lib/apt/lists/* \
  var/cache/{apt,debconf,ldconfig}/* var/lib/dpkg/*-old var/cache/debconf/*-old \
  usr/share/{man,info,locale}
find usr/share/doc -type f ! -name copyright ! -path '*/cgpu/*' -delete
cd "$OLDPWD"
python3 -B "$here/oci_archive.py" "$root" "$image" localhost/cgpu-sim:latest \
  "$(dpkg-deb --field "$package" Version)" /usr/bin/tini -- /usr/bin/cgpu-sim-node
