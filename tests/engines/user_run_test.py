"""`cgpu run` of ordinary users, by way of cgpud: who gets a slice, what it holds, what outlives what.
Judged by the driver's accounting and /proc."""
import contextlib
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess

import cgpu_test as t
import engines
import isolation
from bundles import Runc
from engines import start_cgpud

USER, GROUP, MEMBERS = 47110, 47111, 47112
FOLDER = "/run/programs"
CGPU = FOLDER + "/cgpu"
RMTOOL = FOLDER + "/rmtool"
MIB = t.MIB


def _prepare():
    os.mkdir(FOLDER, 0o755)
    for program in ("cgpu", "cgpu-shim", "rmtool"):
        shutil.copy(os.path.join(t.BIN, program), FOLDER)
    shutil.copy(os.path.join(t.TEST_BIN, "adversary"), FOLDER)
    with open("/etc/group", "a", encoding="utf-8") as file:
        file.write("cgpu-members:x:%d:\n" % MEMBERS)
    os.makedirs("/run/user/%d" % USER, 0o755)
    os.chown("/run/user/%d" % USER, USER, GROUP)


def as_user(member=True, **more):
    """Popen's options: an ordinary user, whose second group is the one that may ask."""
    return {"user": USER, "group": GROUP, "extra_groups": [MEMBERS] if member else [], "cwd": "/usr",
            "env": {"PATH": "/usr/bin:/bin", "HOME": "/", "XDG_RUNTIME_DIR": "/run/user/%d" % USER},
            **more}


def call(*words, member=True, **more):
    """`cgpu run` of the user to its end: (status, stdout, stderr)."""
    done = t.command(CGPU, "run", *words, ok=False, **as_user(member, **more))
    return done.returncode, done.stdout, done.stderr


def hold(mib, *flags):
    """The user's command that holds so much."""
    process = t.Process([CGPU, "run", *flags, "--", RMTOOL, "hold", str(mib), "--page", "big"],
                        "hold", **as_user())
    process.expect("holding %d MiB" % mib)
    return process


def expect(done, status, says=""):
    t.check(done[0] == status and says in done[1] + done[2],
            "%r with status %d was expected: %s" % (says, status, done))


def shims():
    return [pid for pid, line in isolation.processes().items() if line.startswith("cgpu-shim")]


def wait_over(node, sentence):
    """Until no shim is left, and nothing of what it held: a process that exits shows no command line
    any more before its sockets are closed."""
    t.wait_for(lambda: not shims() and not node.containers(), sentence)


