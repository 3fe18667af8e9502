#!/usr/bin/env python3
"""How long the tests of build/ took, from ctest's own records: each group, and the longest tests.

A test that never ran in this build folder has no time. Tests on a real Kubernetes and the builds of the
sanitizers are not ctest's: `make` prints how long they take.
"""

import json
import pathlib
import subprocess

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build"
LONGEST = 30


def costs():
    """Mean seconds by name, of the tests that ran."""
    file = BUILD / "Testing/Temporary/CTestCostData.txt"
    if not file.exists():
        raise SystemExit("no test ran in %s yet: make test" % BUILD)
    rows = (line.rsplit(" ", 2) for line in file.read_text().split("---")[0].splitlines())
    return {name: float(seconds) for name, runs, seconds in rows if int(runs) > 0}


def groups():
    """The tests' names by group: the part of `make nightly`, or what kind of test `make test` runs."""
    listed = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], check=True,
                            stdout=subprocess.PIPE)
    found = {}
    for test in json.loads(listed.stdout)["tests"]:
        labels = next((p["value"] for p in test["properties"] if p["name"] == "LABELS"), ["other"])
        part = next((label for label in labels if label.startswith("nightly-")), labels[0])
        found.setdefault(part, []).append(test["name"])
    return found


def main():
    seconds = costs()
    print("%-20s %6s %6s %8s" % ("group", "tests", "ran", "seconds"))
    for group, names in sorted(groups().items()):
        ran = [name for name in names if name in seconds]
        print("%-20s %6d %6d %8.0f" % (group, len(names), len(ran), sum(seconds[n] for n in ran)))
    print("\nthe longest:")
    for name in sorted(seconds, key=seconds.get, reverse=True)[:LONGEST]:
        print("%8.1f s  %s" % (seconds[name], name))


if __name__ == "__main__":
    main()
