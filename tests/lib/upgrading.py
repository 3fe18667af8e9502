"""Upgrades of containers, to the version after this one and back. cgpu-shim-next is this version with
what a later one may add to every record of the state that is handed over."""
import os

import cgpu_test as t

NEXT = os.path.abspath(os.path.join(t.TEST_BIN, "cgpu-shim-next"))
OWN = os.path.abspath(os.path.join(t.BIN, "cgpu-shim"))


def upgrade(name, program, ok=True):
    """What `cgpu upgrade` says of it."""
    done = t.command(t.CGPU, "upgrade", name, "--program", program, ok=False)
    t.check((done.returncode == 0) == ok, "cgpu upgrade: %s" % done)
    return done.stdout + done.stderr
