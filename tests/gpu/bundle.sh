#!/usr/bin/env bash
# tests/gpu/bundle.sh BIN TEST_BIN FILE: packs tests/gpu/run and the programs of BIN and TEST_BIN that it
# needs, for a machine with a GPU and nothing else. Fails if one needs more than that has: programs are
# linked statically, and those that load libcuda against libc alone.
set -euo pipefail
bin=$1
test_bin=$2
file=$3
programs=("$bin/cgpu" "$bin/cgpu-shim" "$bin/cgpud" "$bin/rmtool" "$test_bin/gpu-trace")
with_libc=("$bin/cgpu-burn" "$test_bin/gpu-orders")
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
mkdir -p "$top/cgpu-gpu/bin" "$(dirname "$file")"
cp -r "$(dirname "$0")/run" "$(dirname "$0")/kit" "$top/cgpu-gpu/"
rm -rf "$top/cgpu-gpu/kit/__pycache__"
for program in "${programs[@]}"; do
  if readelf -l "$program" | grep -q INTERP; then
    echo "$program is not linked statically" >&2
    exit 1
  fi
done
for program in "${with_libc[@]}"; do
  if readelf -d "$program" | grep NEEDED | grep -v -e 'libc\.so' -e 'libm\.so' -e 'ld-linux'; then
    echo "$program needs more than libc" >&2
    exit 1
  fi
done
for program in "${programs[@]}" "${with_libc[@]}"; do
  strip -o "$top/cgpu-gpu/bin/$(basename "$program")" "$program"
done
tar -C "$top" -czf "$file" cgpu-gpu
echo "$file: $(stat -c %s "$file") bytes"
