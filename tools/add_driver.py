#!/usr/bin/env python3
"""Adds a branch of NVIDIA's driver to cgpu, and lists what a person must decide about it.

  add_driver.py FOLDER [--before FOLDER]
      reads unpacked sources of NVIDIA's open driver, and those of the branch before.
  add_driver.py --repo DIR TAG
      takes both out of a clone: TAG, and the reference of the branch before.

It writes the column of the release into src/rm/testdata, lists the branch in by_branch.h and
abi.cc, and changes the facts in the .inc tables that the sources say are others. A branch that is
there already gets its column and facts again. What it prints is a list of decisions, in Markdown: rows
and files that a person reads before the branch may run. docs/howto/add-a-driver-version.md says how
to go on. It compiles headers, for a second or two, and nothing else; with --test it then builds and
runs the tests of src/rm.

Needs git, tar and a C compiler.
"""

import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import driver_layouts
from driver_rows import Rm, bytes_of, split_arguments
from driver_tree import KERNEL, READ_BY_HAND, ROOT, USER, Tree, extract

HERE = pathlib.Path(__file__).resolve().parent.parent
ACCESS = {USER: "kAny", ROOT: "kRoot", KERNEL: "kKernel"}
# Folders whose sources read parameters; a fact that one of them names needs a second look.
READERS = ("src/boundary", "src/shim", "src/rmclient", "src/ledger", "sim")
# Flags of a control that say who may call it and who answers it.
FLAGS = {"PRIVILEGED", "NON_PRIVILEGED", "INTERNAL", "PRIVILEGED_IF_RS_ACCESS_DISABLED",
         "ROUTE_TO_PHYSICAL"}
# Constants of abi.cc that repeat what a structure's size says.
CONSTANTS = {"NV2080_CTRL_FB_GET_INFO_V2_PARAMS": "kFbInfoV2Count",
             "NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO": "kFbRegionStride"}
TARGETS = ("rm_test", "rm_layout_test")


class Decisions:
    """Prints sections with what a person must decide; nothing for an empty one."""

    def __init__(self, file):
        self.file = file
        self.count = 0

    def section(self, title, lines, more=""):
        lines = list(lines)
        self.count += len(lines)
        if not lines and not more:
            return
        print(f"\n## {title}", file=self.file)
        for i, line in enumerate(lines):
            print(("" if i else "\n") + f"- {line}", file=self.file)
        if more:
            print(f"\n{more}", file=self.file)


def named(rm, name, number, branch):
    """Returns true if the headers of the branch give the command this name."""
    return rm.column(re.sub(r"_V570$", "", name), branch) == f"={int(number, 16):#x}"


def control_change(rm, branch, tree):
    """A control is known if the headers name it and the driver's tables have it."""
    have, deprecated = tree.controls(), tree.deprecated()

    def change(macro, arguments, facts):
        name, number, source = arguments[0], arguments[1], arguments[2].strip('"')
        ever = any(named(rm, name, number, other) for other in rm.branches)
        if not source or not ever:
            return  # a command of no public header stays what it is
        value = 0
        if named(rm, name, number, branch) and (int(number, 16) in have or name in deprecated):
            params = arguments[3].strip('"') if macro == "CGPU_CONTROL" else ""
            value = bytes_of(rm.column(params, branch)) if params else 1
        facts[0][rm.index(branch)] = value

    return change


def class_change(rm, branch, tree):
    """A class is listed if the driver's class list has it. The size of one that is known and not
    listed, as Volta's, follows the header."""
    classes = tree.classes()

    def change(_, arguments, facts):
        name, params = arguments[0], arguments[4].strip('"')
        at = rm.index(branch)
        unlisted = facts[0][at - 1] != 0 and facts[1][at - 1] == 0
        listed = int(name in classes)
        size = bytes_of(rm.column(params, branch)) if params and (listed or unlisted) else 0
        facts[0][at], facts[1][at] = size, listed

    return change


def uvm_change(rm, branch):
    def change(_, arguments, facts):
        name = arguments[0]
        there = rm.column(name, branch) != driver_layouts.ABSENT
        for fact, suffix in zip(facts, ("_PARAMS", "_PARAMS.rmStatus")):
            value = bytes_of(rm.column(name + suffix, branch)) if there else 0
            fact[rm.index(branch)] = value

    return change


def change_facts(rm, branch, tree):
    """Returns {file: names of the rows that changed}."""
    changed = {}
    for name in rm.inc_files():
        change = {"classes.inc": class_change, "uvm.inc": lambda *_: uvm_change(rm, branch)}.get(
            name, control_change)(rm, branch, tree)
        changed[name] = rm.change_rows(name, change)
    return changed


