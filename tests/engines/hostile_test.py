"""Containers of real engines that are hostile, or have accidents. Cases by name: ENGINE-CASE."""
import array
import contextlib
import ctypes
import errno
import json
import os
import re
import select
import socket
import struct

import cgpu_test as t
import isolation
from bundles import Runc
from engines import USER
from slices_test import PROGRAMS, RUNTIME, expect, main
from upgrading import LOOP, NEXT, OWN, check_goes_on, upgrade

LIMIT = 1024  # MiB, of the attacker's slice
NEIGHBOUR = 512  # MiB, all of the neighbour's slice, and it uses all of it
SLICE = {"CGPU_MEM": "%dMiB" % LIMIT}
RM_ALLOC, NV01_MEMORY_LOCAL_USER = 0x2B, 0x40


@contextlib.contextmanager
def _neighbour(test, engine=None):
    """A container beside the attacker's. It must go on afterwards as before."""
    engine = engine or test.engine
    process = engine.talk("neighbour", ["adversary", "neighbour", str(NEIGHBOUR)],
                          env={"CGPU_MEM": "%dMiB" % NEIGHBOUR})
    process.expect("holding")
    yield process
    _go_on(process)
    process.end()
    engine.remove("neighbour")


def _go_on(neighbour):
    neighbour.say("go on")
    neighbour.expect("undisturbed")


def _pids(comm):
    """This test's processes of that name."""
    found = []
    for pid in isolation.processes():
        with contextlib.suppress(OSError):
            with open("/proc/%d/comm" % pid, encoding="utf-8") as file:
                if file.read() == comm + "\n":
                    found.append(pid)
    return found


def _id(test, mib):
    """The slice of that size, by cgpu's name for it."""
    (found,) = [row["id"] for row in test.node.containers()
                if row["gpus"][0]["limit_bytes"] == mib * t.MIB]
    return found


def storm(test):
    """Signals without pause, where a runtime's waits may be interrupted (runc) and where not (crun):
    each call is executed exactly once."""
    count = 4000
    with _neighbour(test):
        process = test.engine.talk("storm", ["adversary", "storm", str(count)], env=SLICE)
        process.expect("^holding$")
        (found,) = process.said(r"^made (\d+) freed (\d+) twice (\d+) failed (\d+) signals (\d+)$")
        *done, signals = map(int, found.groups())
        t.check(signals > 100, "a storm of %d signals is none" % signals)
        t.check(done == [count, count // 2, 0, 0], "it said: " + found.group(0))
        objects = max(client["objects"] for client in test.node.books()["clients"])
        # The client may count itself; device and subdevice are objects, too.
        t.check(count // 2 + 2 <= objects <= count // 2 + 3, "%d objects exist" % objects)
        process.end()
        test.engine.remove("storm")


# Numbers that seccomp(2) needs: linux/seccomp.h, linux/bpf_common.h, asm/unistd_64.h.
_SYS_SECCOMP, _SYS_GETPPID = 317, 110
_SET_MODE_FILTER, _NEW_LISTENER, _USER_NOTIF, _ALLOW = 1, 1 << 3, 0x7FC00000, 0x7FFF0000
_PR_SET_NO_NEW_PRIVS = 38


class Sender:
    """A process, of uid `user`, that does to the agent's socket of a container what a hostile runtime
    could, saying that `victim` is the container's process. `word`: the metadata of the container's own
    listeners, or another. Goes on until end()."""

    CROWD = 3000  # connections, of which it keeps some hundreds open

    def __init__(self, path, victim, user, word):
        told, say = os.pipe()
        wait, self._hold = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            with contextlib.suppress(BaseException):
                os.close(self._hold)
                self._become(user)
                kept = []
                os.write(say, self._attack(path, victim, word, kept).encode())
                os.close(say)
                os.read(wait, 1)
            os._exit(0)
        os.close(say)
        os.close(wait)
        with open(told, encoding="utf-8") as file:
            self.said = file.read()

    def end(self):
        os.close(self._hold)
        os.waitpid(self._pid, 0)

    @staticmethod
    def _become(user):
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)

    def _attack(self, path, victim, word, kept):
        """Files and connections that are to stay open go to `kept`."""
        try:
            state = (b'{"ociVersion":"1.0.2","fds":["seccompFd"],"pid":%d,"metadata":"%s","state":{}}' %
                     (victim, word.encode()))
            null = os.open("/dev/null", os.O_RDWR)
            kept += [_send(path, os.urandom(4096), null), _send(path, b"{" * 100000),
                     _send(path, state), _send(path, state, *[null] * 16), _send(path, b""),
                     _send(path, b'{"pid": -1}', null), _send(path, b'{"pid": %d' % victim, null)]
            crowd = [_send(path, state, null) for _ in range(300)]
            for number in range(self.CROWD):
                crowd[number % len(crowd)] = _send(path, state, null)
            kept += crowd
            listener = _own_listener()
            kept.append(_send(path, state, listener))
            os.close(listener)
            # Trapped; the kernel carries it out when the shim says so.
            return "parent %d" % ctypes.CDLL(None, use_errno=True).syscall(_SYS_GETPPID)
        except OSError as error:
            return error.strerror


def _send(path, data, *files):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                          struct.pack("ll", int(t.DEADLINE), 0))
    connection.connect(path)  # waits while many others do
    if data:
        connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                     array.array("i", files))] if files else [])
    return connection


