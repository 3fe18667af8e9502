"""Attacks that take all of what the users of a GPU share (bombs.cc): without cgpu nobody after
them opens a context any more, in a slice everybody does."""
from attack import (LIMIT, NEIGHBOUR, argv, balanced, within, without)
from cgpu_test import MIB, check, main

OK = "0x0"
NEWCOMER = 256  # MiB, of a slice that is opened beside the bomb
STEPS = ("client", "device", "space", "group", "channel", "memory", "mapping")
LONG = 900.0  # seconds; a bomb takes a million calls


def _newcomer(node, with_cgpu):
    """Returns the status of each step of opening a context in another slice, up to the first that
    fails."""
    process = (node.run(argv("newcomer"), mem="%dMiB" % NEWCOMER, flags=("--gpus", "1"),
                        name="newcomer") if with_cgpu else node.exec(argv("newcomer"), name="newcomer"))
    process.expect("^holding$")
    said = [(step, process.said(r"^%s (0x[0-9a-f]+)$" % step)[0].group(1)) for step in STEPS]
    check(process.end() == 0, "the newcomer did not end well")
    return said


def _fails_at(step, status):
    """For the run without cgpu: the newcomer comes as far as `step`."""

    def judge(node, process):
        said = _newcomer(node, False)
        failed = [pair for pair in said if pair[1] != OK]
        check(failed and failed[0] == (step, status),
              "the newcomer was not stopped at %s with %s: %s" % (step, status, said))
        process.number(r"^made (\d+)$")

    return judge


def _opens(judge=None):
    """For the run with cgpu: the newcomer opens a context, gets memory and sees it."""

    def judge_both(node, process):
        used = node.used()
        check(used <= (LIMIT + NEIGHBOUR) * MIB, "%d bytes are in use" % used)
        said = _newcomer(node, True)
        check(all(status == OK for _, status in said), "the newcomer got %s" % said)
        if judge:
            judge(node, process)

    return judge_both


def _bomb(kind, step, status, gpus="v100-16g:1", most=(), judge=None):
    def course(process, _node):
        process.expect("^holding$", LONG)

    without(["bomb", kind, *most], _fails_at(step, status), course, gpus=gpus)
    # The newcomer's memory counts as the attacker's at the peak.
    within(["bomb", kind, *most], _opens(judge), course, gpus=gpus, limit=LIMIT + NEWCOMER,
           mem="%dMiB" % LIMIT)


def groups():
    """All numbers of channel groups."""
    _bomb("groups", "group", "0x4f")


def channels():
    """All numbers of channels."""
    _bomb("channels", "channel", "0x51")


def lone():
    """Channels without a group, which get groups of their own."""
    _bomb("lone", "group", "0x4f")


def runlist():
    """On Ampere and later each engine has numbers of its own, and they too can be taken away. The
    bomb is for the engine that contexts are on."""
    _bomb("graphics", "channel", "0x51", gpus="a10:1")


def clients(most=20_000):
    """All clients that the driver can have, a million; that takes long, so by default only many more
    than a slice may have."""
    most = int(most)
    if most > 1 << 20:
        _bomb("clients", "client", "0x1a", most=(most,))
        return

    def many(node, process):
        check(process.number(r"^made (\d+)$") == most, "the driver refused them")
        check(len(node.books()["clients"]) == most, "the books have others")

    def few(node, process):
        quota, own = 1024, 64  # the shim's, the neighbour's, the newcomer's
        check(process.number(r"^made (\d+)$") == quota, "it made others than the quota says")
        check(quota < len(node.books()["clients"]) <= quota + own, "the books have others")

    without(["bomb", "clients", most], many)
    within(["bomb", "clients", most], _opens(few), limit=LIMIT + NEWCOMER, mem="%dMiB" % LIMIT)