def layout_changes(rm, branch):
    """Yields (line, macro, arguments, old size, new size, fields gone, fields moved or new) of the
    structures of layout_list.inc that are laid out otherwise than in the branch before."""
    before, fields = rm.previous(branch), {}
    for name in rm.columns:
        struct, _, field = name.partition(".")
        if field:
            was, now = rm.column(name, before), rm.column(name, branch)
            gone, moved = fields.setdefault(struct, ([], []))
            if was != now:
                (gone if now == driver_layouts.ABSENT else moved).append(field)
    for found in re.finditer(r"^(CGPU_SIZE\w*)\((.*)\)\n", rm.text("layout_list.inc"), re.M):
        struct = split_arguments(found[2])[0]
        old, new = rm.column(struct, before), rm.column(struct, branch)
        gone, moved = fields.get(struct, ([], []))
        if old != new or gone or moved:
            yield found[0], found[1], found[2], struct, old, new, gone, moved


def change_layouts(rm, branch):
    """Says in layout_list.inc which sizes changed where every field kept its place, and which
    fields are gone. Returns the structures that need a person: (name, sizes, fields)."""
    by_hand = []
    for line, macro, body, struct, old, new, gone, moved in list(layout_changes(rm, branch)):
        plain = macro in ("CGPU_SIZE", "CGPU_SIZE_IS") and driver_layouts.ABSENT not in (old, new)
        if not plain or moved:
            by_hand.append((struct, old, new, moved))
            continue
        if old != new and f"Branch::k{branch}," not in body:
            first = body if macro == "CGPU_SIZE_IS" else f"{struct}, sizeof({struct})"
            rm.replace("layout_list.inc", line,
                       f"CGPU_SIZE_IS({first}, {{Branch::k{branch}, {new}}})\n")
        for field in gone:
            rm.texts["layout_list.inc"] = rm.text("layout_list.inc").replace(
                f"CGPU_FIELD({struct}, {field})\n",
                f"CGPU_FIELD_UNTIL({struct}, {field}, {branch})\n")
    return by_hand


def write(rm, tree, first, last):
    """Edits src/rm for the release. Returns (rows changed by file, structures left to a person)."""
    branch = tree.branch
    if branch not in rm.branches:
        rm.list_branches(sorted([*rm.branches, branch], key=int))
    if rm.index(branch) == 0:
        raise SystemExit(f"{branch} is the first branch; there is none before it to compare with")
    rm.set_column(tree.tag, tree.layouts(list(rm.columns)))
    rm.set_abi(branch, tree.tag, first or tree.tag, last or tree.tag)
    changed = change_facts(rm, branch, tree)
    return changed, change_layouts(rm, branch)


class Uses:
    """Sources that read parameters, to say which facts they name."""

    def __init__(self, root):
        self.files = {}
        for folder in READERS:
            for path in sorted((root / folder).rglob("*.cc")):
                if not path.name.endswith("_test.cc"):
                    for word in set(re.findall(r"\w+", path.read_text(encoding="utf-8"))):
                        self.files.setdefault(word, []).append(str(path.relative_to(root)))

    def of(self, name):
        found = self.files.get(name, [])
        more = f" and {len(found) - 2} more" if len(found) > 2 else ""
        return f"; read in {', '.join(found[:2])}{more}" if found else ""


def say_sizes(out, rm, branch, baseline, by_hand, uses):
    lines, listed = [], {struct for struct, *_ in by_hand}
    for name, old in baseline.items():
        new = rm.column(name, branch)
        if old == new or "." in name or old.startswith("=") or new.startswith("="):
            continue
        where = CONSTANTS.get(name)
        if driver_layouts.ABSENT not in (old, new) and name not in listed:
            lines.append(f"`{name}`: {old} then {new} bytes" + (f"; correct {where} of abi.cc"
                                                              if where else "") + uses.of(name))
    out.section("Sizes that changed", lines, lines and
                "The tables have the new sizes. Does what reads these parameters still hold?")
    out.section("Structures to write by hand", (
        f"`{struct}`: {old} then {new} bytes" +
        (f"; moved or new: {', '.join(moved[:6])}{' ...' if len(moved) > 6 else ''}"
         if moved else "") + uses.of(struct)
        for struct, old, new, moved in by_hand), by_hand and
        "Write the structure of this branch beside the older ones (src/rm/nv_*.h), and its rows in "
        "layout_list.inc; `rm_layout_test` says when they agree.")


