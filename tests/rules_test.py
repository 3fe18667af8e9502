#!/usr/bin/env python3
"""Checks the rules of CONTRIBUTING.md and docs/style.md that a text search can check: the length of
functions, the test beside each source, the first word of comments, locks that clang checks.
Each row of driver-leans.md has a test and a file that exist. layers_test.py checks what includes
what, the length of files and the width of prose. --self-test feeds the rules broken files.

The sources are formatted (tools/check_format.sh), so a function's braces have its indentation.
"""

import pathlib
import re
import sys

from layers_test import our_files

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_BODY = 60  # lines between a function's braces
CODE = (".cc", ".h")
SCRIPTS = (".py", ".sh", ".cmake", "CMakeLists.txt", "Makefile", "/run", "/postinst", "/postrm", "/prerm")

# Functions that may be longer -> why. A row that nothing needs is a fault.
LONG_FUNCTIONS = {
    "src/sandbox/filter.cc: BuildGpuFilter": "a program of the kernel's, an instruction a line",
    "tests/adversary/managed.cc: Managed": "not yet split",
    "tests/fuzz/plain_driver.cc: PlainDriver::AllocIn": "not yet split",
}

# Words that no comment and no docstring begins with.
BAD_WORDS = {kind: re.compile(r"(?:^|\s)(?:%s) *(Of|Who|What|Whoever|Such) " % marks)
             for kind, marks in (("//", "//"), ("#", '#|"""'))}

# Locks that clang does not check: src/base/mutex.h has those that it does.
PLAIN_LOCKS = re.compile(r"std::(mutex|lock_guard|scoped_lock|condition_variable)\b"
                         r"|#include <(mutex|condition_variable)>")
LOCKS_HOME = "src/base/mutex.h"

LEANS = "docs/reference/driver-leans.md"

# Folders whose sources are one unit, with the tests in a folder of their own or by whole programs.
TESTED_AS_ONE = {
    "sim/cuda/": "tests/e2e/cuda_memory_test.py and the CUDA cases of tests/engines",
    "sim/driver/": "sim/tests",
    "sim/engine/": "sim/engine/tests",
    "sim/fuse/": "tests/e2e: it is what every test's node runs on",
    "sim/gpu/": "tests/e2e/engines_test.py",
    "sim/main.cc": "tests/e2e/node_test.py",
    "sim/model/": "sim/tests",
    "sim/nvml/": "tests/e2e/nvml_test.py",
    "sim/node/": "tests/e2e/node_test.py",
    "src/boundary/calls/": "one family each, in boundary_test.cc and the other tests of src/boundary",
    "src/apps/": "tests/e2e: a program's main and its words; parsers have tests beside them",
}

# Other sources without a test beside them: folder -> (why or where, names).
TESTED_ELSEWHERE = {
    "src/boundary/": ("parts of Boundary, in boundary_test.cc, managed_test.cc and uvm_test.cc",
                      "address_ranges container decode describe managed_doubts names objects "
                      "policy_controls spaces"),
    "src/doctor/": ("in engines_test.cc, kubernetes_test.cc and findings_test.cc",
                    "toolkit webhook workload"),
    "src/exporter/": ("a host with containers: tests/engines/exporter_test.py",
                      "collector families gather gpu_reader shim_users"),
    "src/install/": ("in engines_test.cc, and by tests/e2e/install_test.py",
                     "docker file_change install toml_engines"),
    "src/cgpud/": ("a daemon with containers: tests/engines",
                   "calibrating creation daemon event_keeper govern idle_holder measure plan_gpus"),
    "src/host/": ("files and processes of live containers: tests/e2e",
                  "admin capping gpu_settings compute container_events force node reservation reserve "
                  "shim_process unmanaged upgrade"),
    "src/kube/": ("need an API server: tests/cluster", "api follow"),
    "src/kubelet/": ("in device_plugin_test.cc", "resource_server"),
    "src/ledger/": ("parts of class Ledger, in ledger_test.cc", "free query"),
    "src/os/": ("needs a container or a filter: tests/e2e and tests/engines",
                "notify_unsafe service spare"),
    "src/page/": ("a program that serves: tests/engines/exporter_test.py", "guarded_server request_stream server serving tls"),
    "src/placement/": ("in policy_test.cc and fit_test.cc", "fragmentation model"),
    "src/calibration/": ("needs a GPU: tests/e2e", "calibrate slice_orders"),
    "src/rmclient/": ("needs a driver: tests/e2e",
                      "channels_unsafe copy_queue error_events_unsafe idle_group mapping_unsafe "
                      "switches_unsafe user_channel_unsafe utilisation"),
    "src/run/": ("makes namespaces and processes: tests/e2e",
                 "command container descriptors init plain run signals"),
    "src/runtime/": ("by tests/engines", "wrapper"),
    "src/shim/": ("needs a process in a slice: tests/e2e and tests/adversary",
                  "agent call_steps confine_unsafe desk driver executor_unsafe "
                  "housekeeping interleave_unsafe kept_files mapping_calls "
                  "range_questions receiver recorder takeover upgrade_unsafe "
                  "uvm_spaces watchers"),
}


