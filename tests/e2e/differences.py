"""Differences that a slice's answers may have from the bare driver's, call by call, and why: the
table of differential_test.py. All else must be the same to the byte.

A rule gets what both twins were answered. Those of ADJUST make the plain answer what the slice must say
instead. Those of EXCUSE say that this very difference is the design's; each names its calls and its
statuses. What the boundary refuses it answers as it was asked: nothing changes but the status.
"""
import errno
import os
import struct

import differential as d

_DECISIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          "../../src/boundary/testdata/decisions.tsv")
_BRANCHES = ["535", "550", "570", "580", "590", "595", "610"]
NO_MEMORY, NOT_SUPPORTED, INVALID_CLASS, NO_PERMISSION = 0x51, 0x56, 0x22, 0x1B
TAKEN, INVALID_ARGUMENT, NO_CLIENT, INVALID_LIMIT = 0x19, 0x1F, 0x23, 0x2E
NO_OBJECT, INVALID_STATE, NOT_FOUND = 0x33, 0x40, 0x57
PAGE = 2 << 20

# Indices of FB info, by what the slice is told (KiB). See src/boundary/calls/view.cc.
FB_TOTAL = (0x07, 0x08, 0x09, 0x20)
FB_FREE = 0x16
FB_AT_MOST_TOTAL, FB_AT_MOST_FREE = 0x0A, 0x12
FB_BAR1 = (0x05, 0x1D, 0x1F)  # a window as large as the slice needs
FB_ZERO = (0x1E, 0x13, 0x33, 0x34)  # where neighbours' memory lies could be read from them

# Refused whatever they ask (Boundary::Decide(), with the reasons).
REFUSED_ESCAPES = {"NV_ESC_RM_" + name for name in (
    "ALLOC_OBJECT", "I2C_ACCESS", "ACCESS_REGISTRY", "LOCKLESS_DIAGNOSTIC")} | {
        "NV_ESC_QUERY_DEVICE_INTR", "NV_ESC_NUMA_INFO", "NV_ESC_SET_NUMA_STATUS",
        "NV_ESC_EXPORT_TO_DMABUF_FD"}


class Policy:
    """Reads the boundary's own table of decisions: what becomes of classes and controls."""

    def __init__(self, tables, driver):
        self._names = {(kind, number): name for kind, rows in tables.items()
                       for number, (_, name) in rows.items()}
        with open(_DECISIONS, encoding="utf-8") as table:
            rows = [line.rstrip("\n").split("\t") for line in table]
        # Kind, name, number, effect, evidence, reason, outcomes.
        self._effects = {(row[0], row[1]): row[3] for row in rows}
        # One outcome for all branches or one for each.
        branch = _BRANCHES.index(driver.split(".")[0])
        self._outcomes = {(row[0], row[1]): row[6:][branch if len(row) > 7 else 0] for row in rows}

    def name(self, kind, number):
        return self._names.get((kind, number), "%s 0x%x" % (kind, number))

    def effect(self, kind, number):
        """"-" for what is not listed."""
        return self._effects.get((kind, self.name(kind, number)), "-")

    def outcome(self, kind, number):
        """With parameters of zeros: "run", the status's name or errno's words."""
        return self._outcomes.get((kind, self.name(kind, number)), "-")

    def refused(self, kind, number, status):
        """Is it refused with this, whatever its parameters?"""
        return self._outcomes.get((kind, self.name(kind, number)), status) == status


def _as_asked(call, other):
    """Is nothing but the status changed?"""
    asked = bytearray(call.image)
    for at, slot in call.clients:
        struct.pack_into("<I", asked, at, slot)
    if call.status is not None:
        struct.pack_into("<I", asked, call.status, other.status)
    return other.image == asked and all(
        number in [row[0] for row in call.nested_clients] or data == call.nested[number]
        for number, data in enumerate(other.nested))


def _makes_client(call):
    return call.cls in (0, 1, d.ROOT)


# --- The plain answer, as the slice must give it.