def rows_of(rm):
    """{number: (macro, arguments)} of the controls, {name: arguments} of the classes."""
    controls, classes = {}, {}
    for name in rm.inc_files():
        for macro, arguments, _ in rm.rows(name):
            if macro == "CGPU_CLASS":
                classes[arguments[0]] = arguments
            elif macro.startswith("CGPU_CONTROL"):
                controls[int(arguments[1], 16)] = (macro, arguments)
    return controls, classes


def say_controls(out, rm, tree, older, uses):
    ours = rows_of(rm)[0]
    new, old = tree.controls(), older.controls()
    names = older.control_names() | tree.control_names()

    def text(number, control):
        params = f", `{control['params']}`" if control["params"] else ""
        physical = ", answered by the firmware" if "ROUTE_TO_PHYSICAL" in control["flags"] else ""
        name = names.get(number) or "no name"
        return f"`{name}` {number:#010x}: {control['who']}{params}{physical}"

    fresh = {number: control for number, control in new.items()
             if number not in old and number not in ours}
    shown = {number: control for number, control in fresh.items()
             if control["who"] != KERNEL and "INTERNAL" not in control["flags"]}
    out.section("New commands", (text(*item) for item in sorted(shown.items())),
                fresh and f"{len(fresh) - len(shown)} more are the driver's own. All stay unknown, "
                "so cgpu refuses them. To admit one, see CONTRIBUTING.md, \"Add a command\".")
    out.section("Commands that are gone", (
        text(number, old[number]) + uses.of(names.get(number)) for number in sorted(ours)
        if number in old and number not in new))
    lines = []
    for number in sorted(set(new) & set(old)):
        now, was = new[number], old[number]
        if number in ours and f"ControlAccess::{ACCESS[now['who']]}" not in ours[number][1]:
            lines.append(f"`{names.get(number)}`: {now['who']} may call it; the row says otherwise")
        differ = sorted((now["flags"] ^ was["flags"]) & FLAGS)
        if number in ours and (differ or now["rights"] != was["rights"]):
            lines.append(f"`{names.get(number)}`: {', '.join(differ) or 'access rights'} changed; "
                         f"{was['who']} then {now['who']}, rights {was['rights']} then "
                         f"{now['rights']}{uses.of(names.get(number))}")
    out.section("Who may call, and who answers", lines)


def say_classes(out, rm, tree, older):
    ours = rows_of(rm)[1]
    new, old = tree.classes(), older.classes()
    numbers = {name: number for number, names in tree.numbers("class").items() for name in names}
    out.section("New classes", (
        f"`{name}` {numbers.get(name, 0):#06x}: {who}, {params}"
        for name, (params, who) in new.items() if name not in ours),
        any(name not in ours for name in new) and
        "They stay unknown; cgpu answers them with NV_ERR_INVALID_CLASS.")
    out.section("Classes that are gone", (f"`{name}`" for name in old if name not in new))
    out.section("Classes whose parameters or access changed", (
        f"`{name}`: {', '.join(old[name])} then {', '.join(new[name])}"
        for name in new if name in old and new[name] != old[name]))


def differences(new, old, of=str):
    return ([f"`{name}` {of(new[name])} is new" for name in new if name not in old] +
            [f"`{name}` is gone" for name in old if name not in new] +
            [f"`{name}` changed: {of(old[name])} then {of(new[name])}"
             for name in new if name in old and new[name] != old[name]])


def say_rest(out, rm, tree, older):
    out.section("Escapes", differences(tree.escapes(), older.escapes()))
    pointers = differences(tree.pointers(), older.pointers(), lambda text: f"({len(text)} chars)")
    converted = differences(dict.fromkeys(tree.deprecated(), ""),
                            dict.fromkeys(older.deprecated(), ""))
    out.section("Pointers inside parameters", pointers + converted,
                (pointers or converted) and "See kPointers of src/rm/control_table.cc.")
    requests, unrouted = tree.uvm_requests()
    ours = {arguments[0] for _, arguments, _ in rm.rows("uvm.inc")}
    lines = [f"`{name}` {number}: new" for name, number in requests.items() if name not in ours]
    lines += [line for line in differences(requests, older.uvm_requests()[0])
              if "is gone" in line or "changed" in line]
    lines += [f"`{name}`: its header numbers it, and no route takes it" for name in unrouted
              if name in older.uvm_requests()[0]]
    out.section("Requests of nvidia-uvm", lines)
    known = set(re.findall(r"CGPU_STATUS\((\w+),", rm.text("nv_status.inc")))
    known |= set(older.statuses())
    out.section("Status codes", (f"`{name}` {number:#x}: add it to nv_status.inc"
                                 for name, number in tree.statuses().items() if name not in known))
    fresh = sorted(tree.gpus() - older.gpus())
    out.section("GPUs", [f"{len(fresh)} new names, from {fresh[0][1]} ({fresh[0][0]}) to "
                         f"{fresh[-1][1]} ({fresh[-1][0]})"] if fresh else [])
    changed = [(path, why, tree.changed_lines(older, path)) for path, why in READ_BY_HAND]
    out.section("Files to read", [
        f"`{path}`: +{lines[0]} -{lines[1]}; {why}" for path, why, lines in changed if lines],
        any(lines for *_, lines in changed) and "Headers do not say what these files do. Those of "
        "tools/driver_tree.py that are not listed are equal.")


