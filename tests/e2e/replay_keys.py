"""Fills in what a record of our own lacks (tests/gpu/records/580-h200): it has the calls, their sizes and answers, and
not what the parameters said. What is filled in is ours: each call names what the calls around it suggest."""
import copy

MIB = 1 << 20
GPU_FILE, MAP_FILE = 12, 60  # numbers of files
PAGE, LOCAL, TENSOR = 4096, 2 * MIB, 32 * MIB
TOO_MUCH = 1 << 40  # what is refused for want of memory
RANGES, CHANNELS, PAGES = 0x200000000, 0x7000000000, 0x40E186600000  # addresses
OS_DESCRIPTOR, OS_FLAGS = "NV01_MEMORY_SYSTEM_OS_DESCRIPTOR", 0x40001010
COPY_ENGINE = 9  # NV2080_ENGINE_TYPE_COPY0
OF_CLIENT = ("NV_CONFIDENTIAL_COMPUTE", "NV01_DEVICE_0")
OF_SUBDEVICE = ("NV2081_BINAPI", "HOPPER_USERMODE_A", "GF100_SUBDEVICE_MASTER", "RM_USER_SHARED_DATA",
                "NV50_THIRD_PARTY_P2P", "NV01_EVENT_OS_EVENT")
# Controls that name a GPU by the driver's number of it.
OF_AN_ID = ("GPU_GET_ID_INFO", "GPU_GET_ID_INFO_V2", "GPU_GET_PCI_INFO", "GPU_QUERY_DRAIN_STATE", "GPU_ASYNC_ATTACH_ID")
ENGINES = ("HOPPER_COMPUTE_A", "HOPPER_DMA_COPY_A")
# Names the class whose object a control is of, by the beginning of its name.
CONTROLS = (("NV0000_", "client"), ("NV0080_", "NV01_DEVICE_0"), ("NV2080_", "NV20_SUBDEVICE_0"),
            ("GSS_LEGACY_", "NV20_SUBDEVICE_0"), ("NV_CONF_", "NV_CONFIDENTIAL_COMPUTE"), ("BINAPI_", "NV2081_BINAPI"),
            ("NV90E6_", "GF100_SUBDEVICE_MASTER"), ("NV503C_", "NV50_THIRD_PARTY_P2P"),
            ("NVA06C_", "KEPLER_CHANNEL_GROUP_A"), ("NV906F_", "HOPPER_CHANNEL_GPFIFO_A"),
            ("NVC36F_", "HOPPER_CHANNEL_GPFIFO_A"), ("NV83DE_", "GT200_DEBUGGER"))
# PyTorch has a second client, which is NVML's: calls are about that from the first of these on, until the second.
OTHERS = ("NV_ESC_CHECK_VERSION_STR", "NV2080_CTRL_CMD_GSP_GET_FEATURES")


def is_mapping(row):
    return row.call == "NV_ESC_RM_MAP_MEMORY"


class Client:
    def __init__(self, first):
        self.next = first
        self.last = {"client": "client"}  # handles, by class
        self.files = {}  # numbers, by kind: the last that was opened


