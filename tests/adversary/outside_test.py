"""Attempts to reach what lies outside of the slice (outside.cc, fuse.cc)."""
import ctypes
import os
import pwd
import subprocess

from attack import LIMIT, NEIGHBOUR, argv, neighbour, within
from cgpu_test import CGPU, MIB, Node, Process, check, main, skip


def nodes():
    """The other GPU's file: by name, by mknod, by every process's root, in the node's own folder,
    under mounts that a user namespace might lift."""
    with Node("v100-16g:2") as node:
        process = node.exec(argv("nodes", 1, node.folder), name="without cgpu")
        process.expect("^holding$")
        check(node.used(1) > 0, "without cgpu the other card was not reached: it proves nothing")
        process.end()
        node.wait_used(0, "after the attack without cgpu")
    with Node("v100-16g:2") as node:
        with neighbour(node, flags=("--gpus", "device=1")):
            process = node.run(argv("nodes", 1, node.folder), flags=("--gpus", "device=0"),
                               name="with cgpu")
            process.expect("^holding$")
            check(not process.said("^opened .*nvidia1$"), "another card's file could be opened")
            check(not process.said("^(made a device node|uncovered)"), "the slice has leaks")
            check(node.used(1) == NEIGHBOUR * MIB, "the other card was used")
            check(node.used(0) <= LIMIT * MIB, "more than the slice was used")
            process.end()


def _token():
    """Some memory of ours with something in it that only we know."""
    secret = int.from_bytes(os.urandom(8), "little") | 1
    memory = ctypes.c_uint64(secret)
    return memory, "%d:%#x:%#x" % (os.getpid(), ctypes.addressof(memory), secret)


def _attach(**options):
    memory, target = _token()
    with Node() as node:
        process = node.exec(argv("attach", target), name="without cgpu")
        process.expect("^holding$")
        # More where other tests' shims run beside this one.
        check(process.number(r"^reached (\d+)$") >= 1, "without cgpu nothing was reached")
        check(process.said("^read by process_vm_readv"), "without cgpu nothing was read")
        process.end()
        with neighbour(node) as other:
            first = node.containers()[0]["pid"]
            targets = [target, str(other.popen.pid), str(first), str(_shim(node)), "1"]
            process = node.run(argv("attach", *targets), flags=("--gpus", "1"), name="with cgpu",
                               **options)
            process.expect("^holding$")
            check(process.number(r"^reached (\d+)$") == 0, "something outside was reached")
            check(not process.said("sees the shim"), "the shim is visible in its slice")
            check(process.number(r"^processes seen (\d+)$") <= 3, "others' processes are visible")
            process.end()
    check(memory.value == int(target.split(":")[2], 16), "our memory was changed")


def _shim(node):
    """The number of a slice's shim, as the machine has it: to the driver it is the caller."""
    return max(node.books()["clients"], key=lambda client: client["bytes"])["pid"]


def attach():
    """ptrace, process_vm_readv, /proc/PID/mem, pidfd_getfd, signals: as root."""
    _attach()


def shim_dump():
    """The shim from the machine itself, by root without capabilities and by a user: not to be read,
    although whoever started it runs under the same uid. Nothing of this has a meaning without cgpu;
    what can be said is that the kernel refuses the shim's files to everybody but a privileged
    root."""
    with Node() as node, neighbour(node):
        shim = _shim(node)
        for drop in ("setpriv --reuid 65534 --clear-groups --inh-caps=-all",
                     "setpriv --bounding-set=-all --inh-caps=-all"):
            for path in ("mem", "environ", "maps", "fd/3"):  # the names in fd/ root may list
                done = subprocess.run(drop.split() + ["readlink" if path == "fd/3" else "head", *(
                    [] if path == "fd/3" else ["-c1"]), "/proc/%d/%s" % (shim, path)],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      check=False)
                check(done.returncode != 0, "/proc/SHIM/%s can be read by `%s`" % (path, drop))


def sockets():
    """The admin sockets and the node's own: not to be found and not to be connected to."""
    folders = ("/run/cgpu", "/run/user/0/cgpu")
    with Node() as node:
        with neighbour(node):
            process = node.exec(argv("sockets", *folders, node.folder), name="without cgpu")
            process.expect("^holding$")
            check(process.number(r"^connected (\d+)$") > 0, "without cgpu no socket was reached")
            process.end()
            process = node.run(argv("sockets", *folders, node.folder), flags=("--gpus", "1"),
                               name="with cgpu")
            process.expect("^holding$")
            check(process.number(r"^connected (\d+)$") == 0, "a socket was reached")
            check(process.number(r"^names seen (\d+)$") == 0, "the folders are not empty")
            process.end()


def fuse():
    """A file of the tenant's own that never answers, as a target and inside parameters. Without cgpu
    it hangs its owner only, so there is nothing to show there; with cgpu the shim must not wait for
    it, for its owner nor for anybody else."""
    count = 50

    def course(process, node):
        opened = process.expect("^(hanging file open|unsupported: .*)$").group(1)
        if opened.startswith("unsupported"):
            skip(opened)
        process.say("go")
        process.expect(r"^as target: ENOTTY %d other 0$" % count)
        process.expect(r"^as argument: refused %d$" % (3 * count))
        process.expect(r"^afterwards 128 MiB$")
        check(node.containers(), "cgpu ps does not answer")
        process.expect("^holding$")

    within(["fuse", count], course=course)


def user_attach():
    """The same as an ordinary user, whose slice shares its uid with what is outside."""
    user = next((u for u in pwd.getpwall() if u.pw_name == "nobody"), None)
    if user is None:
        skip("there is no user nobody")
    target = Process(["setpriv", "--reuid", str(user.pw_uid), "--clear-groups", "cat"], "target")
    with Node() as node:
        process = Process(["setpriv", "--reuid", str(user.pw_uid), "--clear-groups", CGPU, "run",
                           "--alone", "--node", node.name, "--mem", "256MiB", "--"] +
                          argv("attach", target.popen.pid), "as a user",
                          env={"PATH": os.environ["PATH"]})
        process.expect("^holding$")
        check(process.number(r"^reached (\d+)$") == 0, "something outside was reached")
        process.end()


main({"nodes": nodes, "attach": attach, "shim-dump": shim_dump, "sockets": sockets, "fuse": fuse,
      "user-attach": user_attach})
