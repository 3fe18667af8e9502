"""The tree at /run/cgpu/km, in the shape of cGPU's /proc/cgpu_km: held against the driver's books and
against what tenants get. Cases by name."""
import contextlib
import errno
import os
import re
import signal
import sys
import time

import cgpu_test as t
import isolation
from bundles import Runc
from engines import RUNC, Daemon, start_cgpud, write_settings

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import worker as w  # noqa: E402

KM = "/run/cgpu/km"
RMTOOL = os.path.abspath(os.path.join(t.BIN, "rmtool"))
RUNTIME = os.path.abspath(os.path.join(t.BIN, "cgpu-runtime"))
SOME_USER = 47111


def server():
    """cgpu-km, which is not started yet."""
    os.makedirs("/run/km", exist_ok=True)
    return Daemon([os.path.abspath(os.path.join(t.BIN, "cgpu-km"))], "/run/km/log", "/run/km",
                  {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})


@contextlib.contextmanager
def serving(node, more=""):
    """With the tree of `node`, and these settings."""
    write_settings(node, RUNC, more)
    tree = server()
    tree.start()
    try:
        yield tree
    finally:
        tree.stop()
        with open("/run/km/log", encoding="utf-8") as log:
            print("--- the log of cgpu-km:\n" + log.read())


def read(*path):
    with open(os.path.join(KM, *path), encoding="utf-8") as file:
        return file.read()


def number(*path):
    return int(re.fullmatch(r"(\d+)\n", read(*path)).group(1))


def write(text, *path, flags=os.O_WRONLY | os.O_TRUNC):
    """One write; how it failed as a name ("EINVAL"), or None."""
    try:
        file = os.open(os.path.join(KM, *path), flags)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)
    except OSError as error:
        # EOPNOTSUPP has another name too.
        return "EOPNOTSUPP" if error.errno == errno.EOPNOTSUPP else errno.errorcode[error.errno]
    return None