def _first_line(lines, end, indent):
    """The index of the last line before `end` with exactly that indentation: where the function that
    ends there begins. None: there is none."""
    for index in range(end - 1, -1, -1):
        line = lines[index]
        if line.startswith(indent) and line[len(indent):len(indent) + 1] not in ("", " ", "#", "/"):
            return index
    return None


def long_functions(path, lines):
    """The functions whose bodies are too long, as (row of LONG_FUNCTIONS, line, lines of the body)."""
    found = []
    for end, line in enumerate(lines):
        if line not in ("}", "  }"):
            continue
        first = _first_line(lines, end, line[:-1])
        if line == "  }":  # only a function within a class; else it is a block
            outer = _first_line(lines, end, "")
            if outer is None or not re.match(r"(template\b.*|class|struct)\b", lines[outer]):
                continue
        opening = next((i for i in range(first or 0, end) if lines[i].endswith("{")), None)
        name = re.search(r"([\w:~]+)\(", lines[first]) if opening is not None else None
        if name and end - opening - 1 > MAX_BODY:
            found.append((f"{path}: {name.group(1)}", first + 1, end - opening - 1))
    return found


def is_tested(path, files, included):
    """Whether a source has a test beside it, or a test that includes its header."""
    stems = {path.removesuffix(".cc"), path.removesuffix(".cc").removesuffix("_unsafe")}
    return any(stem + "_test.cc" in files or stem.removeprefix("src/") + ".h" in included
               for stem in stems)


def lists_as_tested(path):
    """Whether one of the lists above names the source."""
    if path.startswith(tuple(TESTED_AS_ONE)):
        return True
    folder, name = path.rsplit("/", 1)
    return name.removesuffix(".cc") in TESTED_ELSEWHERE.get(folder + "/", ("", ""))[1].split()


def check_tests(files):
    """`files`: path -> lines. Sources need a test; the lists name only those that have none."""
    included = {match.group(1) for path, lines in files.items()
                if path.endswith("_test.cc") or "/tests/" in path
                for match in map(re.compile(r'#include "([^"]+)"').match, lines) if match}
    faults = []
    sources = [path for path in files if path.startswith(("src/", "sim/")) and path.endswith(".cc")
               and not path.endswith("_test.cc") and "/tests/" not in path]
    for path in sources:
        tested = is_tested(path, files, included)
        listed = lists_as_tested(path)
        if not tested and not listed:
            faults.append(f"{path}: has no test beside it, and no row in TESTED_ELSEWHERE")
        if tested and listed and not path.startswith(tuple(TESTED_AS_ONE)):
            faults.append(f"{path}: is in TESTED_ELSEWHERE, but has a test")
    for folder, (_, names) in TESTED_ELSEWHERE.items():
        faults += [f"{folder}{name}.cc: is in TESTED_ELSEWHERE, but is no file"
                   for name in names.split() if f"{folder}{name}.cc" not in files]
    return faults


def goes_on(lines, index, mark):
    """Whether a line is a comment that goes on with the sentence of the line before it."""
    before = lines[index - 1].strip() if index > 0 else ""
    return (lines[index].lstrip().startswith(mark) and before.startswith(mark)
            and not before.startswith("#!") and not before.endswith((".", ":", mark)))


def check_file(path, lines):
    """The faults of one file, and the rows of LONG_FUNCTIONS that it needs."""
    faults, needed = [], set()
    mark = "//" if path.endswith(CODE) else "#"
    for row, number, length in long_functions(path, lines) if path.endswith(CODE) else ():
        needed.add(row)
        if row not in LONG_FUNCTIONS:
            faults.append(f"{path}:{number}: {length} lines in a function; {MAX_BODY} is the most")
    for number, line in enumerate(lines, 1):
        if path.startswith(("src/", "sim/")) and path != LOCKS_HOME and PLAIN_LOCKS.search(line):
            faults.append(f"{path}:{number}: a lock that clang does not check; use {LOCKS_HOME}")
        word = BAD_WORDS[mark].search(line)
        if word and not goes_on(lines, number - 1, mark):
            faults.append(f'{path}:{number}: a comment begins with "{word.group(1)}"')
    return faults, needed


def check_all(files):
    faults, needed = check_tests(files), set()
    for path, lines in files.items():
        found, rows = check_file(path, lines)
        faults += found
        needed |= rows
    return faults + [f"{row}: is in LONG_FUNCTIONS, but is not long"
                     for row in LONG_FUNCTIONS if row not in needed]


