#!/usr/bin/env bash
# count_lines.sh [COMMIT]: lines of code below src and tools, of the working tree or a commit, by
# folder. Blank lines, comments, tests, what only tests use, and tables do not count.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=${1:-}

files() {
  if [ -n "$commit" ]; then git ls-tree -r --name-only "$commit" src tools; else git ls-files src tools; fi |
    grep -E '\.(cc|h|py|sh)$' | grep -vE '(_test\.cc|testing\.h)$|/testdata/'
}

show() {
  if [ -n "$commit" ]; then git show "$commit:$1"; else cat "$1"; fi
}

files | while read -r file; do
  [ -n "$commit" ] || [ -e "$file" ] || continue
  folder=$(echo "$file" | cut -d/ -f1,2)
  case $file in tools/*) folder=tools ;; esac
  case $file in *.py | *.sh) comment='^\s*(#|$)' ;; *) comment='^\s*(//|$)' ;; esac
  echo "$folder $(show "$file" | grep -cvE "$comment" || true)"
done | awk '{ of[$1] += $2; all += $2 } END { for (f in of) print of[f], f; print all, "all" }' | sort -n
