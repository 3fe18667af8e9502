#!/usr/bin/env python3
"""clang-tidy over the sources of src and sim, in parallel.

A file that passed is not read again until it, a header of ours that it includes, its compile
command or .clang-tidy changes: the build folder keeps a stamp named by the hash of all of them.

Files are read without the precompiled headers, so one that lacks an include is a finding.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRECOMPILED = re.compile(r" -include \S*cmake_pch\.hxx")
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
TIDY = "clang-tidy-19"


def our_headers(path, seen):
    """Adds to `seen` every file of ours that `path` includes, at any depth."""
    for name in INCLUDE.findall(path.read_bytes()):
        for folder in (ROOT / "src", ROOT):
            header = folder / name.decode()
            if header.is_file():
                if header not in seen:
                    seen.add(header)
                    our_headers(header, seen)
                break


def fingerprint(source, command, settings):
    digest = hashlib.sha256(settings)
    digest.update(command.encode())
    files = {source}
    our_headers(source, files)
    for path in sorted(files):
        digest.update(str(path).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def sources(database):
    """The compile commands of the files that are checked; tests are not."""
    chosen = {}
    for entry in database:
        path = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if path.name.endswith("_test.cc") or path.suffix != ".cc":
            continue
        if any(path.is_relative_to(ROOT / folder) for folder in ("src", "sim")):
            chosen[path] = entry.get("command") or " ".join(entry["arguments"])
    return sorted(chosen.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with compile_commands.json")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--part", default="1/1", help="PART/PARTS of the files")
    parser.add_argument("files", nargs="*", help="only these; all of them if none is named")
    options = parser.parse_args()
    build = ROOT / options.build
    stamps = build / "tidy"
    stamps.mkdir(exist_ok=True)
    settings = (ROOT / ".clang-tidy").read_bytes()
    database = json.loads(PRECOMPILED.sub("", (build / "compile_commands.json").read_text()))
    (stamps / "compile_commands.json").write_text(json.dumps(database))

    def check(item):
        source, command = item
        stamp = stamps / fingerprint(source, command, settings)
        if stamp.exists():
            return None
        # Some warnings are g++'s alone.
        ran = subprocess.run([TIDY, "-p", str(stamps), "--quiet",
                              "--extra-arg=-Wno-unknown-warning-option", str(source)],
                             capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            stamp.touch()
            return None
        return f"{source.relative_to(ROOT)}\n{ran.stdout}"

    only = {pathlib.Path(name).resolve() for name in options.files}
    part, parts = map(int, options.part.split("/"))
    chosen = [item for item in sources(database) if not only or item[0] in only][part - 1::parts]
    with ThreadPoolExecutor(options.jobs) as pool:
        bad = 0
        for text in filter(None, pool.map(check, chosen)):
            print(text, flush=True)
            bad += 1
    print(f"tidy: {len(chosen)} files, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