def mounts():
    """What is mounted at the tree's place, as types."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        lines = [line.split() for line in file]
    return [line[line.index("-") + 1] for line in lines if line[4] == KM]


def meminfo(card, name):
    """(free bytes, {process: bytes}) of a container."""
    first, *rest = read(str(card), name, "meminfo").splitlines()
    processes = [re.fullmatch(r"PID: (\d+) Mem: (\d+)", line).groups() for line in rest]
    found = {int(pid): int(used) for pid, used in processes}
    t.check(len(found) == len(rest), "a process is listed twice: %s" % rest)
    return int(re.fullmatch(r"Free: (\d+)", first).group(1)), found


def check_meminfo(node, card, name, workers):
    """What it says of these processes, each with its clients' handles, is what the driver's books say
    of these clients."""
    node.sync()
    books = node.books()
    bytes_of = {client["handle"]: client["bytes"] for client in books["clients"]}
    expected = {worker.pid: sum(bytes_of[handle] for handle in handles)
                for worker, handles in workers.items()}
    free, found = meminfo(card, name)
    t.check(found == {pid: used for pid, used in expected.items() if used},
            "meminfo says %s, the books %s" % (found, expected))
    t.check(sum(found.values()) == books["gpus"][card]["used_bytes"], "the card's books: %s" % books)
    t.check(free == number(str(card), name, "memsize") - sum(found.values()), "free: %d" % free)


def _just_of(pid):
    """Whether nothing of "train" on card 0 is anybody's but this process's."""
    free, found = meminfo(0, "train")
    return found.keys() == {pid} and free + sum(found.values()) == number("0", "train", "memsize")


def contents():
    """What is there and what it says, with two containers on two cards; and what ends disappears."""
    with t.Node("v100-16g:2") as node, serving(node), w.Workers() as workers:
        t.check(sorted(os.listdir(KM)) == ["0", "1", "version"], str(os.listdir(KM)))
        t.check(read("version") == t.command(t.CGPU, "--version").split()[-1] + "\n", read("version"))
        for card in ("0", "1"):
            t.check(sorted(os.listdir(os.path.join(KM, card))) == ["max_inst", "policy", "prio_ratio"], "")
            t.check((read(card, "policy"), read(card, "max_inst")) == ("1\n", "20\n"), "")
        # Named as a file is, so that its folder is not.
        odd = node.run(workers.argv("odd"), flags=("--name", "policy", "--gpus", "device=1"))
        other = workers.accept("odd")
        both = node.run(workers.argv("both"), mem="2GiB", flags=("--name", "train"))
        first = workers.accept("both")
        second = workers.fork(first, "second")
        ids = {row["name"]: row["id"] for row in node.containers()}
        t.check(set(os.listdir(KM + "/0")) == {"max_inst", "policy", "prio_ratio", "train"}, "")
        t.check(set(os.listdir(KM + "/1")) == {"max_inst", "policy", "prio_ratio", "train", ids["policy"]}, "")
        t.check(read("1", ids["policy"], "id") == ids["policy"] + "\n", "another id")
        t.check(read("0", "train", "id") == ids["train"] + "\n", "another id")
        t.check(sorted(os.listdir(KM + "/0/train")) == ["id", "meminfo", "memsize"], "")
        t.check(number("1", "train", "memsize") == 2 << 30, read("1", "train", "memsize"))
        t.check(meminfo(0, "train") == (2 << 30, {}), read("0", "train", "meminfo"))
        t.check(not os.path.exists(KM + "/0/" + ids["policy"]), "it is on card 1 alone")

        clients = {first: first.do("client", 1), second: second.do("client", 1)}
        clients[second] += second.do("client", 2)
        first.do("alloc", 1, 100)
        second.do("alloc", 1, 30)
        second.do("alloc", 2, 7)
        check_meminfo(node, 0, "train", clients)
        on_other_card = {other: other.do("client", 1)}
        other.do("alloc", 1, 55)
        check_meminfo(node, 1, ids["policy"], on_other_card)
        t.check(meminfo(1, "train")[1] == {}, "it has nothing there: " + read("1", "train", "meminfo"))
        path = KM + "/0/train/meminfo"
        t.check(os.stat(path).st_size == len(read("0", "train", "meminfo")), "another size")
        with open(path, encoding="utf-8") as file:  # what was true when it was opened
            size = os.fstat(file.fileno()).st_size
            first.do("alloc", 1, 9)
            t.check(len(file.read()) == size, "it changed while it was open")
        check_meminfo(node, 0, "train", clients)

        t.command(t.CGPU, "upgrade", "train")  # to the same version: another program by now
        check_meminfo(node, 0, "train", clients)
        second.kill()
        node.sync()
        t.wait_for(lambda: _just_of(first.pid), "what a process had that ended is listed or not free")
        del clients[second]
        check_meminfo(node, 0, "train", clients)
        first.send("end")
        t.check(both.end() == 0, "it failed")
        t.check("train" not in os.listdir(KM + "/0") + os.listdir(KM + "/1"), "its folder is left")
        t.check(write("1", "0", "train", "memsize") == "ENOENT", "its file is left")
        other.send("end")
        odd.end()


def orphans():
    """What a process has made that has ended is nobody's line while another has the file, and not free."""
    with t.Node() as node, serving(node), w.Workers() as workers:
        run = node.run(workers.argv("c"), flags=("--name", "c"))
        parent = workers.accept("c")
        child = workers.fork(parent, "child")
        handle = child.do("client", 1)
        child.do("alloc", 1, 64)
        child.do("twin", 1)
        check_meminfo(node, 0, "c", {child: handle})
        child.send("send", "c", 1)
        parent.do("recv", "child", 1, *handle)
        t.check(child.line().startswith("0x0"), "it was not sent")
        child.kill()
        t.wait_for(lambda: not meminfo(0, "c")[1], "a process that ended is listed")
        node.sync()
        used = node.used()
        t.check(used >= 64 * t.MIB, "it is not held any more: %d" % used)
        t.check(meminfo(0, "c")[0] == (1 << 30) - used, read("0", "c", "meminfo"))
        parent.send("end")
        run.end()


