"""Reads what a source tree of NVIDIA's open driver says about commands, classes, escapes and
pointers: the facts that no compiled header shows. tools/add_driver.py compares two such trees."""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import driver_layouts

SDK = "src/common/sdk/nvidia/inc"
RMAPI = "src/nvidia/src/kernel/rmapi"
GENERATED = "src/nvidia/generated"
UNIX = "src/nvidia/arch/nvalloc/unix"
DEPRECATED = "src/nvidia/interface/deprecated/rmapi_deprecated_control.c"

# Files that decide what no header says, and the file of ours that depends on each.
READ_BY_HAND = (
    ("kernel-open/nvidia/nv.c", "sizes of escapes: src/rm/escapes.inc"),
    (f"{UNIX}/src/escape.c", "sizes of escapes: src/rm/escapes.inc"),
    (f"{UNIX}/src/osapi.c", "escapes and files: src/rm/escapes.inc"),
    (f"{UNIX}/include/nv_escape.h", "numbers of escapes: src/rm/escapes.inc"),
    ("kernel-open/common/inc/nv-ioctl-numbers.h", "numbers of escapes: src/rm/escapes.inc"),
    (f"{RMAPI}/embedded_param_copy.c", "pointers: kPointers of src/rm/control_table.cc"),
    (DEPRECATED, "pointers of old commands: kPointers of src/rm/control_table.cc"),
    (f"{RMAPI}/resource_list.h", "classes: src/rm/classes.inc"),
    (f"{RMAPI}/alloc_free.c", "copying of parameters: src/boundary/calls"),
    (f"{RMAPI}/param_copy.c", "copying of parameters: src/boundary/calls"),
    (f"{RMAPI}/control.c", "copying of parameters: src/boundary/calls"),
    ("src/nvidia/src/kernel/gpu/mem_mgr/mem_mgr.c", "rounding of sizes: src/rm/vidmem.cc"),
    ("src/nvidia/src/kernel/mem_mgr/video_mem.c", "rounding of sizes: src/rm/vidmem.cc"),
    (f"{SDK}/nvstatuscodes.h", "src/rm/nv_status.inc"),
    ("kernel-open/nvidia-uvm/uvm_ioctl.h", "src/rm/uvm.inc, src/rm/nv_uvm.h"),
    ("kernel-open/nvidia-uvm/uvm.c", "src/rm/uvm.inc, src/boundary/calls/uvm.cc"),
    ("kernel-open/nvidia-uvm/uvm_tools.c", "src/rm/uvm.inc, src/boundary/calls/uvm.cc"),
    (f"{GENERATED}/g_nv_name_released.h", "GPUs: sim/model/gpu.cc"),
)
# Folders and files that a tree needs, for `git archive`.
NEEDED = ("version.mk", SDK, "kernel-open/nvidia-uvm", "kernel-open/common/inc", f"{UNIX}/include",
          "src/nvidia/inc/kernel/rmapi", GENERATED, *(path for path, _ in READ_BY_HAND))

METHOD = re.compile(
    r"/\*flags=\*/\s*(0x[0-9a-fA-F]+)u.*?/\*accessRight=\*/\s*(0x[0-9a-fA-F]+)u.*?"
    r"/\*methodId=\*/\s*(0x[0-9a-fA-F]+)u.*?/\*paramSize=\*/\s*(.*?),\n", re.S)
ENTRY = re.compile(r"External Class\s*\*/\s*(\w+).*?Alloc Param Info\s*\*/\s*(.*?),\n"
                   r".*?Flags\s*\*/\s*(.*?),?\s*/\*", re.S)
USER, ROOT, KERNEL = "any program", "root", "the kernel"


def extract(repo, tag, folder):
    """Unpacks what is needed of the sources of `tag` into `folder`."""
    present = driver_layouts.git(repo, "ls-tree", "-r", "--name-only", tag, *NEEDED).decode()
    archive = driver_layouts.git(repo, "archive", tag, *present.split())
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)


