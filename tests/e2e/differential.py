"""Random calls as a test makes them of both twins: what they are, the bytes they are made of for
each of the two, and how their answers compare. See differential_test.py."""
import struct

import cgpu_test as t

# From src/rm: escape numbers and the layouts that are built here.
ESC = {"RM_ALLOC_MEMORY": 0x27, "RM_FREE": 0x29, "RM_CONTROL": 0x2A, "RM_ALLOC": 0x2B,
       "RM_DUP_OBJECT": 0x34, "RM_SHARE": 0x35, "RM_VID_HEAP_CONTROL": 0x4A,
       "CARD_INFO": 200, "REGISTER_FD": 201, "XFER": 211, "ATTACH_GPUS_TO_FD": 212,
       "SYS_PARAMS": 214, "CHECK_VERSION_STR": 210}

ROOT, DEVICE, SUBDEVICE, VIDMEM, SYSMEM = 0x41, 0x80, 0x2080, 0x40, 0x3E
VASPACE, CTXSHARE, GROUP, CHANNEL = 0x90F1, 0x9067, 0xA06C, 0xC36F
ATTACHED_IDS, PROBED_IDS, ACTIVE_DEVICES = 0x201, 0x214, 0x288
EXPORT, IMPORT, EXPORT_INFO = 0x3D05, 0x3D06, 0x3D08
FB_INFO, FB_INFO_V2, FB_REGIONS = 0x20801301, 0x20801303, 0x20801320
BAR_INFO = 0x20801803
PIDS, PID_INFO = 0x2080018D, 0x2080018E
GID_INFO, UUID_FROM_ID = 0x2080014A, 0x275
FB_INDICES = 6  # as many are asked for at once
HANDLE_PROVIDED = 0x4000  # NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED

CLIENT_SLOTS, FILES = 3, (10, 11, 12)  # files that exports go to
CHOSEN_CLIENT, DRIVERS_CLIENT = 0xCAF50000, 0xC1D0BA00
HANDLES = {"device": (0x10, 2), "subdevice": (0x20, 2), "memory": (0x30, 8), "group": (0x50, 3),
           "space": (0x60, 2), "share": (0x70, 2), "channel": (0x80, 3), "any": (0x90, 2)}


