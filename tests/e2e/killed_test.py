"""kill -9 of tenants at random moments, of whole containers and of the launcher: soon after the
last close nothing is left in the driver's accounting nor in cgpu's ledger. Cases by name; each takes a seed,
which it prints. The moments are counted in what the killed one said, and how long it took until
nothing was left is printed, not judged."""
import os
import random
import signal
import socket
import sys
import time

import cgpu_test as t
import worker as w

LIMIT = 64  # MiB: eight tenants with up to 16 MiB more reach it now and then
HELD = 2  # MiB that each of them holds all the time


def _random(seed):
    seed = int(seed) if seed else random.SystemRandom().randrange(1 << 32)
    print("seed %d: repeat with `killed_test.py %s %d`" % (seed, sys.argv[1], seed))
    return random.Random(seed)


def _start(node, workers, name="root"):
    process = node.run(workers.argv(name), mem="%dMiB" % LIMIT, name=name,
                       flags=("--gpus", "1", "--name", "%s-%s" % (node.name, name)))
    return process, workers.accept(name, process)


def _until(node, wanted, sentence):
    """Waits until the driver's accounting and cgpu ps say `wanted` bytes; how long that took."""
    since = time.monotonic()
    while True:
        node.sync()
        used = node.used()
        counted = sum(gpu["used_bytes"] for c in node.containers() for gpu in c["gpus"])
        passed = time.monotonic() - since
        if used == counted == wanted:
            return passed
        t.check(used <= LIMIT * t.MIB, "%d bytes are in use" % used)
        t.check(passed < t.DEADLINE, "%s: the driver's books say %d, cgpu ps %d, not %d" %
                (sentence, used, counted, wanted))


def _churn(workers, root, names, choose):
    """Children of the root that hold some memory, then try to have more again and again."""
    tenants = []
    for name in names:
        tenant = workers.fork(root, name)
        tenant.do("client", 0)
        tenant.do("alloc", 0, HELD)
        tenants.append(tenant)
    for tenant in tenants:
        tenant.send("churn", choose.choice([1, 2, 6, 16]), "say")
        t.check(tenant.line() == "churning", "no churning")
    return tenants


def _listen(tenants, choose, lines):
    """Reads so many lines in all, of random ones of the tenants."""
    for _ in range(lines):
        line = choose.choice(tenants).line()
        t.check(line in ("alloc", "dup", "export", "free", "close"), "a tenant says: " + line)


def _check_used(node, tenants):
    used = node.used()
    t.check(tenants * HELD * t.MIB <= used <= LIMIT * t.MIB, "%d bytes are in use" % used)


def processes(seed=None):
    """Up to eight processes of a container, one after the other."""
    choose = _random(seed)
    times = []
    with t.Node("v100-16g:1") as node, w.Workers() as workers:
        process, root = _start(node, workers)
        for round_ in range(12):
            names = ["t%d-%d" % (round_, i) for i in range(choose.randrange(1, 9))]
            tenants = _churn(workers, root, names, choose)
            while tenants:
                _check_used(node, len(tenants))
                _listen(tenants, choose, choose.randrange(40))
                tenant = tenants.pop(choose.randrange(len(tenants)))
                tenant.kill()
            times.append(_until(node, 0, "after round %d" % round_))
        root.send("end")
        t.check(process.end() == 0, "the container failed")
        node.wait_used(0, "after the container")
    print("back to 0 within %.0f ms" % (max(times) * 1000))