def check_used(node, mib):
    node.sync()
    t.check(node.used() == mib * MIB, "the books say %d MiB, not %d" % (node.used() // MIB, mib))


def status_of(pid):
    with open("/proc/%d/status" % pid, encoding="utf-8") as text:
        return dict(line.split(":\t", 1) for line in text.read().splitlines() if ":\t" in line)


def limit(node, _):
    """A member gets a slice, is stopped at its limit, and root sees whose it is."""
    process = hold(1000, "--mem", "1000MiB", "--name", "mine")
    check_used(node, 1000)
    (row,) = node.containers()
    t.check((row["name"], row["user"], row["origin"], row["engine_id"]) ==
            ("mine", str(USER), "flags", ""), "cgpu ps says %s" % row)
    t.check(row["gpus"][0]["limit_bytes"] == 1000 * MIB, "cgpu ps says %s" % row)
    t.check(int(status_of(row["pid"])["Uid"].split()[0]) == USER, "its process is not the user's")
    process.end()
    wait_over(node, "the shim stays")
    expect(call("--mem", "1000MiB", "--", RMTOOL, "alloc", "1001", "--page", "big"), 2,
           "out of memory")
    expect(call("--mem", "1000MiB", "--", RMTOOL, "alloc", "1000", "--page", "big"), 0)
    out = call("--units", "3", "--", RMTOOL, "info")[1]
    t.check(re.findall(r"(\d+)MiB total", out) == ["3232"], "3 units: " + out)
    # The environment says what no flag says, and the flags come first.
    env = {**as_user()["env"], "CGPU_MEM": "700MiB"}
    for flags, mib in (((), 700), (("--mem", "800MiB"), 800)):
        done = t.command(CGPU, "run", *flags, "--", RMTOOL, "info", **{**as_user(), "env": env})
        t.check(re.findall(r"(\d+)MiB total", done) == [str(mib)], "of the environment: " + done)


def passes(node, _):
    """Status, signals, folder, environment, descriptors, terminal and identity are the user's."""
    for script, status in (("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143),
                           ("kill -KILL $$", 137)):
        expect(call("--mem", "1GiB", "--", "sh", "-c", script), status)
    expect(call("--mem", "1GiB", "--", "/no/such/program"), 127, "No such file")
    done = call("--mem", "1GiB", "--", "sh", "-c", "pwd; echo $HOME; id -u; id -g; cat; exit 4",
                input="hello\n")
    t.check(done == (4, "/usr\n/\n%d\n%d\nhello\n" % (USER, GROUP), ""), "it ran as %s" % (done,))
    fields = call("--mem", "1GiB", "--", "cat", "/proc/self/status")[1]
    for line in ("NoNewPrivs:\t1", "CapEff:\t" + "0" * 16, "CapBnd:\t" + "0" * 16, "Seccomp:\t2"):
        t.check(line in fields, "%s is not in %s" % (line, fields))
    process = t.Process([CGPU, "run", "--mem", "1GiB", "--", "sh", "-c",
                         "trap 'echo got; exit 7' USR1; echo ready; while :; do sleep 0.01; done"],
                        **as_user())
    process.expect("ready")
    process.popen.send_signal(signal.SIGUSR1)
    process.expect("got")
    t.check(process.wait() == 7, "the signal's handler did not end it with 7")
    _on_terminal()
    node.wait_used(0, "after the commands")


def _on_terminal():
    pid, terminal = pty.fork()
    if pid == 0:
        options = as_user()
        os.setgroups(options["extra_groups"])
        os.setresgid(GROUP, GROUP, GROUP)
        os.setresuid(USER, USER, USER)
        os.execve(CGPU, [CGPU, "run", "--mem", "1GiB", "--", "sh", "-c",
                         "tty && true </dev/tty && echo up; exec sleep 1000"], options["env"])
    seen = b""
    while b"up" not in seen:
        seen += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    with contextlib.suppress(OSError):  # the terminal's end
        while part := os.read(terminal, 4096):
            seen += part
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    t.check(b"/dev/pts/" in seen and os.waitstatus_to_exitcode(status) == 130,
            "on a terminal: %r, %d" % (seen, status))


def refused(node, daemon):
    """A user that gets no slice is told why, and nothing of it is left."""
    one = ("--mem", "1GiB", "--", "true")
    expect(call(*one, member=False), 125, "members of the group cgpu-members")
    expect(call("--mem", "17GiB", "--", "true"), 125, "16160")
    expect(call("--mem", "junk", "--", "true"), 125, "junk")
    expect(call("--gpus", "device=7", *one), 125, "7")
    expect(call("--name", "a b", *one), 125, "cannot be a container's name")
    expect(call("--node", "no-such-node", *one), 125, "no simulated node")
    expect(call("--record", "/tmp/calls", *one), 125, "--alone")
    expect(call("--priority", "high", *one), 125, "for root to give")
    expect(call("--priority", "normal", "--weight", "0", *one), 125, "--weight")
    expect(call("--priority", "normal", *one), 0)
    process = hold(10, "--mem", "1GiB", "--name", "taken")
    expect(call("--name", "taken", *one), 125, "in use")
    process.end()
    wait_over(node, "a shim is left of one that got no slice")
    # Alone it is as without cgpud: the user's own affair.
    expect(call("--node", node.name, "--alone", *one, member=False), 0)
    expect(call("--node", node.name, "--alone", "--weight", "2", *one), 0, "no share of compute time")
    daemon.stop()
    expect(call(*one), 125, "cgpud, which does not run")
    expect(call("--node", node.name, "--alone", *one), 0)
    daemon.start()
    expect(call(*one), 0)


def sums(node, _):
    """Root's grants and users' on one GPU add up."""
    roots = node.run([RMTOOL, "hold", "9216", "--page", "big"], mem="9GiB")
    roots.expect("holding 9216 MiB")
    expect(call("--mem", "8GiB", "--", "true"), 125, "free")
    users = hold(6144, "--mem", "6GiB")
    check_used(node, 9216 + 6144)
    done = t.command(t.CGPU, "run", "--node", node.name, "--mem", "1GiB", "--", "true", ok=False)
    t.check(done.returncode == 125 and "free" in done.stderr, "a third: %s" % done)
    roots.end()
    users.end()
    node.wait_used(0, "after both")
    wait_over(node, "the shims stay")
    expect(call("--mem", "15GiB", "--", "true"), 0)


def killed(node, _):
    """A process that is killed takes nothing with it, and leaves nothing."""
    process = hold(500, "--mem", "15GiB")
    process.kill()  # cgpu run
    node.wait_used(0, "after a killed cgpu run")
    wait_over(node, "the shim of a killed cgpu run stays")
    process = hold(500, "--mem", "15GiB")  # the grant is free again
    (row,) = node.containers()
    os.kill(row["pid"], signal.SIGKILL)
    t.check(process.wait() == 137, "a killed command ended with %d" % process.wait())
    node.wait_used(0, "after a killed command")
    wait_over(node, "the shim of a killed command stays")
    process = hold(500, "--mem", "15GiB")
    (shim,) = shims()
    command = node.containers()[0]["pid"]
    os.kill(shim, signal.SIGKILL)
    t.check(process.wait() in (125, 137), "without a shim it ended with %d" % process.wait())
    t.wait_for(lambda: command not in isolation.processes(), "the command goes on without its shim")
    node.wait_used(0, "after a killed shim")
    wait_over(node, "a killed shim stays")
    expect(call("--mem", "15GiB", "--", "true"), 0)


def minded(node, daemon):
    """A container whose shim dies is ended also where its launcher does nothing about it."""
    process = hold(500, "--mem", "1GiB")
    (shim,) = shims()
    command = node.containers()[0]["pid"]
    process.popen.send_signal(signal.SIGSTOP)
    os.kill(shim, signal.SIGKILL)
    t.wait_for(lambda: command not in isolation.processes(), "the command goes on without its shim")
    process.popen.send_signal(signal.SIGCONT)
    process.wait()
    with open("/run/daemon/log", encoding="utf-8") as file:
        t.check("the container was killed" in file.read(), "cgpud does not say so")
    t.check(daemon.popen.poll() is None, "cgpud has ended")


def daemon_dies(node, daemon):
    """Commands go on while cgpud is away and when it is back."""
    process = t.Process([CGPU, "run", "--mem", "1000MiB", "--", "sh", "-c",
                         "echo up; while read mib; do %s alloc $mib --page big; echo status $?; "
                         "done; exit 5" % RMTOOL], **as_user())
    process.expect("up")

    def judge():
        for mib, status in ((1001, 2), (1000, 0)):
            process.say(str(mib))
            process.expect("status %d" % status)
    judge()
    daemon.stop(signal.SIGKILL)
    judge()
    daemon.start()
    judge()
    expect(call("--mem", "15GiB", "--", "true"), 125, "free")  # it knows of the first
    expect(call("--mem", "14GiB", "--", "true"), 0)
    t.check(process.end() == 5, "the command did not end as it should")
    wait_over(node, "the shim stays")


def walls(node, _):
    """Neither the command nor its user outside reaches the shim, its sockets or the grant."""
    process = hold(100, "--mem", "1GiB", "--name", "held")
    (shim,) = shims()
    (row,) = node.containers()
    uid = int(status_of(shim)["Uid"].split()[0])
    t.check(uid >= 2_000_000_000, "the shim runs under uid %d" % uid)

    def outside(*words, **more):
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=t.DEADLINE,
                              **as_user(**more))
    for path in ("mem", "fd/8", "environ"):
        t.check(outside("cat", "/proc/%d/%s" % (shim, path)).returncode != 0, path + " can be read")
    t.check(outside("kill", "-9", str(shim)).returncode != 0, "the shim can be killed")
    t.check(outside(CGPU, "set", "held", "--mem", "2GiB").returncode != 0, "the grant can be set")
    connect = ("import socket,sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
               "print('connected')")
    socket = "/run/cgpu/%s.sock" % row["id"]
    agent = "/run/cgpu/%s.agent" % row["id"]
    for path, who, reached in ((socket, USER, False), (agent, USER, True), (agent, USER + 5, False)):
        done = outside("/usr/bin/python3", "-c", connect, path, **{"user": who})
        t.check((done.returncode == 0) == reached, "%s by %d: %s" % (path, who, done))
    t.check(outside("ls", "/run/cgpu").returncode != 0, "the registry can be listed")
    (again,) = node.containers()
    t.check(again["gpus"][0]["limit_bytes"] == row["gpus"][0]["limit_bytes"], "the limit changed")
    # Inside there is not even a path, and no second slice.
    paths = (agent, socket, "/run/cgpu/cgpud.sock", node.folder + "/node.json")
    for path in paths:
        t.check(os.path.exists(path), path + " is not even outside")
        expect(call("--mem", "1GiB", "--", "test", "-e", path), 1)
    expect(call("--mem", "1GiB", "--", CGPU, "run", "--mem", "2GiB", "--", "true"), 125,
           "slices do not nest")
    process.end()


def idle(node, _):
    """A slice that was asked for and not used goes with the process that asked."""
    script = ("import socket,sys,time; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
              "s.connect('/run/cgpu/cgpud.sock'); s.send(b'run -\\nmem 15GiB\\npidns 1\\n.\\n'); "
              "print(s.recv(65536).decode().split()[0], flush=True); sys.stdin.read()")
    process = t.Process(["/usr/bin/python3", "-c", script], "asker", **as_user())
    process.expect("created")
    expect(call("--mem", "15GiB", "--", "true"), 125, "free")
    process.kill()
    wait_over(node, "the slice stays")
    expect(call("--mem", "15GiB", "--", "true"), 0)


# A program that connects to the daemon and says nothing, or something with a file whose close takes
# hours. At each line of its input it says how many of its first connections are as they were.
SILENT = """
import array, select, socket, struct, sys, threading

def lingering():
    listening = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(listening.getsockname())
    other, _ = listening.accept()
    one.setblocking(False)
    try:
        while True:
            one.send(b"x" * 65536)
    except BlockingIOError:
        pass
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 10000))
    return one, listening, other

keep, open_ones = [], []
for number in range(40):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.connect("/run/cgpu/cgpud.sock")
    open_ones.append(one)
    if number % 10 == 9:
        file, *others = lingering()
        try:
            one.sendmsg([b"x"],
                        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno()]))])
        except BrokenPipeError:  # it was refused before
            keep.append(file)
        else:  # the close may be the last, and then it waits
            threading.Thread(target=file.close, daemon=True).start()
        keep += others
print("connected", flush=True)
for _ in sys.stdin:
    print("silent", 8 - len(select.select(open_ones[:8], [], [], 0)[0]), flush=True)
"""


def silent(*_):
    """A member who asks cgpud and says nothing keeps no other user waiting, nor root."""
    t.command("ip", "link", "set", "lo", "up")
    process = t.Process(["python3", "-c", SILENT], "silent", **{**as_user(), "user": USER + 1})
    process.expect("connected")
    expect(call("--mem", "1GiB", "--", "true"), 0)
    for _ in range(3):
        done = t.command(CGPU, "run", "--mem", "1GiB", "--", "true", ok=False,
                         **{**as_user(), "user": USER + 1})
        t.check(done.returncode == 125 and "busy" in done.stderr, "it is not told why: %s" % done)
    process.say("")
    t.check(process.expect("silent ([0-9]+)").group(1) == "8", "the silent ones have had their time")
    process.kill()


FLOOD = """
import socket
for _ in range(300):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
        daemon.connect("/run/cgpu/cgpud.sock")
        daemon.send(b"create flood\\nenv CGPU_MEM=junk\\npidns 1\\n.\\n")
        assert daemon.recv(65536).startswith(b"error"), "that is no request"
print("asked", flush=True)
"""


def flood(_, daemon):
    """A member whose requests are refused all the time does not fill the log, and others' refusals are
    in it."""
    process = t.Process(["python3", "-c", FLOOD], "flood", **{**as_user(), "user": USER + 1})
    process.expect("^asked$")
    process.end()
    expect(call("--mem", "17GiB", "--", "true"), 125, "16160")
    t.wait_for(lambda: "uid %d gets no slice" % USER in daemon.log(), "no word of the other's refusal")
    refused = daemon.log().count("container flood gets no slice")
    t.check(20 <= refused <= 90, "%d lines" % refused)
    t.check(daemon.log().count("not all refusals are logged") == 1, "it is not said, or again and again")


def hanging(_, daemon):
    """A file that comes with a request, on a file system of the sender's own that never answers its
    close: what sees to the request ends all the same, and the next is heard."""
    # As root, who may open /dev/fuse on every machine; that the sender is a member is asked later.
    sender = t.Process([FOLDER + "/adversary", "send-hanging", "/run/cgpu/cgpud.sock", "12"], "sender")
    for _ in range(12):
        sender.expect("^sent$")
    children = "/proc/%d/task/%d/children" % (daemon.popen.pid, daemon.popen.pid)
    t.wait_for(lambda: not open(children, encoding="utf-8").read(), "a process of cgpud's hangs")
    expect(call("--mem", "1GiB", "--", "true"), 0)
    sender.end()


def crowd(*_):
    """Three members who ask all that cgpud lets them, and say nothing, keep no other out, nor root."""
    t.command("ip", "link", "set", "lo", "up")
    silent_ones = []
    for number in range(1, 4):
        process = t.Process(["python3", "-c", SILENT], "silent%d" % number,
                            **{**as_user(), "user": USER + number})
        process.expect("connected")
        silent_ones.append(process)
    expect(call("--mem", "1GiB", "--", "true"), 0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as roots:
        roots.connect("/run/cgpu/cgpud.sock")
        roots.send(b"nothing")
        t.check(b"busy" not in roots.recv(65536), "root is kept out")
    for process in silent_ones:
        process.say("")
        t.check(process.expect("silent ([0-9]+)").group(1) == "8", "they have had their time")
        process.kill()


# A member in a user namespace of his own, in which he has many uids: a silent connection of each.
SUBORDINATE = """
import ctypes, os, socket, sys
assert ctypes.CDLL(None).unshare(0x10000000) == 0  # CLONE_NEWUSER
print("made", os.getpid(), flush=True)
sys.stdin.readline()
for uid in range(1, 101):
    if os.fork() == 0:
        os.setresuid(uid, uid, uid)
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.connect("/run/cgpu/cgpud.sock")
        os.write(1, b"connected\\n")
        sys.stdin.readline()
        os._exit(0)
print("all", flush=True)
sys.stdin.readline()
"""


def subordinate(*_):
    """A member with a hundred uids of his own (subuid(5)) is one user to cgpud: no other is kept out."""
    process = t.Process(["python3", "-c", SUBORDINATE], "many", **{**as_user(), "user": USER + 1})
    pid = process.expect("^made ([0-9]+)$").group(1)
    with open("/proc/%s/uid_map" % pid, "w", encoding="utf-8") as file:  # as newuidmap(1) does
        file.write("0 %d 1\n1 200000 1000\n" % (USER + 1))
    process.say("")
    for _ in range(100):
        process.expect("^connected$")
    expect(call("--mem", "1GiB", "--", "true"), 0)
    process.kill()


# A member's own client of cgpud: a container that he calls argv[1], whose first process is one of his
# under a filter of his making.
OWN = """
import array, ctypes, os, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
daemon = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
daemon.connect("/run/cgpu/cgpud.sock")
daemon.send(("create %s\\nenv CGPU_MEM=1GiB\\npidns 1\\n.\\n" % sys.argv[1]).encode())
reply = daemon.recv(65536).decode()
print(reply.splitlines()[0], flush=True)
sys.stdin.readline()
agent = socket.socket(socket.AF_UNIX)
agent.connect([line.split()[1] for line in reply.splitlines() if line.startswith("listener")][0])
left, right = socket.socketpair()
pid = os.fork()
if pid == 0:
    assert libc.unshare(0x10000000) == 0  # CLONE_NEWUSER
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    traps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in (
        (0x20, 0, 0, 0), (0x15, 0, 1, 16), (0x06, 0, 0, 0x7fc00000),  # ioctl
        (0x06, 0, 0, 0x7fff0000))))
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    listener = libc.syscall(317, 1, 8, ctypes.byref(Program(4, ctypes.addressof(traps))))
    left.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
    os.close(listener)
    # The proof of the filter (src/sandbox/proof.h).
    assert libc.syscall(16, ctypes.c_ulong(0xffffffff), ctypes.c_ulong(0x80086370), 0) > 0
    left.send(b"proved")
    time.sleep(1000)
_, ancillary, _, _ = right.recvmsg(10, 1000)
listener = array.array("i")
listener.frombytes(ancillary[0][2])
word = [line.split()[1] for line in reply.splitlines() if line.startswith("word")][0]
agent.sendmsg([('{"metadata":"%s"' % word).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, listener)])
right.recv(10)
agent.send((',"pid":%d}' % pid).encode())
print("handed", pid, flush=True)
time.sleep(1000)
"""


def _cgroup(name, pids):
    """A new control group, in some hierarchy, with these processes."""
    with open("/proc/mounts", encoding="utf-8") as file:
        mounts = [line.split()[1] for line in file if line.split()[2] in ("cgroup", "cgroup2")]
    folder = next(mount for mount in mounts if "cpuset" not in mount) + "/" + name
    os.makedirs(folder, exist_ok=True)
    for pid in pids:
        with open(folder + "/cgroup.procs", "w", encoding="utf-8") as file:
            file.write(str(pid))
    return folder


def _knows(daemon, pid):
    """Whether cgpud holds on to that process."""
    folder = "/proc/%d/fdinfo" % daemon.popen.pid
    for name in os.listdir(folder):
        with contextlib.suppress(OSError), open(os.path.join(folder, name), encoding="utf-8") as file:
            if re.search(r"^Pid:\s+%d$" % pid, file.read(), re.MULTILINE):
                return True
    return False


POD = "0a1b2c3d-0000-4000-8000-00000000beef"
# A member's request in the name of a pod's container, as an annotation of a rootless container's makes it.
NAMED = """
import socket
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
    daemon.connect("/run/cgpu/cgpud.sock")
    daemon.send(b"create mine\\npidns 1\\nannotation io.kubernetes.cri.sandbox-uid %s\\n"
                b"annotation io.kubernetes.cri.container-name main\\n.\\n")
    print(daemon.recv(65536).decode().splitlines()[0], flush=True)
""" % POD


def pods(node, daemon):
    """A member who names a pod in a request gets no part of it, and its container goes on."""
    daemon.stop()
    os.makedirs("/run/cgpu/pods", mode=0o700, exist_ok=True)
    with open("/run/cgpu/pods/" + POD, "w", encoding="utf-8",
              opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        json.dump({"namespace": "n", "name": "p", "gpus": [node.info()["gpus"][0]["uuid"]], "isolated": True,
                   "containers": {"main": {"memory": 8, "compute": 0, "weight": 1, "high_priority": False}}}, file)
    notes = {"io.kubernetes.cri.sandbox-uid": POD, "io.kubernetes.cri.container-name": "main",
             "io.kubernetes.cri.container-type": "container"}
    with Runc(os.path.join(t.BIN, "cgpu-runtime"), in_image=(RMTOOL,)) as engine:
        kubelets = start_cgpud(node, engines.RUNC, "kubernetes: true\ngroup: cgpu-members\n")
        victim = engine.talk("victim", ["rmtool", "hold", "4000", "--page", "big"],
                             edit=lambda spec: spec.setdefault("annotations", {}).update(notes))
        victim.expect("^holding")
        member = t.Process(["python3", "-c", NAMED], "named", **as_user())
        said = member.expect("^(error|created) .*$").group(0)
        t.check(said.startswith("error "), "it got " + said)
        member.end()
        t.check(victim.popen.poll() is None and node.used() >= 4000 * MIB,
                "the pod's container: %s, %d" % (victim.popen.poll(), node.used() // MIB))
        victim.end()
        engine.remove("victim")
        node.wait_used(0, "after the pod")
        kubelets.stop()


def foreign(_, daemon):
    """Whatever a member calls his container, its end is no other process's."""
    victim = t.Process(["sleep", "1000"], "victim")
    own = t.Process(["python3", "-c", OWN, "shared"], "own", **as_user())
    own.expect("created")
    folder = _cgroup("shared", [victim.popen.pid, own.popen.pid])
    own.say("")
    pid = int(own.expect("handed ([0-9]+)").group(1))
    t.wait_for(lambda: _knows(daemon, pid), "cgpud does not hear of the process")
    for shim in shims():
        os.kill(shim, signal.SIGKILL)
    t.wait_for(lambda: not os.path.exists("/proc/%d" % pid) or status_of(pid)["State"].startswith("Z"),
          "the process outlives its shim")
    t.wait_for(lambda: "ended before it" in open("/run/daemon/log", encoding="utf-8").read(),
          "cgpud says nothing")
    t.check(victim.popen.poll() is None, "root's process was killed, too")
    t.check(own.popen.poll() is None, "the user's other process was killed: it was in no container")
    victim.kill()
    own.kill()
    os.rmdir(folder)


def namesake(node, _):
    """A member who calls a container of his as root's without a slice is called: root's is what it was,
    and `cgpu ps` says whose the slice is."""
    with Runc(os.path.abspath(os.path.join(t.BIN, "cgpu-runtime"))) as engine:
        engine.run("shared", ["sleep", "1000"], detach=True)
        own = t.Process(["python3", "-c", OWN, "shared"], "own", **as_user())
        own.expect("created")
        (row,) = node.containers()
        t.check((row["engine_id"], row["user"]) == ("shared", str(USER)), "cgpu ps says %s" % row)
        done = engine.exec("shared", ["true"], options=("--cap", "CAP_SYS_ADMIN"))
        t.check(done.returncode == 0, "root's process is not let in: %s" % done)
        own.kill()
        engine.remove("shared")
    wait_over(node, "the member's slice stays")


def words(*_):
    """Words of a member are no line of the log."""
    script = ("import socket\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
              "s.connect('/run/cgpu/cgpud.sock')\n"
              "s.send(b'run -\\nname a%0acgpud:%20audit%20forged\\npidns 1\\n.\\n')\n"
              "print(s.recv(65536))\n")
    done = t.command("python3", "-c", script, **as_user())
    t.check("error" in done, done)
    with open("/run/daemon/log", encoding="utf-8") as file:
        lines = file.read().splitlines()
    t.check(any("forged" in line for line in lines), "the log does not say it: %s" % lines)
    t.check(not any(line.startswith("cgpud: audit") for line in lines), "forged: %s" % lines)


CASES = {"silent": silent, "flood": flood, "hanging": hanging, "crowd": crowd, "subordinate": subordinate, "pods": pods, "foreign": foreign, "namesake": namesake, "words": words, "limit": limit, "passes": passes, "refused": refused, "sums": sums, "killed": killed,
         "minded": minded, "daemon-dies": daemon_dies, "walls": walls, "idle": idle}


def run(function):
    _prepare()
    with t.Node("v100-16g:1") as node:
        daemon = start_cgpud(node, engines.RUNC, "group: cgpu-members\n")
        function(node, daemon)
        node.wait_used(0, "after the commands")
        wait_over(node, "shims stay")
        daemon.stop()


if __name__ == "__main__":
    isolation.main({name: lambda function=function: run(function)
                    for name, function in CASES.items()})