def _own_listener():
    """Returns the listener of a filter of its own, which asks about getppid() only."""
    libc = ctypes.CDLL(None, use_errno=True)
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in (
        (0x20, 0, 0, 0), (0x15, 0, 1, _SYS_GETPPID), (0x06, 0, 0, _USER_NOTIF),
        (0x06, 0, 0, _ALLOW)))
    code = ctypes.create_string_buffer(program, len(program))
    filter_program = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    listener = libc.syscall(_SYS_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, filter_program)
    if listener < 0:
        raise OSError(ctypes.get_errno(), "no listener")
    return listener


def _word(agent):
    """The metadata of the listeners that come to this socket, from the configuration of their container."""
    for folder, _, names in (found for top in ("/run", "/home", "/var/lib/containers", "/tmp")
                             for found in os.walk(top)):
        if "config.json" in names:
            with contextlib.suppress(OSError, ValueError, KeyError), \
                    open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
                seccomp = json.load(file)["linux"]["seccomp"]
                if seccomp["listenerPath"] == agent:
                    return seccomp["listenerMetadata"]
    raise t.Failure("no container has " + agent)


def sender(test):
    """Somebody else than the runtime, who can reach the socket over which it sends listeners: root, or
    the user of a rootless engine. The slice goes on, `exec` works and is held. A user's forged state
    names a process of root's, and then the container gets what its shim ends it for: the process that
    was named goes on."""
    rootless = getattr(test.engine, "rootless", False)
    user = USER if rootless else 0
    with contextlib.ExitStack() as stack:
        roots = stack.enter_context(Runc(RUNTIME, in_image=PROGRAMS)) if rootless else test.engine
        neighbour = stack.enter_context(_neighbour(test, roots))
        victim = roots.pid("neighbour")
        named = os.pidfd_open(victim)
        attack = test.engine.talk("attack", ["sh", "-c", "echo ready; read line &&"
                                             "exec adversary managed null-swapped 256 4096 1000000000"],
                                  env=SLICE)
        attack.expect("ready")
        if rootless:
            other = Sender("/run/cgpu/%s.agent" % _id(test, NEIGHBOUR), victim, user, "")
            t.check(other.said == os.strerror(errno.EACCES), "root's socket: " + other.said)
            other.end()
        agent = "/run/cgpu/%s.agent" % _id(test, LIMIT)
        stranger = Sender(agent, victim, user, "0" * 32)
        t.check(stranger.said == "parent -1", "without the word it was told " + stranger.said)
        stranger.end()
        sender_of = Sender(agent, victim, user, _word(agent))
        t.check(sender_of.said == "parent %d" % os.getpid(), "it was told " + sender_of.said)
        _go_on(neighbour)
        for mib, status in ((LIMIT + 1, 2), (LIMIT - 24, 0)):
            expect(test.engine.exec("attack", ["rmtool", "alloc", str(mib), "--page", "big"]),
                   status)
        test.check_used(NEIGHBOUR)
        (row,) = [row for row in test.node.containers() if row["id"] == _id(test, LIMIT)]
        t.check(row["pid"] == test.engine.pid("attack"), "cgpu ps shows %s" % row)
        if rootless:
            attack.say("go")
            attack.wait()
            t.check(not attack.said("^got [1-9]"), "it went on: %s" % attack.lines)
        sender_of.end()
        attack.end()
        test.engine.remove("attack")
        t.check(not select.select([named], [], [], 0)[0], "the process that was named was ended")
        test.node.wait_used(NEIGHBOUR * t.MIB, "after the attack")
        _go_on(neighbour)


