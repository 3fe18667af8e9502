"""Attacks on the shim's time and descriptors (reach.cc, fuse.cc): a container that cannot be reached any
more keeps what root takes away from it, and what one container does at every close its neighbours' shims
would pay for. Without cgpu there is no shim to reach: what is shown instead is that the attack does what
it says."""
import contextlib
import os
import resource
import signal
import time

from attack import argv
from cgpu_test import CGPU, MIB, Node, Process, check, command, main, skip, wait_for

ATTACKER, LIMIT, LESS = "attacker", 1024, 512  # MiB
FILES = 2048  # descriptors that shims may have here: so few are soon used up


def _attack(node, *words, mib=LIMIT, **options):
    return node.run(argv(*words), mem="%dMiB" % mib, name=ATTACKER,
                    flags=("--gpus", "1", "--name", "%s-%d" % (ATTACKER, os.getpid())), **options)


def _row(node):
    (row,) = [row for row in node.containers() if row["name"].startswith(ATTACKER)]
    return row


def _descriptors(node):
    (shim,) = _shims(node)
    return len(os.listdir("/proc/%d/fd" % shim))


def _reached(node, upgrade=True, mib=LESS):
    """Its shim does at once what root says."""
    row = _row(node)
    check(row["state"] == "running", "cgpu ps says %s" % row["state"])
    command(CGPU, "set", row["id"], "--mem", "%dMiB" % mib)
    check(_row(node)["gpus"][0]["limit_bytes"] == mib * MIB, "it has its old limit")
    if upgrade:
        said = command(CGPU, "upgrade", row["id"])
        check("upgraded; its calls waited" in said, said)
        check(_row(node)["state"] == "running", "it does not answer after the upgrade")


def _few_descriptors():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard), min(FILES, hard)))


def fuse():
    """More calls on a file whose close never returns than its shim may have descriptors. Each was taken, and
    waited in a queue to be closed, until the shim could not accept a connection any more."""
    _few_descriptors()
    with Node() as node:
        process = _attack(node, "fuse-fill", 2 * FILES)
        said = process.expect("^(ENOTTY .*|unsupported: .*)$").group(1)
        if said.startswith("unsupported"):
            skip(said)
        process.expect("^holding$")
        _reached(node)
        check(said == "ENOTTY %d" % (2 * FILES), said)
        check(_descriptors(node) < 100, "its shim has %d descriptors" % _descriptors(node))
        process.end()
        node.wait_used(0, "after its end")


def swap():
    """Puts a file of the tenant's own file system in the place of a GPU's, between two calls. The
    shim takes at most one ever, and nothing waits for its close, an upgrade least of all."""
    with Node() as node:
        process = _attack(node, "fuse-swap", 100)
        said = process.expect("^(ENOTTY .*|unsupported: .*)$").group(1)
        if said.startswith("unsupported"):
            skip(said)
        check(said == "ENOTTY 100", said)
        process.expect("^holding$")
        _reached(node)
        _reached(node)
        process.end()


def hoard():
    """100 files of nvidia-uvm behind 300 processes with 900 descriptors each, and closes without pause."""
    with Node() as node:
        process = _attack(node, "hoard", 100, 300, 900)
        check(process.expect(r"^spaces (\d+)$").group(1) == "100", "it has not all its spaces")
        process.expect("^holding$")
        for _ in range(5):
            _reached(node, upgrade=False)
        said = command(CGPU, "upgrade", _row(node)["id"])
        check("upgraded; its calls waited" in said, said)
        _reached(node, upgrade=False)
        process.kill()


ASKED = "NV0000_CTRL_CMD_CLIENT_GET_ACCESS_RIGHTS"


def closes():
    """A neighbour's shim looks after its clients some ten times a second, however many files others close: by
    the driver's own count of questions."""
    clients = 100
    with Node() as node:
        quiet = node.run(argv("quiet", clients), flags=("--gpus", "1"), name="quiet")
        quiet.expect("^holding$")
        other = node.run(argv("closes"), flags=("--gpus", "1"), name="other")
        other.expect("^ready$")
        before, began = _asked(node), time.monotonic()
        closed, most = 0, 0
        while closed < 300 or closed < 4 * most:  # else it proves nothing
            other.say("1")
            other.expect("^closed 1$")
            node.sync()  # the driver has acted on it, and a look that was due can have begun
            closed += 1
            most = 2 * 9 + 10 * (time.monotonic() - began)
        looks = (_asked(node) - before) / clients
        print("%d closes, %.0f looks, at most %.0f" % (closed, looks, most))
        check(looks <= most, "its neighbour looked %.0f times" % looks)
        other.end()
        quiet.end()


def _asked(node):
    return sum(count for name, count in node.books()["received"].items() if ASKED in name)


