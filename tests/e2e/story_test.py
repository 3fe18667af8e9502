"""A program's story of the driver (story.cc) is the same in a slice as on the bare node."""
import os

from cgpu_test import TEST_BIN, Node, check, main

# Lines that must be in it, whoever answers: a story that is the same twice may still be wrong.
FACTS = (
    "alloc 0x0", "dup 0x0", "free 0x0", "unknown control 0x56", "map 0x0", "map second 0x0",
    "seen through the other mapping 0xc0ffee", "unmap 0x0",
    "seen after the files are closed 0xc0ffee", "event 0x0", "no event any more 0x0", "export 0x0",
    "import in another process 0x0", "map there 0x0", "what it sees 0x1234",
    "what the other process wrote 0xabcd", "free the device 0x0", "free the client 0x0")


def _tell(start):
    process = start([os.path.join(TEST_BIN, "story")])
    process.expect("^holding$")
    check(process.end() == 0, "the story ended badly")
    return process.lines


def same():
    for driver in ("550", "580"):
        with Node("v100-16g:1", driver) as node:
            bare = _tell(lambda argv: node.exec(argv, name="without cgpu"))
            node.wait_used(0, "after the story without cgpu")
            sliced = _tell(lambda argv: node.run(argv, name="with cgpu"))
            node.wait_used(0, "after the story with cgpu")
        for fact in FACTS:
            check(fact in bare, "with driver %s it is not told that: %s" % (driver, fact))
        check(len(bare) == len(sliced), "the stories differ in length")
        for ours, theirs in zip(bare, sliced):
            check(ours == theirs, "without cgpu: %s; with it: %s" % (ours, theirs))


main({"same": same})
