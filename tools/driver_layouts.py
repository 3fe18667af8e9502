#!/usr/bin/env python3
"""Prints what a release of the NVIDIA driver says about the structures and numbers this project
uses.

The headers of release tags in a clone of https://github.com/NVIDIA/open-gpu-kernel-modules are
compiled for Linux x86-64 and asked for sizes (bytes), offsets (@) and values of macros (=).

  driver_layouts.py --repo DIR --tag 595.45.04 NVOS64_PARAMETERS NVOS54_PARAMETERS.status
      prints a table for the given names and tags.
  driver_layouts.py --repo DIR --update FILE... [--add-tag TAG]
      fills FILEs again: the names of their first columns for the tags of their header line. A name
      alone on a line is a new row.
  driver_layouts.py --repo DIR --alike FILE...
      compares every published release of the branches in FILEs, one after the other, with the
      column of its branch and says which are laid out alike.
  driver_layouts.py --repo DIR --steps FILE...
      compares every published release, of all branches, with the one before it in its branch: what
      is another, what is gone, what is new. Which one is before it the history says, not the
      number.

DIR is a clone or a bare repository with the release tags. Needs git, tar and a C compiler.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

# Folders with headers, in the order in which they are searched.
INCLUDE_DIRS = (
    "src/common/sdk/nvidia/inc",
    "src/nvidia/arch/nvalloc/unix/include",
    "kernel-open/nvidia-uvm",
    "kernel-open/common/inc",
)
# Folders under the first of these whose headers are all included.
HEADER_TREES = ("alloc", "class", "ctrl")
# Further headers, where a release has them.
HEADERS = (
    "nvtypes.h",
    "nvlimits.h",
    "nvos.h",
    "nvstatus.h",
    "nv_escape.h",
    "nv-ioctl-numbers.h",
    "nv-ioctl.h",
    "nv-ioctl-numa.h",
    "nv-ioctl-lockless-diag.h",
    "nv-unix-nvos-params-wrappers.h",
    "uvm_types.h",
    "uvm_ioctl.h",
    "uvm_linux_ioctl.h",
)
ABSENT = "-"
MAX_ATTEMPTS = 12


def git(repo, *arguments):
    return subprocess.run(["git", "-C", repo, *arguments], check=True,
                          stdout=subprocess.PIPE).stdout


def checkout_headers(repo, tag, target):
    present = git(repo, "ls-tree", "-d", "--name-only", tag, *INCLUDE_DIRS).decode().split()
    archive = git(repo, "archive", tag, *present)
    subprocess.run(["tar", "-x", "-C", target], input=archive, check=True)


def find_headers(root):
    found = [name for name in HEADERS
             if any(os.path.exists(os.path.join(root, folder, name)) for folder in INCLUDE_DIRS)]
    base = os.path.join(root, INCLUDE_DIRS[0])
    for tree in HEADER_TREES:
        for folder, _, files in os.walk(os.path.join(base, tree)):
            found += [os.path.relpath(os.path.join(folder, name), base)
                      for name in files if name.endswith(".h")]
    return found[:len(HEADERS)] + sorted(found[len(HEADERS):])


def probe_of(name, words):
    """(mark of its kind, C expression), or None when the headers do not have the name at all.

    `words` are the identifiers after preprocessing and the macros, so that few probes fail: a
    compiler takes long to say what it does not know.
    """
    types, macros = words
    struct = name.split(".")[0].split()[-1]
    if "." in name:
        field = name.split(".", 1)[1]
        return ("@", f"__builtin_offsetof({name.split('.')[0]}, {field})") \
            if struct in types or struct in macros else None
    for _ in range(MAX_ATTEMPTS):  # the old name of a structure may be a macro for the new one
        if macros.get(struct) not in types:
            break
        struct = macros[struct]
    if struct in types:
        # Not a syntax error when it is wrong, so that the next line is still understood.
        return "", f"sizeof({name}[1])"
    if struct in macros:
        return "=", f"(unsigned long long)(({name}) + 0)"
    return None


def source_of(headers, probes):
    lines = [f'#include "{header}"' for header in headers]
    first = len(lines) + 1
    lines += [f"const unsigned long long probe_{i} = {text};"
              for i, (_, _, text) in enumerate(probes)]
    lines += ["int printf(const char *, ...);", "int main(void) {"]
    lines += [f'  printf("%llu\\n", probe_{i});' for i in range(len(probes))]
    lines += ["  return 0;", "}"]
    return "\n".join(lines) + "\n", first


def words_of(command, source):
    def preprocess(*options):
        return subprocess.run([*command, "-E", *options, source], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    types = set(re.findall(r"[A-Za-z_]\w+", preprocess("-P")))
    macros = dict(re.findall(r"^#define (\w+)(?: (\w+)$)?", preprocess("-dM"), re.M))
    return types, macros


def compile_probes(root, names):
    """{name: text}, with nothing for the names that the release does not have."""
    headers = find_headers(root)
    source, program = os.path.join(root, "probe.c"), os.path.join(root, "probe")
    command = [os.environ.get("CC", "cc"), "-std=gnu11", "-w", "-O0", "-fmax-errors=0",
               "-fno-diagnostics-show-caret"]
    command += [f"-I{os.path.join(root, folder)}" for folder in INCLUDE_DIRS]
    with open(source, "w", encoding="utf-8") as file:
        file.write(source_of(headers, [])[0])
    words = words_of(command, source)
    probes = [(name, *probe) for name in names if (probe := probe_of(name, words))]
    command += ["-o", program, source]
    for _ in range(MAX_ATTEMPTS):
        text, first = source_of(headers, probes)
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode == 0:
            values = subprocess.run([program], check=True, stdout=subprocess.PIPE,
                                    text=True).stdout.split()
            found = {}
            for (name, mark, _), value in zip(probes, values):
                found[name] = f"={int(value):#x}" if mark == "=" else mark + value
            return found
        bad_lines = {int(number) for number in
                     re.findall(rf"^{re.escape(source)}:(\d+):\d+: (?:fatal )?error",
                                done.stderr, re.M)}
        bad_headers = {header for header in headers
                       if re.search(rf"/{re.escape(header)}:\d+:\d+: (?:fatal )?error",
                                    done.stderr)}
        if bad_headers:
            headers = [header for header in headers if header not in bad_headers]
        elif bad_lines:
            probes = [probe for i, probe in enumerate(probes)
                      if first + i not in bad_lines and
                      first + len(probes) + 2 + i not in bad_lines]
        else:
            break
    raise RuntimeError(f"the headers do not compile:\n{done.stderr[-3000:]}")


def layouts(repo, tag, names):
    with tempfile.TemporaryDirectory(prefix="driver_layouts.") as root:
        checkout_headers(repo, tag, root)
        found = compile_probes(root, names)
        return [found.get(name, ABSENT) for name in names]


def layouts_of_tags(repo, tags, names, jobs):
    """The columns in the order of `tags`, each as soon as it is there."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda tag: layouts(repo, tag, names), tags)


