"""A call for each row of the driver's tables: every class, control, escape and request of nvidia-uvm, in
the size that a driver branch has for it, with real objects in it where zeros would name nothing."""
import copy
import random
import struct

import differences
import differential as d

CTL, CARD, EXPORTED, EXPORTED_MANY, UVM, MAPPED = 0, 1, 10, 11, 12, 13
FILES = {CTL: "/dev/nvidiactl", CARD: "/dev/nvidia0", EXPORTED: "/dev/nvidiactl",
         EXPORTED_MANY: "/dev/nvidiactl", UVM: "/dev/nvidia-uvm", MAPPED: "/dev/nvidia0"}
SPACE, UVM_SPACE, MEMORY, GROUP, RANGE, BINARY = 0x60, 0x61, 0x30, 0x50, 0x31, 0x21
EXTERNALLY_OWNED = 1 << 3  # NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED, nvos.h
CONTEXT_DMA = 2
CHANNEL, CHANNEL_CLASS, VIRTUAL, OS_DESCRIPTOR, HEAP_INFO = 0x51, 0xC46F, 0x70, 0x71, 5
BASE, LENGTH, CHANNEL_BASE = 0x7F0000000000, 2 << 20, 0x7E0000000000
BINAPI = 0x2081
# Escapes that only a GPU's file takes, and one that a slice takes on such a file alone.
CARDS_OWN = ("ALLOC_MEMORY", "I2C_ACCESS", "QUERY_DEVICE_INTR", "NUMA_INFO", "SET_NUMA_STATUS",
             "EXPORT_TO_DMABUF_FD", "REGISTER_FD")
FOR_NO_CLIENT = ("CHECK_VERSION_STR", "SYS_PARAMS", "GET_EVENT_DATA", "WAIT_OPEN_COMPLETE")
# Escapes that some drivers answer without a look at the size: LOCKLESS_DIAGNOSTIC,
# WAIT_OPEN_COMPLETE.
IN_ANY_SIZE = (0x5F, 218)
CLIENT_CLASSES = (0, 1, d.ROOT)
# Effects of controls that do not reach the driver, and those that do whatever is asked.
# With zeros no mode of preemption is asked for.
NEVER_RUN = ("-", "refuse", "swallow", "empty", "ledger", "preemption", "cache-flush")
ALWAYS_RUN = ("pass", "view")
# Calls that the shim makes for itself.
SHIMS_OWN = ("NV_ESC_RM_ALLOC 0x41", "NV0000_CTRL_CMD_CLIENT_GET_ACCESS_RIGHTS",
             "NV0000_CTRL_CMD_OS_UNIX_CREATE_EXPORT_OBJECT_FD")
# It asks this of each file before it is initialised: whether it is already.
IS_INITIALISED = "UVM_CLEAN_UP_ZOMBIE_RESOURCES"
# nvidia-uvm's that do not reach it, as boundary/calls/uvm.cc has them: answered, because the sharing
# mode leaves nothing to do, and refused.
UVM_NEVER_RUN = ("UVM_MM_INITIALIZE", "UVM_DEINITIALIZE", "UVM_POPULATE_PAGEABLE",
                 "UVM_ALLOC_DEVICE_P2P", "UVM_CLEAR_ALL_ACCESS_COUNTERS")
# In this order they make an address space that something can be mapped into; the last ones undo it.
UVM_FIRST = (0x30000001, 37, 25, 73)  # initialise, register the GPU and its addresses, a range
UVM_LAST = ("UVM_UNREGISTER", "UVM_FREE", "UVM_UNMAP", "UVM_DEINIT")


class Request(d.Call):
    """One whose number says nothing of its size: nvidia-uvm's, and RM's without one."""

    def __init__(self, what, number, image, file):
        super().__init__(what, 0, image, file)
        self.number = number

    def line(self, roots):
        image = bytearray(self.image)
        for at, slot in self.clients:
            struct.pack_into("<I", image, at, roots.get(slot, slot))
        words = [image.hex() or "-"] + ["f:%d:%d:%d" % fd for fd in self.fds]
        return "call %d %x %s" % (self.file, self.number, " ".join(words))


class Row:
    """A row, by kind and number, what the driver's count calls it, and the call that asks it."""

    def __init__(self, kind, number, key, call):
        self.kind = kind
        self.number = number
        self.key = key
        self.call = call

    def on(self, files):
        """The same on other files, by their numbers here."""
        other = copy.copy(self)
        other.call = copy.deepcopy(self.call)
        other.call.file = files.get(self.call.file, self.call.file)
        other.call.fds = [(holder, at, files.get(file, file)) for holder, at, file in self.call.fds]
        return other

    def __str__(self):
        return "%s: %s" % (self.key, self.call)


