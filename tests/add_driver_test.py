#!/usr/bin/env python3
"""tools/add_driver.py: takes branches out of a copy of src/rm and lets the tool put them back, which
gives the tables that stand; reads a small source tree that this test makes up.

Here the columns of the tables stand in for NVIDIA's sources. --sources FOLDER puts the branches back
from real ones: FOLDER/TAG is the unpacked sources of a reference. By hand, as no test downloads them.
"""

import argparse
import difflib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))
import add_driver  # noqa: E402
from driver_rows import Rm, parse_fact, render_fact, render_row, split_arguments  # noqa: E402
from driver_tree import KERNEL, USER, Tree  # noqa: E402

BRANCHES_TAKEN_OUT = 3
BRANCHES = ["535", "550", "570"]


def copy_rm(folder):
    shutil.copytree(ROOT / "src/rm", pathlib.Path(folder) / "src/rm")
    return Rm(folder)


def take_out(rm):
    """Removes the newest branch and its changes. Structures that a person wrote stay."""
    branch = rm.branches[-1]

    def forget(_macro, _arguments, facts):
        for fact in facts:
            fact[-1] = fact[-2]

    for name in rm.inc_files():
        rm.change_rows(name, forget)
    rm.tags = rm.tags[:-1]
    rm.columns = {name: row[:-1] for name, row in rm.columns.items()}
    text = rm.text("layout_list.inc")
    text = re.sub(rf"CGPU_SIZE_IS\((\w+), sizeof\(\1\), \{{Branch::k{branch}, \d+\}}\)",
                  r"CGPU_SIZE(\1)", text)
    text = re.sub(rf"(CGPU_SIZE_IS\(.*), \{{Branch::k{branch}, \d+\}}\)", r"\1)", text)
    rm.texts["layout_list.inc"] = re.sub(rf"CGPU_FIELD_UNTIL\((.*), {branch}\)", r"CGPU_FIELD(\1)",
                                         text)
    rm.texts["abi.cc"] = re.sub(rf"    Row\(Branch::k{branch},.*\n", "", rm.text("abi.cc"))
    rm.list_branches(rm.branches[:-1])


def ranges(rm):
    """{branch: (first, last)} of kAbis."""
    found = re.findall(r'Row\(Branch::k(\d+), "\d+", \{.*?\}, \{(.*?)\}, \{(.*?)\}\),',
                       rm.text("abi.cc"))
    return {branch: tuple(".".join(tag.split(", ")) for tag in tags) for branch, *tags in found}


class StandingTree:
    """Says of a branch what the tables that stand say, as if its sources had been read."""

    def __init__(self, rm, branch):
        self.branch = branch
        self.tag = rm.tags[rm.index(branch)]
        self.column = {name: rm.column(name, branch) for name in rm.columns}
        self.commands, self.listed = {}, {}
        for name in rm.inc_files():
            for macro, arguments, _ in rm.rows(name):
                if macro not in ("CGPU_CLASS", "CGPU_CONTROL", "CGPU_CONTROL_NO_PARAMS"):
                    continue
                place = {"CGPU_CLASS": 6, "CGPU_CONTROL": 4}.get(macro, 3)
                if parse_fact(arguments[place], rm.branches)[rm.index(branch)]:
                    if macro == "CGPU_CLASS":
                        self.listed[arguments[0]] = ("", USER)
                    else:
                        self.commands[int(arguments[1], 16)] = {}

    def layouts(self, _names):
        return self.column

    def controls(self):
        return self.commands

    def deprecated(self):
        return set()

    def classes(self):
        return self.listed