def memsize():
    """Written live: a tenant gets more, and then less; what is no size and what does not fit is
    refused."""
    with t.Node() as node, serving(node), w.Workers() as workers:
        run = node.run(workers.argv("c"), mem="300MiB", flags=("--name", "c"))
        tenant = workers.accept("c")
        tenant.do("client", 1)
        tenant.do("alloc", 1, 200)
        out_of_memory = tenant.ask("alloc", 1, 200)[0]
        t.check(out_of_memory != 0, "400 MiB of 300")
        t.check(write("%d\n" % (500 * t.MIB), "0", "c", "memsize") is None, "it is refused")
        t.check(number("0", "c", "memsize") == 500 * t.MIB, read("0", "c", "memsize"))
        (gpu,) = node.containers()[0]["gpus"]
        t.check(gpu["limit_bytes"] == gpu["reserved_bytes"] == 500 * t.MIB, "ps says %s" % gpu)
        tenant.do("alloc", 1, 200)
        t.check(write("%d" % (400 * t.MIB), "0", "c", "memsize") is None, "it is refused")
        t.check(tenant.ask("alloc", 1, 50)[0] == out_of_memory, "450 MiB of 400")
        held = node.used()
        for wrong in ("", "\n", "much", "1GiB", "-1", "0", "1.5", "1", str(t.MIB + 1), "1\n2\n",
                      "9" * 20, "1" * 65):
            # Of nothing the kernel makes no write.
            t.check(write(wrong, "0", "c", "memsize") == ("EINVAL" if wrong else None), repr(wrong))
        for wrong in (16161 * t.MIB, 1 << 62):
            t.check(write(str(wrong), "0", "c", "memsize") == "ENOSPC", "%d" % wrong)
        t.check(write("1", "0", "c", "memsize", flags=os.O_WRONLY | os.O_APPEND) == "EINVAL", "")
        other = node.run(workers.argv("d"), mem="10GiB", flags=("--name", "d"))
        neighbour = workers.accept("d")  # ends when nobody has its connection
        answer = write(str(6 << 30), "0", "c", "memsize")
        t.check(answer == "ENOSPC", "beside another's 10 GiB: %s, %s" % (answer, node.containers()))
        for name in ("id", "meminfo"):
            t.check(write("1", "0", "c", name) == "EACCES", name + " was written")
        t.check(number("0", "c", "memsize") == 400 * t.MIB and node.used() == held, "it changed")
        # Below what is in use: growth is stopped, nothing is taken away.
        t.check(write(str(100 * t.MIB), "0", "c", "memsize") is None, "it is refused")
        t.check(meminfo(0, "c") == (0, {tenant.pid: held}), read("0", "c", "meminfo"))
        for worker, process in ((tenant, run), (neighbour, other)):
            worker.send("end")
            t.check(process.end() == 0, "it failed")


def max_inst():
    """So many slices of a card and no more, of whoever starts them; what was written stays."""
    with t.Node("v100-16g:2") as node, Runc(RUNTIME) as engine:
        daemon = start_cgpud(node, RUNC, "max_inst: 2\n")
        tree = server()
        tree.start()

        def start(name, works, card=0):
            done = engine.run(name, ["sleep", "100000"], detach=True,
                              env={"CGPU_MEM": "100MiB", "CGPU_DEVICES": str(card)})
            said = done.stdout + done.stderr
            t.check((done.returncode == 0) == works, "%s: %s" % (name, said))
            t.check(works or re.search("GPU 0 .* slices? already, and its max_inst is", said), said)
            if not works:
                engine.remove(name)

        def run(works):
            done = t.command(t.CGPU, "run", "--node", node.name, "--mem", "1MiB", "--gpus",
                             "device=0", "--", "true", ok=False)
            t.check(done.returncode == (0 if works else 125), "cgpu run: %s" % done)
            t.check(works or "max_inst" in done.stderr, done.stderr)

        t.check(number("0", "max_inst") == 2, read("0", "max_inst"))
        for name in ("first", "second"):
            start(name, True)
        start("third", False)
        run(False)
        start("elsewhere", True, card=1)
        t.check(write("3\n", "0", "max_inst") is None, "it is refused")
        run(True)
        start("third", True)
        for wrong in ("0", "65", "many", "-1"):
            t.check(write(wrong, "0", "max_inst") == "EINVAL", wrong)
        # Fewer than there are: they go on.
        t.check(write("1", "0", "max_inst") is None, "it is refused")
        t.check(len(node.containers()) == 4, "somebody has ended")
        daemon.stop(signal.SIGKILL)
        tree.stop(signal.SIGKILL)
        t.check(mounts() == ["fuse.cgpu-km"], "what is left: %s" % mounts())
        for server_ in (daemon, tree):
            server_.start()
        t.check((number("0", "max_inst"), number("1", "max_inst")) == (1, 2), "it has forgotten")
        for name in ("first", "second"):
            engine.remove(name)
        start("again", False)
        run(False)
        engine.remove("third")
        start("again", True)
        for name in ("again", "elsewhere"):
            engine.remove(name)
        for server_ in (tree, daemon):
            server_.stop()


