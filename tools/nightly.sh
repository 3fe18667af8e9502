#!/usr/bin/env bash
# nightly.sh PART...: runs these parts of `make nightly`. One line for each says how it ended, and the
# last line how many ran. Fails if a part fails, or cannot run here.
# nightly.sh --turn PART...: runs one of them, chosen by the number of commits, so that each has its turn.
# A part that cannot run here leaves its turn to the next one.
set -euo pipefail
cd "$(dirname "$0")/.."

# $@: folders of Go modules. Prints why they cannot be built here, if they cannot.
lacks_modules() {
  command -v go >/dev/null || { echo "there is no Go on this machine" && return; }
  local folder
  for folder in "$@"; do
    (cd "$folder" && go mod download) >/dev/null 2>&1 || echo "the modules of $folder cannot be had"
  done
}

# $1: a part. Prints why it cannot run here, if it cannot.
obstacle() {
  case $1 in
    kubernetes-*) lacks_modules tests/cluster/kube tests/cluster/helm ;;
    go) lacks_modules tests/engines/nvidia_plugin tests/e2e/nvml_go ;;
    packages)
      local mirror=http://deb.debian.org/debian/dists/bookworm/InRelease  # as in slim_root.sh
      python3 -c "import urllib.request as u; u.urlopen('$mirror', timeout=30)" 2>/dev/null ||
        echo "Debian's mirror cannot be had"
      ;;
  esac
}

ran=0 failed=()
# $1: a part. Fails if it cannot run.
run() {
  local began=$SECONDS why
  why=$(obstacle "$1")
  if [ -n "$why" ]; then
    echo "nightly-$1: NOT RUN: $why"
    return 1
  fi
  echo "nightly-$1: begins"
  ran=$((ran + 1))
  if make "nightly-$1"; then
    echo "nightly-$1: passed ($((SECONDS - began)) s)"
  else
    failed+=("$1")
    echo "nightly-$1: FAILED ($((SECONDS - began)) s)"
  fi
}

due=$#
if [ "$1" = --turn ]; then
  shift
  parts=("$@") due=1
  # A clone without its history counts one commit; the name of the last one chooses as well.
  turn=$(git rev-list --count HEAD)
  [ "$turn" -gt 1 ] || turn=$((16#$(git rev-parse --short=6 HEAD)))
  for ((i = 0; i < $#; i++)); do
    run "${parts[(turn + i) % $#]}" && break
  done
else
  for part in "$@"; do
    run "$part" || true
  done
fi
echo "nightly: $ran of $due parts ran, ${#failed[@]} failed${failed[*]:+: ${failed[*]}}"
[ "$ran" -eq "$due" ] && [ ${#failed[@]} -eq 0 ]
