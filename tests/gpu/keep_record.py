#!/usr/bin/env python3
"""tests/gpu/keep_record.py RESULTS: takes which calls programs made of a driver, in a folder that tests/gpu/run
wrote, into tests/gpu/records, one file a program, where a test compares them with our tables; and adds
the line of the README. Those of a simulated node are marked so."""
import gzip
import json
import os
import re
import sys
import textwrap

RECORDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "records")


def plain(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def main(results):
    with open(os.path.join(results, "results.json"), encoding="utf-8") as file:
        ground = json.load(file)["raw"].get("ground", {})
    with gzip.open(os.path.join(results, "calls.txt.gz"), "rt", encoding="utf-8") as file:
        text = file.read()
    driver = re.search(r"^# driver (\d+)(\.\S+)$", text, re.MULTILINE)
    if "gpu" not in ground or not driver:
        raise SystemExit("keep_record: the run must have been of `ground` and `record`, in slices")
    real = "driver" in ground
    where = ground["gpu"] if real else "simulated, " + ground["gpu"]
    folder = os.path.join(RECORDS, driver.group(1))
    os.makedirs(folder, exist_ok=True)
    names = []
    for part in text.split("== ")[1:]:
        name, _, calls = part.partition("\n")
        lines = [line for line in calls.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        names.append(plain(name) + "-" + plain(where) + ".txt")
        with open(os.path.join(folder, names[-1]), "w", encoding="utf-8") as file:
            file.write("# %s\n# %s\n# driver %s%s\n%s\n" % (name, where, driver.group(1), driver.group(2), "\n".join(lines)))
    entry = "* `%s/`: %s, driver %s%s: %s" % (driver.group(1), where, driver.group(1), driver.group(2),
                                            ", ".join("`%s`" % name for name in names))
    line = textwrap.fill(entry, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) + "\n"
    readme = os.path.join(RECORDS, "README.md")
    with open(readme, encoding="utf-8") as file:
        known = line in file.read()
    if not known:
        with open(readme, "a", encoding="utf-8") as file:
            file.write(line)
    print("%d records in %s" % (len(names), folder))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
