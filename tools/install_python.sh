#!/usr/bin/env bash
# install_python.sh FOLDER: the Python packages that tests need, each at one version, into FOLDER.
# Without a network, and where they are already, it changes nothing; tests that lack a package are
# skipped and say so.
set -euo pipefail

folder=$1
mkdir -p "$folder"
packages=(tinygrad==0.14.0
  nvidia-ml-py==13.615.71 psutil==7.2.2 nvitop==1.7.2
  wcwidth==0.9.4 blessed==1.22.0 gpustat==1.1.1)

for package in "${packages[@]}"; do
  name=${package%%==*} version=${package##*==}
  mark=${name//-/_}  # as pip writes it into names of folders
  [ ! -d "$folder/$mark-$version.dist-info" ] || continue
  if ! python3 -m pip --version >/dev/null 2>&1; then
    echo "note: no pip for python3: the tests with $name are skipped" >&2
    continue
  fi
  new=$folder/.new
  rm -rf "$new"
  if python3 -m pip install --quiet --disable-pip-version-check --no-deps --timeout 15 --retries 1 \
      --target "$new" "$package" >"$folder.log" 2>&1; then
    rm -rf "$folder/$mark"-*.dist-info "$new/bin"
    for part in "$new"/*; do
      rm -rf "$folder/${part##*/}"
      mv "$part" "$folder/"
    done
  else
    echo "note: $package could not be installed: the tests with it are skipped" >&2
    tail -n 1 "$folder.log" >&2
  fi
  rm -rf "$new"
done
