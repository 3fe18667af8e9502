#!/usr/bin/env bash
# tools/gpu_bundle.sh BIN FILE: packs tests/gpu/run and the programs of BIN that it needs, for a machine
# with a GPU and nothing else. Fails if one of them is linked dynamically.
set -euo pipefail
bin=$1
file=$2
programs=(cgpu cgpu-shim rmtool)
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
mkdir -p "$top/cgpu-gpu/bin" "$(dirname "$file")"
cp -r "$(dirname "$0")/../tests/gpu/run" "$(dirname "$0")/../tests/gpu/kit" "$top/cgpu-gpu/"
rm -rf "$top/cgpu-gpu/kit/__pycache__"
for program in "${programs[@]}"; do
  if readelf -l "$bin/$program" | grep -q INTERP; then
    echo "$program is not linked statically" >&2
    exit 1
  fi
  strip -o "$top/cgpu-gpu/bin/$program" "$bin/$program"
done
tar -C "$top" -czf "$file" cgpu-gpu
echo "$file: $(stat -c %s "$file") bytes"
