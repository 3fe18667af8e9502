"""cgpud's audit log: what containers were refused, judged by the daemon's log. Cases: ENGINE-CASE."""
import re
import select
import time

import cgpu_test as t
from engines import write_settings
from slices_test import expect, main

LOG = "/run/daemon/log"
LINE = re.compile(r"^cgpud: audit container=([0-9a-f]{12}) engine=(\S+) refused=(\S+) count=(\d+)$")
FORBIDDEN = ["rmtool", "raw", "ioctl", "0x4d", "72"]  # NV_ESC_RM_ACCESS_REGISTRY


def _settings(test, audit):
    write_settings(test.node, test.engine.plain, "group: cgpu-test\naudit: %s\n" % audit)
    test.daemon.stop()
    test.daemon.start()


def _lines():
    """(container, engine's id, name, count) of each line of the log that is one of these."""
    with open(LOG, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if "audit" in line]
    found = [LINE.match(line) for line in lines]
    t.check(all(found), "not in the one form: %s" % lines)
    return [(*match.groups()[:3], int(match.group(4))) for match in found]


def _wait_for(container, count):
    """Until the log says that the container was refused so many of one call; the call's name."""
    until = time.monotonic() + t.DEADLINE
    while True:
        names = {name for id_, _, name, said in _lines() if (id_, said) == (container, count)}
        if names:
            t.check(len(names) == 1, "%s was refused %s" % (container, names))
            return names.pop()
        t.check(time.monotonic() < until, "the log says of %s: %s" % (container, _lines()))
        select.select([], [], [], 0.02)


def _forbidden(test, name, times):
    for _ in range(times):
        expect(test.engine.exec(name, FORBIDDEN), 3, "errno 22")


def logged(test):
    """Refused calls are in the log: of the container that made them, as many as they were."""
    _settings(test, 0)
    running = [test.engine.talk(name, ["rmtool", "hold", "10"], env={"CGPU_MEM": "100MiB"})
               for name in ("good", "bad")]
    for process in running:
        process.expect("holding")
    ids = {row["name"]: (row["id"], row["engine_id"]) for row in test.node.containers()}
    bad, _ = ids["bad"]
    _forbidden(test, "bad", 3)
    name = _wait_for(bad, 3)
    _forbidden(test, "bad", 2)
    t.check(_wait_for(bad, 5) == name, "another name")
    t.check({line[:3] for line in _lines()} == {(*ids["bad"], name)}, "the log: %s" % _lines())

    # Another daemon says it again, once; one that is to be silent does not.
    said = len(_lines())
    _settings(test, "off")
    _forbidden(test, "bad", 1)
    _settings(test, 3600)
    _wait_for(bad, 6)
    t.check(len(_lines()) == said + 1, "the log: %s" % _lines())
    for process in running:
        process.end()
    for container in ids:
        test.engine.remove(container)


def last(test):
    """A call that is refused in a container's last instant, soon after something else, is in the
    log."""
    _settings(test, 3600)
    forbidden = " ".join(FORBIDDEN)
    for number in range(10):
        test.engine.run("short%d" % number, ["sh", "-c", "%s; %s" % (forbidden, forbidden)],
                        env={"CGPU_MEM": "100MiB"})
    until = time.monotonic() + t.DEADLINE
    while len({id_ for id_, _, _, count in _lines() if count == 2}) < 10:
        t.check(time.monotonic() < until, "the log: %s" % _lines())
        select.select([], [], [], 0.02)


main({"logged": logged, "last": last})