def share():
    """A container that is held to no limit has none to change."""
    with t.Node() as node, Runc(RUNTIME, in_image=(RMTOOL,)) as engine:
        daemon = start_cgpud(node, RUNC, "mode: share\n")
        tree = server()
        tree.start()
        talk = engine.talk("c", ["rmtool", "hold", "200"], env={"CGPU_MEM": "100MiB"})
        talk.expect("holding")
        t.check(number("0", "c", "memsize") == 16160 * t.MIB, read("0", "c", "memsize"))
        free, processes = meminfo(0, "c")
        t.check(free == 16160 * t.MIB - node.used() and sum(processes.values()) == node.used(),
                read("0", "c", "meminfo"))
        t.check(write(str(t.MIB), "0", "c", "memsize") == "EOPNOTSUPP", "it is changed")
        talk.end()
        engine.remove("c")
        for process in (tree, daemon):
            process.stop()


def policy():
    """0 to 5, as `cgpu policy` has it; what a container was promised stays honoured."""
    with t.Node() as node, serving(node):
        for number_, name in ((0, "fair"), (1, "preempt"), (2, "weight"), (3, "fixed"), (4, "soft"),
                              (5, "native")):
            t.check(write("%d\n" % number_, "0", "policy") is None, "%d is refused" % number_)
            t.check(read("0", "policy") == "%d\n" % number_, read("0", "policy"))
            shown = t.command(t.CGPU, "policy", "0", "--node", node.name)
            t.check(shown == "GPU 0: %s (%d)\n" % (name, number_), shown)
        for wrong in ("6", "native", "-1"):
            t.check(write(wrong, "0", "policy") == "EINVAL", wrong)
        t.command(t.CGPU, "policy", "0", "fixed", "--node", node.name)
        t.check(read("0", "policy") == "3\n", read("0", "policy"))
        held = node.run([RMTOOL, "hold", "1"], flags=("--compute", "30"))
        held.expect("holding")
        t.check(write("2", "0", "policy") == "EBUSY", "a promised percentage is forgotten")
        t.check(write("4", "0", "policy") is None, "soft honours percentages")
        held.end()
        for value, error in (("90", None), ("20", None), ("99", None), ("19", "EINVAL"),
                             ("100", "EINVAL")):
            t.check(write(value, "0", "prio_ratio") == error, "prio_ratio " + value)
        t.check(read("0", "prio_ratio") == "99\n", read("0", "prio_ratio"))
        t.check(write("1", "version") == "EACCES", "version was written")


def restarts():
    """It goes away when it is told to; what one that was killed has left is replaced; a second one is
    refused, and says so; nothing else that is mounted there is touched."""
    with t.Node() as node:
        write_settings(node, RUNC)
        tree, second = server(), server()
        tree.start()
        try:
            second.start()
        except t.Failure:
            pass
        with open("/run/km/log", encoding="utf-8") as log:
            t.check("another cgpu-km runs already" in log.read(), "it does not say why")
        t.check(read("version") and mounts() == ["fuse.cgpu-km"], "%s" % mounts())
        tree.stop()
        t.check(tree.popen.returncode == 0 and not os.path.exists(KM), "it is left: %s" % mounts())
        for _ in range(3):
            tree.start()
            t.check(read("version") and mounts() == ["fuse.cgpu-km"], "%s" % mounts())
            tree.stop(signal.SIGKILL)
            try:
                os.stat(KM)
                raise t.Failure("nobody serves it")
            except OSError as error:
                t.check(error.errno == errno.ENOTCONN, str(error))
            # What does not need the tree goes on.
            t.command(t.CGPU, "run", "--node", node.name, "--mem", "1MiB", "--", "true")
            t.command(t.CGPU, "ps")
        tree.start()
        # Nor does anything wait for it.
        tree.popen.send_signal(signal.SIGSTOP)
        t.command(t.CGPU, "run", "--node", node.name, "--mem", "1MiB", "--", "true")
        t.command(t.CGPU, "ps")
        tree.popen.send_signal(signal.SIGCONT)
        tree.stop()
        t.check(not os.path.exists(KM), "it is left: %s" % mounts())
        os.mkdir(KM)
        t.command("mount", "-t", "tmpfs", "mine", KM)
        try:
            tree.start()
            raise t.Failure("it is mounted on somebody's files")
        except t.Failure as failure:
            t.check("ended" in str(failure), str(failure))
        t.check(mounts() == ["tmpfs"], "%s" % mounts())
        t.command("umount", KM)


