#!/usr/bin/env bash
# build.sh: prints the path of NVIDIA's k8s-device-plugin (Apache-2.0), and builds it first where it is
# missing, of the Go module proxy: some minutes on two processors, once. It is kept below CGPU_CACHE, as
# Kubernetes is (tests/cluster/build.sh). Needs Go and a C compiler.
set -euo pipefail
cd "$(dirname "$0")"
module=github.com/NVIDIA/k8s-device-plugin
version=$(sed -n "s|^require $module v||p" go.mod)
sources=$(cat go.mod go.sum | sha256sum | cut -c1-12)
folder=${CGPU_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cgpu}/nvidia-plugin-$version-$sources
if [ ! -x "$folder/nvidia-device-plugin" ]; then
  if ! command -v go >/dev/null; then
    echo "error: no go on this machine" >&2
    echo "hint: install Go 1.24 or later: https://go.dev/doc/install" >&2
    exit 1
  fi
  mkdir -p "$folder"
  echo "builds $module $version into $folder; this takes some minutes, once" >&2
  go build -p "${JOBS:-$(nproc)}" -ldflags '-s -w' -o "$folder/new" \
    "$module/cmd/nvidia-device-plugin" >&2
  mv "$folder/new" "$folder/nvidia-device-plugin"
fi
echo "$folder/nvidia-device-plugin"