def _containers(seed, victim, status):
    """Containers with three busy tenants each; `victim` is killed and takes all with it."""
    choose = _random(seed)
    times = []
    with t.Node("v100-16g:1") as node:
        for round_ in range(8):
            with w.Workers() as workers:
                process, root = _start(node, workers, "c%d" % round_)
                names = ["c%d-%d" % (round_, i) for i in range(3)]
                tenants = _churn(workers, root, names, choose)
                _listen(tenants, choose, choose.randrange(60))
                _check_used(node, len(tenants))
                os.kill(victim(process, root), signal.SIGKILL)
                ended = process.wait()
                t.check(ended == status, "cgpu run ended with %d" % ended)
                for tenant in [root, *tenants]:
                    tenant.wait_gone()
                times.append(_until(node, 0, "after container %d" % round_))
                t.wait_for(lambda: not node.containers(), "it is still listed")
        node.wait_nothing_left()
    print("back to 0 within %.0f ms" % (max(times) * 1000))


def command(seed=None):
    """The first process of a container: the command of cgpu run."""
    _containers(seed, lambda process, root: root.pid, 137)


def _parent(pid):
    with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def init(seed=None):
    """Process 1 of a container."""
    _containers(seed, lambda process, root: _parent(root.pid), 137)


def launcher(seed=None):
    """cgpu run itself: its container goes with it."""
    _containers(seed, lambda process, root: process.popen.pid, 137)


def _connections(path):
    """To a socket of this name, those that nobody has accepted yet among them."""
    with open("/proc/net/unix", encoding="utf-8") as file:
        return sum(line.split()[-1] == path for line in file)


def again(_seed=None):
    """The whole GPU, at once after the end of one who had a part of it was seen: of the container
    and of its launcher."""
    whole = [t.CGPU, "run", "--node"]
    with t.Node("v100-16g:1") as node:
        whole += [node.name, "--", "true"]
        for round_ in range(4):
            for who in ("command", "launcher"):
                with w.Workers() as workers:
                    process, root = _start(node, workers, who)
                    root.do("client", 0)
                    root.do("alloc", 0, HELD)
                    os.kill(root.pid if who == "command" else process.popen.pid, signal.SIGKILL)
                    process.wait()
                    t.command(*whole)
        # However long its shim takes to end.
        with w.Workers() as workers:
            process, root = _start(node, workers)
            path = "/run/cgpu/%s.sock" % node.containers()[0]["id"]
            shim = t.shim_at(path)
            os.kill(shim, signal.SIGSTOP)
            os.kill(process.popen.pid, signal.SIGKILL)
            process.wait()
            before = _connections(path)
            following = t.Process(whole, "following")
            t.wait_for(lambda: _connections(path) != before or following.popen.poll() is not None,
                       "nobody asks the one at its end")
            os.kill(shim, signal.SIGCONT)
            t.check(following.end() == 0, "the whole card while the one before ends")


def chain(seed=None):
    """Forks, each with the files of all before it: what a killed one had is held by the files'
    heirs, until the last of them is killed or executes another program."""
    choose = _random(seed)
    depth = 6
    times = []
    with t.Node("v100-16g:1") as node, w.Workers() as workers:
        process, root = _start(node, workers)
        for round_ in range(6):
            line = [root]
            for i in range(depth):
                line.append(workers.fork(line[-1], "t%d-%d" % (round_, i)))
                line[-1].do("client", i)
                line[-1].do("alloc", i, 1 << i)
            line.pop(0)
            # Member i has clients 0 to i open. Client i is held as long as any from i on is there.
            alive = dict(enumerate(line))
            inherits = set(alive)
            while alive:
                number = choose.choice(sorted(alive))
                if number in inherits and choose.random() < 0.4:
                    alive[number].send("exec")
                    t.check(alive[number].line().startswith("hello"), "no hello after exec")
                else:
                    alive.pop(number).kill()
                inherits.discard(number)
                held = sum(1 << i for i in range(depth) if any(heir >= i for heir in inherits))
                times.append(_until(node, held * t.MIB, "heirs %s" % inherits))
        root.send("end")
        t.check(process.end() == 0, "the container failed")
        node.wait_used(0, "after the container")
    print("as it must be within %.0f ms" % (max(times) * 1000))


if __name__ == "__main__":
    t.main({"processes": processes, "command": command, "init": init, "launcher": launcher,
            "again": again, "chain": chain})