class Tree:
    """A folder with the sources of one release. What a release does not have is empty."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        found = re.search(r"^NVIDIA_VERSION\s*=\s*(\d+(\.\d+){1,2})\s*$", self.text("version.mk"),
                          re.M)
        if not found:
            raise SystemExit(f"{folder} has no version.mk of NVIDIA's open driver")
        self.tag = found[1]
        self.branch = self.tag.split(".")[0]

    def text(self, path):
        try:
            return (self.folder / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def texts(self, folder, pattern):
        return [path.read_text(encoding="utf-8", errors="replace")
                for path in sorted((self.folder / folder).rglob(pattern))]

    def layouts(self, names):
        """{name: text} of the column that tools/driver_layouts.py would write for this release."""
        with tempfile.TemporaryDirectory(prefix="add_driver.") as root:
            for folder in driver_layouts.INCLUDE_DIRS:
                if (self.folder / folder).is_dir():
                    shutil.copytree(self.folder / folder, os.path.join(root, folder))
            found = driver_layouts.compile_probes(root, names)
        return {name: found.get(name, driver_layouts.ABSENT) for name in names}

    def flags(self):
        """{name without prefix: bit} of the flags of controls, which moved between branches."""
        text = self.text("src/nvidia/inc/kernel/rmapi/control.h")
        return {name: int(bit, 16)
                for name, bit in re.findall(r"#define RMCTRL_FLAGS_(\w+)\s+(0x[0-9a-fA-F]+)", text)
                if int(bit, 16)}

    @functools.lru_cache
    def controls(self):
        """{number: {"who", "flags", "rights", "params"}} of the controls that the driver's
        generated tables have. A number that several objects take has the widest access."""
        flags = self.flags()
        widest = (USER, ROOT, KERNEL)
        found = {}
        for text in self.texts(GENERATED, "g_*_nvoc.c"):
            for bits, rights, number, size in METHOD.findall(text):
                names = {name for name, bit in flags.items() if int(bits, 16) & bit}
                who = (USER if "NON_PRIVILEGED" in names else
                       ROOT if "PRIVILEGED" in names else KERNEL)
                params = re.sub(r"^sizeof\((\w+)\)$|^0$", r"\1", size.strip())
                new = {"who": who, "flags": names, "rights": rights, "params": params or ""}
                old = found.get(int(number, 16))
                if old is None or widest.index(who) < widest.index(old["who"]):
                    found[int(number, 16)] = new
        return found

    def deprecated(self):
        """Names of the old commands that the driver converts before it looks into its tables."""
        table = re.search(r"rmDeprecatedControlTable\[\].*?\n};", self.text(DEPRECATED), re.S)
        return set(re.findall(r"\{\s*(NV\w+),", table[0])) if table else set()

    def numbers(self, folder):
        """{number: names} of the macros under `folder` whose value is a number."""
        found = {}
        for text in self.texts(f"{SDK}/{folder}", "*.h"):
            for name, value in re.findall(r"^\s*#define\s+(\w+)\s+\(?(0x[0-9a-fA-F]+)U?\)?", text,
                                          re.M):
                found.setdefault(int(value, 16), []).append(name)
        return found

    @functools.lru_cache
    def control_names(self):
        """{number: name} of the commands of the public headers."""
        return {number: next((name for name in names if "_CMD_" in name), names[0])
                for number, names in self.numbers("ctrl").items()
                if any("_CTRL_" in name for name in names)}

    def classes(self):
        """{name: (parameters, who)} of the driver's own class list."""
        found = {}
        for name, params, flags in ENTRY.findall(self.text(f"{RMAPI}/resource_list.h")):
            who = (USER if "RS_FLAGS_ALLOC_NON_PRIVILEGED" in flags or name.startswith("NV01_ROOT")
                   else ROOT if "RS_FLAGS_ALLOC_PRIVILEGED" in flags else KERNEL)
            found[name] = (re.sub(r"\s+", " ", params), who)
        return found

    def escapes(self):
        """{name: number}"""
        text = (self.text(f"{UNIX}/include/nv_escape.h") +
                self.text("kernel-open/common/inc/nv-ioctl-numbers.h"))
        plain = re.findall(r"#define\s+(NV_ESC_\w+)\s+\(?(0x[0-9a-fA-F]+|\d+)\)?\s*$", text, re.M)
        based = re.findall(r"#define\s+(NV_ESC_\w+)\s+\(NV_IOCTL_BASE \+ (\d+)\)", text)
        return ({name: int(value, 0) for name, value in plain} |
                {name: 200 + int(value) for name, value in based})

    def pointers(self):
        """{command: text} of the cases of embedded_param_copy.c, without white space."""
        found = {}
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", self.text(f"{RMAPI}/embedded_param_copy.c"),
                      flags=re.S)
        for part in re.split(r"\n {8}case (?=\w+:)", text)[1:]:
            name, body = part.split(":", 1)
            body = re.split(r"\n {8}default:|\n}\n", body)[0]
            found[name] = found.get(name, "") + re.sub(r"\s+", "", body)
        return {name: text for name, text in found.items() if "_TRANSACTION_TYPE_" not in name}

    def uvm_requests(self):
        """{name: number} of the requests that nvidia-uvm routes, and of those that its header
        numbers without a route."""
        text = self.text("kernel-open/nvidia-uvm/uvm_ioctl.h")
        numbers = dict(re.findall(r"#define\s+(UVM_\w+)\s+UVM_IOCTL_BASE\((\d+)\)", text))
        routed = set(re.findall(r"UVM_ROUTE_CMD_\w+\(\s*(UVM_\w+)",
                                self.text("kernel-open/nvidia-uvm/uvm.c") +
                                self.text("kernel-open/nvidia-uvm/uvm_tools.c")))
        return ({name: int(value) for name, value in numbers.items() if name in routed},
                {name: int(value) for name, value in numbers.items() if name not in routed})

    def statuses(self):
        """{name: number}"""
        text = self.text(f"{SDK}/nvstatuscodes.h")
        return {name: int(value, 16)
                for name, value in re.findall(r"NV_STATUS_CODE\((\w+),\s*(0x[0-9a-fA-F]+)", text)}

    def gpus(self):
        """(device number, name) of each GPU that the release drives."""
        return set(re.findall(r'\{ (0x[0-9A-Fa-f]+), 0x[0-9a-f]+, 0x[0-9a-f]+, "([^"]+)" \}',
                              self.text(f"{GENERATED}/g_nv_name_released.h")))

    def changed_lines(self, other, path):
        """(lines added, lines removed) from `other` to this tree; None if they are equal."""
        done = subprocess.run(["git", "diff", "--no-index", "--numstat", str(other.folder / path),
                               str(self.folder / path)], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL, check=False)
        numbers = done.stdout.split("\t")[:2]
        return tuple(int(number) for number in numbers) if len(numbers) == 2 else None
