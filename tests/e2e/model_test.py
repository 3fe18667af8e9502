"""A property test through the whole path: random operations of several processes in two slices,
one of all GPUs and one of the last alone, against a model of what must be held. Every few
steps the driver's accounting and cgpu's ledger say what the model says.

  model_test.py random-550 [STEPS [SEED]]     400 steps, another seed each time; also random-580,
                                              and on two GPUs cards-550 and cards-580, and
                                              with a faulty driver faults-550 and faults-580
  model_test.py shrink-random-550 STEPS SEED  which of these steps must stay for it to fail
"""
import functools
import random
import time

import cgpu_test as t
import model
import model_faults

LIMITS = (256 * t.MIB, 300 * t.MIB)
# Small GPUs, so that the limits of both slices cannot grow as they like.
CARDS = ["v100-16g@640MiB", "t4@720MiB"]
SETUPS = {case + "-" + driver: (CARDS[:1] if case == "random" else CARDS, driver)
          for case in ("random", "cards", "faults") for driver in ("550", "580")}
COMPARED = 0.15  # of the steps


def _by_card(slices, figures):
    """The sums on the node's GPUs of what is said of the slices' own."""
    return [sum(row[slice_.granted.index(card)] for slice_, row in zip(slices, figures)
                if card in slice_.granted) for card in slices[0].granted]


def _compare(node, slices, peak, own):
    """Waits until the accounting and cgpu's ledger agree: closes are seen a moment later than they
    happen. cgpu itself has `own` clients, and one on each file with an export, which is how it
    knows that file again."""
    held = [slice_.all_held() for slice_ in slices]
    sums = _by_card(slices, held)
    most = _by_card(slices, [slice_.most for slice_ in slices])
    until = time.monotonic() + t.DEADLINE
    while True:
        node.sync()
        books = node.books()
        used = [gpu["used_bytes"] for gpu in books["gpus"]]
        clients = len(books["clients"]) - own
        counted = [slice_.counted() for slice_ in slices]
        said = [[row["used_bytes"] for row in rows] for rows in counted]
        tags = clients - sum(slice_.clients() for slice_ in slices)
        if (used == sums and said == held and
                0 <= tags <= sum(slice_.exports() for slice_ in slices)):
            break
        t.check(all(map(int.__le__, used, most)), "%s bytes are in use" % used)
        t.check(time.monotonic() < until,
                "must be held: %s; the driver's books: %s, with %d clients; cgpu ps: %s" %
                (held, used, clients, said))
    for slice_, rows in zip(slices, counted):
        for row, highest in zip(rows, slice_.most):
            t.check(row["used_bytes"] <= row["peak_bytes"] <= highest, "peak: %s" % row)
    t.check(peak.bytes <= sum(most), "at some time %d bytes were in use" % peak.bytes)


def _history(name, seed, steps, last):
    """The steps with these numbers. Each draws from chance of its own, so that what is left of a
    history does much the same when others are left out of it."""
    cards, driver = SETUPS[name]
    kind = model_faults.Slice if name.startswith("faults") else model.Slice
    with (t.Node(",".join(cards), driver) as node, t.Peak(node) as peak):
        every = list(range(len(cards)))
        slices = [kind(node, cards, granted, letter, limit)
                  for letter, limit, granted in zip("ab", LIMITS, (every, every[-1:]))]
        for slice_ in slices:
            slice_.measure_group()
        own = len(node.books()["clients"])
        for slice_ in slices:
            slice_.others = [other for other in slices if other is not slice_]
            slice_.quiet = functools.partial(_compare, node, slices, peak, own)
        for step in steps:
            choose = random.Random("%d-%d" % (seed, step))
            print("step %d" % step)
            choose.choice(slices).step(choose)
            if step == last or choose.random() < COMPARED:
                _compare(node, slices, peak, own)
                print("held: %s" % [slice_.all_held() for slice_ in slices])
        print("done: %s" % [slice_.done for slice_ in slices])
        for slice_ in slices:
            slice_.kill_all()
        node.wait_used(0, "after the last process")
        node.wait_nothing_left()


def _run(name, steps="400", seed=None):
    seed = int(seed) if seed else random.SystemRandom().randrange(1 << 32)
    print("seed %d: repeat with `model_test.py %s %s %d`, shorten it with `shrink-%s`" %
          (seed, name, steps, seed, name))
    _history(name, seed, range(int(steps)), int(steps) - 1)


def _fails(name, seed, steps):
    """Which steps came to pass before it failed, or None."""
    print("--- %d steps" % len(steps))
    begun = []

    def each():
        for step in steps:
            begun.append(step)
            yield step
    try:
        _history(name, seed, each(), steps[-1])
    except t.Failure as failure:
        print("--- fails: %s" % failure)
        return begun
    return None


def _shrink(name, steps, seed):
    """Leaves out what a failing history does not need, half of it first, then less and less."""
    t.DEADLINE = 5.0
    left = _fails(name, int(seed), list(range(int(steps))))
    if left is None:
        print("seed %s does not fail" % seed)
        return
    size = (len(left) + 1) // 2
    while size > 0:
        at = 0
        while at < len(left):
            fewer = left[:at] + left[at + size:]
            failed = _fails(name, int(seed), fewer) if fewer else None
            if failed:
                left = failed
            else:
                at += size
        size //= 2
    t.check(not _fails(name, int(seed), left), "seed %s needs the steps %s" % (seed, left))


if __name__ == "__main__":
    CASES = {}
    for name_ in SETUPS:
        CASES[name_] = functools.partial(_run, name_)
        CASES["shrink-" + name_] = functools.partial(_shrink, name_)
    t.main(CASES)