def read_table(path):
    """(comment lines, tags, {name: columns})"""
    comments, tags, rows = [], None, {}
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("#"):
                comments.append(line)
            elif tags is None:
                tags = line.split("\t")[1:]
            elif line.strip():
                name, *columns = line.split("\t")
                rows[name] = columns
    return comments, tags or [], rows


def write_table(file, comments, tags, names, columns):
    for line in comments:
        print(line, file=file)
    print("\t".join(["name", *tags]), file=file)
    for i, name in enumerate(names):
        print("\t".join([name, *(column[i] for column in columns)]), file=file)


def version_of(tag):
    return tuple(int(part) for part in tag.split("."))


def published(repo):
    return sorted((tag for tag in git(repo, "tag").decode().split()
                   if re.fullmatch(r"\d+(\.\d+){1,2}", tag)), key=version_of)


def before(repo, tag):
    """The release that `tag` was made from, when it is of the same branch."""
    done = subprocess.run(["git", "-C", repo, "describe", "--tags", "--abbrev=0", "--match",
                           "[0-9]*", f"{tag}^"], stdout=subprocess.PIPE, text=True, check=False,
                          stderr=subprocess.DEVNULL)
    name = done.stdout.strip()
    return name if name and version_of(name)[0] == version_of(tag)[0] else None


