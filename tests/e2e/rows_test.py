"""Every row of the driver's tables, asked once on a bare node and once in a slice: what the driver has
received, by its own count, is what the table of decisions lets through, and nothing else.

  rows_test.py BRANCH     its classes, controls, escapes and requests of nvidia-uvm
"""
import collections
import struct

import caller
import cgpu_test as t
import differences
import differential as d
import rows as r

CARD_OF_ALL, SLICE_MIB = "t4:1", 4096  # all branches drive it
STATUSES = {"NV_OK": 0, "NV_ERR_NOT_SUPPORTED": 0x56, "NV_ERR_INVALID_CLASS": 0x22,
            "NV_ERR_INVALID_ARGUMENT": 0x1F}


class Asker:
    """One program on one node, with a client and what its questions need."""

    def __init__(self, node, program, tables):
        self.program = program
        for file, path in r.FILES.items():
            t.check(program.ask("open %d %s" % (file, path)) == "0", "no " + path)
        self.gpu = node.info()["gpus"][0]
        self.tables = tables
        self.answers = {}  # by kind and number
        self.asked = collections.Counter()  # by what the driver's count calls it
        for call in r.Rows(self.gpu, tables).prelude():
            answer = self.ask(call)
            t.check(answer.ok(), "%s: %s" % (call, answer))

    def ask(self, call):
        answer = d.Answer(call, self.program.ask(call.line(self.program.roots)),
                          self.program.roots, [])
        if call.new_client is not None and answer.ok():
            self.program.roots[call.new_client] = struct.unpack_from("<I", answer.raw, 8)[0]
        return answer

    def ask_all(self):
        for row in r.Rows(self.gpu, self.tables, self.program.roots[0]).all():
            self.answers[row.kind, row.number] = (row.key, self.ask(row.call))
            self.asked[row.key] += 1


def _ask_all(node, program, tables):
    """The asker, and how often the driver received each since the questions began."""
    asker = Asker(node, program, tables)
    before = node.books()["received"]
    asker.ask_all()
    after = node.books()["received"]
    return asker, {key: count - before.get(key, 0) for key, count in after.items()}


def _check_refusal(policy, kind, number, name, answer):
    """A call that does not reach the driver is answered as the table says."""
    if kind == "sizeless":
        t.check(answer.errno == 22, "%s without a size: %s" % (name, answer))
    if kind in ("uvm", "sizeless"):
        return
    outcome = policy.outcome(kind, number)
    if outcome in STATUSES:
        # On the right object, which the table of decisions does not have.
        swallowed = policy.effect(kind, number) in ("swallow", "empty", "preemption", "cache-flush")
        t.check(answer.errno == 0 and
                answer.status in [STATUSES[outcome]] + [0] * swallowed,
                "%s: %s, not %s" % (name, answer, outcome))
    else:
        t.check(answer.errno == 22, "%s: %s" % (name, answer))


def rows(branch):
    with t.Node(CARD_OF_ALL, branch) as plain, t.Node(CARD_OF_ALL, branch) as other:
        driver = plain.info()["driver"]
        program = caller.plain(plain)
        tables = program.tables(driver)
        policy = differences.Policy(tables, driver)
        asker, received = _ask_all(plain, program, tables)
        for key, count in asker.asked.items():
            t.check(received.get(key, 0) == count, "without cgpu the driver received %s %d times, "
                    "not %d" % (key, received.get(key, 0), count))
        asker, received = _ask_all(other, caller.sliced(other, SLICE_MIB), tables)
        expected, run = collections.Counter(), 0
        for (kind, number), (key, answer) in asker.answers.items():
            size, name = tables["escape" if kind == "sizeless" else kind][number]
            if r.may_run(policy, kind, number, size, name):
                expected[key] += 1
                run += 1
            else:
                _check_refusal(policy, kind, number, name, answer)
        expected[r.IS_INITIALISED] += expected["UVM_INITIALIZE"]
        wrong = ["%s %d times, not %d" % (key, received.get(key, 0), expected[key])
                 for key in asker.asked
                 if received.get(key, 0) != expected[key] and not (
                     key in r.SHIMS_OWN and received[key] > expected[key])]
        t.check(not wrong, "the driver received " + "; ".join(wrong))
        print("%d rows asked, of which %d reach the driver from a slice" %
              (len(asker.answers), run))
        t.check(len(asker.answers) > 600, "hardly a row was asked")


t.main({branch: (lambda branch=branch: rows(branch))
        for branch in ("535", "550", "570", "580", "590", "595", "610")})