class Filler:
    """Goes through the rows in order. `like`: rows whose mappings are as long as those here, where theirs are not on
    record."""

    def __init__(self, rows, like=()):
        self._rows = [copy.copy(row) for row in rows]
        for row in self._rows:
            row.keys = dict(row.keys)
        self._out, self._at = [], 0
        self._mapped_like = [row.keys for row in like if is_mapping(row)]
        self._mappings = 0
        self._clients = {"1": Client(0x5C000001), "2": Client(0xCF000001)}
        self._root = "1"
        self._next_base, self._next_page = RANGES, PAGES
        self._sizes, self._ranges = {}, {}  # by memory: its bytes; where it is in UVM
        self._loose = []  # ranges without memory
        self._channels, self._registered, self._copies = [], [], 0
        self._groups, self._gone_groups, self._limits = 0, 0, 0
        self._tensors, self._devices = [], {}

    def fill(self):
        for self._at, row in enumerate(self._rows):
            self._fill(row)
            self._out.append(row)
        return self._out

    # --- What is around a row.

    def _client(self):
        return self._clients[self._root]

    def _last(self, name):
        return self._client().last.get(name, "0")

    def _put(self, row, **keys):
        for key, value in keys.items():
            row.keys.setdefault(key, hex(value) if isinstance(value, int) else value)

    def _ahead(self, match, most=None):
        """The next row that matches, among so many."""
        end = None if most is None else self._at + 1 + most
        return next((row for row in self._rows[self._at + 1:end] if match(row)), None)

    def _mapping(self, row):
        """Returns what the row, or the one that is like it, says of a mapping."""
        return row.keys if row is not None and "length" in row.keys else self._mapped_like[self._mappings]

    def _open(self, row, kind, number):
        """A file that is opened before the row, which is not on record."""
        opened = copy.copy(row)
        opened.file_kind, opened.call, opened.selected, opened.size = kind, "open", "", "-"
        opened.status, opened.errno, opened.fatal = "-", 0, None
        opened.keys = {"file": str(number)}
        self._out.append(opened)
        self._client().files[kind] = str(number)

    # --- The rows.

    def _fill(self, row):
        if row.what() in OTHERS:
            self._root = "2" if row.what() == OTHERS[0] else "1"
        self._put(row, root=self._root)
        if row.call == "open":
            self._client().files[row.file_kind] = row.keys["file"]
        elif row.call == "NV_ESC_RM_ALLOC":
            self._alloc(row)
        elif row.call.startswith("UVM_"):
            self._uvm(row, row.call.removeprefix("UVM_"))
        else:
            getattr(self, row.call.removeprefix("NV_ESC_").lower(), lambda row: None)(row)
        if row.call.startswith("NV_ESC_") and "file" not in row.keys:
            self._put(row, file=self._client().files[row.file_kind])

    def check_version_str(self, row):
        if "file" not in row.keys:
            self._open(row, "ctl", 108)

    def sys_params(self, row):
        if "file" not in row.keys and self._root == "1":
            self._open(row, "ctl", 8)

    def wait_open_complete(self, row):
        self._open(row, "gpu0", 110)

    def register_fd(self, row):
        if "file" not in row.keys:
            # The first that is registered is used again.
            number = GPU_FILE if "gpu0" not in self._client().files else MAP_FILE + len(self._out) % 1000 + 1
            self._open(row, "gpu0", number + (100 if self._root == "2" else 0))
            self._put(row, file=self._client().files["gpu0"], fd=self._client().files["ctl"])

    def alloc_os_event(self, row):
        self._put(row, file=self._client().files["gpu0"])
        self._put(row, device=self._last("NV20_SUBDEVICE_0"), fd=row.keys["file"])

    free_os_event = alloc_os_event

    def mmap(self, row):
        """Maps the semaphore pool."""
        self._put(row, base=self._loose[-1][0], file="9")

    # --- Objects.

    def _alloc(self, row):
        client, name = self._client(), row.selected
        if name == "NV01_ROOT":
            self._put(row, object="client", params="none")
            return
        self._put(row, object="%x" % client.next)
        handle = row.keys["object"]
        client.next = max(client.next, int(handle, 16)) + 1
        self._put(row, parent=self._parent(name))
        if name == "NV01_DEVICE_0":
            self._put(row, card="0")
        elif name == "FERMI_VASPACE_A" and "FERMI_VASPACE_A" not in client.last:
            self._put(row, use="uvm")
            client.last["space"] = handle
        elif name.startswith("NV01_MEMORY"):
            self._memory(row, handle)
        elif name == "KEPLER_CHANNEL_GROUP_A":
            self._put(row, space=self._last("space"), engine=self._engine())
            client.last.pop("FERMI_CONTEXT_SHARE_A", None)
        elif name == "FERMI_CONTEXT_SHARE_A":
            self._put(row, space=self._last("space"))
        elif "CHANNEL_GPFIFO" in name:
            self._put(row, error=self._last("notifier"), userd=self._last("userd"), share=self._last("FERMI_CONTEXT_SHARE_A"))
            self._channels.append(handle)
        elif name == "NV01_EVENT_OS_EVENT":
            self._put(row, file=client.files["gpu0"])
            self._put(row, fd=row.keys["file"])
        elif name == "GT200_DEBUGGER":
            self._put(row, debugs=self._last("first compute"))
        elif name == "HOPPER_COMPUTE_A":
            client.last.setdefault("first compute", handle)
        if row.size == "0":
            self._put(row, params="none")
        client.last[name] = handle
        if name in ("HOPPER_USERMODE_A", "RM_USER_SHARED_DATA"):
            client.last["memory"] = handle

    def _parent(self, name):
        if name in OF_CLIENT:
            return "client"
        if name in OF_SUBDEVICE:
            return self._last("NV20_SUBDEVICE_0")
        if name in ENGINES:
            return self._last("HOPPER_CHANNEL_GPFIFO_A")
        if name == "FERMI_CONTEXT_SHARE_A" or "CHANNEL_GPFIFO" in name:
            return self._last("KEPLER_CHANNEL_GROUP_A")
        return self._last("NV01_DEVICE_0")

    def _engine(self):
        found = self._ahead(lambda row: row.selected in ENGINES)
        if found.selected == ENGINES[0]:
            return 1  # NV2080_ENGINE_TYPE_GRAPHICS
        self._copies += 1
        return COPY_ENGINE + self._copies

    def _memory(self, row, handle):
        length = TENSOR if self._ahead(lambda one: "REGISTER_VIDMEM" in one.selected, 1) else LOCAL
        if row.status == "0x51":
            length = TOO_MUCH
        mapped = self._ahead(is_mapping, 3)
        if mapped is not None:
            length = (int(self._mapping(mapped)["length"], 0) + PAGE - 1) // PAGE * PAGE
            if row.selected == "NV01_MEMORY_SYSTEM" and length == PAGE:
                self._client().last["notifier"] = handle
            elif row.selected == "NV01_MEMORY_LOCAL_USER":
                self._client().last["userd"] = handle
        self._put(row, length=length)
        self._sizes[handle] = length
        if row.status == "0x0":
            self._client().last["memory"] = handle
            if length == TENSOR:
                self._tensors.append(handle)

    def rm_alloc_memory(self, row):
        row.selected = row.selected if row.selected.startswith("NV01") else OS_DESCRIPTOR
        client = self._client()
        self._put(row, object="%x" % client.next, parent=self._last("NV01_DEVICE_0"), flags=OS_FLAGS, base=self._next_page,
                  length=LOCAL, file=str(GPU_FILE))
        client.next = max(client.next, int(row.keys["object"], 16)) + 1
        client.last["memory"] = row.keys["object"]
        self._sizes[row.keys["object"]] = LOCAL
        self._next_page += 2 * LOCAL

    def rm_free(self, row):
        if "object" in row.keys:
            return
        if self._rows[self._at - 1].what() == "UVM_FREE":
            self._put(row, object=self._tensors.pop(), parent=self._last("NV01_DEVICE_0"))
        elif self._last("NV01_DEVICE_0") == "0" and self._last("NV_CONFIDENTIAL_COMPUTE") == "0":
            self._put(row, object="client", parent="client")
        else:
            self._put(row, object="%x" % self._client().next, parent="client")  # there is no such device yet

    # --- Mappings.

    def rm_map_memory(self, row):
        like = self._mapping(row)
        self._mappings += 1
        memory = self._last("memory")
        of_gpu = memory in (self._last("HOPPER_USERMODE_A"), self._last("userd"))
        if "fd" not in row.keys:
            self._open(row, "gpu0" if of_gpu else "ctl", MAP_FILE)
            self._client().files["ctl"] = "8"
        shared = memory == self._last("RM_USER_SHARED_DATA")
        self._put(row, memory=memory, length=like["length"], flags=like["flags"], fd=str(MAP_FILE), file="8",
                  device=self._last("NV20_SUBDEVICE_0" if of_gpu or shared else "NV01_DEVICE_0"))
        self._devices[row.keys["memory"]] = row.keys["device"]
        self._client().last["mapped"] = row.keys["memory"]

    def rm_unmap_memory(self, row):
        memory = self._ahead(lambda one: one.call == "NV_ESC_RM_FREE").keys["object"]
        self._put(row, memory=memory, device=self._devices[memory])

    def rm_update_device_mapping_info(self, row):
        memory = self._last("mapped")
        self._put(row, memory=memory, device=self._devices[memory], base=self._base(LOCAL))

    # --- Controls.

    def rm_control(self, row):
        name, client = row.selected, self._client()
        self._put(row, object=next((client.last.get(of, "0") for begin, of in CONTROLS if name.startswith(begin))))
        if name.endswith(("GPU_ATTACH_IDS", *OF_AN_ID)):
            self._put(row, card="0")
        if name.endswith("GPU_ATTACH_IDS") and not self._ahead(lambda one: one.call == "open", 2):
            self._open(row, "gpu0", 11)
            client.files.pop("gpu0")
        if name.endswith("SET_INHERITED_SHARE_POLICY"):
            self._put(row, policy="1,4,0" if "SET_INHERITED" not in self._rows[self._at - 1].selected else "4,4,4")
        elif name.endswith("GET_ADDR_SPACE_TYPE"):
            self._put(row, memory=self._last("memory"), flags=self._mapping(self._ahead(is_mapping, 2))["flags"])
        elif name.endswith("PERF_CUDA_LIMIT_SET_CONTROL"):
            self._put(row, **{"in": "00" if self._limits else "01"})
            self._limits += 1
        elif name.endswith("REGISTER_VA_SPACE"):
            self._put(row, space=self._last("space"))
        elif name.endswith("UNREGISTER_VIDMEM"):
            self._put(row, memory=self._tensors[-1])
        elif name.endswith("REGISTER_VIDMEM"):
            self._put(row, memory=self._last("memory"), base=self._next_base, length=self._sizes[self._last("memory")])

    # --- nvidia-uvm.

    def _base(self, length):
        base = self._next_base
        self._next_base += (length + LOCAL - 1) // LOCAL * LOCAL + LOCAL
        return base

    def _uvm(self, row, name):
        kept = 0 if self._root == "1" else 100
        if name == "INITIALIZE" and "file" not in row.keys:
            self._open(row, "uvm", 10 + kept)
            self._open(row, "uvm", 9 + kept)
        if name == "MM_INITIALIZE":
            self._put(row, file=str(10 + kept), fd=str(9 + kept))
        self._put(row, file=str(9 + kept), card="0")
        memory = self._last("memory")
        if name == "CREATE_EXTERNAL_RANGE":
            self._put(row, base=self._base(self._sizes[memory]), length=self._sizes[memory])
            self._ranges[memory] = (row.keys["base"], row.keys["length"])
        elif name == "MAP_EXTERNAL_ALLOCATION":
            base, length = self._ranges[memory]
            self._put(row, base=base, length=length, memory=memory)
        elif name == "REGISTER_GPU_VASPACE":
            self._put(row, object=self._last("space"))
        elif name == "REGISTER_CHANNEL":
            channel = self._channels.pop(0)
            self._registered.append(channel)
            compute = len(self._registered) <= 8
            self._put(row, object=channel, base=CHANNELS if compute else 0, length=64 * MIB if compute else 0)
        elif name == "UNREGISTER_CHANNEL":
            self._put(row, object=self._registered.pop(0))
        elif name == "CREATE_RANGE_GROUP":
            self._groups += 1
            self._put(row, group=self._groups)
        elif name == "DESTROY_RANGE_GROUP":
            self._gone_groups += 1
            self._put(row, group=self._gone_groups + 1)
        elif name in ("ALLOC_SEMAPHORE_POOL", "MAP_DYNAMIC_PARALLELISM_REGION"):
            length = LOCAL if name.startswith("ALLOC") else PAGE
            self._put(row, base=self._base(length), length=length)
            self._loose.append((row.keys["base"], row.keys["length"]))
        elif name == "VALIDATE_VA_RANGE":
            self._put(row, base=self._loose[-1][0], length=self._loose[-1][1])
        elif name == "FREE":
            self._free_range(row)

    def _free_range(self, row):
        """Names the range of what is freed next, or one without memory."""
        freed = None
        for one in self._rows[self._at + 1:self._at + 4]:
            if one.call == "UVM_FREE":
                break
            if one.call == "NV_ESC_RM_FREE":
                freed = one.keys.get("object") or self._tensors[-1]
                break
        base, length = self._ranges.pop(freed) if freed in self._ranges else self._loose.pop(0)
        self._put(row, base=base, length=length)