def _files(out):
    """Returns what `ls -l` of folders of descriptors says, numbers of pipes and processes left
    out."""
    return sorted(re.sub(r"\d{2,}", "N", found) for found in re.findall(r"\d+ -> \S+", out))


def inside(test):
    """From inside, nothing is reached of what is outside: no descriptor is left open by those who made
    the container, no socket of cgpu's, no other process, no other GPU."""
    bundles = isinstance(test.engine, Runc)
    # Some runtimes are done before the first process has become the program.
    look = ["sh", "-c", "until grep -q sleep /proc/1/comm; do :; done; ls -l /proc/1/fd /proc/self/fd"]
    there = {}
    for plain in (True, False):
        test.engine.run("files", ["sleep", "100000"], detach=True, plain=plain, env=SLICE)
        there[plain] = _files(expect(test.engine.exec("files", look), 0))
        test.engine.remove("files")
    t.check(there[True] == there[False], "files are open: %s" % there)

    def everywhere(kinds):
        """In the machine's namespaces, those of these kinds."""
        def edit(spec):
            spec["linux"]["namespaces"] = [one for one in spec["linux"]["namespaces"]
                                           if one["type"] not in kinds]
        return {"edit": edit} if bundles else {"options": ("--pid", "host")}

    outside = t.Process(["cat"], "outside")
    folders = ["/run/cgpu", test.node.folder]
    card = test.node.info()["gpus"][1]["minor"]
    with _neighbour(test):
        # Without cgpu in between, and with what a slice cannot have, there is something to be had.
        reached = test.engine.talk("control", ["adversary", "attach", str(outside.popen.pid)],
                                   plain=True, caps=("CAP_SYS_PTRACE",), **everywhere(("pid",)))
        reached.expect("holding")
        for what in ("opened the memory of", "attached to"):
            t.check(reached.said("^%s %d$" % (what, outside.popen.pid)), "it proves nothing")
        connected = test.engine.talk("reach", ["adversary", "sockets", *folders], plain=True,
                                     mounts=(("/run", "/run"),))
        connected.expect("holding")
        t.check(connected.number(r"^connected (\d+)$") > 0, "it proves nothing")
        for process, name in ((reached, "control"), (connected, "reach")):
            process.end()
            test.engine.remove(name)

        pids = [*_pids("cgpu-shim"), *_pids("cgpud"), test.engine.pid("neighbour"),
                outside.popen.pid]
        t.check(len(pids) == 4, "shim, cgpud, neighbour and another are %s" % pids)
        wants = {"env": {**SLICE, "CGPU_DEVICES": "0"}}
        if bundles:  # a network namespace tells names of sockets
            wants |= everywhere(("network",))
        for name, words, zero in (
                ("attach", [*map(str, pids)], "reached"), ("sockets", folders, "connected"),
                ("nodes", [str(card), test.node.folder], "")):
            process = test.engine.talk(name, ["adversary", name, *words], **wants)
            process.expect("^holding$")
            t.check(not zero or process.number(r"^%s (\d+)$" % zero) == 0, "something was " + zero)
            for wrong in ("sees the shim", "^opened .*nvidia%d$" % card, "^uncovered"):
                t.check(not process.said(wrong), "it said: %s" % process.lines)
            test.node.sync()
            t.check(test.node.used(1) == 0, "the other card was used")
            process.end()
            test.engine.remove(name)
    t.check(outside.end() == 0, "a process outside was ended")


