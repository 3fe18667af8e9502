"""A node with slices and other programs on it, which have files of their own and files that others have
lent them, and what its books must show whatever they ask. See every_file_test.py."""
import collections
import os
import shutil
import socket
import struct
import sys
import tempfile

import caller
import cgpu_test as t
import differences
import differential as d
import rows as r
import upgrading

SLICE_MIB = 256
AGENT = os.path.join(t.TEST_BIN, "agent")
MANAGED, STEP = 0x100000000000, 2 << 20
# Kinds of processes that ask: the first one of its slice; one that was added to its container; a child;
# a child that has executed another program; one whose parent made its files and has ended; one whose
# shim was upgraded; one of a container without a slice.
KINDS = ("first", "added", "forked", "executed", "heir", "upgraded", "sidecar")

# Sets of files, each with the numbers of r.FILES above its own.
OWN, SPENT, USED, FREED, UPGRADED, LEFT, WILD = range(0, 700, 100)
WHAT = {OWN: "its own files", SPENT: "its own files whose client is freed",
        USED: "files in use in another slice", FREED: "files of another slice whose client is freed",
        UPGRADED: "files of a slice that was upgraded since", LEFT: "files of a slice that has ended"}
LENT = (USED, FREED, UPGRADED, LEFT)
# Rows that take a set into use, beside a client.
USES = ("NV_ESC_REGISTER_FD", "NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD",
        "NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD", "UVM_INITIALIZE", "UVM_REGISTER_GPU",
        "UVM_REGISTER_GPU_VASPACE", "UVM_CREATE_EXTERNAL_RANGE", "UVM_MAP_EXTERNAL_ALLOCATION")
# Calls that a shim makes for itself at any time. The last ones ask UVM whether there is anything that the
# shim does not know.
SHIMS_OWN = (*r.SHIMS_OWN, "NV_ESC_RM_FREE", "UVM_CREATE_EXTERNAL_RANGE", "UVM_FREE",
             "UVM_CLEAN_UP_ZOMBIE_RESOURCES")


