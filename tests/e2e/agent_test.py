"""A shim that gets its listeners over an agent socket, from an engine and a runtime that are played
here (agent.cc). Cases by name."""
import array
import contextlib
import json
import os
import shutil
import signal
import socket
import tempfile

import cgpu_test as t
import worker as w

AGENT = os.path.join(t.TEST_BIN, "agent")
RMTOOL = os.path.join(t.BIN, "rmtool")
NO_MEMORY = 0x51
CONNECTIONS = 64  # that an agent takes at a time
PARKED = 4  # threads that a shim may keep, whatever it kept before
TEXT = json.dumps({"ociVersion": "1.0.2", "fds": ["seccompFd"], "pid": 1, "state": {"pid": 2}})


class Container:
    """Stands for a container of a container engine: `with Container(node) as container`."""

    def __init__(self, node, mem="1024MiB"):
        self.node = node
        self.workers = w.Workers()
        self._folder = tempfile.mkdtemp(prefix="cgpu-agent-")
        os.chmod(self._folder, 0o755)
        self.path = os.path.join(self._folder, "agent")
        self.creator = t.Process(["cat"], name="creator")
        self.engine = t.Process([AGENT, "serve", node.name, mem, self.path,
                                 str(self.creator.popen.pid)], name="engine",
                                env={**os.environ, "CGPU_LIBEXEC": os.path.abspath(t.BIN)})
        self.id = self.engine.expect("^ready (.*)$").group(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.workers.__exit__()
        shutil.rmtree(self._folder)

    def exec(self, style, command, *user):
        """Brings a command into the container, as a runtime does."""
        return t.Process([AGENT, "exec", self.node.name, self.path, style, *map(str, user), "--",
                          *command], name="exec")

    def worker(self, style="runc", *user):
        process = self.exec(style, self.workers.argv("w"), *user)
        return self.workers.accept("w", process)

    def connect(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(self.path)
        return connection

    def shim(self):
        """Its process: to the driver the shim is the caller. There must be a client."""
        pids = {client["pid"] for client in self.node.books()["clients"]}
        t.check(len(pids) == 1, "the driver knows callers %s" % pids)
        return pids.pop()

    def ps(self):
        found = [one for one in self.node.containers() if one["id"] == self.id]
        t.check(len(found) == 1, "`cgpu ps` shows %s" % found)
        return found[0]

    def expect_end(self):
        """The shim ends, and nothing of the container is left."""
        self.engine.expect("^ended$")
        t.check(self.engine.end() == 0, "the engine failed")
        self.node.sync()
        books = self.node.books()
        t.check(not books["clients"] and self.node.used() == 0, "the books have %s" % books)
        t.check(not self.node.containers(), "`cgpu ps` shows %s" % self.node.containers())


@contextlib.contextmanager
def _container(mem="1024MiB"):
    with t.Node("v100-16g:1") as node, Container(node, mem) as container:
        yield container


def _counts(shim):
    return tuple(len(os.listdir("/proc/%d/%s" % (shim, what))) for what in ("fd", "task"))


def limit():
    """A first process and one that was brought in later have the grant together."""
    with _container() as container:
        first = container.worker("runc")
        other = container.worker("crun")
        for one in (first, other):
            one.do("client", 1)
            one.do("alloc", 1, 300)
        first.do("alloc", 1, 300)
        t.check(other.ask("alloc", 1, 300)[0] == NO_MEMORY, "more than the limit was given")
        used = container.node.used() // t.MIB
        t.check(900 <= used <= 1024, "%d MiB are in use" % used)
        shown = container.ps()
        t.check(shown["pid"] == first.pid and shown["state"] == "running", "ps: %s" % shown)
        other.do("alloc", 1, 60)
        for one in (first, other):
            one.kill()
        container.expect_end()


def ends():
    """After the first process the others are served on; after the last the shim ends."""
    with _container() as container:
        first = container.worker("crun")
        others = [container.worker("open"), container.worker("runc")]
        for one in (first, *others):
            one.do("client", 1)
            one.do("alloc", 1, 100)
        before = container.node.used()
        first.kill()
        container.creator.end()
        container.node.wait_used(before * 2 // 3, "after the first process")
        for one in others:
            one.do("alloc", 1, 100)
        t.check(others[0].ask("alloc", 1, 700)[0] == NO_MEMORY, "more than the limit was given")
        t.check(container.node.used() >= 400 * t.MIB, "memory is gone")
        third = container.worker("crun")
        third.do("client", 1)
        third.do("alloc", 1, 100)
        for one in (*others, third):
            one.kill()
        container.expect_end()


def strange():
    """Connections that bring nothing, or nothing of use: others are served meanwhile, and nothing
    of them stays."""
    with _container() as container, contextlib.ExitStack() as stack:
        first = container.worker()
        first.do("client", 1)
        shim = container.shim()
        fds, _ = _counts(shim)
        null = stack.enter_context(open("/dev/null", "rb", 0))
        text = TEXT.encode()

        def send(data, files=()):
            connection = stack.enter_context(container.connect())
            rights = array.array("i", files)
            connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                               if files else [])
            return connection

        silent = stack.enter_context(container.connect())
        open_ones = [silent, send(b"\xff garbage }{ \"pid\": 7"), send(text, [null.fileno()]),
                     send(text, [null.fileno()] * 16), send(text[:20], [null.fileno()]),
                     send(text[:20]), send(b"{" * 100000)]
        t.wait_for(lambda: _counts(shim)[0] == fds + len(open_ones),
                   lambda: "the shim has %d more files" % (_counts(shim)[0] - fds))
        for style in ("runc", "crun", "open"):
            one = container.worker(style)
            one.do("client", 1)
            one.do("alloc", 1, 10)
            one.kill()
        stalled = open_ones[5]
        stalled.sendall(text[20:])
        for connection in open_ones:
            connection.close()
        t.wait_for(lambda: _counts(shim)[0] == fds,
                   lambda: "the shim keeps %d files" % (_counts(shim)[0] - fds))
        first.do("alloc", 1, 10)
        first.kill()
        container.expect_end()


def full():
    """Connections that were not closed are, for the next; those that may bring something still are
    not, and the next waits."""
    with _container() as container, contextlib.ExitStack() as stack:
        first = container.worker()
        first.do("client", 1)
        for _ in range(3 * CONNECTIONS):
            stack.enter_context(container.connect()).sendall(TEXT.encode())
        one = container.worker()
        one.do("client", 1)
        silent = [stack.enter_context(container.connect()) for _ in range(CONNECTIONS)]
        waiting = container.worker()
        waiting.send("client", 1)
        first.do("alloc", 1, 10)  # others are served meanwhile
        silent[7].close()
        t.check(waiting.line().startswith("0x0 "), "it was not served")
        for connection in silent:
            connection.close()
        for one in (first, one, waiting):
            one.kill()
        container.expect_end()


def other_user():
    """Only root's and the starter's listeners are served."""
    with _container() as container:
        first = container.worker()
        first.do("client", 1)
        other = container.exec("runc", [RMTOOL, "alloc", "10"], 65534)
        t.check(other.end() != 0, "it was served")
        good = container.exec("runc", [RMTOOL, "alloc", "10"], 0)
        t.check(good.end() == 0, "the same of root was not served")
        first.kill()
        container.expect_end()


def creator():
    """Without a listener the shim ends with the process that was to make the container."""
    with t.Node("v100-16g:1") as node:
        with Container(node) as container:
            container.creator.end()
            container.expect_end()
        with Container(node) as container:
            connection = container.connect()
            container.creator.end()
            connection.close()
            container.expect_end()
        with Container(node) as container:
            # crun connects at `create`, and with no_new_privileges sends at `start`.
            late = container.exec("late", container.workers.argv("w"))
            late.expect("^connected$")
            container.creator.end()
            late.say("")
            one = container.workers.accept("w", late)
            one.do("client", 1)
            one.do("alloc", 1, 10)
            t.check(container.ps()["pid"] == one.pid, "ps: %s" % container.ps())
            one.kill()
            container.expect_end()


def crowd():
    """200 processes are brought in at once, and all of them are served."""
    count = 200
    with _container("4096MiB") as container:
        first = container.worker()
        first.do("client", 1)
        for number in range(count):
            container.exec(("runc", "crun", "open")[number % 3], container.workers.argv("w"))
        others = [container.workers.accept("w") for _ in range(count)]
        for verb in (("client", 1), ("alloc", 1, 2)):
            for one in others:
                one.send(*verb)
            for one in others:
                line = one.line()
                t.check(line.startswith("0x0 "), "%s: %s" % (verb, line))
        t.check(container.node.used() >= count * 2 * t.MIB, "memory is missing")
        for one in (first, *others):
            one.kill()
        container.expect_end()


def short():
    """Execs one after another, as health checks are, leave nothing behind in the shim."""
    with _container() as container:
        first = container.worker()
        first.do("client", 1)
        shim = container.shim()

        def run(count):
            for number in range(count):
                argv = [AGENT, "exec", container.node.name, container.path,
                        ("runc", "crun")[number % 2], "--", RMTOOL, "alloc", "2"]
                t.command(*argv)

        run(10)
        fds, threads = _counts(shim)
        run(500)
        # The end of the last ones may still be on its way, also before.
        t.wait_for(lambda: _counts(shim)[0] <= fds and _counts(shim)[1] <= threads + PARKED,
                   lambda: "%s files and threads, %s before" % (_counts(shim), (fds, threads)))
        first.do("alloc", 1, 10)
        first.kill()
        container.expect_end()


def _ask(container, line):
    """A connection to the shim's admin socket, which has said this and will say no more."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(t.DEADLINE)
    connection.connect("/run/cgpu/%s.sock" % container.id)
    connection.sendall(line)
    connection.shutdown(socket.SHUT_WR)
    return connection


def _hear(connection, *processes):
    """A watcher is told of these processes, in this order, and when they began."""
    lines = connection.makefile()
    said = "".join(lines.readline() for _ in range(2 * len(processes)))
    expected = "".join("pid %d\nstart %d %s\n" % (one.pid, one.pid, t.start_time(one.pid))
                       for one in processes)
    t.check(said == expected, "it said %r" % said)


def watchers():
    """Those that have watched the container and gone away leave nothing behind in the shim."""
    with _container() as container:
        first = container.worker()
        first.do("client", 1)
        shim = container.shim()
        fds, _ = _counts(shim)
        for _ in range(100):
            with _ask(container, b"watch\n") as connection:
                _hear(connection, first)
        t.wait_for(lambda: _counts(shim)[0] <= fds + 2,
                   lambda: "%d files, %d before" % (_counts(shim)[0], fds))
        first.kill()
        container.expect_end()


def numbers():
    """A watcher hears of first processes that live, and not the number of one that has ended, which
    by then may be another process's."""
    with _container() as container:
        first = container.worker()
        process = container.exec("runc", container.workers.argv("second"))
        second = container.workers.accept("second", process)
        third = container.worker()
        child = container.workers.fork(second, "child")
        os.kill(process.popen.pid, signal.SIGKILL)
        process.wait()
        child.do("client", 1)
        with _ask(container, b"watch\n") as connection:
            _hear(connection, first, third)
        for one in (first, third, child):
            one.kill()
        container.expect_end()


if __name__ == "__main__":
    t.main({"limit": limit, "ends": ends, "strange": strange, "full": full,
            "other-user": other_user, "creator": creator, "crowd": crowd, "short": short,
            "watchers": watchers, "numbers": numbers})