class Rows:
    """All of them, for the client `root` of a program on this GPU. The client is in slot 0."""

    def __init__(self, gpu, tables, root=0):
        self.tables = tables
        self.id = gpu["gpu_id"]
        self.uuid = bytes.fromhex(gpu["uuid"].removeprefix("GPU-").replace("-", ""))
        self.maker = d.Maker(random.Random(0), tables, [self.id])
        self.root = root

    def prelude(self):
        """Makes what the rows name."""
        make, sizes = self.maker, self.tables["class"]
        group = bytearray(sizes[d.GROUP][0])
        struct.pack_into("<IIII", group, 0, 0, 0, UVM_SPACE, 1)  # engine: graphics
        memory = bytearray(128)
        struct.pack_into("<Q", memory, 64, LENGTH)
        channel = bytearray(sizes[CHANNEL_CLASS][0])  # in the group's address space
        ranges = struct.pack("<QQI", 0, 0, SPACE).ljust(sizes[VIRTUAL][0], b"\0")
        space = bytes(sizes[d.VASPACE][0])
        of_uvm = bytearray(space)
        struct.pack_into("<I", of_uvm, 4, EXTERNALLY_OWNED)
        return make.prelude() + [
            make.alloc("space", 0, 0x10, SPACE, d.VASPACE, space),
            make.alloc("space of nvidia-uvm", 0, 0x10, UVM_SPACE, d.VASPACE, of_uvm),
            make.alloc("group", 0, 0x10, GROUP, d.GROUP, group),
            make.alloc("channel", 0, GROUP, CHANNEL, CHANNEL_CLASS, channel),
            make.alloc("binary", 0, 0x20, BINARY, BINAPI, None),
            make.alloc("memory", 0, 0x10, MEMORY, d.VIDMEM, memory),
            make.alloc("range", 0, 0x10, RANGE, VIRTUAL, ranges)]

    def all(self):
        for rows in (self.classes, self.controls, self.escapes, self.sizeless, self.uvm):
            yield from rows()

    # --- Classes and controls.

    def classes(self):
        for number, (size, name) in self.tables["class"].items():
            parent = 0 if number in CLIENT_CLASSES else 0x20
            call = self.maker.alloc(name, 0, parent, 0, number, bytes(size) if size else None)
            if number in CLIENT_CLASSES:
                call.clients = []  # the driver picks the handle
            yield Row("class", number, "NV_ESC_RM_ALLOC 0x%x" % number, call)

    def controls(self):
        for number, (size, name) in self.tables["control"].items():
            yield Row("control", number, name, self._control(number, size, name))

    def _control(self, number, size, name):
        if name.startswith(("GSS_LEGACY_", "BINAPI_")):
            size = size or 1  # not on record
        params = bytearray(size)
        objects = {0: 0, 0x80: 0x10, d.GROUP: GROUP, d.VASPACE: SPACE, BINAPI: BINARY}
        call = self.maker.control(0, objects.get(number >> 16, 0x20), number, params)
        if number >> 16 == 0:
            call.by(0, 4)
        self._fill(call, name.split("_CMD_")[-1])
        return call

    def _fill(self, call, short):
        """Names what there is, where zeros name nothing."""
        params = call.nested[0]
        if not params:
            return  # not of this branch
        if short in ("GPU_GET_ID_INFO", "GPU_GET_ID_INFO_V2", "GPU_GET_PCI_INFO",
                     "GPU_GET_UUID_FROM_GPU_ID", "GPU_QUERY_DRAIN_STATE", "GPU_ASYNC_ATTACH_ID"):
            struct.pack_into("<I", params, 0, self.id)
        elif short in ("GPU_ATTACH_IDS", "GPU_DETACH_IDS"):
            struct.pack_into("<II", params, 0, self.id, 0xFFFFFFFF)
        elif short in ("CLIENT_GET_ACCESS_RIGHTS", "GR_CTXSW_ZCULL_BIND"):
            struct.pack_into("<II", params, 0, self.root, self.root)
        elif short == "FIFO_DISABLE_CHANNELS":
            # Switches the first of a list of 64 on. Lists of clients, of channels.
            struct.pack_into("<I", params, 4, 1)
            struct.pack_into("<I", params, 24, self.root)
            struct.pack_into("<I", params, 280, CHANNEL)
        elif short == "REGISTER_VIDMEM":
            struct.pack_into("<I", params, 0, MEMORY)
        elif short == "OS_UNIX_EXPORT_OBJECT_TO_FD":
            struct.pack_into("<IIII", params, 0, 1, 0x10, 0x10, MEMORY)
            call.fds.append((0, 16, EXPORTED))
        elif short == "OS_UNIX_IMPORT_OBJECT_FROM_FD":
            struct.pack_into("<IIIII", params, 0, 0, 1, 0, 0x10, 0)
            call.fds.append((0, 0, EXPORTED))
        elif short == "OS_UNIX_GET_EXPORT_OBJECT_INFO":
            call.fds.append((0, 0, EXPORTED))
        elif short == "OS_UNIX_EXPORT_OBJECTS_TO_FD":
            struct.pack_into("<IIH", params, 0, 0, 0x10, 1)
            struct.pack_into("<I", params, 76, MEMORY)
            struct.pack_into("<H", params, 2124, 1)
            call.fds.append((0, 0, EXPORTED_MANY))
        elif short == "OS_UNIX_IMPORT_OBJECTS_FROM_FD":
            struct.pack_into("<II", params, 0, 0, 0x10)
            struct.pack_into("<H", params, 648, 1)
            call.fds.append((0, 0, EXPORTED_MANY))

    # --- Escapes.

    def escapes(self):
        for number, (size, name) in self.tables["escape"].items():
            if size != 0:
                short = name.removeprefix("NV_ESC_").removeprefix("RM_")
                inner = {"ALLOC": " 0x2080", "ALLOC_MEMORY": " 0x%x" % OS_DESCRIPTOR}
                key = {"CONTROL": "NV0000_CTRL_CMD_GPU_GET_PROBED_IDS",
                       "IOCTL_XFER_CMD": "NV_ESC_RM_ALLOC 0x2080"}.get(
                           short, name + inner.get(short, ""))
                yield Row("escape", number, key, self._escape(number, size, short))

    def sizeless(self):
        """Numbers without a size, which a filter might take for a terminal's."""
        for number in IN_ANY_SIZE:
            name = self.tables["escape"][number][1]
            yield Row("sizeless", number, name,
                      Request(name + " without a size", ord("F") << 8 | number, b"", CTL))

    def _escape(self, number, size, short):
        call = d.Call(short, number, bytes(size))
        call.status = self.tables["status"].get(number << 16 | size, (None, ""))[0]
        if short == "ALLOC":
            return self.maker.alloc("subdevice", 0, 0x10, 0, d.SUBDEVICE, bytes(4))
        if short == "CONTROL":
            return self.maker.on_client(0, d.PROBED_IDS,
                                        bytes(self.tables["control"][d.PROBED_IDS][0]))
        if short == "IOCTL_XFER_CMD":
            call = self.maker.alloc("subdevice", 0, 0x10, 0, d.SUBDEVICE, bytes(4))
            call.wrapped = True
            return call
        if short in CARDS_OWN:
            call.file = CARD
        if short == "REGISTER_FD":
            call.fds.append((-1, 0, CTL))
        elif short == "ATTACH_GPUS_TO_FD":
            struct.pack_into("<I", call.image, 0, self.id)
        elif short == "STATUS_CODE":
            struct.pack_into("<IBB", call.image, 0, self.id >> 16, self.id >> 8 & 0xFF,
                             self.id & 0xFF)
        elif short == "CARD_INFO":
            call.image = bytearray(72)
        elif short not in FOR_NO_CLIENT and size >= 4:
            call.by(0)
        if short == "ALLOC_MEMORY":
            # NVOS02: parent, handle, class, then flags, address, limit.
            struct.pack_into("<III", call.image, 4, 0x10, 0, OS_DESCRIPTOR)
            struct.pack_into("<Q", call.image, 32, 4095)
            call.point(24, bytes(4096))
            call.fds.append((-1, 48, MAPPED))
        elif short == "ALLOC_CONTEXT_DMA2":
            # NVOS39: client, subdevice, handle, class, flags, selector, memory.
            struct.pack_into("<IIIIII", call.image, 4, 0, 0, CONTEXT_DMA, 0, 0, MEMORY)
        elif short == "SHARE":
            struct.pack_into("<I", call.image, 4, MEMORY)
        elif short == "DUP_OBJECT":
            struct.pack_into("<II", call.image, 4, 0x10, 0)
            call.by(0, 12)
            struct.pack_into("<I", call.image, 16, MEMORY)
        elif short == "VID_HEAP_CONTROL":
            struct.pack_into("<II", call.image, 4, 0x10, HEAP_INFO)
        elif short == "MAP_MEMORY":
            # NVOS33: device, memory, then offset, length; the file behind it.
            struct.pack_into("<II", call.image, 4, 0x10, MEMORY)
            struct.pack_into("<Q", call.image, 24, 4096)
            call.fds.append((-1, 48, MAPPED))
        elif short == "MAP_MEMORY_DMA":
            struct.pack_into("<III", call.image, 4, 0x10, RANGE, MEMORY)
            struct.pack_into("<Q", call.image, 24, 4096)
        return call

    # --- nvidia-uvm.

    def uvm(self):
        table = self.tables["uvm"]
        last = [number for number, (_, name) in table.items() if name.startswith(UVM_LAST)]
        between = [number for number in table if number not in UVM_FIRST + tuple(last)]
        for number in UVM_FIRST + tuple(between + last):
            size, name = table[number]
            if size != 0 or name == "UVM_DEINITIALIZE":
                yield Row("uvm", number, name, self._uvm(number, size, name))

    def _uvm(self, number, size, name):
        params, named = bytearray(size), None  # the place of a client and of what it has, and the file's
        short = name.removeprefix("UVM_")
        if short in ("REGISTER_GPU", "REGISTER_GPU_VASPACE", "REGISTER_CHANNEL", "UNREGISTER_GPU",
                     "UNREGISTER_GPU_VASPACE", "PAGEABLE_MEM_ACCESS_ON_GPU",
                     "ENABLE_SYSTEM_WIDE_ATOMICS", "DISABLE_SYSTEM_WIDE_ATOMICS",
                     "ENABLE_PEER_ACCESS", "DISABLE_PEER_ACCESS"):
            params[:16] = self.uuid
        elif short not in ("INITIALIZE", "MM_INITIALIZE", "MIGRATE_RANGE_GROUP") and size >= 20:
            struct.pack_into("<QQ", params, 0, BASE, LENGTH)
            if size >= 36:
                params[16:32] = self.uuid
        if short == "FREE":
            struct.pack_into("<Q", params, 0, BASE)  # later branches ask for no length
        if short.endswith("PEER_ACCESS"):
            params[16:32] = self.uuid
        if short == "REGISTER_GPU_VASPACE":
            named = (20, UVM_SPACE, 16)
        elif short == "REGISTER_CHANNEL":
            struct.pack_into("<QQ", params, 32, CHANNEL_BASE, LENGTH)
            named = (20, CHANNEL, 16)
        elif short == "MIGRATE_RANGE_GROUP":
            params[8:24] = self.uuid
        elif short == "MAP_EXTERNAL_ALLOCATION":
            # After the head and one GPU's attributes; the tail: count, descriptor, client, memory.
            params[16:24] = bytes(8)
            params[24:40] = self.uuid
            struct.pack_into("<Q", params, size - 24, 1)
            named = (size - 12, MEMORY, size - 16)
        elif short == "ALLOC_SEMAPHORE_POOL":
            struct.pack_into("<QI", params, size - 16, 1, 0)
        call = Request(name, number, params, UVM)
        if size != 0:
            call.status = self.tables["uvm-status"][number][0]
        if named:
            client, handle, file = named
            struct.pack_into("<I", call.image, client + 4, handle)
            call.by(0, client).fds.append((-1, file, CTL))
        return call


def may_run(policy, kind, number, size, name):
    """Does the table of decisions let this row through, as it is asked here?"""
    if kind == "sizeless":
        return False
    if kind == "uvm":
        return not name.startswith("UVM_TOOLS_") and name not in UVM_NEVER_RUN
    outcome = policy.outcome(kind, number)
    if kind == "escape":
        return name not in differences.REFUSED_ESCAPES and (
            outcome == "run" or name != "NV_ESC_WAIT_OPEN_COMPLETE")  # 550 has it without a size
    effect = policy.effect(kind, number)
    if name.startswith(("GSS_LEGACY_", "BINAPI_")):
        return effect not in NEVER_RUN
    if name.startswith("NV83DE_"):
        return False  # there is no debugger
    # With zeros in place of what it names, a control that names something is refused.
    return outcome == "run" or (kind == "control" and size != 0 and
                                effect not in NEVER_RUN + ALWAYS_RUN)
