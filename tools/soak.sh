#!/usr/bin/env bash
# soak.sh SECONDS: the randomised tests with ever new seeds, and each fuzzer, for SECONDS each.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1

for test in build/asan/unit/*_property_test; do
  [ -x "$test" ] || continue
  echo "soak: $(basename "$test") for $seconds s"
  end=$((SECONDS + seconds)) rounds=0
  while [ $SECONDS -lt $end ]; do
    RC_PARAMS="max_success=200" "$test" >build/soak.log 2>&1 || { cat build/soak.log; exit 1; }
    rounds=$((rounds + 1))
  done
  echo "soak: $rounds rounds, none fails"
done
tools/fuzz.sh build/fuzz "$seconds"
ctest --preset release --repeat until-fail:5
