"""64 containers at once with eight processes each, all of them allocating and freeing: no error,
never more than was granted, and at the end the accounting and cgpu's ledger agree.

  crowd_test.py crowd [SECONDS]     of allocating and freeing, after all have started (60)
  crowd_test.py denials [READINGS]  a container whose processes have not room for all: what cgpu ps
                                    says was denied is what they were told (100)
"""
import collections
import time

import cgpu_test as t
import worker as w

CONTAINERS = 64
PROCESSES = 8
CARDS = 4
MIB = 505  # of each container: 16 of them have all of a GPU
CARD = "v100-16g@8080MiB"
STEP = 8  # MiB that a process allocates at a time
HELD = 16  # MiB that each holds at the end


def _granted(node):
    """Containers on the node, after a look at the sums."""
    containers = node.containers()
    sums = collections.Counter()
    for container in containers:
        for gpu in container["gpus"]:
            t.check(gpu["used_bytes"] <= gpu["limit_bytes"] and
                    gpu["peak_bytes"] <= gpu["limit_bytes"], "over its limit: %s" % container)
            t.check(gpu["denied"] == 0, "it was denied something: %s" % container)
            sums[gpu["host_index"]] += gpu["limit_bytes"]
    books = node.books()
    for gpu in books["gpus"]:
        granted = sums[gpu["index"]]
        t.check(granted <= gpu["memory_bytes"], "%d bytes of card %s" % (granted, gpu))
        t.check(gpu["used_bytes"] <= granted or len(containers) < CONTAINERS,
                "%d bytes are granted of card %s" % (granted, gpu))
    return containers


def _start(node, workers):
    """All containers at once, then the processes in each."""
    runs = [node.run(workers.argv("c%d" % i), mem="%dMiB" % MIB, name="c%d" % i,
                     flags=("--gpus", "device=%d" % (i % CARDS), "--name",
                            "%s-%d" % (node.name, i))) for i in range(CONTAINERS)]
    roots = [workers.accept() for _ in runs]
    t.check(len(_granted(node)) == CONTAINERS, "not all containers are listed")
    families = [[root] + [workers.fork(root, "%s-%d" % (root.name, i))
                          for i in range(1, PROCESSES)] for root in roots]
    return runs, families


def crowd(seconds="60"):
    with t.Node("%s:%d" % (CARD, CARDS)) as node, w.Workers() as workers:
        runs, families = _start(node, workers)
        everybody = [worker for family in families for worker in family]
        for worker in everybody:
            worker.send("churn", STEP)
        for worker in everybody:
            t.check(worker.line() == "churning", "%s does not churn" % worker.name)
        print("%d processes in %d containers allocate and free" % (len(everybody), len(runs)))
        refused = t.command(t.CGPU, "run", "--node", node.name, "--mem", "%dMiB" % MIB, "--gpus",
                            "device=0", "--", "true", ok=False)
        t.check(refused.returncode == 125, "one container more than the card has room for")
        until = time.monotonic() + float(seconds)
        readings = 0
        while time.monotonic() < until:
            t.check(len(_granted(node)) == CONTAINERS, "a container has ended")
            readings += 1
        for worker in everybody:
            worker.send("stop")
        rounds = []
        for worker in everybody:
            line = worker.line()
            t.check(line.startswith("0x0 "), "%s: %s" % (worker.name, line))
            made, denied = map(int, line.split()[1:])
            t.check(made > 0 and denied == 0, "%s: %d rounds, %d denied" %
                    (worker.name, made, denied))
            rounds.append(made)
        print("%d rounds, from %d to %d each; the books were read %d times" %
              (sum(rounds), min(rounds), max(rounds), readings))
        for number, worker in enumerate(everybody):
            worker.do("client", number)
            worker.do("alloc", number, HELD)
        node.wait_used(len(everybody) * HELD * t.MIB, "when each holds %d MiB" % HELD)
        node.sync()
        until = time.monotonic() + t.DEADLINE
        wrong = True
        while wrong:  # shims see closes some time after: they look for them for a tenth of the time
            wrong = [container for container in _granted(node)
                     if container["gpus"][0]["used_bytes"] != PROCESSES * HELD * t.MIB]
            t.check(not wrong or time.monotonic() < until, "cgpu ps: %s" % wrong)
        for family in families:
            family[0].send("end")
        for run in runs:
            t.check(run.end() == 0, "%s failed" % run.name)
        node.wait_used(0, "after the containers")
        node.wait_nothing_left()


def denials(readings="100"):
    with t.Node("v100-16g") as node, w.Workers() as workers:
        run = node.run(workers.argv("c"), mem="%dMiB" % (STEP * (PROCESSES - 2)), name="c")
        root = workers.accept()
        family = [root] + [workers.fork(root, "c-%d" % i) for i in range(1, PROCESSES)]
        for worker in family:
            worker.send("churn", STEP)
        for worker in family:
            t.check(worker.line() == "churning", "%s does not churn" % worker.name)
        last = 0
        for _ in range(int(readings)):
            denied = node.containers()[0]["gpus"][0]["denied"]
            t.check(denied >= last, "%d were denied, and then %d" % (last, denied))
            last = denied
        t.wait_for(lambda: node.containers()[0]["gpus"][0]["denied"] > 0, "nothing is denied")
        for worker in family:
            worker.send("stop")
        told = sum(int(worker.line().split()[2]) for worker in family)
        t.check(told > 0, "there was room for all")
        denied = node.containers()[0]["gpus"][0]["denied"]
        t.check(denied == told, "told %d times, counted %d" % (told, denied))
        root.send("end")
        t.check(run.end() == 0, "it failed")


if __name__ == "__main__":
    t.main({"crowd": crowd, "denials": denials})
