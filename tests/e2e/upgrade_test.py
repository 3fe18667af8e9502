"""Hot upgrades: running containers' shims become another version, and back, while the containers go
on. Cases by name."""
import json
import os
import socket

import cgpu_test as t
import worker as w
from upgrading import NEXT, OWN, upgrade

RM_ALLOC = 0x2B
NO_MEMORY = 0x51
LIMIT = 256


class Slice:
    def __init__(self, node, workers, name="root", flags=()):
        self.node = node
        self.name = "%s-%s" % (node.name, name)
        self.run = node.run(workers.argv(name), mem="%dMiB" % LIMIT, name=name,
                            flags=("--name", self.name, *flags))
        self.worker = workers.accept(name, self.run)

    def status(self):
        (status,) = [c for c in self.node.containers() if c["name"] == self.name]
        return status

    def end(self):
        """Its first process ends, and with it the others."""
        self.worker.send("end")
        t.check(self.run.end() == 0, "%s ended badly" % self.name)

    def shim(self):
        """To the driver the shim is the caller."""
        (pid,) = {client["pid"] for client in self.node.books()["clients"]}
        return pid


def _program_of(pid):
    return os.path.realpath("/proc/%d/exe" % pid)


def forward_and_back():
    """Memory that was held is held, what was full is full, and the process is the same all the
    time."""
    with t.Node("v100-16g:1") as node, w.Workers() as workers:
        slice_ = Slice(node, workers)
        worker = slice_.worker
        child = workers.fork(worker, "child")
        worker.do("client", 0)
        (kept,) = worker.do("alloc", 0, 64)
        worker.do("group", 0)
        worker.do("export", 0, kept, 1)
        worker.do("map", 0, kept, 2, 65536)
        child.do("client", 3)
        (other,) = child.do("alloc", 3, 32)
        t.check(worker.ask("alloc", 0, LIMIT)[0] == NO_MEMORY, "more than the limit was given")
        shim, before, used = slice_.shim(), slice_.status(), node.used()
        clients = node.books()["clients"]
        for program in (NEXT, OWN, OWN, NEXT, OWN):
            upgrade(slice_.name, program)
            t.check(slice_.shim() == shim, "another process is the shim now")
            t.check(_program_of(shim) == os.path.realpath(program), "it runs " + _program_of(shim))
            t.check(slice_.status() == before, "%s, before: %s" % (slice_.status(), before))
            t.check(node.books()["clients"] == clients, "the driver's clients have changed")
            t.check(worker.ask("alloc", 0, LIMIT - 64)[0] == NO_MEMORY, "more than the limit")
            (more,) = worker.do("alloc", 0, 16)
            worker.do("free", 0, more)
            before = slice_.status()
            t.check(node.used() == used, "%d bytes, before: %d" % (node.used(), used))
        # The shim knows what was made before one by one.
        (again,) = worker.do("import", 0, 1)
        worker.do("free", 0, kept)
        t.check(node.used() == used, "an exported object was given back")
        worker.do("free", 0, again)
        worker.do("drop", 1)
        child.do("free", 3, other)
        node.wait_used(used - 96 * t.MIB, "after everything but the group is freed")
        t.command(t.CGPU, "set", slice_.name, "--mem", "128MiB")
        upgrade(slice_.name, NEXT)
        t.check(slice_.status()["gpus"][0]["limit_bytes"] == 128 * t.MIB, "the limit is forgotten")
        slice_.end()
        node.wait_used(0, "at the end")
        node.wait_nothing_left()


def several():
    """Those that are named are upgraded, and no other."""
    with t.Node("v100-16g:1") as node, w.Workers() as workers:
        slices = [Slice(node, workers, name) for name in ("a", "b", "c")]
        for slice_ in slices:
            slice_.worker.do("client", 0)
            slice_.worker.do("alloc", 0, 8)
        said = upgrade(slices[1].name, NEXT)
        t.check(slices[1].name in said and slices[0].name not in said, said)
        said = t.command(t.CGPU, "upgrade", *(slice_.name for slice_ in slices))
        for slice_ in slices:
            t.check("%s: upgraded" % slice_.name in said, said)
            slice_.worker.do("alloc", 0, 8)
        told = json.loads(t.command(t.CGPU, "upgrade", "--json", slices[2].name))
        t.check([(one["name"], one["upgraded"], one["waited_us"] > 0) for one in told] ==
                [(slices[2].name, True, True)], "%s" % told)
        for slice_ in slices:
            slice_.end()


def under_load():
    """Every call of threads that never rest is executed once: what is made twice, or not at all, is
    refused by the driver the next time round."""
    with t.Node("v100-16g:1") as node, w.Workers() as workers:
        slice_ = Slice(node, workers)
        children = [workers.fork(slice_.worker, "child%d" % i) for i in range(4)]
        for child in children:
            child.send("churn", 2, "say")
            t.check(child.line() == "churning", "no churning")
        seen = 0
        for turn in range(20):
            upgrade(slice_.name, NEXT if turn % 2 == 0 else OWN)
            for child in children:
                line = child.line()
                seen += line in ("alloc", "dup", "export", "free", "close")
                t.check(line in ("alloc", "dup", "export", "free", "close"), "it says: " + line)
        t.check(seen == 80, "%d lines" % seen)
        for child in children:
            child.send("stop")
            while not (line := child.line()).startswith("0x"):
                t.check(line in ("alloc", "dup", "export", "free", "close"), "it says: " + line)
            t.check(line.split()[0] == "0x0", "a churning child says: " + line)
        slice_.end()
        node.wait_used(0, "at the end")


