#!/usr/bin/env bash
# run_all.sh [PART/PARTS | SCRIPT:CASE...]: tests on a real Kubernetes: all, one part of them, or those
# that are named. Two run at a time, as each starts a cluster of its own and waits for much of its time.
# Prints the end of the output of those that fail.
set -uo pipefail
cd "$(dirname "$0")"
export CGPU_BIN=${CGPU_BIN:-$PWD/../../build/bin} CGPU_TEST_BIN=${CGPU_TEST_BIN:-$PWD/../../build/tests/bin}
export PYTHONDONTWRITEBYTECODE=1
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

run_one() {
  local began=$SECONDS log=$1/$2.$3 result
  python3 "$2" "$3" >"$log" 2>&1
  case $? in
    0) result=passed ;;
    77) result="skipped: $(tail -n 1 "$log")" ;;
    *) result=FAILED && tail -n 60 "$log" ;;
  esac
  echo "$2 $3: $result ($((SECONDS - began)) s)"
  [ "$result" != FAILED ]
}
export -f run_one

# A script without a case's name lists its cases and exits with 64, as for any wrong usage.
for script in *_test.py; do
  cases=$(python3 "$script" | sed -n 's/^cases: //p')
  [ -n "$cases" ] || { echo "$script names no cases" >&2 && exit 1; }
  printf "$script:%s\n" $cases >>"$logs/all"
done
case ${1:-1/1} in
  */*) part=${1:-1/1} && awk "NR % ${part#*/} == ${part%/*} % ${part#*/}" "$logs/all" >"$logs/chosen" ;;
  *) printf '%s\n' "$@" >"$logs/chosen" ;;
esac
sed 's/:/ /' "$logs/chosen" | xargs -P 2 -L 1 bash -c 'run_one "$@"' run_one "$logs"
