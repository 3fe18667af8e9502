"""A property test through the whole path: random operations of several processes in two slices of
one card, against a model of what must be held. Every few steps the driver's books and cgpu's own
say what the model says.

  model_test.py random-550 or random-580 [STEPS [SEED]]   1500 steps, another seed each time
  model_test.py shrink-550 or shrink-580 STEPS SEED       which steps of it must stay for it to fail
"""
import functools
import random
import time

import cgpu_test as t
import model

LIMITS = (256 * t.MIB, 300 * t.MIB)
COMPARED = 0.15  # of the steps


def _compare(node, slices, peak, own):
    """Closes are seen a moment later than they happen: waits until all books agree. cgpu itself has
    `own` clients, and one on each file with an export, which is how it knows that file again."""
    held = [slice_.held() for slice_ in slices]
    t.check(all(mine <= slice_.most for mine, slice_ in zip(held, slices)), "the model is wrong")
    most = sum(slice_.most for slice_ in slices)
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
        t.check(used <= most, "%d bytes are in use" % used)
        t.check(time.monotonic() < until,
                "must be held: %s; the driver's books: %d, with %d clients; cgpu ps: %s" %
                (held, used, clients, said))
    t.check(all(row["peak_bytes"] <= slice_.most for row, slice_ in zip(counted, slices)),
            "peak: %s" % counted)
    t.check(peak.bytes <= most, "at some time %d bytes were in use" % peak.bytes)


def _history(driver, seed, steps):
    """The steps with these numbers. Each draws from chance of its own, so that what is left of a
    history does much the same when others are left out of it."""
    with t.Node("v100-16g:1", driver) as node, t.Peak(node) as peak:
        slices = [model.Slice(node, name, limit) for name, limit in zip("ab", LIMITS)]
        for slice_ in slices:
            slice_.measure_group()
        own = len(node.books()["clients"])
        for step in steps:
            choose = random.Random("%d-%d" % (seed, step))
            print("step %d" % step)
            choose.choice(slices).step(choose)
            if step == steps[-1] or choose.random() < COMPARED:
                _compare(node, slices, peak, own)
                print("held: %s MiB" % [slice_.held() // t.MIB for slice_ in slices])
        print("done: %s" % [slice_.done for slice_ in slices])
        for slice_ in slices:
            slice_.kill_all()
        node.wait_used(0, "after the last process")
        t.check(not node.containers(), "containers are left: %s" % node.containers())
        t.check(not node.books()["clients"], "clients are left: %s" % node.books()["clients"])


def _run(driver, steps="1500", seed=None):
    seed = int(seed) if seed else random.SystemRandom().randrange(1 << 32)
    print("seed %d: repeat with `model_test.py random-%s %s %d`, shorten with `shrink-%s`" %
          (seed, driver, steps, seed, driver))
    _history(driver, seed, range(int(steps)))


def _fails(driver, seed, steps):
    print("--- %d steps" % len(steps))
    try:
        _history(driver, seed, steps)
    except t.Failure as failure:
        print("--- fails: %s" % failure)
        return True
    return False


def _shrink(driver, steps, seed):
    """Leaves out what a failing history does not need, half of it first, then less and less."""
    t.DEADLINE = 10.0
    left = list(range(int(steps)))
    size = len(left)
    while size > 0:
        at = 0
        while at < len(left):
            fewer = left[:at] + left[at + size:]
            if fewer and _fails(driver, int(seed), fewer):
                left = fewer
            else:
                at += size
        size //= 2
    t.check(not _fails(driver, int(seed), left), "steps %s of seed %s" % (left, seed))


if __name__ == "__main__":
    t.main({name + "-" + driver: functools.partial(case, driver) for driver in ("550", "580")
            for name, case in (("random", _run), ("shrink", _shrink))})
