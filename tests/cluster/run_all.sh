#!/usr/bin/env bash
# run_all.sh: all tests on a real Kubernetes, one after the other, as each starts a cluster of its own.
# Prints the end of the output of those that fail.
set -uo pipefail
cd "$(dirname "$0")"
export CGPU_BIN=${CGPU_BIN:-$PWD/../../build/bin} PYTHONDONTWRITEBYTECODE=1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
for script in *_test.py; do
  for case in $(python3 "$script" | sed -n 's/^cases: //p'); do
    began=$SECONDS
    python3 "$script" "$case" >"$log" 2>&1
    status=$?
    case $status in
      0) result=passed ;;
      77) result="skipped: $(tail -n 1 "$log")" ;;
      *) result=FAILED && failed=1 && tail -n 60 "$log" ;;
    esac
    echo "$script $case: $result ($((SECONDS - began)) s)"
  done
done
exit $failed