def check_leans(page, tests):
    """The faults of the page with what cgpu leaves to the driver; `tests`: names of tests of sim/."""
    rows = [line.split(" | ") for line in page if line.startswith("| ") and "`" in line]
    faults = [] if rows else [f"{LEANS}: no row was read"]
    for what, *_, where, test in rows:
        named = re.findall(r"`(\w+\.\w+)`", test)
        faults += [f"{LEANS}: there is no test {name}" for name in named if name not in tests]
        faults += [] if named else [f"{LEANS}: no test asserts: {what[2:]}"]
        files = re.findall(r"`([\w/.]+)`", where)
        faults += [f"{LEANS}: there is no {path}" for path in files if not (ROOT / path).is_file()]
        faults += [] if files else [f"{LEANS}: no file leans on: {what[2:]}"]
    return faults


def tests_of_the_simulation():
    macro = re.compile(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", re.MULTILINE)
    return {".".join(names) for path in (ROOT / "sim/tests").glob("*_test.cc")
            for names in macro.findall(path.read_text())}


def self_test():
    def function(lines, head="int F() {"):
        return [head] + ["  x();"] * lines + ["}"]

    inner = ["class A {", " public:", "  int G(int a,", "        int b) {"] + ["    x();"] * 61 + ["  }", "};"]
    cases = [
        ("src/a/b.cc", function(60), 0),
        ("src/a/b.cc", function(61), 1),
        ("src/a/b.cc", ["int F(int a,", "      int b) {"] + ["  x();"] * 61 + ["}"], 1),
        ("src/a/b.h", inner, 1),
        ("src/a/b.cc", ["int table[] = {"] + ["  1,"] * 99 + ["};"], 0),
        ("src/a/b.cc", ["int F() {", "  if (a) {"] + ["    x();"] * 30 + ["  }"] + function(40)[1:], 1),
        ("src/a/b.cc", ["// Of the client."], 1),
        ("src/a/b.cc", ["int a;  // Who asks"], 1),
        ("src/a/b.cc", ["// Returns the sum", "// Of both."], 0),
        ("src/a/b.cc", ["// Returns it.", "// What it does."], 1),
        ("src/a/b.cc", ["// Offers one. What it takes."], 0),
        ("tests/a/b.py", ["# Of the client."], 1),
        ("tests/a/b.py", ["a = 1  " + "# Who asks"], 1),
        ("tests/a/b.py", ["def f():", " " + '"""What it gets."""'], 1),
        ("tests/a/b.py", ['"""Returns', "What it does."], 0),
        ("tests/a/b.py", ["# Returns the sum", "# Of both."], 0),
        ("tests/a/CMakeLists.txt", ["# Such tests.", "# Takes it.", "# What it takes."], 2),
        ("tools/a.sh", ["#!/bin/sh", "# What it does."], 1),
        ("Makefile", ["# Whoever calls."], 1),
        ("src/a/b.h", ["  std::mutex mutex_;"], 1),
        ("sim/a/b.cc", ["#include <mutex>", "  const std::lock_guard lock(mutex_);"], 2),
        ("src/a/b.cc", ["  std::unique_lock<std::mutex> lock(mutex_);"], 1),
        ("src/a/b.cc", ["  const std::unique_lock alone(ranges_mutex_, kTimeout);"], 0),
        (LOCKS_HOME, ["#include <mutex>", "  std::mutex mutex_;"], 0),
        ("tests/a/b.cc", ["std::mutex mutex;"], 0),
    ]
    row = "| growth | uvm.c:1 | 515 | `%s` | `%s` |"
    for page, count in (([row % ("src/rm/abi.h", "A.B")], 0), ([row % ("src/none.h", "A.B")], 1),
                        ([row % ("src/rm/abi.h", "A.C")], 1), (["| growth | a | b | c | d |"], 1),
                        (["| `growth` | a | b | c | d |"], 2)):
        assert len(check_leans(page, {"A.B"})) == count, page
    for path, lines, count in cases:
        found = check_file(path, lines)[0]
        assert len(found) == count, (path, lines[:4], found)
    assert len(check_tests({"src/a/b.cc": []})) == 1 + sum(
        len(names.split()) for _, names in TESTED_ELSEWHERE.values())
    for test in ({"src/a/b_test.cc": []}, {"src/a/c_test.cc": ['#include "a/b.h"']}):
        assert not [f for f in check_tests({"src/a/b.cc": [], **test}) if f.startswith("src/a/")]
    assert [f for f in check_tests({"src/host/admin.cc": [], "src/host/admin_test.cc": []})
            if f.startswith("src/host/admin.cc: is in")]
    assert any(f.endswith("is not long") for f in check_all({}))


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    faults = check_all({name: path.read_text().splitlines() for name, path in our_files()
                        if ("/" + name).endswith(CODE + SCRIPTS)})
    faults += check_leans((ROOT / LEANS).read_text().splitlines(), tests_of_the_simulation())
    for fault in faults:
        print(fault)
    print(f"rules: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
