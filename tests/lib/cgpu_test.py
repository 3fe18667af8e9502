"""Parts of the end-to-end tests: a simulated node of their own, programs on it with and without
cgpu, and the driver's accounting.

A test waits for events (a line on a pipe, the end of a process, a state of the accounting), each with a
deadline that is far beyond what the slowest machine needs. Nothing here measures time.

Where the machine cannot run such a test it ends with status 77, which ctest shows as skipped, and
the reason. With CGPU_NO_SKIPS in the environment, as in continuous integration, it fails instead.
"""
import atexit
import contextlib
import ctypes
import json
import os
import re
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time

MIB = 1 << 20
DEADLINE = 120.0  # seconds; for events that come at once on any machine in order
BIN = os.environ.get("CGPU_BIN", "build/bin")
TEST_BIN = os.environ.get("CGPU_TEST_BIN", "build/tests/bin")
CGPU = os.path.join(BIN, "cgpu")

_CLONE_NEWNS = 0x00020000
_SYS_SECCOMP = 317
_SECCOMP_GET_ACTION_AVAIL = 2
_SECCOMP_RET_USER_NOTIF = 0x7FC00000


class Failure(Exception):
    """An assertion of a test, as a sentence."""


def check(condition, sentence):
    if not condition:
        raise Failure(sentence)


def skip(reason, excused=False):
    """Ends the test, which the machine cannot run. `excused`: that is no fault with CGPU_NO_SKIPS either."""
    must_run = "CGPU_NO_SKIPS" in os.environ and not excused
    print(("FAILED: CGPU_NO_SKIPS is set, and it is skipped: " if must_run else "skipped: ") + reason)
    sys.stdout.flush()
    sys.exit(1 if must_run else 77)


def require_machine(root=True):
    """Skips the test where the machine lacks what every node and slice needs."""
    if root and os.geteuid() != 0:
        skip("simulated nodes are started by root")
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        skip("no FUSE on this machine: %s" % error)
    action = ctypes.c_uint32(_SECCOMP_RET_USER_NOTIF)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_SYS_SECCOMP, _SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(action)) != 0:
        skip("no seccomp user notification on this machine")


def hide_installed():
    """Goes on in a mount namespace of its own, in which the folders of a cgpu that is installed on
    this machine are empty. So its cgpud does not see the test's containers and gives them nothing,
    and the test does not read its settings."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare: " + os.strerror(ctypes.get_errno()))
    command("mount", "--make-rprivate", "/")
    for folder in ("/run/cgpu", "/etc/cgpu", "/var/lib/cgpu"):
        if os.path.isdir(folder):
            command("mount", "-t", "tmpfs", "-o", "mode=711", "tmpfs", folder)


def command(*words, ok=True, timeout=DEADLINE, **options):
    """Runs a command to its end; its stdout. Fails the test with its stderr."""
    done = subprocess.run(list(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout, check=False, **options)
    if ok and done.returncode != 0:
        raise Failure("`%s` ended with %d: %s" % (" ".join(words), done.returncode,
                                                  done.stderr.strip() or done.stdout.strip()))
    return done.stdout if ok else done


def start_time(pid):
    """The field starttime of proc_pid_stat(5), as text: with the number it names a process for good."""
    with open("/proc/%s/stat" % pid, encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[19]


def pause():
    """Leaves the cores to the test for a moment, before something is asked again."""
    select.select([], [], [], 0.01)


def wait_for(happened, sentence):
    """Asks `happened` again and again until what it says is true; what it said. Fails at the
    deadline with the sentence, or with what it makes then."""
    until = time.monotonic() + DEADLINE
    while not (found := happened()):
        check(time.monotonic() < until, sentence() if callable(sentence) else sentence)
        pause()
    return found


class Process:
    """A program that talks in lines. Always ended, also when the test fails."""

    _alive = []

    def __init__(self, argv, name=None, **options):
        self.name = name or os.path.basename(argv[0])
        self.argv = argv
        self.lines = []
        self._rest = b""
        self.popen = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=sys.stderr, start_new_session=True, **options)
        os.set_blocking(self.popen.stdout.fileno(), False)
        Process._alive.append(self)

    def _read(self, until):
        """More output, or False at its end. Fails at the deadline."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.popen.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, until - time.monotonic())):
                raise Failure("%s says no more; it said: %s" % (self.name, self.lines[-20:]))
        data = os.read(self.popen.stdout.fileno(), 65536)
        if not data:
            return False
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self.lines.append(line.decode(errors="replace"))
            print("  [%s] %s" % (self.name, self.lines[-1]))
        sys.stdout.flush()
        return True

    def expect(self, pattern, timeout=DEADLINE):
        """The next line that matches, as a match. Fails when the program ends without it."""
        until = time.monotonic() + timeout
        seen = getattr(self, "_seen", 0)
        while True:
            while seen < len(self.lines):
                found = re.search(pattern, self.lines[seen])
                seen += 1
                self._seen = seen
                if found:
                    return found
            if not self._read(until):
                raise Failure("%s ended (%s) without saying %r; it said: %s" %
                              (self.name, self.wait(), pattern, self.lines[-20:]))

    def pass_over(self):
        """Reads what it has said by now: expect() looks for later lines."""
        while select.select([self.popen.stdout], [], [], 0)[0] and self._read(time.monotonic()):
            pass
        self._seen = len(self.lines)

    def forget(self):
        """The lines so far: for programs that go on for hours. Only while none can come."""
        self.lines.clear()
        self._seen = 0

    def said(self, pattern):
        """All matches in what it said so far."""
        return [m for m in (re.search(pattern, line) for line in self.lines) if m]

    def number(self, pattern):
        """The first group of the only line that matched, as an integer."""
        found = self.said(pattern)
        check(len(found) == 1, "%s said %r %d times: %s" % (self.name, pattern, len(found), self.lines))
        return int(found[0].group(1), 0)

    def say(self, line):
        self.popen.stdin.write((line + "\n").encode())
        self.popen.stdin.flush()

    def close(self):
        with contextlib.suppress(OSError):
            self.popen.stdin.close()

    def wait(self, timeout=DEADLINE):
        """Its exit status (as of a shell: 128 + n for a signal)."""
        try:
            status = self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failure("%s does not end" % self.name) from None
        return 128 - status if status < 0 else status

    def end(self, timeout=DEADLINE):
        """Closes its stdin and reads to its end; its exit status."""
        self.close()
        until = time.monotonic() + timeout
        while self._read(until):
            pass
        return self.wait(timeout)

    def drop(self):
        """Waits for its end, and closes what belongs to it: for tests that start very many."""
        self.wait()
        self.close()
        self.popen.stdout.close()
        Process._alive.remove(self)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    @staticmethod
    def end_all():
        for process in Process._alive:
            process.close()
            if process.popen.poll() is None:
                process.kill()
        Process._alive.clear()


