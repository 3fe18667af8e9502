"""The image's recipe. Without a registry it cannot be built; what it says of this tree is checked."""
import os
import re
import shutil
import subprocess
import tempfile

import cgpu_test as t

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECIPE = ROOT + "/deploy/image/Containerfile"
KNOWN = {"FROM", "WORKDIR", "COPY", "RUN", "ENTRYPOINT"}


def _instructions():
    """(instruction, its words) in order. None of them has more than one line."""
    with open(RECIPE, encoding="utf-8") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    for words in lines:
        t.check(words[0] in KNOWN and words[-1] != "\\", "not understood: %s" % words)
    return [(words[0], words[1:]) for words in lines]


def copies():
    """The files that are copied from the tree exist and are enough: CMake takes them, and every
    file that the programs are made of is there. The files that are copied from the build are those
    that are installed and need no library."""
    instructions = _instructions()
    with tempfile.TemporaryDirectory() as folder:
        for name, words in instructions:
            if name == "COPY" and not words[0].startswith("--from=build"):
                *sources, target = words
                for source in sources:
                    whole = os.path.join(ROOT, source)
                    t.check(os.path.exists(whole), "there is no " + source)
                    if os.path.isdir(whole):
                        shutil.copytree(whole, os.path.join(folder, target))
                    else:
                        shutil.copy(whole, os.path.join(folder, target))
        runs = [" ".join(words) for name, words in instructions if name == "RUN"]
        (configure,) = [run for run in runs if run.startswith("cmake --preset")]
        (build,) = [run for run in runs if run.startswith("cmake --build")]
        t.command("make", "--dry-run", "deps", cwd=folder)
        t.command(*configure.split(), cwd=folder)
        t.command(*build.split(), "--", "-n", cwd=folder)
    targets = set(build.split("--target")[1].split())
    (copied,) = [words[1:-1] for name, words in instructions
                 if name == "COPY" and words[0].startswith("--from=build")]
    for path in copied:
        t.check(os.path.dirname(path) == "/out/usr/bin" and os.path.basename(path) in targets,
                path + " is not made")
        program = os.path.join(t.BIN, os.path.basename(path))
        done = subprocess.run(["readelf", "--dynamic", program], stdout=subprocess.PIPE, text=True,
                              check=True, timeout=t.DEADLINE)
        t.check("NEEDED" not in done.stdout, "%s needs libraries: %s" % (program, done.stdout))
    (entry,) = [words for name, words in instructions if name == "ENTRYPOINT"]
    t.check(re.fullmatch(r'\["/usr/bin/(\w+)"\]', entry[0]) and
            "/out" + entry[0].strip('["]') in copied, "it starts %s" % entry)


t.main({"copies": copies}, root=False)