class Member:
    """A program that asks or lends, mostly in a slice of its own."""

    def __init__(self, world, name, kind=""):
        self.world = world
        self.name = "%s-%s" % (world.node.name, name)
        self.kind = kind
        self.roots = {}  # by set of files
        self.others = []  # processes that it needs
        self.ended = False
        if kind == "sidecar":
            self.program = caller.plain(world.node)
            t.check(self.program.ask("forbid") == "0", "no filter")
            return
        if kind == "added":
            self._add()
        else:
            self.program = caller.Caller(world.node.run(
                [caller.PROGRAM], mem="%dMiB" % SLICE_MIB, flags=("--name", self.name), name=name))
            t.check(self.program.ask("open 999 /dev/null") == "0", "it does not answer")
            (self.id,) = [row["id"] for row in world.node.containers() if row["name"] == self.name]
        self.shim = int(self.status()["shim"][0])

    def _add(self):
        """A container of a container engine, which is played (agent.cc), and the second program in it."""
        folder = tempfile.mkdtemp(prefix="cgpu-every-file-")
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "agent")
        creator = t.Process(["cat"], name="creator")
        engine = t.Process([AGENT, "serve", self.world.node.name, "%dMiB" % SLICE_MIB, path,
                            str(creator.popen.pid)], name="engine",
                           env={**os.environ, "CGPU_LIBEXEC": os.path.abspath(t.BIN)})
        self.id = engine.expect("^ready (.*)$").group(1)
        words = [AGENT, "exec", self.world.node.name, path, "runc", "--"]
        first = t.Process([*words, "sh", "-c", "echo first; cat"], name="first of its container")
        first.expect("^first$")
        self.program = caller.Caller(t.Process([*words, caller.PROGRAM], name="added"))
        self.others = [first, creator, engine]
        t.check(self.program.ask("open 999 /dev/null") == "0", "it does not answer")
        shutil.rmtree(folder)

    def end(self):
        self.ended = True
        for process in (self.program.process, *self.others):
            t.check(process.end() == 0, "%s of %s ended badly" % (process.name, self.name))

    def status(self):
        """Returns what the shim says of the slice, by the first word of each line."""
        with socket.socket(socket.AF_UNIX) as connection, connection.makefile("r") as lines:
            connection.connect("/run/cgpu/%s.sock" % self.id)
            connection.sendall(b"ps\n")
            return {words[0]: words[1:] for words in map(str.split, lines) if words}

    def counted(self):
        return int(self.status()["card"][4])

    def ask(self, call, root=0):
        return d.Answer(call, self.program.ask(call.line({0: root})), {0: root}, [])

    def must(self, call, root=0):
        answer = self.ask(call, root)
        t.check(answer.ok(), "%s: %s" % (call, answer))
        return answer

    def use(self, files):
        """Opens a set of files and takes them into use, as programs on CUDA have them."""
        for file, path in r.FILES.items():
            t.check(self.program.ask("open %d %s" % (files + file, path)) == "0", "no " + path)
        rows = self.world.rows(0)
        for call in rows.prelude():
            answer = self.must(on(call, files), self.roots.get(files, 0))
            if call.new_client is not None:
                self.roots[files] = struct.unpack_from("<I", answer.raw, 8)[0]
        rows = {row.key: row for row in self.world.rows(self.roots[files]).all()}
        for key in USES:
            self.must(on(rows[key].call, files), self.roots[files])
        t.check(self.map(files, STEP, MANAGED + files * STEP) == 0, "no managed memory")

    def spend(self, files):
        """Frees what was taken, and leaves the files open."""
        t.check(self.unmap(STEP, MANAGED + files * STEP) == 0, "it is not unmapped")
        rows = {row.key: row for row in self.world.rows(self.roots[files]).all()}
        for key in ("UVM_FREE", "UVM_UNREGISTER_GPU_VASPACE", "UVM_UNREGISTER_GPU"):
            self.must(on(rows[key].call, files), self.roots[files])
        self.must(on(free(self.roots[files]), files), self.roots[files])

    def map(self, files, size, address):
        return int(self.program.ask("map %d %d %x" % (files + r.UVM, size, address)))

    def unmap(self, size, address):
        return int(self.program.ask("unmap %d %x" % (size, address)))

    def lend(self, files, others, numbers):
        name = "%s-%d" % (self.name, numbers)
        t.check(self.program.ask("listen " + name) == "0", "it does not listen")
        for other in others:
            other.program.send("borrow %s %s" % (name, " ".join(str(numbers + file) for file in r.FILES)))
            self.program.ask("lend " + " ".join(str(files + file) for file in r.FILES))
            t.check(other.program.line() == "0", "nothing was lent")
            other.roots[numbers] = self.roots[files]

    def become(self):
        """Makes it a process of its kind. It has what it uses and what was lent to it."""
        if self.kind in ("forked", "executed", "heir"):
            t.check(self.program.ask("fork") == "0", "no child")
        if self.kind == "executed":
            t.check(self.program.ask("execute") == "0", "not executed")
        if self.kind == "heir":
            t.check(self.program.ask("inherit") == "0", "no heir")
        if self.kind == "upgraded":
            upgrading.upgrade(self.name, upgrading.NEXT)


def on(call, files):
    """The same call on another set of files."""
    return r.Row("", 0, "", call).on({file: files + file for file in r.FILES}).call


def free(handle):
    """NVOS00 of an object, or of the client itself."""
    call = d.Call("free 0x%x" % handle, d.ESC["RM_FREE"], struct.pack("<IIII", 0, 0, handle, 0)).by(0)
    call.status = 12
    return call