def client_handles(_nodes, call, one, other):
    """The driver numbers clients in the order they are made, and the shim has some of its own."""
    if call.new_client is not None and one.ok() and other.ok():
        for at in (0, 8):
            one.image[at:at + 4] = other.image[at:at + 4]


def picked_handles(_nodes, call, one, other):
    """The driver counts the handles that it picks, and what the boundary refuses it does not see."""
    if call.picks() and one.status == other.status:
        number, at = call.picked
        one.block(number)[at:at + 4] = other.block(number)[at:at + 4]


def places(_nodes, call, one, other):
    """Where on the GPU memory lies depends on what else was there, and what the boundary refused was
    not."""
    if call.offset and one.ok() and other.ok():
        number, at = call.offset
        one.block(number)[at:at + 8] = other.block(number)[at:at + 8]


def heap_size(nodes, call, one, _other):
    """VID_HEAP_CONTROL tells the heap's size and what is free of it: the slice's."""
    if call.nr == d.ESC["RM_VID_HEAP_CONTROL"] and one.ok() and any(one.image[24:40]):
        card, free = struct.unpack_from("<QQ", one.image, 24)
        used = card - free
        left = max(0, nodes.limit - used)
        struct.pack_into("<QQ", one.image, 24, nodes.limit, left)
        # Fields of INFO: where the largest free part lies, how large it is, where the heap begins.
        struct.pack_into("<QQQ", one.image, 48, 0, left, 0)