def widen(test):
    """The environment of processes that are added, or that a process gives itself, grants nothing; of
    the container's, what contradicts itself is refused."""
    parts = {"ALIYUN_COM_GPU_MEM_CONTAINER": "3", "ALIYUN_COM_GPU_MEM_DEV": "15"}  # 3232 MiB
    long = test.engine.talk("long", ["sh", "-c", "export CGPU_MEM=12GiB CGPU_DISABLE=1; rmtool info;"
                                     "rmtool alloc 101 --page big; echo alloc $?; read line"],
                            env={"CGPU_MEM": "100MiB"})
    for pattern, right in ((r"\b(\d+)MiB total", "100"), (r"^alloc (\d+)$", "2")):
        said = long.expect(pattern)
        t.check(said.group(1) == right, "it said: " + said.string)
    for more in ({"CGPU_MEM": "12GiB"}, {**parts, "NVIDIA_VISIBLE_DEVICES": "all"},
                 {"CGPU_DISABLE": "1"}):
        options = [word for pair in more.items() for word in ("--env", "%s=%s" % pair)]
        for mib, status in ((101, 2), (100, 0)):
            expect(test.engine.exec("long", ["rmtool", "alloc", str(mib), "--page", "big"],
                                    options=options), status)
    long.end()
    test.engine.remove("long")
    test.run(test.refused, "given twice and differs", "differ", ["true"],
             env={**parts, "CGPU_MEM": "100MiB"})
    test.run(2, "out of memory", "agree", ["rmtool", "alloc", "3233", "--page", "big"],
             env={**parts, "CGPU_MEM": "3232MiB"})


def accidents(test):
    """The kernel ends a process, or all of a container, for the machine's memory; an engine kills a
    container in a slow call. Its GPU memory is given back, its neighbour notices nothing."""
    memory, card = 64, 128  # MiB
    wants = {"env": SLICE, "memory": memory * t.MIB}
    with _neighbour(test) as neighbour:
        for name, argv in (("one", ["sh", "-c", "adversary hog %d; echo ended $?; read line" % card]),
                           ("all", ["adversary", "hog", str(card)])):
            process = test.engine.talk(name, argv, **wants)
            process.expect("^got %d MiB$" % card)
            test.check_used(NEIGHBOUR + card)
            process.say("go")
            if name == "one":
                process.expect("^ended 137$")
                test.node.wait_used(NEIGHBOUR * t.MIB, "while the container goes on")
                # All but a context's own: nothing stays charged for the one that was ended.
                expect(test.engine.exec(name, ["rmtool", "alloc", str(LIMIT - 24), "--page", "big"]),
                       0)
                process.end()
            else:
                t.check(process.wait() == 137, "it ended with %d" % process.wait())
                process.end()
                test.node.wait_used(NEIGHBOUR * t.MIB, "after the container")
            t.check(0 < len(process.said("^ate ")) < memory, "the machine's limit was none")
            _go_on(neighbour)
            test.engine.remove(name)
        test.node.hold(1, escape=RM_ALLOC, cls=NV01_MEMORY_LOCAL_USER)
        slow = test.engine.talk("slow", ["rmtool", "hold", "100", "--page", "big", "--chunk", "100"],
                                env=SLICE)
        test.node.wait_held(1)
        test.engine.kill("slow")
        t.check(slow.wait() == 137, "it ended with %d" % slow.wait())
        test.node.release()
        test.node.wait_used(NEIGHBOUR * t.MIB, "after the killed call")
        test.engine.remove("slow")


def _flip(test, process):
    """Follows its rounds, within which nothing is freed."""
    tries = 0
    while tries < 8000:
        tries = int(process.expect(r"^round (\d+) tries").group(1))
        used = test.node.used()
        t.check(used <= (LIMIT + NEIGHBOUR) * t.MIB, "after %d tries %d bytes" % (tries, used))
        process.say("on")
    process.close()
    process.expect("^holding$")
    t.check(process.said(r"tries [1-9]\d* succeeded"), "not one allocation succeeded")


def _hold(test, process):
    process.expect("^holding$")


def _few_clients(test, process):
    _hold(test, process)
    t.check(process.number(r"^made (\d+)$") == 1024, "it made others than the quota says")
    newcomer = test.run(0, "^client 0x0\n(.*0x0\n)*mapping 0x0\n", "newcomer",
                        ["sh", "-c", "adversary newcomer </dev/null"], env={"CGPU_MEM": "256MiB"})
    t.check("holding" in newcomer, "the newcomer got " + newcomer)


def _foreign(test, process):
    _hold(test, process)
    for what in ("dup", "free", "free-client", "heap-free", "control", "alloc", "exists"):
        t.check([found.group(1) for found in process.said(r"^%s (0x[0-9a-f]+)$" % what)] and
                not process.said(r"^%s 0x0$" % what), "it said: %s" % process.lines)


