#!/usr/bin/env bash
# soak.sh SECONDS REPEATS: the randomised tests with ever new seeds, and each fuzzer, for SECONDS each;
# then the tests of tests/flaky.tsv, each REPEATS times beside a load of 8 processes, if REPEATS is not 0.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1 repeats=$2

# Managed memory has its own number of steps, below.
for test in build/asan/unit/*_property_test; do
  [ -x "$test" ] && [[ $test != */managed_tracker_* ]] || continue
  echo "soak: $(basename "$test") for $seconds s"
  end=$((SECONDS + seconds)) rounds=0
  while [ $SECONDS -lt $end ]; do
    RC_PARAMS="max_success=20" "$test" >build/soak.log 2>&1 || { cat build/soak.log; exit 1; }
    rounds=$((rounds + 1))
  done
  echo "soak: $rounds rounds, none fails"
done
seed=$((RANDOM * 32768 + RANDOM))
echo "soak: a million steps of processes with managed memory, seed $seed"
CGPU_TRACKER_STEPS=1000000 CGPU_TRACKER_SEED=$seed build/unit/managed_tracker_property_test \
  >build/soak.log 2>&1 || { cat build/soak.log; exit 1; }
tools/fuzz.sh build/asan "$seconds"

export CGPU_BIN=build/bin CGPU_TEST_BIN=build/tests/bin PYTHONPATH=tests/lib
echo "soak: every client that the driver can have"
python3 tests/adversary/bombs_test.py bomb-clients 1100000 >build/soak.log 2>&1 || [ $? -eq 77 ] ||
  { cat build/soak.log; exit 1; }
for case in whole-550 small-550 whole-580 small-580; do
  echo "soak: with and without cgpu, $case, for $seconds s"
  end=$((SECONDS + seconds)) sequences=0
  while [ $SECONDS -lt $end ]; do
    status=0
    python3 tests/e2e/differential_test.py "$case" 40 "$RANDOM$RANDOM" 300 >build/soak.log 2>&1 || status=$?
    [ $status -ne 77 ] || { tail -n 1 build/soak.log; break; }
    [ $status -eq 0 ] || { cat build/soak.log; exit 1; }
    sequences=$((sequences + 40))
  done
  echo "soak: $sequences sequences, none differs"
done
echo "soak: every row on every file, for $seconds s"
end=$((SECONDS + seconds)) sequences=0
while [ $SECONDS -lt $end ]; do
  status=0
  python3 tests/e2e/every_file_test.py asked 6 40 >build/soak.log 2>&1 || status=$?
  [ $status -ne 77 ] || { tail -n 1 build/soak.log; break; }
  [ $status -eq 0 ] || { cat build/soak.log; exit 1; }
  sequences=$((sequences + 40))
done
echo "soak: $sequences sequences of random calls, and all rows for each 40; none fails"
echo "soak: compute shares against their model, for $seconds s"
end=$((SECONDS + seconds)) steps=0
while [ $SECONDS -lt $end ]; do
  status=0
  python3 tests/engines/compute_model_test.py random 100 >build/soak.log 2>&1 || status=$?
  [ $status -ne 77 ] || { tail -n 1 build/soak.log; break; }
  [ $status -eq 0 ] || { cat build/soak.log; exit 1; }
  steps=$((steps + 100))
done
echo "soak: $steps steps, all as the model says"
kills=$((seconds * 5 / 3))  # 1,000 in ten minutes each
echo "soak: $kills kills under load"
status=0
python3 tests/engines/kills_test.py random "$kills" >build/soak.log 2>&1 || status=$?
[ $status -eq 0 ] || [ $status -eq 77 ] || { head -n 1 build/soak.log; tail -n 50 build/soak.log; exit 1; }
grep -a -e '^kills' -e '^skipped' build/soak.log  # belongs into docs/reference/adversaries.md
for case in size pointer class xfer attr dup2-null dup2-file; do
  status=0
  python3 tests/adversary/races_test.py "soak-$case" "$seconds" >build/soak.log 2>&1 || status=$?
  [ $status -eq 0 ] || [ $status -eq 77 ] || { tail -n 50 build/soak.log; exit 1; }
  grep -a -e '^soak-' -e '^skipped' build/soak.log  # its tries belong into docs/reference/adversaries.md
done
[ "$repeats" -eq 0 ] || tools/soak_flaky.sh "$repeats"
