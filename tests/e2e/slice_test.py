"""A slice has the published sizes to the MiB, all of it usable and not a byte more, by the driver's
own accounting. Cases by name, see tests/lib/cgpu_test.py."""
import os
import re
import shutil
import tempfile

import cgpu_test as t

RMTOOL = os.path.join(t.BIN, "rmtool")


def slice_argv(node, *words, flags=()):
    return [t.CGPU, "run", "--node", node.name, *flags, "--", *words]


def in_slice(node, *words, flags=(), status=0, **options):
    done = t.command(*slice_argv(node, *words, flags=flags), ok=False, **options)
    t.check(done.returncode == status, "`%s`: %s" % (" ".join(words), done))
    return done.stdout + done.stderr


# Profile, GPUs of the grant, units in total, units of a whole GPU, MiB on each GPU.
PUBLISHED = [
    ("v100-16g", 2, 8, 15, 4309),
    ("v100-16g@16130MiB", 1, 4, 15, 4301),
    ("v100-16g@16130MiB", 1, 2, 15, 2150),
    ("a10", 1, 8, 22, 8373),
    ("t4", 1, 3, 15, 3072),
]


def _shows(node, cards, mib, flags, env=None):
    """rmtool and smi in the slice say so, and the driver gives exactly so much on each GPU."""
    out = in_slice(node, RMTOOL, "info", flags=flags, env=env)
    totals = re.findall(r"(\d+)MiB total, 0MiB used, (\d+)MiB free", out)
    t.check(totals == [(str(mib), str(mib))] * cards, "rmtool says:\n" + out)
    out = in_slice(node, t.CGPU, "smi", "--query-gpu=memory.total", "--format=csv,noheader",
                   flags=flags, env=env)
    t.check(out.splitlines() == ["%d MiB" % mib] * cards, "smi says:\n" + out)
    for card in map(str, range(cards)):
        in_slice(node, RMTOOL, "alloc", str(mib), "--page", "big", "--gpu", card, flags=flags,
                 env=env)
        out = in_slice(node, RMTOOL, "alloc", str(mib + 1), "--page", "big", "--fill", "--gpu",
                       card, flags=flags, env=env, status=2)
        t.check("out of memory" in out and "after %d MiB" % mib in out, "rmtool says: " + out)


