#!/usr/bin/env bash
# build_helm.sh: prints the path of `helm`, and builds it first where it is missing: one minute on two
# processors after build_kube.sh, once. It is kept below CGPU_CACHE, as Kubernetes is.
set -euo pipefail
cd "$(dirname "$0")/helm"
version=$(sed -n 's|^\thelm.sh/helm/v3 v\([^ ]*\).*|\1|p' go.mod)
# Where Helm asks no cluster, it renders for the Kubernetes that its client is of.
minor=$(sed -n 's|^\tk8s.io/client-go v0\.\([0-9]*\)\..*|\1|p' go.mod)
sources=$(cat go.mod go.sum | sha256sum | cut -c1-12)
folder=${CGPU_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cgpu}/helm-$version-$sources
if [ ! -x "$folder/helm" ]; then
  if ! command -v go >/dev/null; then
    echo "error: no go on this machine" >&2
    echo "hint: install Go 1.26 or later: https://go.dev/doc/install" >&2
    exit 1
  fi
  mkdir -p "$folder"
  echo "builds Helm $version into $folder; this takes a minute or more, once" >&2
  facts=helm.sh/helm/v3
  flags="-s -w -X $facts/internal/version.version=v$version"
  flags+=" -X $facts/pkg/chartutil.k8sVersionMinor=$minor -X $facts/pkg/lint/rules.k8sVersionMinor=$minor"
  CGO_ENABLED=0 GOFLAGS=-trimpath GOGC=400 go build -p "${JOBS:-$(nproc)}" \
    -gcflags=all=-dwarf=false -ldflags "$flags" -o "$folder/helm.new" helm.sh/helm/v3/cmd/helm >&2
  mv "$folder/helm.new" "$folder/helm"
fi
echo "$folder/helm"
