#!/usr/bin/env bash
# slim_root.sh FOLDER: makes FOLDER the root of a Debian 12 with apt and little else, from Debian's
# mirror. Other roots are made of copies of it. Does nothing where FOLDER is such a root already.
set -euo pipefail

folder=$1
mirror=http://deb.debian.org/debian
[ ! -e "$folder.complete" ] || exit 0
rm -rf "$folder"
debootstrap --variant=minbase bookworm "$folder" "$mirror" >&2
rm -f "$folder"/var/cache/apt/archives/*.deb
touch "$folder.complete"
