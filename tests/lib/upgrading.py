"""Upgrades of containers, to the version after this one and back. cgpu-shim-next is this version with
what a later one may add to every record of the state that is handed over."""
import os

import cgpu_test as t

NEXT = os.path.abspath(os.path.join(t.TEST_BIN, "cgpu-shim-next"))
OWN = os.path.abspath(os.path.join(t.BIN, "cgpu-shim"))
# For a shell in a slice: calls without end; a line for each round, and none any more after one that
# fails.
LOOP = "while rmtool alloc 10 --page big >/dev/null; do echo round; done; echo failed"


def check_goes_on(loop):
    """A process that does LOOP, once or more, goes on from now, and no call has failed."""
    loop.pass_over()
    t.check(not loop.said("^failed$"), "a call failed")
    for _ in range(4):
        t.check(loop.expect("^(round|failed)$").group(1) == "round", "a call failed")


def upgrade(name, program, ok=True):
    """Returns what `cgpu upgrade` says of it."""
    done = t.command(t.CGPU, "upgrade", name, "--program", program, ok=False)
    t.check((done.returncode == 0) == ok, "cgpu upgrade: %s" % done)
    return done.stdout + done.stderr
