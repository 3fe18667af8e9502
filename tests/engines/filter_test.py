"""A container's filter is cgpu's, whatever else there is by which an OCI runtime takes another one.
Judged by the driver's books. Cases by name: ENGINE-CASE."""
import base64
import contextlib
import struct

import cgpu_test as t
from engines import write_settings
from slices_test import main, stand_in

LIMIT, WANTED = 1024, 8192  # MiB: the slice, and what its tenant is after
SLICE = {"CGPU_MEM": "%dMiB" % LIMIT}
BPF_DATA = "run.oci.seccomp_bpf_data"
# A filter of one instruction that lets everything pass: linux/bpf_common.h, linux/seccomp.h.
ALLOW_ALL = base64.b64encode(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)).decode()


def _with(annotations):
    return {"edit": lambda spec: spec.setdefault("annotations", {}).update(annotations)}


def _attack(test, name="attack", **wants):
    """The tenant takes what it can and holds it; what it has, by the books, and its status if it
    ended."""
    process = test.engine.talk(name, ["rmtool", "hold", str(WANTED), "--page", "big"], env=SLICE,
                               **wants)
    with contextlib.suppress(t.Failure):
        process.expect("holding")
    test.node.sync()
    used = test.node.used() // t.MIB
    t.check(used <= LIMIT, "the books say %d MiB in a slice of %d" % (used, LIMIT))
    status = process.end()
    test.engine.remove(name)
    return status


def annotation(test):
    """crun takes its filter from an annotation in place of the configuration's: refused, with a slice
    and without."""
    t.check(_attack(test, **_with({BPF_DATA: ALLOW_ALL})) == test.refused, "it was started")
    for name, env in (("slice", SLICE), ("none", {})):
        test.run(test.refused, BPF_DATA, name, ["true"], env=env, **_with({BPF_DATA: ALLOW_ALL}))


def environment(test):
    """What the engine's environment has for runtimes to act on does not reach them; what they need
    does."""
    seen = "/run/seen"
    write_settings(test.node, stand_in("runtime", "tr '\\0' '\\n' < /proc/$$/environ >> %s\nexec %s \"$@\"" %
                                       (seen, test.engine.plain)))
    test.engine.environment.update({
        "LD_PRELOAD": "/no/such.so", "LD_LIBRARY_PATH": ".", "RUN_OCI_SECCOMP_RECEIVER": "/no/such",
        "_LIBCONTAINER_STATEDIR": "/no/such", "XDG_CONFIG_HOME": "/no/such",
        "_CONTAINERS_ROOTLESS_UID": "0", "PATH": ".:" + test.engine.environment["PATH"]})
    test.run(2, "out of memory", "held", ["rmtool", "alloc", str(LIMIT + 1), "--page", "big"], env=SLICE)
    with open(seen, encoding="utf-8") as file:
        names = {line.split("=")[0] for line in file.read().splitlines()}
    t.check(names == {"PATH", "HOME", "_CONTAINERS_ROOTLESS_UID"}, "the runtime has %s" % names)


CASES = {"environment": environment, "annotation": annotation}

if __name__ == "__main__":
    main(CASES)