def check_put_back(tree_of, count):
    """Takes `count` branches out, puts each back from its tree, compares every file."""
    with tempfile.TemporaryDirectory() as folder:
        rm = copy_rm(folder)
        wanted = {path: path.read_text() for path in (ROOT / "src/rm").rglob("*")
                  if path.is_file()}
        back = [(tree_of(rm, branch), ranges(rm)[branch]) for branch in rm.branches[-count:]]
        for _ in back:
            take_out(rm)
        rm.save()
        changed = 0
        for tree, (first, last) in back:
            rm = Rm(folder)
            changed += sum(map(len, add_driver.write(rm, tree, first, last)[0].values()))
            rm.save()
        differ = []
        for path, text in wanted.items():
            there = pathlib.Path(folder) / path.relative_to(ROOT)
            differ += difflib.unified_diff(text.splitlines(), there.read_text().splitlines(),
                                           str(path.relative_to(ROOT)), "put back", n=0, lineterm="")
        assert not differ, "\n".join(differ)
        return changed


def test_put_back():
    assert check_put_back(StandingTree, BRANCHES_TAKEN_OUT) > 20


def test_facts():
    for text in ("7", "Since(Branch::k550)", "Since(Branch::k570, 8)", "Until(Branch::k550, 1)",
                 "Between(Branch::k550, 4, Branch::k570)",
                 "ByBranch(1, {{Branch::k550, 2}, {Branch::k570, 3}})"):
        assert render_fact(parse_fact(text, BRANCHES), BRANCHES) == text, text
    assert parse_fact("{3, {{Branch::k550, 0}}}", BRANCHES) == [3, 0, 0]
    assert render_fact([1, 2, 2], BRANCHES, braces=True) == "{1, {{Branch::k550, 2}}}"
    try:
        parse_fact("Exact(4)", BRANCHES)
        raise AssertionError("read what is no fact")
    except ValueError:
        pass
    assert split_arguments('A, "b", {1, {2}}, F(3, 4)') == ["A", '"b"', "{1, {2}}", "F(3, 4)"]


def test_rows_render_as_they_stand():
    rm = Rm(ROOT)
    for name in rm.inc_files():
        for macro, arguments, text in rm.rows(name):
            if macro in ("CGPU_CONTROL", "CGPU_CONTROL_NO_PARAMS", "CGPU_CLASS", "CGPU_UVM"):
                assert render_row(macro, arguments) == text, text