def bar1():
    """All of the window through which processors see a GPU's memory."""
    def within_quota(node, _process):
        card = node.books()["gpus"][0]
        whole, used = card["bar1_bytes"], card["bar1_used_bytes"]
        part = LIMIT * MIB * whole // card["memory_bytes"]
        check(0 < used <= part, "the slice sees through %d bytes of %d" % (used, whole))
        check(used >= part * 7 // 8, "only %d bytes of %d can be used" % (used, part))

    _bomb("bar1", "mapping", "0x51", gpus="t4:1", judge=within_quota)


def _objects(node):
    return max(client["objects"] for client in node.books()["clients"])


def handles():
    """Objects that cost the kernel memory and nothing of a GPU: without cgpu as many as one
    likes, in a slice 262,144."""
    quota, most = 262_144, 300_000

    def all_of_them(node, process):
        check(process.number(r"^made (\d+)$") == most, "the driver refused them")
        check(_objects(node) > most, "the books have %d objects" % _objects(node))

    def bounded(node, process):
        check(process.number(r"^made (\d+)$") <= quota, "more than the quota was made")
        objects = _objects(node) - 1  # the client itself
        check(quota // 2 < objects <= quota, "the books have %d objects" % objects)

    def course(process, _node):
        process.expect("^holding$", LONG)

    without(["bomb", "handles", most], all_of_them, course)
    within(["bomb", "handles", most], _opens(bounded), course, limit=LIMIT + NEWCOMER,
           mem="%dMiB" % LIMIT)


def views():
    """Views of memory that are made and given back in every way are not counted for ever."""
    def all_rounds(node, process):
        check(process.number(r"^rounds (\d+) ") == 200, "it said %s" % process.lines)
        check(node.books()["gpus"][0]["bar1_used_bytes"] == 0, "views are left")

    without(["views", 200], all_rounds, gpus="t4:1")
    within(["views", 200], all_rounds, gpus="t4:1")


def alike():
    """Views under one address: whichever of them the driver drops, the slice's part is not passed."""
    def more(node, process):
        card = node.books()["gpus"][0]
        check(card["bar1_used_bytes"] > card["bar1_bytes"] // 2, "it said %s" % process.lines)

    def bounded(node, _process):
        card = node.books()["gpus"][0]
        part = LIMIT * MIB * card["bar1_bytes"] // card["memory_bytes"]
        check(card["bar1_used_bytes"] <= part, "%d bytes are seen through, the part is %d" %
              (card["bar1_used_bytes"], part))
        balanced(node)

    without(["alike"], more, gpus="t4:1")
    within(["alike"], bounded, gpus="t4:1")


def floods():
    """Calls each of which leaves something in the kernel's memory, or in a list that the driver walks
    under its locks: without cgpu as many as one likes, in a slice no more than quotas.h says."""
    events, entries, places, groups = 1024, 16_384, 4096, 65_536  # the quotas
    most, most_groups = 20_000, 70_000

    def kernel(node):
        books = node.books()
        return dict(books["kernel"], range_groups=sum(file["range_groups"] for file in books["uvm"]))

    def all_of_them(node, process):
        got = kernel(node)
        check(got["os_events"] == most and got["shared_with"] == most, "the books have %s" % got)
        check(got["share_policies"] >= most // 10, "policies do not stay: %s" % got)
        check(got["registered_spaces"] == most // 4, "the books have %s" % got)
        check(got["mapper_places"] > 1 << 24, "the books have %s" % got)
        check(got["range_groups"] == most_groups, "the books have %s" % got)
        process.end()
        node.sync()
        left = kernel(node)
        check(not any(left.values()), "left without anybody: %s" % left)

    def bounded(node, process):
        got = kernel(node)
        check(got["os_events"] == events, "the books have %s" % got)
        kept = got["shared_with"] + got["share_policies"] + got["registered_spaces"]
        check(entries // 2 < kept <= entries + 16, "the books have %s" % got)
        check(process.number(r"^huge (\d+) ") == 0, "a queue of any length is made")
        check(0 < got["mapper_places"] <= 256 * places, "the books have %s" % got)
        check(got["range_groups"] == groups, "the books have %s" % got)

    def course(process, _node):
        process.expect("^holding$", LONG)

    without(["floods", most, most_groups], all_of_them, course)
    within(["floods", most, most_groups], _opens(bounded), course, limit=LIMIT + NEWCOMER,
           mem="%dMiB" % LIMIT)


def events():
    """Event objects, of which each has memory of the kernel's: no more than quotas.h says. What
    is freed can be had again."""
    quota, most, refused = 4096, 20_000, "0x1a"

    def objects(node):
        return max(client["objects"] for client in node.books()["clients"])

    def course(process, node):
        found = process.expect(r"^events (\d+) status (\w+)$")
        process.made, process.status = int(found.group(1)), found.group(2)
        process.objects = objects(node)
        process.say("go on")
        process.expect("^freed 100$")
        process.again = process.expect(r"^again (\d+) status (\w+)$").groups()
        process.expect("^holding$")

    def many(_node, process):
        check(process.made == most and process.objects > most, "there are %d events" % process.made)

    def bounded(_node, process):
        check((process.made, process.status) == (quota, refused),
              "%d events, then %s" % (process.made, process.status))
        check(quota <= process.objects <= quota + 16, "the driver has %d objects" % process.objects)
        check(process.again == ("100", refused), "of those that were freed: %s" % (process.again,))

    without(["event-objects", most], many, course)
    within(["event-objects", most], bounded, course)


main({"bomb-groups": groups, "bomb-channels": channels, "bomb-lone": lone,
      "bomb-runlist": runlist, "bomb-clients": clients, "bomb-bar1": bar1,
      "bomb-handles": handles, "views": views, "alike": alike, "floods": floods,
      "bomb-events": events})