def busy():
    """A call that the driver does not finish is named, and nothing is interrupted."""
    with t.Node("v100-16g:1") as node, w.Workers() as workers:
        slice_ = Slice(node, workers)
        worker = slice_.worker
        child = workers.fork(worker, "child")
        worker.do("client", 0)
        child.do("client", 1)
        node.hold(1, escape=RM_ALLOC)
        worker.send("alloc", 0, 16)
        node.wait_held(1)
        shim = slice_.shim()
        said = upgrade(slice_.name, NEXT, ok=False)
        t.check("NV_ESC_RM_ALLOC" in said and "left as it was" in said, said)
        done = t.command(t.CGPU, "upgrade", "--json", slice_.name, ok=False)
        (told,) = json.loads(done.stdout)
        t.check((done.returncode, told["upgraded"]) == (1, False) and "NV_ESC_RM_ALLOC" in told["why"],
                "%s" % done)
        t.check(_program_of(shim) == os.path.realpath(OWN), "it runs " + _program_of(shim))
        child.do("alloc", 1, 16)  # others are served
        node.release()
        t.check(worker.line().split()[0] == "0x0", "the held call failed")
        upgrade(slice_.name, NEXT)
        t.check(node.used() == 32 * t.MIB, "%d bytes are in use" % node.used())
        worker.do("alloc", 0, 16)
        slice_.end()


def slow():
    """Calls that take long each, and follow each other without a pause, do not put an upgrade off."""
    with t.Node("v100-16g:1") as node, w.Workers() as workers:
        slice_ = Slice(node, workers)
        children = [workers.fork(slice_.worker, "child%d" % i) for i in range(4)]
        node.fault("--delay-ms", 100, count=1000000, escape=RM_ALLOC)
        for child in children:
            child.send("churn", 2)
            t.check(child.line() == "churning", "no churning")
        for program in (NEXT, OWN, NEXT):
            upgrade(slice_.name, program)
        node.clear()
        for child in children:
            child.send("stop")
            t.check(child.line().split()[0] == "0x0", "a call failed")
        slice_.end()
        node.wait_used(0, "at the end")


def wrong_program():
    """A program that is no shim, or none that can take over, is never executed."""
    with t.Node("v100-16g:1") as node, w.Workers() as workers:
        slice_ = Slice(node, workers)
        slice_.worker.do("client", 0)
        slice_.worker.do("alloc", 0, 16)
        text = node.folder + "/node.json"
        for program in ("/bin/true", "/bin/echo", "/bin/cat", text, "/", "/nonexistent"):
            said = upgrade(slice_.name, program, ok=False)
            t.check(program not in ("/bin/true", "/bin/cat") or "hint: choose another version" in said,
                    "no hint: " + said)
            slice_.worker.do("alloc", 0, 1)
        t.check(_program_of(slice_.shim()) == os.path.realpath(OWN), "another program runs")
        upgrade(slice_.name, NEXT)
        t.check(node.used() == 22 * t.MIB, "%d bytes are in use" % node.used())
        slice_.end()


def _connect(slice_):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect("/run/cgpu/%s.sock" % slice_.status()["id"])
    return connection


def half_asked():
    """A client that is still asking something when an upgrade begins has an answer of the next
    version."""
    with t.Node("v100-16g:1") as node, w.Workers() as workers:
        slice_ = Slice(node, workers)
        asking = [(_connect(slice_), said) for said in (b"", b"p", b"ps")]
        for connection, said in asking:
            connection.sendall(said)
        slice_.status()  # the shim accepts in turn, so it knows those before this one
        for program in (NEXT, OWN):
            upgrade(slice_.name, program)
        for connection, said in asking:
            connection.sendall(b"ps\n"[len(said):])
            answer = connection.recv(4096)
            t.check(answer.startswith(b"id "), "the answer to half a request is %s" % answer)
        slice_.end()


def _ask(slice_, *files):
    connection = _connect(slice_)
    socket.send_fds(connection, [b"upgrade\n"], files)
    return connection


def walked_away():
    """A client that asks for an upgrade and then says nothing, something else, or goes away,
    changes nothing; neither does a program that cannot be executed after all."""
    with t.Node("v100-16g:1") as node, w.Workers() as workers:
        slice_ = Slice(node, workers)
        slice_.worker.do("client", 0)
        program = os.open(OWN, os.O_RDONLY)
        text = os.open(node.folder + "/node.json", os.O_RDONLY)
        for file, word in ((program, None), (program, b"stop\n"), (text, b"go\n")):
            connection = _ask(slice_, file)
            said, (state,), _, _ = socket.recv_fds(connection, 4096, 4)
            t.check(said == b"state\n", "it says %s" % said)
            try:
                os.ftruncate(state, 0)
                raise t.Failure("the state can be changed")
            except OSError:
                os.close(state)
            if word:
                connection.sendall(word)
            said = connection.recv(4096)
            t.check(said.startswith(b"error"), "it says %s" % said)
            slice_.worker.do("alloc", 0, 1)
        socket.recv_fds(_ask(slice_, program), 4096, 4)  # and the connection is closed
        slice_.worker.do("alloc", 0, 1)
        said = _ask(slice_).recv(4096)
        t.check(said.startswith(b"error"), "it says %s" % said)
        slice_.worker.do("alloc", 0, 1)
        for fd in (program, text):
            os.close(fd)
        t.check(node.used() == 5 * t.MIB, "%d bytes are in use" % node.used())
        upgrade(slice_.name, NEXT)
        slice_.end()


t.main({"forward-and-back": forward_and_back, "several": several,
        "under-load": under_load, "busy": busy, "slow": slow, "wrong-program": wrong_program,
        "walked-away": walked_away, "half-asked": half_asked})