def read_tables(paths):
    """([(path, comment lines, names)], tags, {name: columns} of all)"""
    tables, tags, rows = [], None, {}
    for path in paths:
        comments, tags_here, rows_here = read_table(path)
        if tags not in (None, tags_here):
            raise SystemExit(f"{path} has other releases than {paths[0]}")
        tags = tags_here
        rows.update(rows_here)
        tables.append((path, comments, list(rows_here)))
    return tables, tags, rows


def update(repo, paths, added, jobs):
    tables, tags, rows = read_tables(paths)
    tags = tags + added
    columns = [dict(zip(rows, column)) for column in layouts_of_tags(repo, tags, list(rows), jobs)]
    for path, comments, names in tables:
        with open(path, "w", encoding="utf-8") as file:
            write_table(file, comments, tags, names,
                        [[column[name] for name in names] for column in columns])


def say_alike(repo, paths, jobs):
    _, tags, rows = read_tables(paths)
    names = list(rows)
    releases = published(repo)
    for i, reference in enumerate(tags):
        branch = [tag for tag in releases if version_of(tag)[0] == version_of(reference)[0]]
        wanted = [rows[name][i] for name in names]
        for tag, column in zip(branch, layouts_of_tags(repo, branch, names, jobs)):
            other = [f"{name} {have} not {want}"
                     for name, want, have in zip(names, wanted, column) if want != have]
            print(f"{tag}: {'like ' + reference if not other else '; '.join(other)}", flush=True)


def say_steps(repo, paths, jobs):
    names = list(read_tables(paths)[2])
    releases = published(repo)
    columns = dict(zip(releases, layouts_of_tags(repo, releases, names, jobs)))
    steps = changed = added = 0
    for tag in releases:
        old = before(repo, tag)
        if old not in columns:
            continue
        rows = [row for row in zip(names, columns[old], columns[tag]) if row[1] != row[2]]
        new = [name for name, was, _ in rows if was == ABSENT]
        other = [f"{name} {was} then {now}" for name, was, now in rows if was != ABSENT]
        steps += 1
        changed += bool(other)
        added += bool(new and not other)
        if rows:
            news = [f"new: {', '.join(new)}"] if new else []
            print(f"{old} to {tag}: {'; '.join(other + news)}", flush=True)
    print(f"{len(releases)} releases, {steps} steps within a branch: {changed} changed a row, "
          f"{added} more only added some")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", required=True, help="repository with the release tags")
    parser.add_argument("--tag", action="append", default=[], help="a release; may be repeated")
    parser.add_argument("--update", metavar="FILE", nargs="+", help="tables to fill again")
    parser.add_argument("--add-tag", metavar="TAG", action="append", default=[],
                        help="with --update: a further column")
    parser.add_argument("--alike", metavar="FILE", nargs="+",
                        help="tables to compare all releases with")
    parser.add_argument("--steps", metavar="FILE", nargs="+",
                        help="tables to compare each release with the one before it")
    parser.add_argument("--jobs", type=int, default=2, help="compilations at once")
    parser.add_argument("name", nargs="*", help="structure, structure.field or macro")
    arguments = parser.parse_args()
    if arguments.steps:
        say_steps(arguments.repo, arguments.steps, arguments.jobs)
    elif arguments.alike:
        say_alike(arguments.repo, arguments.alike, arguments.jobs)
    elif arguments.update:
        update(arguments.repo, arguments.update, arguments.add_tag, arguments.jobs)
    else:
        columns = list(layouts_of_tags(arguments.repo, arguments.tag, arguments.name,
                                       arguments.jobs))
        write_table(sys.stdout, [], arguments.tag, arguments.name, columns)


if __name__ == "__main__":
    main()