def published():
    for profile, cards, units, whole, mib in PUBLISHED:
        print("%s: %d of %d units over %d cards are %d MiB" % (profile, units, whole, cards, mib))
        with t.Node("%s:%d" % (profile, cards)) as node:
            flags = ("--units", str(units), "--gpus", str(cards))
            _shows(node, cards, mib, flags)
            # The same by the names that the scheduler's users know.
            env = dict(os.environ, ALIYUN_COM_GPU_MEM_CONTAINER=str(units // cards),
                       ALIYUN_COM_GPU_MEM_DEV=str(whole))
            _shows(node, cards, mib, ("--gpus", str(cards)), env)
            node.wait_used(0, "after %s" % profile)


def _fill(node, mib, flags, *options):
    """Fills a slice of `mib` MiB on GPU 0 and holds it; what it got, and the accounting meanwhile."""
    out = in_slice(node, RMTOOL, "alloc", str(mib + 64), "--fill", *options, flags=flags, status=2)
    t.check("out of memory" in out, "rmtool says: " + out)
    got = int(re.search(r"after (\d+) MiB", out).group(1))
    process = t.Process(slice_argv(node, RMTOOL, "hold", str(got), "--fill", *options,
                                   flags=flags), "hold")
    process.expect("holding %d MiB" % got)
    gpu = node.books()["gpus"][0]
    (row,) = node.containers()[0]["gpus"]
    t.check(row["used_bytes"] == gpu["used_bytes"],
            "ps says %d, the books say %d" % (row["used_bytes"], gpu["used_bytes"]))
    t.check(process.end() == 0, "hold failed")
    node.wait_used(0, "after the container")
    return got, gpu


def usable():
    with t.Node("v100-16g:1") as node:
        for mib in (4309, 1024):
            limit = mib * t.MIB
            flags = ("--mem", "%dMiB" % mib)
            with t.Peak(node) as peak:
                for page in ("default", "big", "huge", "4k"):
                    for groups in (0, 4):
                        got, gpu = _fill(node, mib, flags, "--page", page, "--groups", str(groups))
                        used = gpu["used_bytes"]
                        print("%d MiB, %s pages, %d groups: %d MiB allocated, %d bytes used" %
                              (mib, page, groups, got, used))
                        t.check(used <= limit, "%d bytes are in use of %d" % (used, limit))
                        t.check(used >= limit * 99 // 100, "only %d bytes are usable" % used)
                        t.check(len(gpu["groups"]) == groups, "groups: %s" % gpu["groups"])
                        contexts = used - got * t.MIB
                        t.check((contexts > 0) == (groups > 0), "contexts take %d" % contexts)
                        if not groups:
                            t.check(got >= mib * 99 // 100, "only %d MiB were had" % got)
            t.check(peak.bytes <= limit, "%d bytes were in use" % peak.bytes)


# Two processes of one slice: the second gets what the first has left, and then nothing.
SHARED = """
mkfifo "$PIPE"; "$0" hold 700 --page big --forever > "$PIPE" &
read said < "$PIPE"; echo "$said"
"$0" alloc 324 --page big && echo rest
"$0" alloc 325 --page big; echo "status $?"
read line; kill $!; wait $!
"$0" alloc 1024 --page big && echo "all of it"
"""


def shared():
    """The processes of a slice share its limit: reached exactly, the next byte is refused."""
    folder = tempfile.mkdtemp(prefix="cgpu-e2e-")
    try:
        with t.Node("v100-16g:1") as node:
            process = t.Process(["env", "PIPE=%s/pipe" % folder] + slice_argv(
                node, "sh", "-c", SHARED, RMTOOL, flags=("--mem", "1024MiB")), "shared")
            process.expect("^holding 700 MiB$")
            process.expect("^rest$")
            process.expect("out of memory")
            process.expect("^status 2$")
            t.check(node.used() == 700 * t.MIB, "%d bytes are in use" % node.used())
            process.say("go on")
            process.expect("^all of it$")
            t.check(process.end() == 0, "the script failed")
            node.wait_used(0, "after the container")
    finally:
        shutil.rmtree(folder)


def record():
    """`cgpu run --record`: every call by name with its outcome, and nothing of what is in it."""
    folder = tempfile.mkdtemp(prefix="cgpu-record-")
    path = os.path.join(folder, "calls")
    try:
        with t.Node("t4:1", driver="580") as node:
            in_slice(node, RMTOOL, "alloc", "64", flags=("--mem", "1024MiB", "--record", path))
            with open(path) as file:
                lines = file.read().splitlines()
            t.check(lines[0] == "# driver 580.95.05", lines[0])
            calls = [line for line in lines if not line.startswith("#")]
            form = re.compile(r"\d+ (ctl|uvm|gpu\d+|other) [A-Z]\w+( \w+)? \d+ (-|0x\w+) \d+ "
                              r"(driver|cgpu)")
            t.check(calls and all(form.fullmatch(call) for call in calls), "\n".join(calls))
            said = [call.split(" ", 1)[1] for call in calls]
            t.check("ctl NV_ESC_RM_ALLOC NV01_MEMORY_LOCAL_USER 128 0x0 0 driver" in said,
                    "the allocation is not recorded:\n" + "\n".join(said))
            done = t.command(*slice_argv(node, "true", flags=("--record", folder)), ok=False)
            t.check(done.returncode == 125 and "--record" in done.stderr, "%s" % done)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    t.main({"published": published, "usable": usable, "shared": shared, "record": record})