def say(out, rm, tree, older, baseline, written, uses):
    """Prints the decisions. `baseline` is the column that sizes are compared with."""
    changed, by_hand = written
    if older and older.branch == tree.branch:
        by_hand = []  # these say what changed since the branch before
    print(f"# Decisions about {tree.tag}\n", file=out.file)
    print(f"Compared with {older.tag if older else 'the tables alone'}.", file=out.file)
    out.section("Facts that the tool changed", (
        f"`src/rm/{name}`: {', '.join(f'`{row}`' for row in rows)}"
        for name, rows in changed.items() if rows))
    say_sizes(out, rm, tree.branch, baseline, by_hand, uses)
    if older:
        say_controls(out, rm, tree, older, uses)
        say_classes(out, rm, tree, older)
        say_rest(out, rm, tree, older)
    else:
        print("\nWithout --before nothing else was compared: commands, access, classes, escapes, "
              "pointers, files to read.", file=out.file)
    print(f"\n{out.count} points. Then: docs/howto/add-a-driver-version.md.", file=out.file)


def test(root):
    """Builds and runs the tests that compare src/rm with the tables."""
    subprocess.run(["cmake", "--preset", "release"], cwd=root, check=True)
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", *TARGETS], cwd=root,
                   check=True)
    codes = [subprocess.run([root / "build/unit" / target], check=False).returncode
             for target in TARGETS]
    return max(codes)


@contextlib.contextmanager
def trees(arguments, rm):
    """The tree of the release, and that of the branch before or None."""
    with tempfile.TemporaryDirectory(prefix="add_driver.") as scratch:
        if not arguments.repo:
            yield (Tree(arguments.source), Tree(arguments.before) if arguments.before else None)
            return
        branch = int(arguments.source.split(".")[0])
        tags = [tag for tag in rm.tags if driver_layouts.version_of(tag)[0] < branch]
        tags = [arguments.source, *([arguments.before] if arguments.before else tags[-1:])]
        for tag in tags:
            os.mkdir(os.path.join(scratch, tag))
            extract(arguments.repo, tag, os.path.join(scratch, tag))
        found = [Tree(os.path.join(scratch, tag)) for tag in tags]
        yield found[0], found[1] if len(found) > 1 else None


def baseline_of(rm, tree, older):
    """Returns the column that sizes are compared with: of the branch of the older sources, else of
    the branch before. Two releases of one branch are compared by that branch's column."""
    before = [branch for branch in rm.branches if int(branch) < int(tree.branch)]
    branch = older.branch if older else before[-1] if before else tree.branch
    return {name: rm.column(name, branch) for name in rm.columns}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="folder of the sources; with --repo, a tag")
    parser.add_argument("--repo", help="clone of NVIDIA/open-gpu-kernel-modules")
    parser.add_argument("--before", help="the same for the branch before")
    parser.add_argument("--first", metavar="TAG", help="first release of a new row of kAbis")
    parser.add_argument("--last", metavar="TAG", help="last release of it")
    parser.add_argument("--root", type=pathlib.Path, default=HERE, help="checkout to edit")
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--test", action="store_true", help="build and run the tests of src/rm")
    arguments = parser.parse_args()
    rm = Rm(arguments.root)
    with trees(arguments, rm) as (tree, older):
        baseline = baseline_of(rm, tree, older)
        written = write(rm, tree, arguments.first, arguments.last)
        if not arguments.check:
            rm.save()
        say(Decisions(sys.stdout), rm, tree, older, baseline, written, Uses(arguments.root))
    return test(arguments.root) if arguments.test else 0


if __name__ == "__main__":
    sys.exit(main())
