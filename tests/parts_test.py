#!/usr/bin/env python3
"""Checks the table in CONTRIBUTING.md under "What to run before you send a change": each tracked file
falls into a row, each row names parts of `make nightly` or none, each part is somebody's, and each
flaky test on record exists. --self-test feeds it broken tables.

    | `path`, `path` | parts, or core |
The longest path that a file begins with decides.
"""

import re
import subprocess
import sys

from layers_test import ROOT

ROW = re.compile(r"^\|((?: *`[^`]+`,?)+) *\| *([a-z0-9, -]+?) *\|$")
HEADING = "What to run before you send a change"
CORE = "core"


def read_table(text):
    """The rows: a path -> its parts."""
    section = text.partition("## %s\n" % HEADING)[2].partition("\n## ")[0]
    rows = {}
    for line in section.splitlines():
        row = ROW.match(line)
        if row:
            for path in re.findall(r"`([^`]+)`", row.group(1)):
                rows[path] = {part.strip() for part in row.group(2).split(",")}
    return rows


def read_parts(makefile):
    """The parts of `make nightly`, with those that differ in a number alone as one."""
    named = re.search(r"^PARTS := (.*)$", makefile, re.MULTILINE).group(1).split()
    return {re.sub(r"-\d+$", "", part) for part in named}


def findings(rows, parts, files):
    for file in files:
        if not any(file == path or (path.endswith("/") and file.startswith(path)) for path in rows):
            yield "%s: no row of CONTRIBUTING.md has it" % file
    for path, named in sorted(rows.items()):
        if not any(file == path or file.startswith(path) for file in files):
            yield "CONTRIBUTING.md: there is no %s" % path
        for part in sorted(named - parts - {CORE}):
            yield "CONTRIBUTING.md: make nightly has no part %s" % part
    for part in sorted(parts - set().union(*rows.values())):
        yield "CONTRIBUTING.md: no row names the part %s" % part


def self_test():
    rows = read_table("## %s\n| `a/`, `b` | core |\n|`c/` | x, y |\n## Next\n| `d` | core |\n" % HEADING)
    assert rows == {"a/": {CORE}, "b": {CORE}, "c/": {"x", "y"}}, rows
    parts = read_parts("PARTS := x y-1 y-2\n")
    assert parts == {"x", "y"}, parts
    files = ["a/one", "b", "c/two"]
    assert not list(findings(rows, parts, files))
    assert len(list(findings(rows, parts, files + ["e", "bb"]))) == 2
    assert list(findings(rows, parts, files[:2])) == ["CONTRIBUTING.md: there is no c/"]
    assert list(findings(rows, parts | {"z"}, files)) == ["CONTRIBUTING.md: no row names the part z"]
    assert list(findings(rows, {"x"}, files)) == ["CONTRIBUTING.md: make nightly has no part y"]


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, stdout=subprocess.PIPE, check=False)
    if listed.returncode != 0:
        print("skipped: this tree is no clone")
        return 77
    rows = read_table((ROOT / "CONTRIBUTING.md").read_text())
    found = list(findings(rows, read_parts((ROOT / "Makefile").read_text()), listed.stdout.split()))
    print("\n".join(found) or "each file has its tests")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