class World:
    """A node with slices that lend and processes that ask."""

    def __init__(self, node):
        self.node = node
        self.gpu = node.info()["gpus"][0]
        self.driver = node.info()["driver"]
        first = caller.plain(node)
        self.tables = first.tables(self.driver)
        first.process.end()
        self.policy = differences.Policy(self.tables, self.driver)
        self.askers = [Member(self, kind, kind) for kind in KINDS]
        self.lender, upgraded, ended = (Member(self, name) for name in ("lender", "changed", "gone"))
        self.kept = [self.lender, upgraded, ended]  # whose things must stay as they are
        self.slices = [*self.askers[:-1], *self.kept]
        self._lend(upgraded, ended)
        for asker in self.askers:
            if asker.kind != "sidecar":
                asker.use(OWN)
                asker.use(SPENT)
                asker.spend(SPENT)
            asker.become()
        upgrading.upgrade(upgraded.name, upgrading.NEXT)
        ended.end()
        # Its shim stays: what was exported is held by the files.
        t.wait_for(lambda: not any(client["pid"] == ended.shim and client["bytes"]
                                   for client in node.books()["clients"]) and
                   ended.status()["state"] == ["ended"], "the slice has not ended")
        self.may_ever = self._may_ever()
        self.books = self.latest = self.read()
        # The same whenever it is looked at, but for what a shim makes for a moment.
        self.belongings = t.wait_for(self._settled, "the books never stay as they are")

    def _lend(self, upgraded, ended):
        self.lender.use(OWN)
        self.lender.use(SPENT)
        self.lender.spend(SPENT)
        for other in (upgraded, ended):
            other.use(OWN)
        for lender, files, numbers in ((self.lender, OWN, USED), (self.lender, SPENT, FREED),
                                       (upgraded, OWN, UPGRADED), (ended, OWN, LEFT)):
            lender.lend(files, self.askers, numbers)

    def _may_ever(self):
        """Returns, by key, what some call of some slice may lead to."""
        may = collections.Counter()
        for row in self.rows(0).all():
            effect = self.policy.effect(row.kind, row.number)
            size, name = self.tables["escape" if row.kind == "sizeless" else row.kind][row.number]
            if row.kind in ("class", "control"):
                runs = effect not in r.NEVER_RUN + ("unsupported",) or row.number in r.CLIENT_CLASSES
            else:
                runs = r.may_run(self.policy, row.kind, row.number, size, name)
            if runs:
                may[row.key] = sys.maxsize
        return may

    def rows(self, root):
        return r.Rows(self.gpu, self.tables, root)

    def read(self, mapped=True):
        """The driver's books. Mappings are in them once it has looked for them."""
        if mapped:
            self.node.sync()
        return self.node.books()

    def of_others(self, books):
        """Returns what the driver has for those that lend, and what cgpu counts."""
        shims = {member.shim for member in self.kept}
        clients = [client for client in books["clients"] if client["pid"] in shims]
        handles = {client["handle"] for client in clients}
        return {"clients": clients, "uvm": [file for file in books["uvm"] if file["pid"] in shims],
                "on the GPU": [row for kind in ("groups", "channels") for row in books["gpus"][0][kind]
                               if row["client"] in handles],
                "counted": [(member.name, member.counted()) for member in self.kept]}

    def judge(self, asked, may, in_vain=collections.Counter(), mapped=True):
        """Compares the books with what they may be. `may`: how often at most the driver may have
        received each key since settle(); `in_vain`: and how often beside if it refused. `asked`: the
        questions, for the report. `mapped`: one of them may have mapped something."""
        counted = [member.counted() for member in self.slices]
        books = self.read(mapped)
        received = collections.Counter(books["received"])
        received.subtract(self.books["received"])
        done = received.copy()
        done.subtract(books["refused"])
        done.update(self.books["refused"])
        wrong = ["the driver %s %s %d times, at most %d were allowed" % (what, key, count, most[key])
                 for what, counts, most in (("received", received, may + in_vain), ("did", done, may))
                 for key, count in counts.items() if count > most[key] and key not in SHIMS_OWN]
        wrong += self._changed(books)
        used = books["gpus"][0]["used_bytes"]
        if used > sum(counted):
            wrong.append("the driver holds %d bytes, cgpu counts %d" % (used, sum(counted)))
        wrong += ["a slice holds %d bytes" % count for count in counted if count > SLICE_MIB * t.MIB]
        if books["stray_writes"]:
            wrong.append("%d stray writes" % books["stray_writes"])
        if wrong:
            print("\n".join("  %s" % what for what in asked))
            raise t.Failure("; ".join(wrong))
        self.latest = books
        return received

    def _settled(self):
        one, other = self.of_others(self.read()), self.of_others(self.read())
        return one if one == other else None

    def _changed(self, books):
        """Returns how things of others are not as they were, in sentences. A range that a shim makes to
        ask UVM is there for a moment."""
        for _ in range(5):
            now = self.of_others(books)
            changed = [what for what, was in self.belongings.items() if was != now[what]]
            if not changed:
                break
            t.pause()
            books = self.read()
        return ["of others, %s: %s became %s" % (
            what, [row for row in self.belongings[what] if row not in now[what]],
            [row for row in now[what] if row not in self.belongings[what]]) for what in changed]

    def too_much(self):
        """Bytes that cgpu counts and the driver does not hold."""
        return sum(member.counted() for member in self.slices) - self.read()["gpus"][0]["used_bytes"]

    def settle(self, books=None):
        """Begins anew from what was judged last, or from these books."""
        self.books = books or self.latest

    def end(self):
        """Ends all. Nothing of them may be left."""
        for member in (*self.askers, *self.kept):
            if not member.ended:
                member.end()
        self.node.wait_used(0, "after all have ended")
        self.node.wait_nothing_left()
