"""Plays a record of what a program asked of a driver (tests/gpu/records), call by call, with the handles, sizes
and order on record. What pointers led to is mostly not on record: here it is built as src/rm has the structures,
from what earlier calls answered."""
import os
import struct
import sys

import cgpu_test as t
import differential as d

GPU = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../gpu")
sys.path.insert(0, GPU)

from kit import lines  # noqa: E402
import replay_keys  # noqa: E402

RECORDS = os.path.join(GPU, "records")
ALLOC, ALLOC_MEMORY = "NV_ESC_RM_ALLOC", "NV_ESC_RM_ALLOC_MEMORY"
REFUSED = 0x56  # NV_ERR_NOT_SUPPORTED: what the refusals on record were
GID_SHA1 = 2  # NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY
EXTERNALLY_OWNED = 1 << 3  # NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED
LOCATION_PCI = 1 << 25  # NVOS32_ATTR_LOCATION
HANDLES = ("object", "parent", "memory", "device", "space", "share", "error", "userd", "debugs")
VIRTUAL = 0x80000  # NVOS32_ALLOC_FLAGS_VIRTUAL
UVM_GRANULARITY, ELSEWHERE = 2 << 20, 0x300000000
RANGES = ("CREATE_EXTERNAL_RANGE", "FREE", "VALIDATE_VA_RANGE", "DISABLE_READ_DUPLICATION")


class Row:
    """A line: PROCESS FILE CALL [SELECTED] SIZE STATUS ERRNO WHO KEY=VALUE..."""

    branch = ""  # of the driver it was asked of

    def __init__(self, line, number):
        words = line.split()
        keys = [word for word in words if "=" in word]
        words = words[:len(words) - len(keys)]
        self.number = number
        self.text = line
        self.file_kind, self.call = words[1], words[2]
        self.selected = words[3] if len(words) == 8 else ""
        self.size, self.status, self.errno = words[-4], words[-3], int(words[-2])
        self.keys = dict(key.split("=", 1) for key in keys)
        self.fatal = self.keys.get("fatal")

    def expected(self):
        return (self.errno, None if self.status == "-" else int(self.status, 16))

    def what(self):
        return self.selected or self.call

    def get(self, key, default=0):
        return int(self.keys[key], 0) if key in self.keys else default

    def bytes(self, key):
        return lines.content(self.keys[key]) if key in self.keys else None

    def __str__(self):
        return "line %d, %s" % (self.number, self.what())