BY_BRANCH = """enum class Branch : NvU8 { k535, k550 };

inline constexpr std::array kBranches = {Branch::k535, Branch::k550};
  static constexpr std::size_t kMaxChanges = 1;
"""
ABI = """constexpr std::array kAbis = {
    Row(Branch::k535, "535", {535, 1, 0}, {535, 1, 0}, {535, 9, 0}),
    Row(Branch::k550, "550", {550, 1, 0}, {550, 1, 0}, {550, 9, 0}),
};
"""
CONTROLS = """// Controls.
CGPU_CONTROL(NVX_CTRL_CMD_GROWS, 0x00000101, "ctrlx.h",
    "NVX_CTRL_GROWS_PARAMS", ByBranch(4, {{Branch::k550, 8}}), false, ControlAccess::kAny, kAskedByNone)
CGPU_CONTROL(NVX_CTRL_CMD_GOES, 0x00000102, "ctrlx.h", "NVX_CTRL_GOES_PARAMS", 4, false, ControlAccess::kAny, 0)
CGPU_CONTROL_NO_PARAMS(NVX_CTRL_CMD_COMES, 0x00000103, "ctrlx.h", 0, ControlAccess::kRoot, 0)
CGPU_CONTROL_NO_PARAMS(NVX_CTRL_CMD_HIDDEN, 0x00000105, "", 1, ControlAccess::kAny, 0)
"""
CLASSES = """CGPU_CLASS(NVX_CLASS, 0x0001, "nvos.h", ClassParams::kRequired, "NVX_ALLOC", 4, 1, ClassAccess::kAny, 0)
CGPU_CLASS(NVX_GONE, 0x0002, "nvos.h", ClassParams::kNone, "", 0, 1, ClassAccess::kAny, 0)
"""
UVM = "CGPU_UVM(UVM_ASK, 1, 8, 4)\n"
LAYOUTS = """CGPU_SIZE(NVX_ALLOC)
CGPU_FIELD(NVX_ALLOC, handle)
CGPU_SIZE(NVX_SHORTER)
CGPU_FIELD(NVX_SHORTER, head)
CGPU_FIELD(NVX_SHORTER, tail)
CGPU_SIZE(NVX_MOVES)
CGPU_FIELD(NVX_MOVES, first)
"""
TABLES = {
    "control-sizes": """NVX_CTRL_CMD_GROWS =0x101 =0x101
NVX_CTRL_GROWS_PARAMS 4 8
NVX_CTRL_CMD_GOES =0x102 =0x102
NVX_CTRL_GOES_PARAMS 4 4
NVX_CTRL_CMD_COMES - -
NVX_CTRL_CMD_HIDDEN - -
""",
    "class-sizes": "NVX_CLASS =0x1 =0x1\nNVX_ALLOC 4 4\nNVX_GONE =0x2 =0x2\n",
    "struct-sizes": "NVX_ALLOC.handle @0 @0\nNVX_SHORTER 8 8\nNVX_SHORTER.head @0 @0\n"
                    "NVX_SHORTER.tail @4 @4\nNVX_MOVES 8 8\nNVX_MOVES.first @0 @0\n",
    "uvm-sizes": "UVM_ASK =0x1 =0x1\nUVM_ASK_PARAMS 8 8\nUVM_ASK_PARAMS.rmStatus @4 @4\n",
}
METHOD = """    {{
        /*flags=*/      {flags:#x}u,
        /*accessRight=*/{rights:#x}u,
        /*methodId=*/   {number:#x}u,
        /*paramSize=*/  {size},
    }},
"""
ENTRY = """RS_ENTRY(
    /* External Class         */ {name},
    /* Alloc Param Info       */ {params},
    /* Flags                  */ {flags},
    /* Required Access Rights */ RS_ACCESS_NONE
)
"""


