"""The tenant that attacks on handles and channels aim at, and the answers that attackers get."""
from attack import argv
from cgpu_test import check

SIZE = 526  # MiB of the tenant's memory: a number that nothing else has
GRANT = 1021  # MiB: likewise
OTHERS = 256  # MiB, of the attacker's slice
OK = "0x0"
REFUSED = "0x56"  # NV_ERR_NOT_SUPPORTED
FOREIGN = "0x23"  # NV_ERR_INVALID_CLIENT


def start(node, with_cgpu, words, mem, name, card=0):
    if with_cgpu:
        return node.run(argv(*words), mem="%dMiB" % mem, flags=("--gpus", "device=%d" % card),
                        name=name)
    return node.exec(argv(*words), name=name)


def answers(process, what):
    """All statuses that it said of `what`."""
    return [found.group(1) for found in process.said(r"^%s (0x[0-9a-f]+)( .*)?$" % what)]


def answer(process, what):
    found = answers(process, what)
    check(len(found) == 1, "%s said %d times what it got of %s: %s" %
          (process.name, len(found), what, process.lines))
    return found[0]


class Tenant:
    """Holds memory, a channel group and a channel, which others attack."""

    def __init__(self, node, with_cgpu, words=(), card=0):
        self.node = node
        self.process = start(node, with_cgpu, ["tenant", SIZE, *words], GRANT, "tenant", card)
        found = self.process.expect(
            r"^client (\d+) group (\d+) channel (\d+) memory (\d+) engine (\d+)$")
        self.client, self.group, self.channel, self.memory, self.engine = map(int, found.groups())
        self.process.expect("^holding$")
        self.before = self.state()

    def state(self):
        """The accounting's lines of its group and its channel."""
        return [row for gpu in self.node.books()["gpus"] for row in gpu["groups"] + gpu["channels"]
                if row["client"] == self.client]

    def pids(self):
        """Every number that the driver or the machine knows it by."""
        return sorted({self.process.popen.pid} | {row["pid"] for row in self.state()})

    def must_go_on(self):
        check(self.state() == self.before, "the tenant's channels were %s and are %s" %
              (self.before, self.state()))
        self.process.say("go on")
        self.process.expect("^undisturbed$")
