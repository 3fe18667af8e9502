"""Containers of real engines outlive what serves them: upgrades of everything, deaths of cgpud, and
end with what they cannot do without. Cases by name: ENGINE-CASE."""
import signal

import cgpu_test as t
from slices_test import expect, main
from upgrading import LOOP, NEXT, OWN, check_goes_on


def _upgrade(*words):
    said = t.command(t.CGPU, "upgrade", *words)
    t.check("not upgraded" not in said, said)
    return said


def upgrades(test):
    """Every part of cgpu becomes another version while containers work: no call fails, what is held is
    held, and processes that are added later are held, too."""
    busy = test.engine.talk("busy", ["sh", "-c", LOOP], env={"CGPU_MEM": "100MiB"})
    busy.expect("^round$")
    held = test.engine.talk("held", ["rmtool", "hold", "600", "--page", "big"],
                            env={"CGPU_MEM": "1000MiB"})
    held.expect("holding 600 MiB")
    daemon = test.daemon.popen.pid
    for program in (NEXT, OWN):
        said = _upgrade("--program", program)
        # The shim of a container that has just ended may be there still.
        t.check(all(" %s: upgraded;" % name in said for name in ("busy", "held")) and
                "cgpud: upgraded" in said, said)
        check_goes_on(busy)
        for mib, status in ((401, 2), (400, 0)):
            expect(test.engine.exec("held", ["rmtool", "alloc", str(mib), "--page", "big"]), status)
        test.run(0, "", "new", ["rmtool", "alloc", "10"], env={"CGPU_MEM": "100MiB"})
        t.check(test.daemon.popen.poll() is None and test.daemon.popen.pid == daemon,
                "cgpud has ended")
    check_goes_on(busy)
    busy.kill()
    held.end()
    for name in ("busy", "held"):
        test.engine.remove(name)


def daemon_dies(test):
    """cgpud is killed a hundred times under load: no call of a container fails."""
    busy = test.engine.talk("busy", ["sh", "-c", LOOP], env={"CGPU_MEM": "100MiB"})
    for _ in range(100):
        busy.expect("^round$")
        test.daemon.stop(signal.SIGKILL)
        busy.expect("^round$")
        test.daemon.start()
    check_goes_on(busy)
    test.run(0, "", "new", ["rmtool", "alloc", "10"], env={"CGPU_MEM": "100MiB"})
    busy.kill()
    test.engine.remove("busy")


main({"upgrades": upgrades, "daemon-dies": daemon_dies})
