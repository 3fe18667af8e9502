"""The image's recipe. Without a registry it cannot be built; what it says of this tree is checked."""
import os
import re
import shutil
import tempfile

import cgpu_test as t

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECIPE = ROOT + "/deploy/image/Containerfile"
KNOWN = {"FROM", "WORKDIR", "COPY", "RUN"}


def _instructions():
    """(instruction, its words) in order. None of them has more than one line."""
    with open(RECIPE, encoding="utf-8") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    for words in lines:
        t.check(words[0] in KNOWN and words[-1] != "\\", "not understood: %s" % words)
    return [(words[0], words[1:]) for words in lines]


def _stages():
    """The instructions of the build, and those of what is made of it."""
    instructions = _instructions()
    starts = [i for i, (name, _) in enumerate(instructions) if name == "FROM"]
    t.check(len(starts) == 2, "not two stages")
    return instructions[:starts[1]], instructions[starts[1]:]


def copies():
    """The files that are copied from the tree exist and are enough: CMake takes them, and every
    file that the programs are made of is there. The packages are copied from the build, under the
    names that cpack gives them."""
    build, image = _stages()
    with tempfile.TemporaryDirectory() as folder:
        for name, words in build:
            if name == "COPY":
                *sources, target = words
                for source in sources:
                    whole = os.path.join(ROOT, source)
                    t.check(os.path.exists(whole), "there is no " + source)
                    if os.path.isdir(whole):
                        shutil.copytree(whole, os.path.join(folder, target))
                    else:
                        shutil.copy(whole, os.path.join(folder, target))
        runs = [" ".join(words) for name, words in build if name == "RUN"]
        (configure,) = [run for run in runs if run.startswith("cmake --preset")]
        (make,) = [run for run in runs if run.startswith("cmake --build")]
        (pack,) = [run for run in runs if run.startswith("cpack")]
        t.command("make", "--dry-run", "deps", cwd=folder)
        t.command(*configure.split(), cwd=folder, timeout=5 * t.DEADLINE)
        t.command(*make.split(), "--", "-n", cwd=folder)
        t.check(os.path.exists(os.path.join(folder, pack.split()[-1])), "no cpack: " + pack)
        with open(os.path.join(folder, pack.split()[-1]), encoding="utf-8") as file:
            packages = re.findall(r'CPACK_DEBIAN_\w+_PACKAGE_NAME "(.*)"', file.read())
    copied = [words for name, words in image if name == "COPY"]
    t.check(copied[0][:-1] == ["--from=build", *("/src/build/%s_*.deb" % name
                                                 for name in sorted(packages))],
            "%s of %s" % (copied, packages))
    t.check(copied[1][0] == "deploy/image/cgpu-node.sh" and
            os.access(os.path.join(ROOT, copied[1][0]), os.X_OK), "%s" % copied)


t.main({"copies": copies}, root=False)
