#!/usr/bin/env bash
# sources.sh: our C++ files, one per line, whether or not git knows them yet.
set -euo pipefail
cd "$(dirname "$0")/.."
for folder in src sim tests bench; do
  [ -d "$folder" ] && find "$folder" \( -name '*.cc' -o -name '*.h' \) -print
done | sort
