"""A property test through the whole path: random operations of several processes in two slices of
one card, against a model of what must be held. After every batch the driver's books and cgpu's own
say what the model says.

  model_test.py random-550 or random-580 [BATCHES [SEED]]   batches of some ten operations (200)
"""
import functools
import random
import time

import cgpu_test as t
import model

LIMITS = (256 * t.MIB, 300 * t.MIB)


def _compare(node, slices, peak, own):
    """Closes are seen a moment later than they happen: waits until all books agree. cgpu itself has
    `own` clients, and one on each file with an export, which is how it knows that file again."""
    held = [slice_.held() for slice_ in slices]
    t.check(all(mine <= slice_.limit for mine, slice_ in zip(held, slices)), "the model is wrong")
    until = time.monotonic() + t.DEADLINE
    while True:
        node.sync()
        books = node.books()
        used = books["gpus"][0]["used_bytes"]
        counted = [slice_.counted() for slice_ in slices]
        clients = len(books["clients"]) - own
        said = [row["used_bytes"] for row in counted]
        marks = clients - sum(slice_.clients() for slice_ in slices)
        if (used == sum(held) and said == held and
                0 <= marks <= sum(slice_.exports() for slice_ in slices)):
            break
        t.check(used <= sum(LIMITS), "%d bytes are in use" % used)
        t.check(time.monotonic() < until,
                "must be held: %s; the driver's books: %d, with %d clients; cgpu ps: %s" %
                (held, used, clients, said))
    t.check(all(row["limit_bytes"] >= row["peak_bytes"] for row in counted), "peak: %s" % counted)
    t.check(peak.bytes <= sum(LIMITS), "at some time %d bytes were in use" % peak.bytes)


def _run(driver, batches="200", seed=None):
    seed = int(seed) if seed else random.SystemRandom().randrange(1 << 32)
    print("seed %d: repeat with `model_test.py random-%s %s %d`" %
          (seed, driver, batches, seed))
    with t.Node("v100-16g:1", driver) as node, t.Peak(node) as peak:
        slices = [model.Slice(node, name, limit, "%d-%s" % (seed, name))
                  for name, limit in zip("ab", LIMITS)]
        for slice_ in slices:
            slice_.measure_group()
        own = len(node.books()["clients"])
        choose = random.Random(seed)
        for batch in range(int(batches)):
            for _ in range(choose.randrange(4, 16)):
                choose.choice(slices).step()
            held = [slice_.held() // t.MIB for slice_ in slices]
            print("batch %d: must be held: %s MiB" % (batch, held))
            _compare(node, slices, peak, own)
        print("done: %s" % [slice_.done for slice_ in slices])
        for slice_ in slices:
            slice_.kill_all()
        node.wait_used(0, "after the last process")
        t.check(not node.containers(), "containers are left: %s" % node.containers())
        t.check(not node.books()["clients"], "clients are left: %s" % node.books()["clients"])


if __name__ == "__main__":
    t.main({"random-" + driver: functools.partial(_run, driver) for driver in ("550", "580")})