def users():
    """An ordinary user reads what is the node's, sees no container of root's, and writes nothing."""
    script = """
import os, sys
km = "/run/cgpu/km/"
print(open(km + "version").read() + open(km + "0/max_inst").read(), sorted(os.listdir(km + "0")))
for path in sys.argv[1:]:
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(km + path, flags))
            print(path, flags, "opened")
        except OSError as error:
            print(path, flags, type(error).__name__)
try:
    os.truncate(km + "0/max_inst", 0)
    print("truncated")
except PermissionError:
    pass
os.write(3, b"7")
"""
    with t.Node() as node, serving(node):
        holds = node.run([RMTOOL, "hold", "1"], flags=("--name", "c"))
        holds.expect("holding")
        as_user = {"user": SOME_USER, "group": SOME_USER, "extra_groups": [], "cwd": "/"}
        # One that root has opened for it counts for nothing either.
        opened = os.open(KM + "/0/max_inst", os.O_WRONLY)
        os.dup2(opened, 3)
        done = t.command("python3", "-c", script, "0/max_inst", "0/policy", "0/c/memsize", "0/c/id",
                         pass_fds=(3,), ok=False, **as_user)
        print(done.stdout, done.stderr)
        t.check("['max_inst', 'policy', 'prio_ratio']" in done.stdout, "it sees: " + done.stdout)
        for path in ("0/max_inst", "0/policy"):
            t.check(path + " 0 opened" in done.stdout, path + " cannot be read")
            t.check(path + " 1 PermissionError" in done.stdout, path + " can be written")
        for path in ("0/c/memsize", "0/c/id"):
            for flags in (0, 1):
                t.check("%s %d FileNotFoundError" % (path, flags) in done.stdout, path)
        t.check("truncated" not in done.stdout and "PermissionError" in done.stderr, "it could write")
        t.check(number("0", "max_inst") == 20, "it was written")
        t.check(number("0", "c", "memsize") == 1 << 30, "root does not see it")
        holds.end()


def hidden():
    """No container sees the tree, whatever it has of /run, and whenever the tree came."""
    look = "ls -A {0}/run/cgpu; cat {0}/run/cgpu/km/version {0}/run/cgpu/km/0/max_inst"
    with t.Node() as node, Runc(RUNTIME, in_image=(RMTOOL,)) as engine:
        daemon = start_cgpud(node, RUNC)

        def edit(spec):
            spec["mounts"].append({"source": "/", "destination": "/host", "type": "bind",
                                   "options": ["rbind", "rslave"]})

        def check_hidden(done, where):
            t.check(done.stdout == "" and done.returncode != 0, "in %s: %s" % (where, done))

        def check_all():
            t.check(read("version") and number("0", "max_inst"), "there is nothing to hide")
            seen = engine.exec("plain", ["sh", "-c", look.format("/host")])
            t.check(seen.returncode == 0, "it is hidden anyway: %s" % seen)
            check_hidden(t.command(t.CGPU, "run", "--node", node.name, "--mem", "1MiB", "--", "sh",
                                   "-c", look.format(""), ok=False), "cgpu run")
            check_hidden(engine.exec("before", ["sh", "-c", look.format("/host")]), "one of before")
            check_hidden(engine.run("after", ["sh", "-c", look.format("/host")], edit=edit,
                                    env={"CGPU_MEM": "1MiB"}), "one of after")
            engine.remove("after")

        engine.run("before", ["sleep", "100000"], detach=True, edit=edit, env={"CGPU_MEM": "1MiB"})
        # One that cgpu has nothing to do with sees it: so there is something to hide.
        engine.run("plain", ["sleep", "100000"], detach=True, edit=edit, plain=True)
        tree = server()
        tree.start()
        check_all()
        for source in (KM, KM + "/0", KM + "/version"):
            done = engine.run("refused", ["true"], mounts=((source, "/km"),),
                              env={"CGPU_MEM": "1MiB"})
            t.check(done.returncode != 0 and "of cgpu itself" in done.stderr, "%s" % done)
            engine.remove("refused")
        tree.stop(signal.SIGKILL)
        for source, why in ((KM, "of cgpu itself"), (KM + "/0", "cannot be looked at")):
            done = engine.run("refused", ["true"], mounts=((source, "/km"),),
                              env={"CGPU_MEM": "1MiB"})
            t.check(done.returncode != 0 and why in done.stderr, "%s" % done)
            engine.remove("refused")
        tree.start()
        check_all()
        for name in ("before", "plain"):
            engine.remove(name)
        for process in (tree, daemon):
            process.stop()


isolation.main({"contents": contents, "orphans": orphans, "memsize": memsize, "max-inst": max_inst,
                "share": share, "policy": policy, "restarts": restarts, "users": users, "hidden": hidden})
