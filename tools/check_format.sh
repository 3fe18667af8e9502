#!/usr/bin/env bash
# Fails if clang-format would change a file, and says how to let it.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! tools/sources.sh | xargs clang-format-19 --dry-run --Werror; then
  echo "hint: run tools/sources.sh | xargs clang-format-19 -i" >&2
  exit 1
fi
