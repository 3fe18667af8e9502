#!/usr/bin/env bash
# soak_flaky.sh REPEATS: the tests of tests/flaky.tsv, each REPEATS times beside a load of 8 processes. Says
# which failed. Those on Kubernetes are left out: a cluster is made for each run of one.
set -euo pipefail
cd "$(dirname "$0")/.."
repeats=$1
load=()
trap 'kill "${load[@]}"' EXIT
for _ in {1..8}; do
  sh -c 'while :; do :; done' &
  load+=($!)
done
names=$(grep -v '^#' tests/flaky.tsv | cut -f1 | grep -v -e '^cluster\.' -e '^unit\.' | sort -u)
echo "soak: $(echo "$names" | wc -l) tests that failed once, $repeats times each, beside a load of 8"
ctest --preset release -R "^($(echo "$names" | sed 's/\./\\./g' | paste -sd'|'))\$" \
  --repeat "until-fail:$repeats" --parallel "${TESTS_AT_ONCE:-4}"
echo "soak: unit tests that failed once, $repeats times each"
for test in $(grep -o '^unit\.[a-z_]*' tests/flaky.tsv | sort -u); do
  RC_PARAMS="max_success=20" "build/asan/unit/${test#unit.}" --gtest_brief=1 \
    --gtest_repeat="$repeats" --gtest_break_on_failure >/dev/null
done