class Node:
    """A simulated node with a name of its own: `with Node("v100-16g:2") as node`. Its GPUs take orders at once, as
    an H200 does, if the words do not say otherwise. `cgpu sim start` by itself is more cautious."""

    _count = 0

    def __init__(self, gpus="v100-16g:1", driver=None, *words):
        Node._count += 1
        self.name = "test-%d-%d" % (os.getpid(), Node._count)
        self.folder = "/run/cgpu-sim/" + self.name
        self._gpus = gpus
        self._driver = driver
        self._words = (*words, *(word for option in ("--slices-take-effect", "--channels-go-off")
                                 if option not in words for word in (option, "at-once")))
        self.may_leak = False  # set by a test that kills a shim: tenants are then the last to close files

    def __enter__(self):
        words = [CGPU, "sim", "start", "--name", self.name, "--gpus", self._gpus, *self._words]
        if self._driver:
            words += ["--driver", self._driver]
        atexit.register(self._stop)
        # Not command(): what it starts keeps its standard streams.
        done = subprocess.run(words, stdin=subprocess.DEVNULL, timeout=DEADLINE, check=False)
        check(done.returncode == 0, "`%s` ended with %d" % (" ".join(words), done.returncode))
        return self

    def __exit__(self, failed, *_):
        try:
            if failed is None and not self.may_leak:
                self._check_leaks()
        finally:
            Process.end_all()
            self._stop()
            atexit.unregister(self._stop)

    def _check_leaks(self):
        """No client has ended so that the driver forgot CPU mappings of it. A node that was stopped or
        stands still is not asked."""
        try:
            leaked = self.ask("books", timeout=5)["leaked_mappings"]
        except OSError:
            return
        check(leaked == 0, "the driver has forgotten %d CPU mappings" % leaked)

    def _stop(self):
        subprocess.run([CGPU, "sim", "stop", "--name", self.name], stdin=subprocess.DEVNULL,
                       timeout=DEADLINE, check=False)

    def sim(self, *words):
        return command(CGPU, "sim", words[0], "--name", self.name, *words[1:])

    def ask(self, verb, timeout=DEADLINE, **fields):
        """Asks the node's server as `cgpu sim` does (sim/node/control_server.cc), without starting a program."""
        with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as lines:
            connection.settimeout(timeout)
            connection.connect(self.folder + "/control.sock")
            connection.sendall(json.dumps({"command": verb, **fields}).encode() + b"\n")
            line = lines.readline()
        check(line, "the node's server ended without an answer to %s" % verb)
        reply = json.loads(line)
        check("error" not in reply, "the node says to %s: %s" % (verb, reply.get("error")))
        return reply["result"]

    def info(self):
        with open(self.folder + "/node.json", encoding="utf-8") as file:
            return json.load(file)

    def sync(self):
        self.ask("sync")

    def books(self, starts_from=None):
        """With the GPUs' record of starts from that number on, if one is given."""
        return self.ask("books", **({} if starts_from is None else {"starts_from": starts_from}))

    def fault(self, *effect, count=1, escape=None, control=None, cls=None):
        """Sets what happens to the next `count` calls of this kind: ("--status", 0x51) and so
        on."""
        words = ["fault", *map(str, effect), "--count", str(count)]
        for option, value in (("--escape", escape), ("--control", control), ("--class", cls)):
            if value is not None:
                words += [option, hex(value)]
        self.sim(*words)

    def hold(self, count, **calls):
        """From now on the driver holds the next `count` calls of this kind until release()."""
        self.fault("--hold", count=count, **calls)

    def clear(self):
        """No more faults but for calls that are held."""
        self.ask("clear")

    def wait_held(self, count):
        self.ask("wait", count=count)

    def release(self):
        self.ask("release")

    def used(self, gpu=None):
        """Bytes in use on one GPU or on all, by the driver's accounting."""
        gpus = self.books()["gpus"]
        return sum(g["used_bytes"] for g in gpus if gpu is None or g["index"] == gpu)

    def wait_used(self, wanted, sentence, deadline=DEADLINE):
        """Waits until so many bytes are in use."""
        until = time.monotonic() + deadline
        while True:
            self.sync()
            used = self.used()
            if used == wanted:
                return
            check(time.monotonic() < until,
                  "%s: %d MiB are in use, not %d" % (sentence, used // MIB, wanted // MIB))

    def wait_nothing_left(self):
        """Waits until the driver's accounting has no client and `cgpu ps` lists no container. A shim
        ends, and its own client with it, some time after it is listed no more."""
        wait_for(lambda: not self.containers(), lambda: "listed: %s" % self.containers())
        wait_for(lambda: not self.books()["clients"],
                 lambda: "clients are left: %s" % self.books()["clients"])

    def containers(self):
        """Returns what `cgpu ps` knows of containers on this node: other tests have theirs."""
        uuids = {gpu["uuid"] for gpu in self.info()["gpus"]}
        return [container for container in json.loads(command(CGPU, "ps", "--json"))
                if any(gpu["uuid"] in uuids for gpu in container["gpus"])]

    def exec(self, argv, name=None, **options):
        """A program on the node without cgpu."""
        return Process([CGPU, "sim", "exec", "--name", self.name, "--"] + argv, name or argv[1],
                       **options)

    def run(self, argv, mem="1024MiB", flags=(), name=None, **options):
        """A program on the node in a slice of cgpu's."""
        return Process([CGPU, "run", "--node", self.name, "--mem", mem, *flags, "--"] + argv,
                       name or argv[1], **options)


def shim_at(path):
    """Returns the process that answers at a container's socket in /run/cgpu."""
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("r") as lines:
        connection.connect(path)
        connection.sendall(b"ps\n")
        return int(next(line for line in lines if line.startswith("shim ")).split()[1])


def graphics(gpu):
    """The accounting of the engine that runs kernels, in that of a GPU. It has none of an engine that
    was never used."""
    for one in gpu["runlists"]:
        if one["runlist"] == 1:  # NV2080_ENGINE_TYPE_GRAPHICS
            return one
    return {"busy_ns": 0, "switching_ns": 0, "idle_ns": 0}


def groups(gpu):
    """The channel groups in the accounting of a GPU, without duplicates: a shim makes one for the moment of
    an order, and its times are those of the group."""
    return [group for group in gpu["groups"] if not group["copy"]]


def use_ns(books, group):
    """The time of a channel group as the driver's samples count it: with the context switches to it."""
    return group["gpu_time_ns"] + group["switches"] * books["engines"]["context_switch_us"] * 1000


def counted_ns(engine):
    """The time that this accounting covers."""
    return sum(engine[key] for key in ("busy_ns", "switching_ns", "idle_ns"))


class Peak:
    """Reads the accounting again and again until its end, on a thread: the most that was in use, on
    one GPU or on all."""

    def __init__(self, node, gpu=None):
        self._node = node
        self._gpu = gpu
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self.bytes = 0
        self.readings = 0

    def _read(self):
        with contextlib.suppress(Failure, OSError):
            self.bytes = max(self.bytes, self._node.used(self._gpu))
            self.readings += 1

    def _loop(self):
        self._read()
        while not self._stop.wait(0.05):  # leaves the cores to the test
            self._read()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def main(cases, root=True, apart=True):
    """Runs the case named on the command line. `cases`: functions by name. Root's run `apart` from
    a cgpu that is installed on the machine."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in cases:
        print("cases: " + " ".join(sorted(cases)))
        sys.exit(64)
    require_machine(root)
    try:
        if apart and os.geteuid() == 0:
            hide_installed()
        cases[name](*sys.argv[2:])
    except Failure as failure:
        print("FAILED: %s" % failure)
        sys.stdout.flush()
        Process.end_all()
        sys.exit(1)
    except (KeyError, ValueError, OSError, subprocess.SubprocessError):
        Process.end_all()
        raise
    print("passed")
