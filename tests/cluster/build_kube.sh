#!/usr/bin/env bash
# build_kube.sh: prints the path of `kube`, the Kubernetes programs in one binary (kube/main.go), and
# builds it first where it is missing: about ten minutes on two processors, once. It is kept outside
# of the source tree, below CGPU_CACHE (default: ~/.cache/cgpu).
set -euo pipefail
cd "$(dirname "$0")/kube"
version=$(sed -n 's|^\tk8s.io/kubernetes v||p' go.mod)
sources=$(cat go.mod go.sum ./*.go | sha256sum | cut -c1-12)
folder=${CGPU_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cgpu}/kubernetes-$version-$sources
if [ ! -x "$folder/kube" ]; then
  if ! command -v go >/dev/null; then
    echo "error: no go on this machine" >&2
    echo "hint: install Go 1.26 or later: https://go.dev/doc/install" >&2
    exit 1
  fi
  mkdir -p "$folder"
  echo "builds Kubernetes $version into $folder; this takes some ten minutes, once" >&2
  # The version is what the API server tells its clients. Without debugging tables, and with more
  # garbage, the compiler takes a fifth less time.
  flags="-s -w"
  for fact in "gitVersion=v$version" "gitMajor=${version%%.*}" "gitMinor=$(echo "$version" | cut -d. -f2)"; do
    flags+=" -X k8s.io/component-base/version.$fact -X k8s.io/client-go/pkg/version.$fact"
  done
  CGO_ENABLED=0 GOFLAGS=-trimpath GOGC=400 go build -p "${JOBS:-$(nproc)}" \
    -gcflags=all=-dwarf=false -ldflags "$flags" -o "$folder/kube.new" . >&2
  mv "$folder/kube.new" "$folder/kube"
fi
echo "$folder/kube"