def make_rm(root):
    files = {"by_branch.h": BY_BRANCH, "abi.cc": ABI, "controls/x.inc": CONTROLS,
             "classes.inc": CLASSES, "uvm.inc": UVM, "layout_list.inc": LAYOUTS,
             "nv_status.inc": "CGPU_STATUS(NV_OK, 0x0)\n"}
    for name, rows in TABLES.items():
        files[f"testdata/{name}.tsv"] = ("# About.\nname 535.1 550.1\n" + rows).replace(
            " ", "\t").replace("#\t", "# ")
    for name, text in files.items():
        write(root / "src/rm" / name, text)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def make_tree(root, new):
    """Writes a driver of two commands or so; `new` is the release that changes things."""
    methods = [(0x08, 0, 0x101, "sizeof(NVX_CTRL_GROWS_PARAMS)")]
    methods += [(0x04, 0, 0x103, "0"), (0x08, 1, 0x104, "0")] if new else [
        (0x08, 0, 0x102, "sizeof(NVX_CTRL_GOES_PARAMS)")]
    entries = [("NVX_CLASS", "RS_REQUIRED(NVX_ALLOC)", "RS_FLAGS_ALLOC_NON_PRIVILEGED")]
    entries += [("NVX_FRESH", "RS_NONE", "RS_FLAGS_ALLOC_PRIVILEGED")] if new else [
        ("NVX_GONE", "RS_NONE", "RS_FLAGS_ALLOC_NON_PRIVILEGED")]
    sdk, unix = "src/common/sdk/nvidia/inc", "src/nvidia/arch/nvalloc/unix/include"
    commands = {"GROWS": 0x101, "COMES": 0x103, "FRESH": 0x104} if new else {
        "GROWS": 0x101, "GOES": 0x102}
    uvm = [("UVM_ASK", 1)] + ([("UVM_MORE", 2)] if new else [])
    files = {
        "version.mk": f"NVIDIA_VERSION = {'570.2.01' if new else '550.1'}\n",
        f"{sdk}/ctrl/ctrlx.h":
            "".join(f"#define NVX_CTRL_CMD_{name} ({number:#x}U)\n"
                    for name, number in commands.items()) +
            f"typedef struct {{ int a[{4 if new else 2}]; }} NVX_CTRL_GROWS_PARAMS;\n" +
            "typedef struct { int a; } NVX_CTRL_GOES_PARAMS;\n",
        f"{sdk}/nvos.h":
            "#define NVX_CLASS 0x1\n#define NVX_GONE 0x2\n"
            "typedef struct { int handle; } NVX_ALLOC;\n"
            f"typedef struct {{ int head{'' if new else ', tail'}; }} NVX_SHORTER;\n"
            f"typedef struct {{ int {'other, ' if new else ''}first; int b; }} NVX_MOVES;\n",
        f"{sdk}/nvstatuscodes.h": "NV_STATUS_CODE(NV_OK, 0x00000000, \"\")\n" +
                                  ("NV_STATUS_CODE(NV_ERR_X, 0x7, \"\")\n" if new else ""),
        f"{unix}/nv_escape.h": f"#define NV_ESC_RM_A {'0x28' if new else '0x27'}\n",
        "kernel-open/nvidia-uvm/uvm_ioctl.h":
            "#define UVM_IOCTL_BASE(i) i\n" +
            "".join(f"#define {name} UVM_IOCTL_BASE({number})\n" for name, number in uvm) +
            "typedef struct { int a; int rmStatus; } UVM_ASK_PARAMS;\n",
        "kernel-open/nvidia-uvm/uvm.c":
            "".join(f"UVM_ROUTE_CMD_STACK({name}, f);\n" for name, _ in uvm),
        "src/nvidia/inc/kernel/rmapi/control.h":
            "#define RMCTRL_FLAGS_PRIVILEGED 0x000000004\n"
            "#define RMCTRL_FLAGS_NON_PRIVILEGED 0x000000008\n",
        "src/nvidia/generated/g_x_nvoc.c": "".join(
            METHOD.format(flags=flags, rights=rights, number=number, size=size)
            for flags, rights, number, size in methods),
        "src/nvidia/src/kernel/rmapi/resource_list.h": "".join(
            ENTRY.format(name=name, params=params, flags=flags) for name, params, flags in entries),
        "src/nvidia/src/kernel/rmapi/embedded_param_copy.c":
            "    switch (cmd)\n    {\n        case NVX_CTRL_CMD_GROWS:\n        {\n" +
            ("            copy(4);\n" if new else "            copy(2);\n") +
            "        }\n        default:\n}\n",
    }
    for name, text in files.items():
        write(root / name, text)


def run_tool(folder, *options):
    done = subprocess.run([sys.executable, ROOT / "tools/add_driver.py", folder / "new", "--before",
                           folder / "old", "--root", folder, *options], check=True, text=True,
                          stdout=subprocess.PIPE)
    return done.stdout


SAYS = (
    "Compared with 550.1.", "`NVX_CTRL_GROWS_PARAMS`: 8 then 16 bytes",
    "`NVX_MOVES`: 8 then 12 bytes; moved or new: first",
    "`NVX_CTRL_CMD_FRESH` 0x00000104: any program", "`NVX_CTRL_CMD_GOES` 0x00000102: any program",
    "`NVX_FRESH` 0x0000: root, RS_NONE", "- `NVX_GONE`\n",
    "`NV_ESC_RM_A` changed: 39 then 40", "`NVX_CTRL_CMD_GROWS` changed", "`UVM_MORE` 2: new",
    "`NV_ERR_X` 0x7", "`kernel-open/nvidia-uvm/uvm.c`: +1 -0",
)
ROWS = (
    "ByBranch(4, {{Branch::k550, 8}, {Branch::k570, 16}})", "Until(Branch::k570, 4)",
    "NVX_CTRL_CMD_COMES, 0x00000103, \"ctrlx.h\",\n    Since(Branch::k570), ControlAccess::kRoot",
    "NVX_CTRL_CMD_HIDDEN, 0x00000105, \"\", 1,",
)


