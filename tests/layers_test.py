#!/usr/bin/env python3
"""Checks what a compiler does not: which part of the tree may include which, and a few sizes.

The one table of layers is in ARCHITECTURE.md, under "Layers":
    | `module` | may include | third party | what it is |
A module may include itself and what its row names. "third party: none" also holds for its .cc
files; elsewhere headers of ours include the standard library and the system only, but for "in .h".
A module that is said to be *pure* includes nothing that could reach the kernel, a clock, a file or
randomness, neither in itself nor by what it may include of base. No file is longer than 600 lines,
tables aside. --self-test feeds the rules broken files.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 600
MAX_COLUMNS = 100  # of prose in Markdown
# Tables: data, a row per line, however many rows the vendor has.
TABLES = re.compile(r"(^|/)(tables?/|[a-z0-9_]*_table[s]?\.(h|cc)$)")
# Places that only exist on one machine or in one room. Written so that this file passes.
FORBIDDEN = ["/" + "work/", ".." + "/shared", "/" + "farm/"]
# Folders of files that others wrote, or a program.
OTHERS = {"__pycache__", "node_modules", "dist"}
# Suffixes of text files in which they are looked for.
TEXT = {".cc", ".h", ".md", ".txt", ".cmake", ".py", ".sh", ".json", ".tsv", ".yml", ""}

QUOTED = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
ANGLED = re.compile(r"^\s*#\s*include\s*<([^>]+)>")
ROW = re.compile(r"^\|\s*`([a-z]+)`\s*\|([^|]*)\|([^|]*)\|([^|]*)\|")
SYSTEM_FOLDERS = ("sys/", "linux/", "asm/", "arpa/", "netinet/", "net/", "bits/")
# Headers that a pure module may not include: all that are not of the C++ library, and these parts
# of it.
IMPURE_STANDARD = {"chrono", "condition_variable", "csignal", "ctime", "filesystem",
                   "fstream", "future", "iostream", "random", "thread"}
IMPURE_BASE = {"base/fd.h", "base/file.h"}
THIRD_PARTY_PLAIN = {"fuse.h", "fuse_lowlevel.h", "seccomp.h", "rapidcheck.h"}


def read_table(text):
    """The rows under "Layers": module -> (modules it may include, third party, pure)."""
    rows = {}
    inside = False
    for line in text.splitlines():
        if line.startswith("#"):
            inside = line.lstrip("# ").strip() == "Layers"
        row = ROW.match(line) if inside else None
        if row:
            rows[row.group(1)] = (set(re.findall(r"`([a-z]+)`", row.group(2))),
                                  row.group(3).strip(), "*pure*" in row.group(4))
    return rows


def module_of(path):
    """The module a file of ours belongs to; None for those that may include anything."""
    parts = pathlib.PurePath(path).parts
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    return named_module(path) if parts[0] == "sim" else None


def named_module(included):
    """The module of a header as it is included: the first folder, but for what lies within sim."""
    for module in ("engine", "cuda", "nvml"):
        if included.startswith("sim/%s/" % module):
            return module
    return included.split("/")[0]


def is_third_party(name):
    if name in THIRD_PARTY_PLAIN:
        return True
    return "/" in name and not name.startswith(SYSTEM_FOLDERS)


def is_impure(name):
    """Tells whether the header between <> is not of the C++ library, or asks the system."""
    return "." in name or "/" in name or name in IMPURE_STANDARD


def is_test(path):
    """Files that belong to a test: they may use the test libraries, and any layer."""
    name = pathlib.PurePath(path).name
    parts = pathlib.PurePath(path).parts
    return (parts[0] in ("tests", "bench") or "tests" in parts
            or re.search(r"_test\.(cc|h)$|^test_|^testing", name) is not None)


def check_includes(path, lines, table):
    faults = []
    module = module_of(path)
    if module is None or is_test(path):
        return faults
    if module not in table:
        return [f"{path}: module {module} has no row in ARCHITECTURE.md"]
    allowed, third_party, pure = table[module]
    for number, line in enumerate(lines, 1):
        quoted = QUOTED.match(line)
        if quoted and "/" in quoted.group(1):
            included = named_module(quoted.group(1))
            if included != module and included not in allowed:
                faults.append(f"{path}:{number}: {module} may not include {included}")
            if pure and quoted.group(1) in IMPURE_BASE:
                faults.append(f"{path}:{number}: {module} is pure: no {quoted.group(1)}")
        angled = ANGLED.match(line)
        if angled and pure and is_impure(angled.group(1)):
            faults.append(f"{path}:{number}: {module} is pure: no <{angled.group(1)}>")
            continue
        if angled and is_third_party(angled.group(1)):
            if third_party == "none":
                faults.append(f"{path}:{number}: {module} may not use <{angled.group(1)}>")
            elif path.endswith(".h") and third_party != "in .h":
                faults.append(f"{path}:{number}: <{angled.group(1)}> belongs in a .cc file")
    return faults


def check_prose(path, lines):
    """Prose is wrapped; tables, code, single long words and targets of links need not be."""
    faults = []
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        exempt = (fenced or line.lstrip().startswith("|") or line.startswith("    ")
                  or " " not in line.strip("*->. ") or re.match(r"\[[^\]]+\]: \S+$", line))
        if len(line) > MAX_COLUMNS and not exempt:
            faults.append(f"{path}:{number}: {len(line)} columns; {MAX_COLUMNS} is the most")
    return faults


def check_file(path, text, table):
    """All faults of one file; `path` is relative to the root."""
    lines = text.splitlines()
    faults = []
    if path.endswith((".cc", ".h")):
        faults += check_includes(path, lines, table)
        if len(lines) > MAX_LINES and not TABLES.search(path):
            faults.append(f"{path}: {len(lines)} lines; {MAX_LINES} is the most")
    if path.endswith(".md"):
        faults += check_prose(path, lines)
    for number, line in enumerate(lines, 1):
        for word in FORBIDDEN:
            if word in line:
                faults.append(f"{path}:{number}: names {word}")
    return faults


def check_table(table):
    """A row may only name rows above it, so the table has no circle."""
    faults = []
    above = set()
    for module, (allowed, _, _) in table.items():
        for other in sorted(allowed - above):
            faults.append(f"ARCHITECTURE.md: {module} may include {other}, which is not above it")
        above.add(module)
    return faults


def our_files():
    for path in sorted(ROOT.rglob("*")):
        relative = path.relative_to(ROOT)
        parts = relative.parts
        if parts[0] in ("build", ".git", ".cache") or OTHERS & set(parts):
            continue
        if path.is_file() and not path.is_symlink() and path.suffix in TEXT:
            yield str(relative), path


def self_test():
    table = read_table("## Layers\n| `base` | | none | x |\n| `rm` | `base` | none | *pure* |\n"
                       "| `os` | `base` | none | x |\n"
                       "| `engine` | | none | *pure* |\n| `sim` | `engine` | .cc | x |\n"
                       "| `apps` | `base` `rm` | .cc | x |\n| `json` | | in .h | x |\n## Else\n| `no` | | none | x |\n")
    assert set(table) == {"base", "rm", "os", "engine", "sim", "apps", "json"}, table
    cases = [
        ("src/base/a.h", '#include "rm/b.h"', 1),
        ("src/rm/a.h", '#include "base/b.h"\n#include <cerrno>\n#include <vector>', 0),
        ("src/rm/a.h", '#include "base/fd.h"\n#include <sys/stat.h>\n#include <chrono>', 3),
        ("src/rm/a.cc", "#include <unistd.h>\n#include <random>", 2),
        ("src/os/a.cc", '#include "base/fd.h"\n#include <unistd.h>\n#include <chrono>', 0),
        ("src/rm/a.cc", "#include <CLI/CLI.hpp>", 1),
        ("src/rm/a_test.cc", '#include <gtest/gtest.h>\n#include "apps/x.h"', 0),
        ("src/apps/x/a.h", "#include <CLI/CLI.hpp>", 1),
        ("src/apps/x/a.cc", "#include <CLI/CLI.hpp>", 0),
        ("src/json/a.h", "#include <CLI/CLI.hpp>", 0),
        ("sim/engine/a.cc", '#include "sim/engine/b.h"\n#include <vector>', 0),
        ("sim/engine/a.cc", '#include "sim/model/b.h"\n#include <ctime>', 2),
        ("sim/model/a.cc", '#include "sim/engine/b.h"\n#include "sim/fuse/c.h"', 0),
        ("src/new/a.cc", "", 1),
        ("src/rm/a.cc", "x\n" * 601, 1),
        ("src/rm/a_table.cc", "x\n" * 601, 0),
        ("docs/a.md", "see " + FORBIDDEN[0] + "x", 1),
        ("docs/a.md", "[a]: https://x/" + "y" * 99 + "\n[a]: " + "word " * 25, 1),
        ("docs/a.md", "word " * 25 + "\n```\n" + "code " * 25 + "\n```\n| " + "cell " * 25, 1),
    ]
    for path, text, faults in cases:
        found = check_file(path, text, table)
        assert len(found) == faults, (path, text[:40], found)
    assert check_table({"a": (set(), "", False), "b": ({"a"}, "", False)}) == []
    assert len(check_table({"a": ({"b"}, "", False), "b": ({"a"}, "", False)})) == 1
    assert len(check_table({"a": ({"a"}, "", False)})) == 1


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    table = read_table((ROOT / "ARCHITECTURE.md").read_text())
    faults = check_table(table)
    for name, path in our_files():
        faults += check_file(name, path.read_text(errors="replace"), table)
    for fault in faults:
        print(fault)
    print(f"layers: {len(table)} modules, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
