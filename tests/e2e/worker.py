"""Tenants that do what a test tells them (worker.cc), each over a connection of its own.

A worker has clients, objects in them and files; the test names clients and files by numbers,
objects have the driver's handles. Each command is one line, each answer another that begins with
the driver's status:

  client N [CARDS]         a client with devices of so many GPUs (1): its handle
  alloc N MIB [H [CARD]]   GPU memory: the handle, which may be chosen; the GPU, counted from 0
  group N [H [CARD]]       a channel group: the handle
  free N H, share N H      share: everybody may copy it
  dup N CLIENT H [NEW [CARD]]  a copy of another client's object (both handles): the handle
  export N H F [CARD]      to a new file F
  import N F [H [CARD]]    of file F: the handle
  map N H F BYTES [CARD MINOR]  through a new file F of the GPU, written and read
  twin X                   a further descriptor of a client's or another file
  drop X                   closes one descriptor of client or file X
  send PEER X              a client's or another file, over the socketpair with a parent or child
  recv PEER X [CLIENT]     the same; with the handle of the client on it
  fork NAME                a child, which connects by itself
  exec [keep]              becomes a new image of itself, without any file or with all
  churn MIB [say]          clients and memory come and go until the next line; says "churning" first
                           and, if it is to, a line after every step: how many rounds, how many of
                           them without memory
  view N, foreign N ID     what the driver enumerates; what it says to a GPU's id
"""
import os
import selectors
import signal
import socket
import struct
import time

import cgpu_test as t

WORKER = os.path.join(t.TEST_BIN, "worker")


class Worker:
    """One connected process: `pid` is the machine's number of it."""

    def __init__(self, name, pid, connection, rest):
        self.name = name
        self.pid = pid
        self.connection = connection
        self._rest = rest
        self.process = os.pidfd_open(pid)

    def send(self, *words):
        self.connection.sendall((" ".join(map(str, words)) + "\n").encode())

    def line(self):
        until = time.monotonic() + t.DEADLINE
        while b"\n" not in self._rest:
            self.connection.settimeout(max(0.1, until - time.monotonic()))
            try:
                data = self.connection.recv(65536)
            except TimeoutError:
                raise t.Failure("%s does not answer" % self.name) from None
            except ConnectionResetError:
                data = b""
            t.check(data, "%s is gone; it said %r" % (self.name, self._rest))
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def ask(self, *words):
        """The driver's status and what else was answered, as integers."""
        self.send(*words)
        line = self.line()
        t.check(line.startswith("0x"),
                "%s: `%s`: %s" % (self.name, " ".join(map(str, words)), line))
        status, *rest = (int(word, 0) for word in line.split())
        return status, rest

    def do(self, *words):
        """The same, which must succeed: what else was answered."""
        status, rest = self.ask(*words)
        t.check(status == 0, "%s: `%s`: 0x%x" % (self.name, " ".join(map(str, words)), status))
        return rest

    def kill(self):
        """kill -9, and waits until it has ended: all its files are closed."""
        signal.pidfd_send_signal(self.process, signal.SIGKILL)
        self.wait_gone()

    def wait_gone(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process, selectors.EVENT_READ)
            t.check(selector.select(t.DEADLINE), "%s does not end" % self.name)
        os.close(self.process)
        self.connection.close()


class Workers:
    """The test's end: where workers connect to."""

    _count = 0

    def __init__(self):
        Workers._count += 1
        self.address = "cgpu-e2e-%d-%d" % (os.getpid(), Workers._count)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.bind("\0" + self.address)
        self._socket.listen(512)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def argv(self, name):
        return [WORKER, self.address, name]

    def accept(self, name=None, process=None):
        """The next one that connects; `process`, which starts it, must not end before."""
        until = time.monotonic() + t.DEADLINE
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while not selector.select(1):
                t.check(time.monotonic() < until, "no worker connects")
                t.check(process is None or process.popen.poll() is None,
                        "%s ended without a worker" % (process and process.name))
        connection, _ = self._socket.accept()
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        worker = Worker("a new worker", struct.unpack("3i", raw)[0], connection, b"")
        hello = worker.line().split()
        t.check(hello[0] == "hello" and (name is None or hello[1] == name), "it says %s" % hello)
        worker.name = hello[1]
        return worker

    def fork(self, parent, name):
        parent.send("fork", name)
        child = self.accept(name)
        t.check(parent.line().startswith("0x0 "), "%s did not fork" % parent.name)
        return child
