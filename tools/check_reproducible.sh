#!/usr/bin/env bash
# check_reproducible.sh: builds the packages of the commit that is checked out twice, in two folders
# below build/reproducible, and compares them byte by byte. Nothing is taken from ccache: with its
# base_dir, objects name their sources in another way. Without JOBS it uses all processors; it takes as
# long as two builds.
set -euo pipefail
export CCACHE_DISABLE=1
cd "$(dirname "$0")/.."
root=$PWD
epoch=$(git log -1 --format=%ct)
kinds=DEB
if command -v rpmbuild >/dev/null; then kinds="DEB RPM"; fi
rm -rf build/reproducible
mkdir -p build/reproducible

build() {
  git clone --quiet --shared "$root" "build/reproducible/$1"
  if [ -d page/dist ]; then cp -a page/dist "build/reproducible/$1/page/dist"; fi
  (
    cd "build/reproducible/$1"
    git checkout --quiet --detach "$(git -C "$root" rev-parse HEAD)"
    cmake --preset release >/dev/null
    cmake --build --preset release --parallel "${JOBS:-$(nproc)}" --target programs >/dev/null
    for kind in $kinds; do
      SOURCE_DATE_EPOCH=$epoch cpack -G "$kind" --config build/CPackConfig.cmake >/dev/null
    done
  )
}

build one
build another-folder
status=0
for package in build/reproducible/one/build/*.{deb,rpm}; do
  [ -e "$package" ] || continue
  if cmp "$package" "${package/one/another-folder}"; then
    echo "the same bytes: $(basename "$package")"
  else
    status=1
  fi
done
exit $status
