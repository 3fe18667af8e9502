"""Lines of `cgpu run --record` (src/shim/recorder.h) and of gpu-trace (tests/gpu/trace)."""
import collections

WHO = ("driver", "cgpu", "kernel", "trace")
NOT_KEPT = ("in", "out", "cmd", "class", "wrapped", "said", "callflags", "timeout")  # in a record
SIZELESS = "NV_ESC_RM_ALLOC "  # programs say no size of a class's parameters


class Line:
    """Holds one call: file, name (with what it selects), size, status, error, who answered, and
    gpu-trace's further words by name."""

    def __init__(self, words, at):
        self.file, self.name, self.size = words[1], " ".join(words[2:at - 3]), words[at - 3]
        self.status, self.error, self.who = words[at - 2], int(words[at - 1]), words[at]
        self.more = dict(word.split("=", 1) for word in words[at + 1:])
        self.plain = " ".join(words[:at + 1] + ["%s=%s" % one for one in self.more.items() if one[0] not in NOT_KEPT])

    def done(self):
        """With success: nvstatuscodes.h has warnings from 0x10000 on."""
        return self.error == 0 and (self.status in ("-", "0x0") or int(self.status, 16) >= 0x10000)

    def key(self):
        return self.name if self.name.startswith(SIZELESS) else "%s (%s bytes)" % (self.name, self.size)

    def outcome(self):
        return "%s%s by %s" % (self.status, ", errno %d" % self.error if self.error else "", self.who)

    def number(self):
        """As gpu-trace's --answer has it; "": it selects nothing."""
        if "cmd" in self.more:
            return "control:" + self.more["cmd"]
        return "alloc:" + self.more["class"] if "class" in self.more else ""


def parse_line(line):
    """A call, or the words of a line of another kind: so is what a shim did not decode."""
    words = line.split()
    at = next((n for n, word in enumerate(words) if n >= 6 and word in WHO), None)
    return words if at is None or words[2] in ("mmap", "open") else Line(words, at)


def content(text):
    """The bytes of `in` or `out`: hexadecimal digits, and 00*N for so many zeros."""
    parts = [part.partition("*") for part in text.split("+")]
    return b"".join(bytes.fromhex(digits) * int(times or 1) for digits, _, times in parts)


def parse(text):
    """(calls, lines of other kinds)"""
    found = [parse_line(line) for line in text.splitlines() if line and not line.startswith("#")]
    return [one for one in found if isinstance(one, Line)], [one for one in found if not isinstance(one, Line)]


def plain(text):
    """Returns what may be kept as a record (tests/gpu/records): no content of parameters."""
    found = [(line, parse_line(line)) for line in text.splitlines()]
    return "".join("%s\n" % (call.plain if isinstance(call, Line) else line) for line, call in found)


def lacking(native, sliced):
    """Returns what succeeded in `native` and failed more often in `sliced`, as sentences; and what
    was not asked there. Where `native` is not known (None): what cgpu refused."""
    done, failed, asked, refused = (collections.Counter() for _ in range(4))
    outcomes = collections.defaultdict(collections.Counter)
    for call in native or ():
        (done if call.done() else failed)[call.key()] += 1
    for call in sliced:
        asked[call.key()] += 1
        if not call.done():
            refused[call.key()] += 1
            outcomes[call.key()][call.outcome()] += 1
            done[call.key()] += native is None and call.who == "cgpu"
    found = []
    for key in done:
        if done[key] and refused[key] > failed[key]:
            found.append("%s: %d of %d failed in the slice (%s); without cgpu %s" % (
                key, refused[key], asked[key], ", ".join("%s x%d" % item for item in outcomes[key].most_common()),
                "not known" if native is None else "%d of %d" % (failed[key], failed[key] + done[key])))
    return found, sorted(key for key in done if key not in asked)