# Attacks of tests/adversary, one of each kind, what is done with them and the MiB that they must
# must get: all are shown there to get what they are after without cgpu.
ATTACKS = {"flip": (["flip", "size", "1000000", "1", "2048"], _flip, 0),
           "dup2": (["dup2", "file"], _hold, 0),
           "chain": (["chain", "8", "4096"], _hold, LIMIT * 9 // 10),
           "trace": (["filter", "trace", "4096"], _hold, LIMIT * 9 // 10),
           "bomb": (["bomb", "clients", "2000"], _few_clients, 0)}


def attacks(test):
    """Attacks on the boundary are held as under `cgpu run`, and the neighbour goes on."""
    with _neighbour(test) as neighbour:
        victim = test.engine.talk("victim", ["adversary", "victim", "256"], env={"CGPU_MEM": "300MiB"})
        found = victim.expect(r"^client (\d+) object (\d+)$")
        victim.expect("^holding$")
        other = {"foreign": (["foreign", *found.groups()], _foreign, 0)}
        for name, (words, course, least) in {**other, **ATTACKS}.items():
            with t.Peak(test.node) as peak:
                process = test.engine.talk(name, ["adversary", *words], env=SLICE)
                course(test, process)
                got = test.node.used() // t.MIB - NEIGHBOUR - 256 * (name == "foreign")
                t.check(least <= got <= LIMIT, "%s has %d MiB" % (name, got))
                process.end()
            t.check(0 < peak.readings and peak.bytes <= (LIMIT + NEIGHBOUR + 256) * t.MIB,
                    "at some time %d bytes were in use" % peak.bytes)
            if name == "foreign":
                victim.end()
                t.check(victim.said("^undisturbed 0x0$"), "it said: %s" % victim.lines)
                test.engine.remove("victim")
            test.engine.remove(name)
            _go_on(neighbour)
            test.node.wait_used(NEIGHBOUR * t.MIB, "after " + name)


# A program that takes all that the kernel counts for a uid, and that a shim uses: inotify instances
# (and each that another one gives back), epoll watches, descriptors in flight on sockets.
TAKER = """
import array, ctypes, errno, resource, select, socket
libc = ctypes.CDLL(None)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kept = []
def all_of(take, error):
    try:
        while True:
            take()
    except OSError as refusal:
        assert refusal.errno == error, refusal
def send():
    left, right = socket.socketpair()
    kept.append((left, right))
    left.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [left.fileno()] * 253))])
all_of(send, errno.ETOOMANYREFS)
watched = [socket.socket() for _ in range(1000)]
def watch():
    kept.append(select.epoll())
    for one in watched:
        kept[-1].register(one, 0)
all_of(watch, errno.ENOSPC)
while libc.inotify_init1(0) >= 0:
    pass
print("taken", flush=True)
while True:
    libc.inotify_init1(0)
"""
# The kernel's limit of epoll watches is a setting of the whole machine, and so high that each uid would
# have to take a gigabyte.
WATCHES = "/proc/sys/fs/epoll/max_user_watches"


@contextlib.contextmanager
def _few_watches():
    with open(WATCHES, encoding="utf-8") as file:
        before = file.read()
    try:
        with open(WATCHES, "w", encoding="utf-8") as file:
            file.write(str(min(200000, int(before))))
        yield
    finally:
        with open(WATCHES, "w", encoding="utf-8") as file:
            file.write(before)


def same_uid(test):
    """Somebody under the uid of a shim takes all that the kernel has for that uid, as root's container
    can by setuid(2). The shim is upgraded all the same, again and again, and processes are added."""
    loop = test.engine.talk("loop", ["sh", "-c", LOOP], env=SLICE)
    loop.expect("^round$")
    (shim,) = _pids("cgpu-shim")
    with open("/proc/%d/status" % shim, encoding="utf-8") as file:
        uid = int(re.search(r"^Uid:\t(\d+)", file.read(), re.MULTILINE).group(1))
    with _few_watches():
        taker = t.Process(["python3", "-c", TAKER], "taker", user=uid, group=uid, extra_groups=[])
        taker.expect("^taken$")
        for program in (NEXT, OWN) * 5:
            upgrade("loop", program)
            check_goes_on(loop)
            added = test.engine.exec("loop", ["rmtool", "alloc", "1"])
            t.check(added.returncode == 0, "exec: %s" % added)
        taker.kill()
    loop.kill()
    test.engine.remove("loop")
    test.node.wait_used(0, "after all")


main({"storm": storm, "sender": sender, "inside": inside, "widen": widen, "accidents": accidents,
      "attacks": attacks, "same-uid": same_uid})