class Record:
    """A file, with those it comes after. `headers`: its own."""

    def __init__(self, folder, name):
        self.name = name
        self.headers, self.rows = {}, []
        with open(os.path.join(RECORDS, folder, name + ".txt"), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.startswith("#"):
                    key, _, value = line[1:].partition(":")
                    self.headers.setdefault(key.strip(), value.strip())
                elif line.strip():
                    self.rows.append(Row(line.strip(), number))
        for row in self.rows:
            row.branch = self.headers["driver"].split(".")[0]
        if self.headers.get("keys") == "filled in":
            like = self.headers.get("mapped like")
            self.rows = replay_keys.Filler(self.rows, Record(folder, like).rows if like else ()).fill()
        after = self.headers.get("after")
        self.before = Record(*(after if "/" in after else folder + "/" + after).split("/")) if after else None
        self.cards = int(self.headers["cards"])
        self.chip = self.headers["plays on"]
        # One that it comes after may have been recorded with another driver.
        self.branches = self.headers.get("branches", self.headers["driver"].split(".")[0]).split()

    def all_rows(self):
        return (self.before.all_rows() if self.before else []) + self.rows


class Player:
    """One program, on a node or in a slice. Where `branch` is not that of the record, sizes are the branch's."""

    def __init__(self, program, tables, branch, mapped=None, refuse=None):
        self.program = program
        self.mapped_managed = mapped or (lambda: None)  # called after an mmap
        self.tables = tables
        self.branch = branch
        self.refuse = refuse  # a Row: its first answer is taken for a refusal
        self.numbers = {name: number for kind in ("class", "control", "escape", "uvm")
                        for number, (_, name) in tables[kind].items()}
        self.first, self.clients, self.root = {}, {}, "1"
        self.ids, self.instances, self.uuids = [], {}, {}
        self.pid = 0  # a process that the driver named
        self.mapped, self.groups, self.engines = {}, {}, {}
        self.uvm_groups, self.channel, self.group = {}, 0, 0
        self.card_of, self.pages, self.context_bytes = {}, set(), {}
        self.absent = set()  # handles of what was refused
        self.kept = set()  # numbers of files that stay open and are not given to another

    # --- The whole.

    def play(self, rows):
        """(answers by row, the consequence the program itself has of the first fatal refusal or None)."""
        answers = []
        for row in rows:
            if self._needs(row) & self.absent:
                continue  # a program does nothing with what it did not get
            got, out = self._one(row)
            if row.call in (ALLOC, ALLOC_MEMORY) and got != (0, 0):
                self.absent.add(row.keys["object"])
            if row is self.refuse:
                got = (0, REFUSED)
            wrong = got != row.expected()
            content = row.bytes("out")
            if not wrong and content is not None and not bytes(out).startswith(content):
                wrong, got = True, (*got, bytes(out[:len(content)]).hex())
            answers.append((row, got, wrong))
            if wrong and row.fatal:
                return answers, row.fatal
        return answers, None

    @staticmethod
    def _needs(row):
        """The handles that it names."""
        made = row.call in (ALLOC, ALLOC_MEMORY)
        return {row.keys[key] for key in HANDLES if key in row.keys and not (made and key == "object")}

    @property
    def client(self):
        return self.clients.get(self.root, 0)

    def _one(self, row):
        self.root = row.keys.get("root", "1")  # which of the program's clients it is about
        if row.call == "open":
            return (self._open(row), None), b""
        if row.call == "mmap":
            error = self._map(row.get("base"), int(row.size), self._file(row))
            self.mapped_managed()
            return (error, None), b""
        if row.call.startswith("UVM_"):
            return self._uvm(row)
        return getattr(self, "_" + row.call.removeprefix("NV_ESC_").lower())(row)

    # --- Files.

    def _open(self, row):
        file = self._numbered(row.keys["file"])
        self.first.setdefault(row.file_kind, file)
        path = {"ctl": "/dev/nvidiactl", "uvm": "/dev/nvidia-uvm"}.get(
            row.file_kind, "/dev/nvidia" + row.file_kind.removeprefix("gpu"))
        return int(self.program.ask("open %d %s" % (file, path)))

    def _numbered(self, text):
        return int(text) + (1000 if int(text) in self.kept else 0)

    def _file(self, row):
        if "file" not in row.keys:
            return self.first[row.file_kind]
        return self._numbered(row.keys["file"])

    def _fd(self, row):
        return self._numbered(row.keys["fd"])

    def _map(self, base, length, file=-1):
        return int(self.program.ask("map %d %d %x" % (file, length, base)))

    # --- Handles.

    def _handle(self, row, key):
        text = row.keys.get(key, "0")
        return self.client if text == "client" else int(text, 16)

    def _id(self, row):
        return self.ids[row.get("card")]

    def _uuid(self, row):
        return self.uuids[row.get("card")]

    # --- RM's calls.

    def _call(self, row, image, status, nested=(), fds=()):
        """The image and what comes of it: ((errno, status), image, nested)."""
        call = d.Call(row.what(), self.numbers[row.call], image, self._file(row))
        call.status = status
        for holder, at, data in nested:
            call.point(at, data, holder)
        call.fds = list(fds)
        answer = d.Answer(call, self.program.ask(call.line({})), {}, [])
        return (answer.errno, answer.status), answer.raw, answer.nested

    def _escape(self, row, image, fds=()):
        number = self.numbers[row.call]
        status = self.tables["status"].get(number << 16 | len(image), (None, ""))[0]
        got, raw, _ = self._call(row, image, status, (), fds)
        return got, raw

    def _sys_params(self, row):
        return self._escape(row, struct.pack("<Q", 0x80000000))

    def _card_info(self, row):
        return self._escape(row, bytes(int(row.size)))

    _numa_info = _wait_open_complete = _card_info

    def _check_version_str(self, row):
        return self._escape(row, b"2".ljust(int(row.size), b"\0"))  # NV_RM_API_VERSION_CMD_QUERY

    def _register_fd(self, row):
        return self._escape(row, bytes(4), [(-1, 0, self._fd(row))])

    def _alloc_os_event(self, row):
        image = struct.pack("<IIII", self.client, self._handle(row, "device"), 0, 0)
        return self._escape(row, image, [(-1, 8, self._fd(row))])

    _free_os_event = _alloc_os_event

    def _rm_free(self, row):
        return self._escape(row, struct.pack("<IIII", self.client, self._handle(row, "parent"),
                                             self._handle(row, "object"), 0))

    def _rm_map_memory(self, row):
        memory = self._handle(row, "memory")
        image = struct.pack("<IIIIQQQIIII", self.client, self._handle(row, "device"), memory, 0, 0,
                            row.get("length"), 0, 0, row.get("flags"), 0, 0)
        got, raw = self._escape(row, image, [(-1, 48, self._fd(row))])
        self.mapped[memory] = struct.unpack_from("<Q", raw, 32)[0]
        return got, raw

    def _rm_unmap_memory(self, row):
        memory = self._handle(row, "memory")
        return self._escape(row, struct.pack("<IIIIQII", self.client, self._handle(row, "device"),
                                             memory, 0, self.mapped.get(memory, 0), 0, 0))

    def _rm_update_device_mapping_info(self, row):
        memory = self._handle(row, "memory")
        image = struct.pack("<IIIIQQII", self.client, self._handle(row, "device"), memory, 0,
                            self.mapped.get(memory, 0), row.get("base"), 0, 0)
        self.mapped[memory] = row.get("base")
        return self._escape(row, image)

    def _rm_alloc_memory(self, row):
        base, length = row.get("base"), row.get("length")
        cls = self.numbers[row.selected]
        if base and base not in self.pages:
            page = base // 4096 * 4096
            self.pages.add(base)
            error = self._map(page, length + base - page)
            t.check(error == 0, "%s: no pages of its own at 0x%x: errno %d" % (row, page, error))
        image = struct.pack("<IIIIIIQQIIiI", self.client, self._handle(row, "parent"),
                            self._handle(row, "object"), cls, row.get("flags"), 0, base, length - 1,
                            0, 0, -1, 0)
        return self._escape(row, image)

    # --- Objects.

    def _rm_alloc(self, row):
        cls = self.numbers[row.selected]
        handle = self._handle(row, "object")
        makes_client = row.keys["object"] == "client"
        long_form = row.get("form", 48) == 48
        image = struct.pack("<IIIIQ", 0 if makes_client else self.client, self._handle(row, "parent"),
                            0 if makes_client else handle, cls, 0)
        if makes_client:
            image = struct.pack("<IIIIQ", 0, 0, 0, cls, 0)
        image += bytes(24 if long_form else 8)
        params, fds = self._class_params(row, self.tables["class"][cls][0])
        nested = [] if params is None or makes_client else [(-1, 16, params)]
        got, raw, out = self._call(row, image, 40 if long_form else 28, nested,
                                   [(0, at, file) for at, file in fds])
        if makes_client and got == (0, 0):
            self.clients[self.root] = struct.unpack_from("<I", raw, 8)[0]
        self._remember(row, handle)
        return got, out[0] if out else b""

    def _remember(self, row, handle):
        parent = self._handle(row, "parent")
        if "CHANNEL_GPFIFO" in row.selected:
            self.channel, self.group = handle, parent
        elif row.selected == "KEPLER_CHANNEL_GROUP_A":
            self.groups[handle] = row.get("engine")
        elif parent == self.channel:
            self.engines[parent] = handle
        if row.selected == "NV01_DEVICE_0":
            self.card_of[handle] = row.get("card")
        elif parent in self.card_of:
            self.card_of[handle] = self.card_of[parent]

    def _class_params(self, row, size):
        """The class's parameters, None for a null pointer; and (offset, file) of descriptors in them."""
        if row.keys.get("params") == "none":
            return None, []
        params, fds = bytearray(max(size, 8)), []
        name, put = row.selected, struct.pack_into
        if name == "NV_CONFIDENTIAL_COMPUTE":
            put("<I", params, 0, self.client)
        elif name == "NV01_DEVICE_0":
            put("<I", params, 0, self.instances[row.get("card")])
        elif name == "FERMI_VASPACE_A":
            put("<I", params, 4, EXTERNALLY_OWNED if row.keys.get("use") == "uvm" else 0)
        elif name in ("NV01_MEMORY_LOCAL_USER", "NV01_MEMORY_SYSTEM"):
            put("<I", params, 0, self.client)
            put("<I", params, 24, LOCATION_PCI if name.endswith("SYSTEM") else 0)
            put("<Q", params, 64, row.get("length"))
        elif name == "NV50_MEMORY_VIRTUAL":
            put("<III", params, 0, self.client, 0, VIRTUAL)
            put("<Q", params, 64, row.get("length", UVM_GRANULARITY))
        elif name == "KEPLER_CHANNEL_GROUP_A":
            put("<II", params, 8, self._handle(row, "space"), row.get("engine"))
        elif name == "FERMI_CONTEXT_SHARE_A":
            put("<I", params, 0, self._handle(row, "space"))
        elif "CHANNEL_GPFIFO" in name:
            put("<I", params, 0, self._handle(row, "error"))
            put("<QI", params, 8, 0x200400000, 1024)
            put("<I", params, 24, self._handle(row, "share"))
            put("<I", params, 32, self._handle(row, "userd"))
            put("<Q", params, 64, 512 * len(self.engines))
            put("<I", params, 128, self.groups.get(self._handle(row, "parent"), 0))
        elif name in ("NV01_EVENT", "NV01_EVENT_OS_EVENT"):
            put("<III", params, 0, self.client, self._handle(row, "parent"), 0x79)
            fds.append((16, self._fd(row)))
        elif name == "GT200_DEBUGGER":
            put("<III", params, 0, 0, self.client, self._handle(row, "debugs"))
        return params, fds

    # --- Controls.

    def _rm_control(self, row):
        command = self.numbers.get(row.selected)
        if command is None:
            command = int(row.selected, 16)
        size = self._size(row, self.tables["control"].get(command, (0, ""))[0])
        params = bytearray(size)
        given = row.bytes("in") or b""
        params[:len(given)] = given
        nested, fds = self._control_params(row, params)
        image = struct.pack("<IIIIQII", self.client, self._handle(row, "object"), command, 0, 0, size,
                            0)
        blocks = [(-1, 16, params)] + [(0, at, data) for at, data in nested] if size else []
        got, _, out = self._call(row, image, 28, blocks, [(0, at, file) for at, file in fds])
        out = out[0] if out else b""
        self._learn(row, out)
        return got, out

    def _size(self, row, of_branch):
        recorded = int(row.size) if row.size != "-" else 0
        if row.branch == self.branch and recorded:
            return recorded
        return of_branch or recorded

    def _learn(self, row, out):
        name = row.selected.split("_CMD_")[-1]
        if name == "GPU_GET_PROBED_IDS":
            found = struct.unpack_from("<32I", out, 0)
            self.ids = [number for number in found if number != 0xFFFFFFFF]
        elif name == "GPU_GET_ID_INFO_V2":
            self.instances[row.get("card")] = struct.unpack_from("<I", out, 8)[0]
        elif name == "GPU_GET_ID_INFO" and "card" in row.keys:
            self.instances[row.get("card")] = struct.unpack_from("<I", out, 8)[0]
        elif name == "GR_GET_CTX_BUFFER_SIZE":
            self.context_bytes[self.channel] = struct.unpack_from("<Q", out, 8)[0]
        elif name == "GPU_GET_PIDS":
            self.pid = struct.unpack_from("<I", out, 12)[0]
        elif name == "GPU_GET_GID_INFO":
            self.uuids[self.card_of[self._handle(row, "object")]] = bytes(out[12:28])

    def _control_params(self, row, params):
        """Fills them in; what their pointers lead to, [(offset, bytes)], and descriptors in them."""
        name, put, nested, fds = row.selected.split("_CMD_")[-1], struct.pack_into, [], []
        if name == "SYSTEM_GET_BUILD_VERSION":
            put("<I", params, 0, 80)
            nested = [(8, bytes(80)), (16, bytes(80)), (24, bytes(80))]
        elif name == "CLIENT_SET_INHERITED_SHARE_POLICY":
            mask, kind, action = map(int, row.keys["policy"].split(","))
            put("<IIHB", params, 0, self.client, mask, kind, action)
        elif name == "GPU_ATTACH_IDS":
            put("<II", params, 0, self._id(row), 0xFFFFFFFF)
        elif name in replay_keys.OF_AN_ID:
            put("<I", params, 0, self._id(row))
        elif name == "SYSTEM_GET_P2P_CAPS_MATRIX":
            put("<II%dI" % len(self.ids), params, 0, len(self.ids), 0, *self.ids)
        elif name == "CLIENT_GET_ADDR_SPACE_TYPE":
            put("<II", params, 0, self._handle(row, "memory"), row.get("flags"))
        elif name == "GPU_GET_GID_INFO":
            put("<II", params, 0, 0, GID_SHA1)
        elif name in ("FB_GET_INFO_V2", "GPU_GET_INFO_V2", "BUS_GET_INFO_V2") and not any(params):
            # How many and which; those of the 580 record are in its lines.
            put("<II", params, 0, 1, {"F": 8, "G": 0x11, "B": 3}[name[0]])
        elif name == "GR_GET_INFO":
            put("<I", params, 0, 1)
            nested = [(8, bytes(8))]
        elif name == "FIFO_GET_CHANNELLIST":
            put("<I", params, 0, 1)
            nested = [(8, struct.pack("<I", self.channel)), (16, bytes(4))]
        elif row.selected.endswith("GET_CLASS_ENGINEID"):
            put("<I", params, 0, self.engines.get(self._handle(row, "object"), 0))
        elif name == "GR_GET_CTX_BUFFER_SIZE":
            put("<I", params, 0, self.channel)
        elif name == "GPFIFO_SCHEDULE":
            put("<B", params, 0, 1)
        elif name == "GR_SET_CTXSW_PREEMPTION_MODE":
            # On record: CILP is set, and to instructions (2).
            put("<IIII", params, 0, 1, self._handle(row, "channel") or self.group, 0, 2)
        elif row.selected.startswith("NV503C_"):  # of a VA space, or of memory and where it is
            put("<I", params, 0, self._handle(row, "space") or self._handle(row, "memory"))
            if name == "REGISTER_VIDMEM":
                put("<QQQ", params, 8, row.get("base"), row.get("length"), 0)
        elif name == "GPU_GET_PIDS":
            put("<II", params, 0, 0, 0x2080)  # ..._ID_TYPE_CLASS, NV20_SUBDEVICE_0
        elif name == "GPU_GET_PID_INFO":
            put("<I", params, 0, 1)
            put("<II", params, 8, self.pid, 0)  # ..._INDEX_VIDEO_MEMORY_USAGE
        elif name == "SET_TIMESLICE":
            put("<Q", params, 0, row.get("microseconds", 2000))
        elif name == "OS_UNIX_EXPORT_OBJECT_TO_FD":
            put("<IIII", params, 0, 1, *(self._handle(row, key) for key in ("device", "parent", "memory")))
            fds = [(16, self._fd(row))]
        elif name == "OS_UNIX_GET_EXPORT_OBJECT_INFO":
            fds = [(0, self._fd(row))]
        elif name == "OS_UNIX_IMPORT_OBJECT_FROM_FD":
            put("<IIIII", params, 0, 0, 1,
                *(self._handle(row, key) for key in ("device", "parent", "memory")))
            fds = [(0, self._fd(row))]
        return nested, fds

    # --- nvidia-uvm.

    def _uvm(self, row):
        request = self.numbers[row.call]
        size = self.tables["uvm"][request][0]
        params, fds = self._uvm_params(row, bytearray(size))
        items = "".join(" f:-1:%d:%d" % (at, file) for at, file in fds)
        words = self.program.ask("call %d %x %s%s" % (self._file(row), request, params.hex() or "-",
                                                      items)).split()
        out = b"" if words[1] == "-" else bytes.fromhex(words[1])
        at = self.tables["uvm-status"][request][0]
        status = struct.unpack_from("<I", out, at)[0] if int(words[0]) == 0 and out else None
        if row.call == "UVM_MM_INITIALIZE" and status == 0:
            self.kept.add(self._file(row))  # else there is nothing that the file holds
        if row.call == "UVM_CREATE_RANGE_GROUP":
            self.uvm_groups[row.get("group")] = struct.unpack_from("<Q", out, 0)[0]
        return (int(words[0]), status), out

    def _channel_range(self, row):
        """The program has the length from GR_GET_CTX_BUFFER_SIZE, and chooses the addresses."""
        base, length = row.get("base"), row.get("length")
        needed = self.context_bytes.get(self._handle(row, "object"), 0)
        needed = (needed + UVM_GRANULARITY - 1) // UVM_GRANULARITY * UVM_GRANULARITY
        return (base, length) if needed <= length or length == 0 else (ELSEWHERE, needed)

    def _uvm_params(self, row, params):
        name, put, fds = row.call.removeprefix("UVM_"), struct.pack_into, []
        if name == "INITIALIZE":
            put("<Q", params, 0, row.get("flags"))
        elif name == "MM_INITIALIZE":
            fds = [(0, self._fd(row))]
        elif name.startswith(("REGISTER_", "UNREGISTER_GPU")):
            params[:16] = self._uuid(row)
            if name == "REGISTER_GPU":
                put("<i", params, 24, -1)
            elif name.startswith("REGISTER"):
                put("<II", params, 20, self.client, self._handle(row, "object"))
                fds = [(16, self.first["ctl"])]
            if name == "REGISTER_CHANNEL":
                put("<QQ", params, 32, *self._channel_range(row))
        elif name == "UNREGISTER_CHANNEL":
            # From 590 on without the GPU's UUID.
            put("<II", params, len(params) - 12, self.client, self._handle(row, "object"))
        elif name in RANGES:
            put("<Q", params, 0, row.get("base"))
            if len(params) >= 20:
                put("<Q", params, 8, row.get("length"))
        elif name.endswith("_RANGE_GROUP"):
            put("<Q", params, 0, self.uvm_groups.get(row.get("group"), 0))
        elif name == "MAP_DYNAMIC_PARALLELISM_REGION":
            put("<QQ", params, 0, row.get("base"), row.get("length"))
            params[16:32] = self._uuid(row)
        elif name == "ALLOC_SEMAPHORE_POOL":
            put("<QQ", params, 0, row.get("base"), row.get("length"))
            params[16:32] = self._uuid(row)
            put("<Q", params, len(params) - 16, 1)
        elif name == "MAP_EXTERNAL_ALLOCATION":
            put("<QQQ", params, 0, row.get("base"), row.get("length"), 0)
            params[24:40] = self._uuid(row)
            put("<QiII", params, len(params) - 24, 1, 0, self.client, self._handle(row, "memory"))
            fds = [(len(params) - 16, self.first["ctl"])]
        return params, fds