def fb_info(nodes, call, one, other):
    """The slice's memory stands for the GPU's; where it lies is not told."""
    if call.command not in (d.FB_INFO, d.FB_INFO_V2) or not one.ok() or not other.ok():
        return
    number, first = (1, 0) if call.command == d.FB_INFO else (0, 4)
    if number >= len(one.nested):
        return
    ours = one.nested[number]
    total = nodes.limit // 1024
    free = max(0, total - nodes.plain.used() // 1024)
    for at in range(first, min(len(ours) - 7, first + 8 * d.FB_INDICES), 8):
        index, value = struct.unpack_from("<II", ours, at)
        if index in FB_TOTAL:
            value = total
        elif index == FB_FREE:
            value = free
        elif index == FB_AT_MOST_TOTAL:
            value = min(value, total)
        elif index == FB_AT_MOST_FREE:
            value = min(value, free)
        elif index in FB_BAR1:
            # The slice's part of it (src/boundary/quotas.h).
            value = min(value, 1 << (total - 1).bit_length())
            value = min(value, struct.unpack_from("<I", other.nested[number], at + 4)[0])
        elif index in FB_ZERO:
            value = 0
        struct.pack_into("<II", ours, at, index, value)


def regions(nodes, call, one, _other):
    """One region as large as the slice; its place on the GPU is not told."""
    if call.command == d.FB_REGIONS and one.ok():
        struct.pack_into("<QQQ", one.nested[0], 8, 0, nodes.limit - 1, 0)


def pids(_nodes, call, one, other):
    """Processes have the numbers that they have in the container."""
    if call.command == d.PIDS and one.ok() and other.ok():
        counts = [struct.unpack_from("<I", answer.nested[0], 8)[0] for answer in (one, other)]
        if counts[0] == counts[1]:
            one.nested[0][12:12 + 4 * counts[0]] = other.nested[0][12:12 + 4 * counts[1]]


def beyond_the_list(_nodes, call, one, _other):
    """Behind the listed devices nothing of the tenant's own is left."""
    if call.command == d.ACTIVE_DEVICES and one.ok():
        count = struct.unpack_from("<I", one.nested[0], 0)[0]
        one.nested[0][4 + 12 * count:] = bytes(len(one.nested[0]) - 4 - 12 * count)


def bars(nodes, call, one, _other):
    """No window is larger than the slice needs; registers need some MiB whatever it is."""
    if call.command != d.BAR_INFO or not one.ok():
        return
    entries = one.nested[-1]
    most = max(1 << (nodes.limit - 1).bit_length(), 256 << 20)
    for at in range(8, len(entries) - 23, 24):
        size = struct.unpack_from("<Q", entries, at + 8)[0]
        if size > most:
            struct.pack_into("<I", entries, at + 4, most >> 20)
            struct.pack_into("<Q", entries, at + 8, most)


ADJUST = [bars, client_handles, picked_handles, places, heap_size, fb_info, regions, pids, beyond_the_list]


# --- Differences that stand.


def refused_as_asked(_nodes, call, one, other):
    """Both refuse, and the driver has written into the parameters before it did: a handle that it
    picked, a default. The boundary has not asked it."""
    return (bool(one.status) and one.status == other.status and not one.errno and not other.errno and
            call.nr in (d.ESC["RM_ALLOC"], d.ESC["RM_VID_HEAP_CONTROL"], d.ESC["RM_DUP_OBJECT"]) and
            _as_asked(call, other))


def class_not_listed(nodes, call, _one, other):
    """Only listed classes can be made."""
    return (call.cls is not None and not _makes_client(call) and
            nodes.policy.refused("class", call.cls, "NV_ERR_INVALID_CLASS") and
            other.status == INVALID_CLASS and _as_asked(call, other))


def class_unsupported(nodes, call, _one, other):
    """Refused as by a GPU that does not have it."""
    return (call.cls is not None and nodes.policy.effect("class", call.cls) == "unsupported" and
            other.status in (NOT_SUPPORTED, NOT_FOUND) and _as_asked(call, other))


def control_not_listed(nodes, call, _one, other):
    """Only controls that are listed and that this driver has are executed; of the others nobody looks
    whether the object is there."""
    return (call.command is not None and
            nodes.policy.refused("control", call.command, "NV_ERR_NOT_SUPPORTED") and
            other.status == NOT_SUPPORTED and _as_asked(call, other))


def answered_by_us(nodes, call, one, other):
    """The shim notes a control that would change the GPU for all and does not carry it out; it
    answers one that tells of others with zeros. The simulated driver does not have all of these."""
    effect = None if call.command is None else nodes.policy.effect("control", call.command)
    if effect not in ("swallow", "empty") or other.errno or other.status != 0:
        return False
    wanted = call.nested if effect == "swallow" else [bytes(len(data)) for data in call.nested]
    return one.status in (0, NOT_SUPPORTED) and other.nested == wanted


def escape_refused(nodes, call, _one, other):
    """The boundary refuses what sets up the host, names others' objects or would have to be
    charged."""
    return (nodes.policy.name("escape", call.nr) in REFUSED_ESCAPES and
            (other.errno == errno.EINVAL if call.status is None else
             other.status == NOT_SUPPORTED) and _as_asked(call, other))


def older_memory(nodes, call, _one, other):
    """The boundary allows one class of NV_ESC_RM_ALLOC_MEMORY: the one that needs no charge."""
    return nodes.policy.name("escape", call.nr) == "NV_ESC_RM_ALLOC_MEMORY" and not other.errno


def heap_function(_nodes, call, _one, other):
    """The boundary allows allocation, free and information of VID_HEAP_CONTROL; it does not charge
    the others."""
    return (call.nr == d.ESC["RM_VID_HEAP_CONTROL"] and
            struct.unpack_from("<I", call.image, 8)[0] not in (2, 3, 5) and
            other.status == NOT_SUPPORTED and _as_asked(call, other))


def over_the_limit(nodes, call, one, other):
    """Memory over the limit is refused as at the GPU's end, whatever else is wrong with it."""
    context = (call.cls is not None and
               nodes.policy.effect("class", call.cls) in ("channel-group", "channel"))
    wanted = nodes.group_bytes if context else call.bytes
    if one.errno or other.status != NO_MEMORY or not wanted or not _as_asked(call, other):
        return False
    # Rounds up to the largest page, as `used` has what was made.
    wanted = -(-wanted // PAGE) * PAGE
    return nodes.plain.used() + (0 if one.ok() else wanted) > nodes.limit


def driver_chosen(_nodes, call, one, other):
    """No client can be made under a handle that the driver gives out."""
    return (_makes_client(call) and one.status in (0, TAKEN) and other.status == NO_PERMISSION and
            _as_asked(call, other))


def open_complete(_nodes, call, one, other):
    """550 answers NV_ESC_WAIT_OPEN_COMPLETE into a buffer of any size: past its end, if that is small.
    Only the right size is let through."""
    return (call.nr == 218 and len(call.image) != 8 and not one.errno and
            other.errno == errno.EINVAL)


def os_events(_nodes, call, one, other):
    """Events of the system only for the container's own clients; the driver takes any number."""
    return call.nr in (206, 207) and not one.errno and other.status == NO_CLIENT


def two_faults_of_dup(_nodes, call, one, other):
    """A source that cannot be copied: the ledger says first that the parent is not there, the boundary
    that it is of the pages that all tenants read."""
    return (call.nr == d.ESC["RM_DUP_OBJECT"] and one.status == INVALID_ARGUMENT and
            other.status in (NOT_FOUND, NOT_SUPPORTED))


def event_through_the_card(_nodes, call, one, other):
    """An event, on the GPU's file, of a client of another file, below an object that is not there:
    the ledger knows the second."""
    return call.cls == 0x79 and call.file == 1 and one.status == NO_CLIENT and other.status == NOT_FOUND


def nothing_mapped(nodes, call, one, other):
    """A GPU mapping of no bytes for a client that is not the container's: the boundary asks for the
    client first."""
    return (nodes.policy.name("escape", call.nr) == "NV_ESC_RM_MAP_MEMORY_DMA" and
            one.status == INVALID_LIMIT and other.status == NO_OBJECT)


def named_first(nodes, call, one, other):
    """The boundary looks whose client or memory a control names; then the driver whether the object
    takes that control. The simulated one does not have all of these."""
    return (call.command is not None and
            nodes.policy.effect("control", call.command) in ("client", "own-memory") and
            one.status == NOT_SUPPORTED and other.status in (NO_CLIENT, NO_OBJECT) and
            _as_asked(call, other))


def handed_to_the_firmware(_nodes, call, _one, other):
    """The driver hands commands with bit 15 to the firmware, on any object of a GPU; a slice those that
    are listed, on the object of their class. Those with bit 14 too are for administrators, as the
    twin without cgpu is one."""
    return (call.command is not None and call.command & 0x8000 != 0 and
            other.status in (NOT_SUPPORTED, NO_PERMISSION) and _as_asked(call, other))


def encoder_given(nodes, call, one, other):
    """A session of the encoder that the container has not taken; how the firmware refuses it nobody
    has recorded."""
    return (call.command is not None and
            nodes.policy.effect("control", call.command) == "give-encoder" and
            one.status == INVALID_STATE and other.status == INVALID_ARGUMENT and
            _as_asked(call, other))


def preemption_kept(nodes, call, _one, other):
    """A mode of preemption that is not finer is taken note of, on whatever channel."""
    return (call.command is not None and
            nodes.policy.effect("control", call.command) == "preemption" and
            other.status == 0 and _as_asked(call, other))


def cache_of_all(nodes, call, _one, other):
    """The L2 cache is of all tenants: a slice is told that it was emptied, or refused."""
    return (call.command is not None and
            nodes.policy.effect("control", call.command) == "cache-flush" and
            other.status in (0, NOT_SUPPORTED) and _as_asked(call, other))


EXCUSE = [handed_to_the_firmware, encoder_given, preemption_kept, cache_of_all, nothing_mapped,
          named_first, refused_as_asked, class_not_listed, class_unsupported, control_not_listed,
          answered_by_us, escape_refused, older_memory, heap_function, over_the_limit, driver_chosen,
          open_complete, os_events, two_faults_of_dup, event_through_the_card]


def difference(nodes, call, one, other, counts):
    """Returns what remains of the difference, as a sentence, or None. Counts in `counts` what was
    excused, by rule."""
    if not d.first_difference(one, other):
        return None
    for adjust in ADJUST:
        adjust(nodes, call, one, other)
    sentence = d.first_difference(one, other)
    excuse = next((rule for rule in EXCUSE if sentence and rule(nodes, call, one, other)), None)
    if excuse:
        counts[excuse.__name__] = counts.get(excuse.__name__, 0) + 1
    return None if excuse else sentence
