#!/usr/bin/env bash
# build_go.sh NAME [built]: prints the path of a program in Go, and builds it first where it is missing,
# once, of the Go module proxy. With `built` it prints nothing, and fails where it would have to build.
#   kube           the Kubernetes programs in one binary: about ten minutes on two processors
#   helm           Helm: one minute after `kube`
#   nvidia-plugin  NVIDIA's k8s-device-plugin (Apache-2.0): some minutes. Needs a C compiler
#   nvml-client    a program on NVIDIA's go-nvml (Apache-2.0). Needs a C compiler
# They are kept outside of the source tree, below CGPU_CACHE (default: ~/.cache/cgpu).
set -euo pipefail
cd "$(dirname "$0")"
package=. cgo=1 flags= product=$1
case $1 in
  kube)
    cd cluster/kube
    cgo=0 product=kubernetes takes="some ten minutes"
    version=$(sed -n 's|^\tk8s.io/kubernetes v||p' go.mod)
    # The version is what the API server tells its clients.
    for fact in "gitVersion=v$version" "gitMajor=${version%%.*}" "gitMinor=$(echo "$version" | cut -d. -f2)"; do
      flags+=" -X k8s.io/component-base/version.$fact -X k8s.io/client-go/pkg/version.$fact"
    done
    ;;
  helm)
    cd cluster/helm
    cgo=0 package=helm.sh/helm/v3/cmd/helm takes="a minute or more"
    version=$(sed -n 's|^\thelm.sh/helm/v3 v\([^ ]*\).*|\1|p' go.mod)
    # Where Helm asks no cluster, it renders for the Kubernetes that its client is of.
    minor=$(sed -n 's|^\tk8s.io/client-go v0\.\([0-9]*\)\..*|\1|p' go.mod)
    facts=helm.sh/helm/v3
    flags=" -X $facts/internal/version.version=v$version"
    flags+=" -X $facts/pkg/chartutil.k8sVersionMinor=$minor -X $facts/pkg/lint/rules.k8sVersionMinor=$minor"
    ;;
  nvidia-plugin)
    cd engines/nvidia_plugin
    package=github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin takes="some minutes"
    version=$(sed -n 's|^require github.com/NVIDIA/k8s-device-plugin v||p' go.mod)
    ;;
  nvml-client)
    cd e2e/nvml_go
    takes="half a minute"
    version=$(sed -n 's|^require github.com/NVIDIA/go-nvml v||p' go.mod)
    ;;
  *) echo "error: no program in Go is called $1" >&2 && exit 64 ;;
esac
shopt -s nullglob
key=$(cat go.mod go.sum ./*.go | sha256sum | cut -c1-12)
folder=${CGPU_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cgpu}/$product-$version-$key
if [ "${2:-}" = built ]; then
  test -x "$folder/$1"
  exit
fi
if [ ! -x "$folder/$1" ]; then
  if ! command -v go >/dev/null; then
    echo "error: no go on this machine" >&2
    echo "hint: install Go 1.26 or later: https://go.dev/doc/install" >&2
    exit 1
  fi
  mkdir -p "$folder"
  echo "builds $product $version into $folder; this takes $takes, once" >&2
  # Without debugging tables, and with garbage up to 6 GiB, the compiler takes a fifth less time.
  CGO_ENABLED=$cgo GOFLAGS=-trimpath GOGC=off GOMEMLIMIT=6GiB go build -p "${JOBS:-$(nproc)}" \
    -gcflags=all=-dwarf=false -ldflags "-s -w$flags" -o "$folder/$1.new" "$package" >&2
  mv "$folder/$1.new" "$folder/$1"
fi
echo "$folder/$1"
