#!/usr/bin/env bash
# run_all.sh [SECONDS]: all tests on a real Kubernetes, two at a time, as each starts a cluster of its
# own and waits for much of its time. Prints the end of the output of those that fail. Begins none
# after SECONDS, and says which were left out.
set -uo pipefail
export LAST_START=${1:+$(($(date +%s) + $1))}
cd "$(dirname "$0")"
export CGPU_BIN=${CGPU_BIN:-$PWD/../../build/bin} CGPU_TEST_BIN=${CGPU_TEST_BIN:-$PWD/../../build/tests/bin}
export PYTHONDONTWRITEBYTECODE=1
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

run_one() {
  local began=$SECONDS log=$1/$2.$3 result
  if [ -n "$LAST_START" ] && [ "$(date +%s)" -ge "$LAST_START" ]; then
    echo "$2 $3: NOT RUN: its time was up"
    return 0
  fi
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

# A script without a case's name lists its cases and exits with 64, as for any wrong usage. The first
# case of each script comes first, then the second of each, so that little time sees something of all.
turn=0
for script in *_test.py; do
  cases=$(python3 "$script" | sed -n 's/^cases: //p')
  [ -n "$cases" ] || { echo "$script names no cases" >&2 && exit 1; }
  printf "%s $logs $script %s\n" $(for case in $cases; do echo "$((++turn)) $case"; done) >>"$logs/all"
done
sort -n -s "$logs/all" | cut -d' ' -f2- | xargs -P 2 -L 1 bash -c 'run_one "$@"' run_one
