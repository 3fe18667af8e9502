#!/usr/bin/env bash
# fuzz.sh BUILD SECONDS: every libFuzzer target of BUILD for SECONDS each, two at a time. Inputs that
# fail are left in BUILD/fuzz/, with their name in the output.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 seconds=$2

fuzz_one() {
  local target=$1 name corpus log
  name=$(basename "$target")
  corpus=$build/corpus/$name
  log=$build/fuzz/$name.log
  mkdir -p "$corpus"
  if ! "$target" -max_total_time="$seconds" -len_control=0 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/fuzz/$name." "$corpus" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "fuzz: $name failed"
    return 1
  fi
  echo "fuzz: $name: $(grep -o 'number_of_executed_units: *[0-9]*' "$log" | grep -o '[0-9]*') inputs in $seconds s, none fails"
}
export -f fuzz_one
export build seconds

find "$build/fuzz" -maxdepth 1 -type f -executable | sort |
  xargs -r -P 2 -I{} bash -c 'fuzz_one {}'