def test_made_up_tree():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_rm(folder)
        make_tree(folder / "old", new=False)
        make_tree(folder / "new", new=True)
        tree = Tree(folder / "new")
        assert tree.classes()["NVX_FRESH"] == ("RS_NONE", "root")
        assert tree.controls()[0x104]["who"] == USER != KERNEL
        before = (folder / "src/rm/controls/x.inc").read_text()
        run_tool(folder, "--check")
        assert (folder / "src/rm/controls/x.inc").read_text() == before, "--check wrote"
        said = run_tool(folder)
        for text in SAYS:
            assert text in said, f"does not say {text!r}:\n{said}"
        rm = Rm(folder)
        controls = rm.text("controls/x.inc")
        for text in ROWS:
            assert text in controls, f"has no {text!r}:\n{controls}"
        assert "NVX_ALLOC\", 4, 1," in rm.text("classes.inc")
        assert "Until(Branch::k570, 1), ClassAccess::kAny" in rm.text("classes.inc")
        assert rm.text("uvm.inc") == UVM
        assert rm.branches == ["535", "550", "570"] and rm.tags == ["535.1", "550.1", "570.2.01"]
        assert "kMaxChanges = 2;" in rm.text("by_branch.h")
        assert '    Row(Branch::k570, "570", {570, 2, 1}, {570, 2, 1}, {570, 2, 1}),\n};' in rm.text(
            "abi.cc")
        layouts = rm.text("layout_list.inc")
        assert "CGPU_SIZE_IS(NVX_SHORTER, sizeof(NVX_SHORTER), {Branch::k570, 4})" in layouts
        assert "CGPU_FIELD_UNTIL(NVX_SHORTER, tail, 570)" in layouts
        assert "CGPU_SIZE(NVX_MOVES)" in layouts, "a person writes that"
        texts = {path: path.read_text() for path in (folder / "src").rglob("*") if path.is_file()}
        run_tool(folder)
        for path, text in texts.items():
            assert path.read_text() == text, f"a second run changes {path}"
        version = folder / "new/version.mk"
        write(version, version.read_text().replace("570.2.01", "570.3"))
        run_tool(folder)
        assert '"570", {570, 3, 0}, {570, 2, 1}, {570, 2, 1}),' in Rm(folder).text("abi.cc")
        assert Rm(folder).tags[-1] == "570.3"


def test_refuses_another_folder():
    with tempfile.TemporaryDirectory() as name:
        try:
            Tree(name)
            raise AssertionError("took a folder without version.mk")
        except SystemExit as refusal:
            assert "version.mk" in str(refusal)


def test_decisions_count():
    out = add_driver.Decisions(io.StringIO())
    out.section("Nothing", [])
    out.section("Two", iter("ab"))
    assert out.count == 2 and out.file.getvalue() == "\n## Two\n\n- a\n- b\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=pathlib.Path, help="folder with unpacked sources by tag")
    arguments = parser.parse_args()
    if arguments.sources:
        rm = Rm(ROOT)
        there = [(arguments.sources / tag).is_dir() for tag in reversed(rm.tags)]
        count = (there + [False]).index(False)
        changed = check_put_back(
            lambda rm, branch: Tree(arguments.sources / rm.tags[rm.index(branch)]), count)
        print(f"{', '.join(rm.tags[len(rm.tags) - count:])}: taken out and put back, "
              f"{changed} rows changed, all files as they stand")
        return
    if not shutil.which(os.environ.get("CC", "cc")):
        raise SystemExit(77)
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()


if __name__ == "__main__":
    main()
