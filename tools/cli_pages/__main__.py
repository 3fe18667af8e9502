#!/usr/bin/env python3
"""Makes manual pages, completions of shells and reference pages of the programs' own command lines.

    python3 tools/cli_pages --bin FOLDER --out FOLDER        what packages install, below OUT/COMPONENT
    python3 tools/cli_pages --bin FOLDER --reference FOLDER  the pages of docs/reference

Each program prints its command line as JSON (`--print-cli`; src/cli/command_line.cc), so nothing is
listed here but the programs. The host's programs without such a command line have manual pages that
are written by hand (deploy/man). Manual pages have the version that cgpu says, and the date of
SOURCE_DATE_EPOCH, or else of the commit.
"""
import argparse
import datetime
import gzip
import os
import pathlib
import subprocess
import sys

import fish
import man
import markdown
import shell_bash
import zsh
from tree import PROGRAMS, read_tree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def date_of_pages():
    """YYYY-MM-DD; empty where nothing says it."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch and (ROOT / ".git").exists():
        done = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], check=False,
                              stdout=subprocess.PIPE, text=True)
        epoch = done.stdout.strip()
    if not epoch:
        return ""
    return datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%d")


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_manual(share, name, section, text):
    write(share / ("man/man%d/%s.%d.gz" % (section, name, section)),
          gzip.compress(text.encode(), 9, mtime=0))


def write_shared(out, programs, version):
    """Writes what is installed below a prefix's share/."""
    date = date_of_pages()
    for path in sorted((ROOT / "deploy/man").iterdir()):
        text = path.read_text(encoding="utf-8").replace("@DATE@", date).replace("@VERSION@", version)
        write_manual(out / "host/share", path.stem, int(path.suffix[1:]), text)
    for name, tree in programs.items():
        section, component = PROGRAMS[name]
        share = out / component / "share"
        for page, text in man.pages(tree, section, version, date):
            write_manual(share, page, section, text)
        completed = [tree]
        if name == "cgpu":  # a link to it has another name
            (smi,) = [command for command in tree["commands"] if command["name"] == "smi"]
            completed.append({**smi, "name": "cgpu-smi"})
        for one in completed:
            write(share / "bash-completion/completions" / one["name"], shell_bash.completion(one))
            write(share / "zsh/site-functions" / ("_" + one["name"]), zsh.completion(one))
            write(share / "fish/vendor_completions.d" / (one["name"] + ".fish"), fish.completion(one))


def write_reference(out, programs):
    for name, tree in programs.items():
        write(out / (name + ".md"), markdown.page(tree))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="where the programs are")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--reference", type=pathlib.Path)
    options = parser.parse_args()
    programs = {name: read_tree(options.bin / name) for name in PROGRAMS}
    if options.out:
        said = subprocess.run([options.bin / "cgpu", "--version"], check=True,
                              stdout=subprocess.PIPE, text=True)
        write_shared(options.out, programs, said.stdout.splitlines()[0])
    if options.reference:
        write_reference(options.reference, programs)
    return 0


sys.exit(main())
