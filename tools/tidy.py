#!/usr/bin/env python3
"""clang-tidy over the sources of src and sim that are no tests, in parallel.

It reads the files in the groups of a unity build, which takes half the time. Without the others of its
group, and without precompiled headers, clang reads each file alone: one that lacks an include is a
finding. So is a name that two files of a group use for themselves. Files that are named are read by
clang-tidy alone.

A group or file that passed is read again only after it, a header of ours that it includes, its compile
command or .clang-tidy has changed: the build folder keeps a stamp named by the hash of all of them.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRECOMPILED = re.compile(r" -include \S*cmake_pch\.hxx")
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
CLANG = "clang++-19"
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


def is_checked(path):
    return (path.suffix == ".cc" and not path.name.endswith("_test.cc")
            and any(path.is_relative_to(ROOT / folder) for folder in ("src", "sim")))


def read_groups(database):
    """The files that are compiled, with their compile commands: a path -> the sources in it, the command.
    A group with tests comes as its other files, each alone."""
    groups = {}
    for entry in database:
        path = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        command = entry.get("command") or " ".join(entry["arguments"])
        members = [path]
        if path.name.startswith("unity_"):
            members = [pathlib.Path(name.decode()) for name in INCLUDE.findall(path.read_bytes())]
        chosen = [member for member in members if is_checked(member)]
        if chosen == members:
            groups[path] = (members, command)
        else:
            groups.update({member: ([member], command.replace(str(path), str(member))) for member in chosen})
    return groups


def tidy_words(path, database):
    # Some warnings are g++'s alone.
    return [TIDY, "-p", str(database), "--quiet", "--checks=-bugprone-suspicious-include",
            "--extra-arg=-Wno-unknown-warning-option", str(path)]


def syntax_words(command):
    words = shlex.split(command)
    output = words.index("-o")
    return [CLANG, *words[1:output], *words[output + 2:], "-fsyntax-only", "-w"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/demo", help="folder with compile_commands.json")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("files", nargs="*", help="only these; all of them if none is named")
    options = parser.parse_args()
    build = ROOT / options.build
    stamps = build / "tidy"
    stamps.mkdir(exist_ok=True)
    settings = (ROOT / ".clang-tidy").read_bytes()
    groups = read_groups(json.loads(PRECOMPILED.sub("", (build / "compile_commands.json").read_text())))
    alone = {member: command.replace(str(path), str(member))
             for path, (members, command) in groups.items() for member in members}
    database = {path: command for path, (_, command) in groups.items()} | alone
    (stamps / "compile_commands.json").write_text(json.dumps(
        [{"directory": str(build), "file": str(path), "command": command}
         for path, command in database.items()]))

    def check(item):
        path, tidy = item
        command = database[path]
        stamp = stamps / fingerprint(path, command + str(tidy), settings)
        if stamp.exists():
            return None
        ran = subprocess.run(tidy_words(path, stamps) if tidy else syntax_words(command), cwd=build,
                             stdout=subprocess.PIPE, text=True, check=False,
                             stderr=subprocess.DEVNULL if tidy else subprocess.STDOUT)
        if ran.returncode == 0:
            stamp.touch()
            return None
        return f"{path.relative_to(ROOT)}\n{ran.stdout}"

    if options.files:
        tasks = [(pathlib.Path(name).resolve(), True) for name in options.files]
    else:
        tasks = [(path, True) for path in groups] + [(path, False) for path in alone if path not in groups]
    with ThreadPoolExecutor(options.jobs) as pool:
        bad = 0
        for text in filter(None, pool.map(check, tasks)):
            print(text, flush=True)
            bad += 1
    print(f"tidy: {len(tasks) if options.files else len(alone)} files, {bad} findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