def in_pages(size, attr, attr2):
    """Returns the least that memory takes: a page of 512 MiB where one is asked for
    (src/rm/vidmem.cc)."""
    huge = attr >> 23 & 3 == 3 and attr2 >> 20 & 3 == 2
    return -(-size // (512 << 20)) * (512 << 20) if huge else size


class Call:
    """One call, for either of the twins: `image` and `nested` with zeroes where `clients` (offsets
    and slots of the image), `pointers` ([holder, offset, number of nested]) and `fds` belong."""

    def __init__(self, what, nr, image, file=0):
        self.what = what
        self.nr = nr
        self.image = bytearray(image)
        self.file = file
        self.nested = []
        self.clients = []
        self.nested_clients = []  # (number of nested, offset, slot)
        self.pointers = []
        self.fds = []
        self.status = None  # where the driver's answer lies in the image
        self.new_client = None  # its slot
        self.cls = None
        self.command = None
        self.wrapped = False
        # (slot, handle) of what the call makes; and where the handle lies that the driver picked if
        # none was asked for (number of nested or -1, offset).
        self.undo = None
        self.picked = None
        self.offset = None  # where the answer says where memory lies, likewise
        self.bytes = 0  # of GPU memory that it asks for

    def point(self, at, data, holder=-1):
        self.pointers.append((holder, at, len(self.nested)))
        self.nested.append(bytearray(data))
        return self

    def by(self, slot, at=0):
        self.clients.append((at, slot))
        return self

    def picks(self):
        """Does the driver pick the handle?"""
        return self.undo is not None and self.undo[1] == 0

    def line(self, roots):
        image = bytearray(self.image)
        nested = [bytearray(data) for data in self.nested]
        for at, slot in self.clients:
            struct.pack_into("<I", image, at, roots.get(slot, slot))
        for number, at, slot in self.nested_clients:
            if self.command is None:  # else they are the answer's
                struct.pack_into("<I", nested[number], at, roots.get(slot, slot))
        items = ["p:%d:%d:%s" % (holder, at, nested[number].hex() or "-")
                 for holder, at, number in self.pointers]
        items += ["f:%d:%d:%d" % fd for fd in self.fds]
        nr, size, words = self.nr, len(image), [image.hex() or "-"] + items
        if self.wrapped:
            # nv_ioctl_xfer_t: cmd, size, ptr
            words = [struct.pack("<IIQ", self.nr, len(image), 0).hex(),
                     "p:-1:8:" + (image.hex() or "-")]
            for item in items:
                kind, holder, rest = item.split(":", 2)
                words.append("%s:%d:%s" % (kind, int(holder) + 1, rest))
            nr, size = ESC["XFER"], 16
        return "call %d %x %s" % (self.file, 3 << 30 | size << 16 | ord("F") << 8 | nr,
                                  " ".join(words))

    def __str__(self):
        return self.what + (" (wrapped)" if self.wrapped else "")


class Answer:
    """Holds what came back: errno, the image and the nested bytes, with one twin's own names made
    common: clients' handles become their slots, UUIDs of the twin's become nothing."""

    def __init__(self, call, line, roots, uuids):
        words = line.split()
        blocks = [b"" if word == "-" else bytes.fromhex(word) for word in words[1:]]
        if call.wrapped:
            blocks = blocks[1:]
        self.errno = int(words[0])
        self.raw = bytearray(blocks[0])
        self.image = bytearray(blocks[0])
        self.nested = [bytearray(block) for block in blocks[1:]]
        self._common(self.image, call.clients, roots)
        for number, data in enumerate(self.nested):
            places = [(at, slot) for which, at, slot in call.nested_clients if which == number]
            self._common(data, places, roots)
            for number_of_card, uuid in enumerate(uuids):
                for form in (("GPU-" + uuid).encode(), bytes.fromhex(uuid.replace("-", ""))):
                    self.nested[number] = bytearray(bytes(self.nested[number]).replace(
                        form, (b"uuid %d" % number_of_card).ljust(len(form), b"_")))
        self.status = (struct.unpack_from("<I", self.raw, call.status)[0]
                       if call.status is not None else None)

    @staticmethod
    def _common(data, places, roots):
        for at, slot in places:
            if struct.unpack_from("<I", data, at)[0] == roots.get(slot, slot):
                struct.pack_into("<I", data, at, slot)

    def block(self, number):
        return self.image if number < 0 else self.nested[number]

    def ok(self):
        return self.errno == 0 and self.status in (None, 0)

    def __str__(self):
        return "errno %d, status %s, %s" % (
            self.errno, None if self.status is None else hex(self.status),
            " | ".join(data.hex() if len(data) <= 96 else data[:96].hex() + "..."
                       for data in [self.image] + self.nested))


class Maker:
    """Draws calls. `tables`: sizes by class and control, with names, as the caller knows them."""

    def __init__(self, rng, tables, gpu_ids):
        self.rng = rng
        self.tables = tables
        self.gpu_ids = gpu_ids

    def slot(self):
        return self.rng.choice([0] * 12 + list(range(CLIENT_SLOTS)) * 2 + [0, 0xDEAD])

    def handle(self, kind=None):
        kind = kind or self.rng.choice(list(HANDLES))
        first, count = HANDLES[kind]
        return self.rng.choice([first + self.rng.randrange(count)] * 20 + [0, 0xBAD])

    def call(self):
        makers = [(self.client, 2), (self.device, 3), (self.subdevice, 3), (self.memory, 9),
                  (self.heap, 6), (self.channels, 6), (self.free, 8), (self.dup, 6),
                  (self.transfer, 5), (self.ask, 8), (self.any_control, 6), (self.any_class, 4),
                  (self.node, 3), (self.share, 2), (self.garbage, 3), (self.events, 1)]
        functions, weights = zip(*makers)
        call = self.rng.choices(functions, weights)[0]()
        call.wrapped = self.rng.random() < 0.1
        if self.rng.random() < 0.02:
            call.file = 1  # the GPU's
        return call

    def alloc(self, name, slot, parent, handle, cls, params=None):
        """NVOS21 or NVOS64; both begin alike."""
        long_form = self.rng.random() < 0.7
        image = struct.pack("<IIIIQ", 0, parent, handle, cls, 0)
        size = len(params) if params is not None else 0
        image += (struct.pack("<QIIII", 0, size, 0, 0, 0) if long_form
                  else struct.pack("<II", size, 0))
        call = Call("%s 0x%x below 0x%x of client %d" % (name, handle, parent, slot),
                    ESC["RM_ALLOC"], image)
        call.status = 40 if long_form else 28
        call.cls = cls
        call.by(slot)
        if params is not None:
            call.point(16, params)
        call.undo, call.picked = (slot, handle), (-1, 8)
        return call

    def client(self):
        slot = self.rng.randrange(CLIENT_SLOTS)
        asked = self.rng.choice([0] * 5 + [CHOSEN_CLIENT + slot] * 4 + [DRIVERS_CLIENT + slot])
        return self.new_client(slot, asked, self.rng.choice([0, 1, ROOT]))

    def new_client(self, slot, handle=0, cls=ROOT):
        call = self.alloc("client %d as" % slot, 0, 0xBAD0, 0, cls)
        struct.pack_into("<III", call.image, 0, handle, 0, handle)
        call.clients = []
        call.new_client = slot
        call.undo, call.picked = None, None
        call.what = "client %d, handle 0x%x, class 0x%x" % (slot, handle, cls)
        return call

    def below_client(self, name, slot, handle, cls, params):
        call = self.alloc(name, slot, 0, handle, cls, params)
        call.by(slot, 4)
        return call

    def device(self):
        instance = self.rng.choice([0] * 6 + [1, 7])
        return self.new_device(self.slot(), self.handle("device"), instance)

    def new_device(self, slot, handle, instance=0):
        params = struct.pack("<I", instance) + bytes(52)
        return self.below_client("device %d as" % instance, slot, handle, DEVICE, params)

    def prelude(self):
        """A client with a device and a subdevice."""
        return [self.new_client(0), self.new_device(0, 0x10),
                self.alloc("subdevice", 0, 0x10, 0x20, SUBDEVICE, bytes(4))]

    def subdevice(self):
        return self.alloc("subdevice", self.slot(), self.handle("device"),
                          self.handle("subdevice"), SUBDEVICE, bytes(4))

    def size(self):
        return self.rng.choice([1, 4096, 65536, 1 << 20, 2 << 20, 3 << 20, 8 << 20, 24 << 20,
                                100 << 20, 0, 1 << 40, (1 << 64) - 1, self.rng.randrange(1 << 24)])

    def attributes(self):
        """attr, attr2, flags"""
        if self.rng.random() < 0.6:
            return 0, 0, 0
        # Page sizes, the location and contiguity; now and then anything.
        attr = self.rng.choice([0, 1 << 23, 2 << 23, 3 << 23, 1 << 25, 3 << 25, 1 << 27])
        return attr, self.rng.choice([0, 0, 1 << 20, 2 << 20]), self.rng.choice([0, 0, 1 << 5])

    def memory(self):
        size, (attr, attr2, flags) = self.size(), self.attributes()
        # NV_MEMORY_ALLOCATION_PARAMS
        params = bytearray(128)
        struct.pack_into("<I", params, 8, flags)
        struct.pack_into("<II", params, 24, attr, attr2)
        struct.pack_into("<Q", params, 64, size)
        cls = self.rng.choice([VIDMEM] * 6 + [SYSMEM])
        call = self.alloc("memory of %d bytes, attr 0x%x 0x%x, flags 0x%x, class 0x%x as" %
                          (size, attr, attr2, flags, cls), self.slot(),
                          self.handle("device" if self.rng.random() < 0.9 else None),
                          self.handle("memory"), cls, params)
        call.bytes, call.offset = in_pages(size, attr, attr2), (0, 80)
        return call

    def heap(self):
        """VID_HEAP_CONTROL: hRoot, hObjectParent, function, hVASpace, ivc, status, total, free,
        then what the function has."""
        slot, function = self.slot(), self.rng.choice([2] * 6 + [3, 3, 3, 5, 5, 11, 14, 27])
        image = bytearray(184)
        struct.pack_into("<III", image, 0, 0, self.handle("device"), function)
        handle = self.handle("memory")
        call = Call("heap function %d, 0x%x of client %d" % (function, handle, slot),
                    ESC["RM_VID_HEAP_CONTROL"], image)
        call.by(slot).status = 20
        if function == 2:
            size, (attr, attr2, flags) = self.size(), self.attributes()
            provided = self.rng.random() < 0.8
            flags |= HANDLE_PROVIDED if provided else 0
            struct.pack_into("<IIIII", call.image, 40, 0, handle, 0, flags, attr)
            struct.pack_into("<Q", call.image, 40 + 48, size)
            struct.pack_into("<I", call.image, 40 + 104, attr2)
            call.bytes, call.offset = in_pages(size, attr, attr2), (-1, 40 + 64)
            call.undo, call.picked = (slot, handle if provided else 0), (-1, 44)
            call.what += " of %d bytes, attr 0x%x 0x%x, flags 0x%x" % (size, attr, attr2, flags)
        elif function == 3:
            struct.pack_into("<III", call.image, 40, 0, handle, 1)
        return call

    def channels(self):
        slot, kind = self.slot(), self.rng.choice(["group", "space", "share", "channel"])
        cls = {"group": GROUP, "space": VASPACE, "share": CTXSHARE, "channel": CHANNEL}[kind]
        params = bytearray(self.tables["class"][cls][0])
        space = self.rng.choice([0, self.handle("space")])
        parent = self.handle("device")
        if kind == "group":
            struct.pack_into("<IIII", params, 0, 0, 0, space, 1)  # engine: graphics
        elif kind == "share":
            struct.pack_into("<I", params, 0, space)
            parent = self.handle("group")
        elif kind == "channel":
            below, share = self.rng.choice(["group", "group", "device"]), self.handle("share")
            parent = self.handle(below)
            # Mostly what the driver takes: a context share in a group, an address space outside.
            named = (0, space) if below == "device" else self.rng.choice([(0, 0), (share, 0)])
            struct.pack_into("<II", params, 24, *self.rng.choice([named, named, (share, space)]))
        return self.alloc(kind + (" in space 0x%x" % space), slot, parent, self.handle(kind), cls,
                          params)

    def free(self):
        slot = self.slot()
        handle = self.rng.choice([self.handle("memory"), self.handle("memory"), self.handle()])
        call = Call("free 0x%x of client %d" % (handle, slot), ESC["RM_FREE"],
                    struct.pack("<IIII", 0, 0, handle, 0)).by(slot)
        call.status = 12
        if self.rng.random() < 0.06:
            call.by(slot, 8)
            call.what = "free client %d" % slot
        return call

    def dup(self):
        slot, source, handle = self.slot(), self.slot(), self.handle("memory")
        parent = self.handle("device")
        what = self.rng.choice([self.handle("memory"), self.handle("memory"), self.handle()])
        call = Call("dup 0x%x of client %d as 0x%x below 0x%x of client %d" %
                    (what, source, handle, parent, slot), ESC["RM_DUP_OBJECT"],
                    struct.pack("<IIIIIII", 0, parent, handle, 0, what, 0, 0))
        call.by(slot).by(source, 12).status = 24
        call.undo, call.picked = (slot, handle), (-1, 8)
        return call

    def share(self):
        slot, handle = self.slot(), self.handle()
        # RS_SHARE_POLICY: target, access mask, type, action
        policy = struct.pack("<IIHBB", 0, self.rng.choice([0, 1, 2, 0xFFFFFFFF]),
                             self.rng.choice([0, 1, 2, 3, 4, 5, 9]), self.rng.choice([0, 1, 2]), 0)
        call = Call("share 0x%x of client %d: %s" % (handle, slot, policy.hex()), ESC["RM_SHARE"],
                    struct.pack("<II", 0, handle) + policy + bytes(4)).by(slot)
        call.status = 20
        return call

    def control(self, slot, handle, command, params):
        size, name = self.tables["control"].get(command, (len(params), hex(command)))
        call = Call("%s on 0x%x of client %d" % (name, handle, slot), ESC["RM_CONTROL"],
                    struct.pack("<IIIIQII", 0, handle, command, 0, 0, len(params), 0)).by(slot)
        call.status = 28
        call.command = command
        call.point(16, params)
        return call

    def on_client(self, slot, command, params):
        call = self.control(slot, 0, command, params)
        call.by(slot, 4)
        return call

    def transfer(self):
        slot, file = self.slot(), self.rng.choice(FILES)
        if self.rng.random() < 0.5:
            params = struct.pack("<IIIIiI", 1, self.handle("device"), self.handle("device"),
                                 self.handle(self.rng.choice(["memory", "memory", "group"])), 0,
                                 int(self.rng.random() < 0.1))
            call = self.on_client(slot, EXPORT, params)
            call.fds.append((0, 16, file))
        else:
            handle = self.handle("memory")
            params = struct.pack("<iIIII", 0, 1, 0, self.handle("device"), handle)
            call = self.on_client(slot, IMPORT, params)
            call.fds.append((0, 0, file))
            call.undo, call.picked = (slot, handle), (0, 16)
        call.what += " and file %d: %s" % (file, params.hex())
        return call

    def ask(self):
        slot = self.slot()
        asked = [FB_INFO, FB_INFO_V2, FB_REGIONS, PIDS, ATTACHED_IDS, PROBED_IDS, UUID_FROM_ID,
                 GID_INFO, 0x202, 0x205, 0x21B, ACTIVE_DEVICES, 0x20800110, 0x20801801, PID_INFO, 0xD02]
        # Without parameters they are not of this driver.
        command = self.rng.choice([number for number in asked if self.tables["control"][number][0]])
        params = bytearray(self.tables["control"][command][0])
        indices = [self.rng.randrange(0x40) for _ in range(FB_INDICES)]
        call = (self.control(slot, self.handle("subdevice"), command, params) if command >> 16
                else self.on_client(slot, command, params))
        params = call.nested[0]
        if command == FB_INFO:
            struct.pack_into("<I", params, 0, len(indices))
            call.point(8, b"".join(struct.pack("<II", i, 0) for i in indices), 0)
        elif command == FB_INFO_V2:
            struct.pack_into("<I", params, 0, len(indices))
            for number, index in enumerate(indices):
                struct.pack_into("<I", params, 4 + 8 * number, index)
        elif command == PIDS:
            struct.pack_into("<II", params, 0, 0, self.rng.choice([SUBDEVICE, VIDMEM]))
        elif command in (UUID_FROM_ID, 0x202, 0x205, 0x21B):
            struct.pack_into("<II", params, 0, self.rng.choice(self.gpu_ids + [0, 0xBAD]),
                             self.rng.choice([0, 2]))
        elif command == 0xD02:
            # Tells the parent's handle, which may be a client's.
            call.nested_clients += [(0, 8, other) for other in range(CLIENT_SLOTS)]
            struct.pack_into("<II", params, 0, self.handle(), self.rng.choice([1, 2, 3]))
        return call

    def any_control(self):
        command = self.rng.choice(list(self.tables["control"]) + [0x20801234])
        size = self.tables["control"].get(command, (16,))[0]
        if self.rng.random() < 0.1:
            size += self.rng.choice([-1, 1, 4])
        params = self.rng.choice([bytes(max(0, size)), self.rng.randbytes(max(0, size))])
        if command in (FB_INFO, 0x202, 0x00800201, 0x101, EXPORT, IMPORT, EXPORT_INFO) or (
                command & 0xFFF0 == 0x3D00) or command in (0x20801201,):
            params = bytes(max(0, size))  # with pointers and descriptors in them
        call = self.control(self.slot(), self.handle(self.rng.choice(["subdevice", "device"])),
                            command, params)
        if command >> 16 == 0:
            call.by(call.clients[0][1], 4)
        call.what += ", %d bytes" % size
        return call

    def any_class(self):
        clients = (0, 1, ROOT)  # see client()
        cls = self.rng.choice([cls for cls in self.tables["class"] if cls not in clients] + [0xFFF1])
        size = self.tables["class"].get(cls, (8,))[0]
        params = bytes(size) if self.rng.random() < 0.9 and size else None
        slot = self.slot()
        return self.alloc("class 0x%x as" % cls, slot,
                          self.handle(self.rng.choice(["device", "subdevice", "group", "channel"])),
                          self.handle("any"), cls, params)

    def events(self):
        call = self.alloc("event", self.slot(), self.handle("subdevice"), self.handle("any"), 0x79,
                          struct.pack("<IIIIQ", 0, self.handle("subdevice"), 0x79, 0, 0))
        call.nested_clients.append((0, 0, call.clients[0][1]))
        return call

    def node(self):
        name = self.rng.choice(["CARD_INFO", "REGISTER_FD", "ATTACH_GPUS_TO_FD", "SYS_PARAMS",
                                "CHECK_VERSION_STR"])
        if name == "CARD_INFO":
            call = Call(name, ESC[name], bytes(72 * self.rng.choice([1, 2, 32])))
        elif name == "REGISTER_FD":
            call = Call(name, ESC[name], bytes(4), 1)
            call.fds.append((-1, 0, 0))
        elif name == "ATTACH_GPUS_TO_FD":
            ids = [self.rng.choice(self.gpu_ids + [0]) for _ in range(self.rng.choice([1, 2]))]
            call = Call(name, ESC[name], struct.pack("<%dI" % len(ids), *ids))
        elif name == "CHECK_VERSION_STR":
            call = Call(name, ESC[name], struct.pack("<II", ord("2"), 0) + bytes(64))
        else:
            call = Call(name, ESC[name], bytes(8))
        return call

    def garbage(self):
        """A number and a size that somebody or nobody takes, with nothing in it."""
        nr = self.rng.choice(list(self.tables["escape"]) + [self.rng.randrange(256)])
        size = self.rng.choice([0, 1, 4, 8, 16, 32, 48, 56, 64, 184])
        # Empty parameters make a client, which nobody would know of.
        size = 24 if nr == ESC["RM_ALLOC"] else size
        call = Call("escape %d of %d bytes" % (nr, size), nr, bytes(size))
        call.status = self.tables["status"].get(nr << 16 | size, (None, ""))[0]
        return call


def first_difference(one, other):
    """As a sentence, or None."""
    if one.errno != other.errno:
        return "errno %d against %d" % (one.errno, other.errno)
    if one.status != other.status:
        return "status 0x%x against 0x%x" % (one.status, other.status)
    for number, (ours, theirs) in enumerate(zip([one.image] + one.nested,
                                                [other.image] + other.nested)):
        if len(ours) != len(theirs):
            return "%d bytes against %d" % (len(ours), len(theirs))
        for at, (our, their) in enumerate(zip(ours, theirs)):
            if our != their:
                near = slice(at & ~7, (at & ~7) + 8)
                return "byte %d of %s: %s against %s" % (
                    at, "the parameters" if number == 0 else "block %d" % number,
                    ours[near].hex(), theirs[near].hex())
    return None