def spaces():
    """Address spaces have a quota, each costs the shim a descriptor."""
    with Node() as node:
        without = node.exec(argv("hide-spaces", 1500))
        check(without.expect(r"^spaces (\d+)$").group(1) == "1500", "the driver refuses them")
        without.kill()
        process = _attack(node, "hide-spaces", 1500)
        check(process.expect(r"^spaces (\d+)$").group(1) == "1024", "another quota")
        process.expect("^holding$")
        _reached(node)
        process.kill()


def pieces():
    """Managed memory in pieces, all of which are counted each time that one is mapped: they have a quota."""
    with Node() as node:
        process = _attack(node, "pieces", 16, 15000, mib=4096)
        process.expect("^holding$")
        for _ in range(3):
            _reached(node, mib=4000)
        process.kill()
    with Node() as node:
        process = _attack(node, "pieces", 18, 15000, mib=4096)
        check(process.wait() != 0, "it has more of them than 262,144")
        node.wait_nothing_left()


def silent():
    """A shim that does not run at all: everybody who orders something is told so, and the container can be
    ended."""
    with Node() as node:
        command(CGPU, "policy", "0", "weight", "--node", node.name)
        process = _attack(node, "quiet", 10)
        process.expect("^holding$")
        (shim,) = _shims(node)
        other = node.run(argv("quiet", 10), flags=("--gpus", "1"), name="other")
        other.expect("^holding$")
        row = _row(node)
        os.kill(shim, signal.SIGSTOP)
        for words in (("--mem", "512MiB"), ("--weight", "3")):
            done = command(CGPU, "set", row["id"], *words, ok=False)
            print(done.stdout, done.stderr)
            check(done.returncode != 0 and "answer" in done.stderr, "cgpu set says nothing of it")
        done = command(CGPU, "upgrade", row["id"], ok=False)
        check(done.returncode != 0 and "no answer" in done.stdout, done.stdout)
        check("--force" in command(CGPU, "upgrade", "--force", ok=False).stderr, "all can be ended")
        said = command(CGPU, "upgrade", "--force", row["id"])
        check("%s %s: ended" % (row["id"], row["name"]) in said, said)
        check(process.wait() != 0, "it ended well")
        wait_for(lambda: len(node.books()["clients"]) == 11, "clients are left")
        wait_for(lambda: [one["state"] for one in node.containers()] == ["running"], "the other one is not there")
        check(other.end() == 0, "the other did not end well")


# Binds the path of a container's admin socket in a mount namespace of its own, again and again, until its
# socket is the first of that name that the kernel lists; with a process in its hands that is not its own.
IMPOSTOR = """
import os, socket, sys
victim = os.pidfd_open(int(sys.argv[2]))
path, held = sys.argv[1], []
folder = os.path.dirname(path)
os.makedirs(folder, exist_ok=True)
def first():
    with open("/proc/net/unix", encoding="utf-8") as file:
        return next(words[6] for words in map(str.split, file) if words[-1] == path)
while len(held) < 900 and (not held or str(os.fstat(held[-1].fileno()).st_ino) != first()):
    if held:
        os.rename(path, "%s/%d" % (folder, len(held)))
    held.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    held[-1].bind(path)
    held[-1].listen(1)
print("first" if str(os.fstat(held[-1].fileno()).st_ino) == first() else "never first", flush=True)
sys.stdin.read()
"""


def impostor():
    """A user without rights whose socket bears the name of the admin socket of a container whose shim does not
    run. It was taken for the shim: whatever process it named was killed, and the container called ended."""
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "unshare", "-Urm"]
    if command(*user, "true", ok=False).returncode != 0:
        skip("users make no user namespaces here")
    with Node() as node:
        victim = Process(["cat"], "victim")
        process = _attack(node, "quiet", 10)
        process.expect("^holding$")
        (shim,) = _shims(node)
        row = _row(node)
        other = Process([*user, "sh", "-c", "mount -t tmpfs t /run && exec python3 -c \"$@\"", "sh", IMPOSTOR,
                         "/run/cgpu/%s.sock" % row["id"], str(victim.popen.pid)], "impostor", cwd="/")
        other.expect("^first$")
        command(CGPU, "upgrade", row["id"])  # its socket is older than the shim's program
        os.kill(shim, signal.SIGSTOP)
        try:
            said = command(CGPU, "upgrade", "--force", row["id"])
            check(victim.popen.poll() is None, "the process that it named was killed")
            check(other.popen.poll() is None, "the impostor was taken for the shim")
            check("%s %s: ended" % (row["id"], row["name"]) in said, said)
            check(process.wait() != 0, "it ended well")
            node.wait_nothing_left()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(shim, signal.SIGCONT)
        check(not node.containers(), "it is there still")


def _shims(node):
    """For the driver all clients are the shims'."""
    return {client["pid"] for client in node.books()["clients"]}


main({"reach-silent": silent, "reach-impostor": impostor, "reach-fuse": fuse, "reach-swap": swap, "reach-hoard": hoard, "reach-closes": closes,
      "reach-spaces": spaces, "reach-pieces": pieces})
