"""Runs work on a simulated GPU: timed kernels of programs with and without cgpu, judged by the
engines' own accounting. Cases by name, see tests/lib/cgpu_test.py."""
import os
import signal

import cgpu_test as t

KERNELS = os.path.join(t.TEST_BIN, "kernels")
MS = 1000000  # nanoseconds


def tenant(node, name, *words):
    process = node.exec([KERNELS, *map(str, words)], name)
    process.expect("^ready$")
    return process


def tell(process, line, answer):
    process.say(line)
    return process.expect(answer)


def group_of(node, process):
    """Its channel group in the accounting: `cgpu sim exec` becomes the program, so the pid is known."""
    groups = [g for g in node.books()["gpus"][0]["groups"] if g["pid"] == process.popen.pid]
    t.check(len(groups) == 1, "%s has the groups %s" % (process.name, groups))
    return groups[0]


def _runs(node, process, group):
    tell(process, "run 10", "^ran 10$")
    books = group()
    print("10 kernels of 1 ms: %s" % books)
    t.check(books["kernels"] == 10, "kernels that ended: %d" % books["kernels"])
    # Beside its kernels a channel fetches entries and methods: 0.01 ms a launch would be a lot.
    t.check(10 * MS <= books["gpu_time_ns"] <= 10.1 * MS, "GPU time: %d" % books["gpu_time_ns"])
    t.check(books["switches"] >= 1 and books["fault"] == 0, "the group: %s" % books)
    (channel,) = node.books()["gpus"][0]["channels"]
    t.check(channel["gp_get"] == channel["gp_put"] == 10, "the channel: %s" % channel)
    t.check(process.end() == 0, "the tenant failed")
    node.wait_used(0, "after the tenant")


def one():
    """Its kernels end, and their time is in the accounting."""
    with t.Node("t4:1") as node:
        process = tenant(node, "one", 1000)
        _runs(node, process, lambda: group_of(node, process))


def one_in_a_slice():
    """The same with cgpu."""
    with t.Node("a10:1", "580") as node:
        process = node.run([KERNELS, "1000"], name="slice")
        process.expect("^ready$")
        _runs(node, process, lambda: node.books()["gpus"][0]["groups"][0])


def _sampled(watcher, a, b):
    """The driver's own samples: the GPU was busy, with one of both."""
    tell(watcher, "samples", "^all$")
    found = [tuple(map(int, one.groups())) for one in watcher.said(r"^sample (\d+) (\d+)$")]
    both = {a.popen.pid, b.popen.pid}
    t.check({pid for pid, _ in found} & both, "no sample names them: %s" % found)
    t.check(all(0 < hundredths <= 10000 for pid, hundredths in found if pid in both),
            "samples of %s" % found)
    t.check(max(hundredths for _, hundredths in found) > 9000, "it was never busy: %s" % found)


def _shares(node, a, b, wanted):
    """Both keep their queues full; a's share of what they get, in percent."""
    watcher = tenant(node, "watcher", 1000)
    for process in (a, b):
        tell(process, "feed", "^feeding$")
    t.wait_for(lambda: min(group_of(node, p)["gpu_time_ns"] for p in (a, b)) > 0, "one never runs")
    first = [group_of(node, p)["gpu_time_ns"] for p in (a, b)]
    got = [0, 0]
    while sum(got) < 2000 * MS:
        groups = {g["pid"]: g["gpu_time_ns"] for g in node.books()["gpus"][0]["groups"]}
        got = [groups[p.popen.pid] - f for p, f in zip((a, b), first)]
    share = 100.0 * got[0] / sum(got)
    print("%.2f %% and %.2f %% of %.0f ms" % (share, 100 - share, sum(got) / 1e6))
    t.check(abs(share - wanted) <= 2, "%.2f %% is not %d %%" % (share, wanted))
    _sampled(watcher, a, b)
    for process in (a, b):
        tell(process, "", "^fed ")
        t.check(process.end() == 0, "%s failed" % process.name)


def halves():
    """Two that keep the GPU busy have half of it each, whatever the length of their kernels."""
    with t.Node("a10:1", "580") as node:
        _shares(node, tenant(node, "short", 10000), tenant(node, "long", 40000), 50)


def slices():
    """By the time slices they set, 30 and 70 %."""
    with t.Node("a10:1", "580") as node:
        a, b = tenant(node, "thirty", 20000), tenant(node, "seventy", 20000)
        tell(a, "slice 3000", "^slice")
        tell(b, "slice 7000", "^slice")
        _shares(node, a, b, 30)


def disabled():
    """A disabled channel runs nothing from when the call returns, and goes on when it is let."""
    with t.Node("a10:1", "580") as node:
        a, clock = tenant(node, "disabled", 20000), tenant(node, "clock", 1000)
        tell(a, "feed", "^feeding$")
        t.wait_for(lambda: group_of(node, a)["gpu_time_ns"] > 0, "it never runs")
        tell(a, "", "^fed ")  # its queue is full of kernels still
        tell(a, "preempt", "^preempted$")
        t.check(group_of(node, a)["preemptions"] == 1, "it was not preempted")
        tell(a, "disable 1", "^disabled 1$")
        before = group_of(node, a)
        t.check(not before["running"], "a disabled group is on its engine")
        tell(clock, "run 50", "^ran 50$")
        after = group_of(node, a)
        t.check(after["gpu_time_ns"] == before["gpu_time_ns"], "it ran: %s, then %s" %
                (before, after))
        channel = [c for c in node.books()["gpus"][0]["channels"] if c["pid"] == a.popen.pid][0]
        t.check(channel["disabled"] and channel["gp_get"] != channel["gp_put"],
                "nothing was left to run: %s" % channel)
        tell(a, "disable 0", "^disabled 0$")
        t.wait_for(lambda: group_of(node, a)["gpu_time_ns"] > after["gpu_time_ns"], "it never goes on")
        tell(a, "stop", "^stopped$")
        stopped = group_of(node, a)
        tell(clock, "run 50", "^ran 50$")
        t.check(group_of(node, a)["gpu_time_ns"] == stopped["gpu_time_ns"], "a stopped one ran")


def _memory(process):
    step = int(tell(process, "memory", r"^memory (\d+)$").group(1))
    t.check(step == 0, "at step %d of kernels.cc Memory() a word was not what it should be" % step)


def memory():
    """The GPU and programs see what the other writes: mapped, mapped twice, not mapped any more,
    and in pages that the program lends."""
    with t.Node("a10:1", "580") as node:
        process = tenant(node, "memory", 1000)
        _memory(process)
        t.check(process.end() == 0, "the tenant failed")
        node.wait_used(0, "the engines keep memory of a program that ended")


def memory_in_a_slice():
    """The same with cgpu."""
    with t.Node("t4:1", "550") as node:
        process = node.run([KERNELS, "1000"], name="slice")
        process.expect("^ready$")
        _memory(process)
        t.check(process.end() == 0, "the tenant failed")
        node.wait_used(0, "the engines keep memory of a program that ended")


def fault():
    """A channel error ends its own group: the program reads it from its notifier, others go on."""
    with t.Node("a10:1", "580") as node:
        bad, good = tenant(node, "bad", 100, "--traps"), tenant(node, "good", 1000)
        tell(bad, "run 1", "^failed 13$")
        t.check(group_of(node, bad)["fault"] == 13, "the books know of no error")
        tell(good, "run 10", "^ran 10$")
        t.check(group_of(node, good)["fault"] == 0, "the other's group has an error")


def death():
    """The engines' process dies: the driver goes on and says so, and waits for nothing of it."""
    with t.Node("a10:1", "580") as node:
        victim = tenant(node, "victim", 1000)
        tell(victim, "run 1", "^ran 1$")
        pid = node.books()["engines"]["pid"]
        os.kill(pid, signal.SIGKILL)
        t.wait_for(lambda: not node.books()["engines"]["alive"], "nobody noticed")
        t.check(not os.path.exists("/proc/%d" % pid), "nobody waited for it")
        with open(node.folder + "/log", encoding="utf-8") as log:
            t.check("the GPUs' engines (pid %d) ended" % pid in log.read(), "the log is silent")
        late = node.exec([KERNELS, "1000"], "late")
        t.check(late.end() != 0, "a channel was scheduled on dead engines")
        t.check(victim.end() == 0, "the victim failed")
        node.wait_used(0, "after the tenants")


def _woken(pid):
    """How often a process was woken up."""
    with open("/proc/%d/status" % pid, encoding="utf-8") as status:
        return [int(line.split()[1]) for line in status
                if line.startswith("voluntary_ctxt_switches")][0]


def idle():
    """While no channel is scheduled the engines' process does nothing at all."""
    with t.Node("a10:1", "580") as node:
        pid = node.books()["engines"]["pid"]
        process = tenant(node, "before", 1000)
        tell(process, "run 1", "^ran 1$")
        busy = _woken(pid)
        t.wait_for(lambda: _woken(pid) > busy + 10, "with a scheduled channel nobody looks at it")
        t.check(process.end() == 0, "the tenant failed")
        node.wait_used(0, "after the tenant")
        node.books()  # answered after everything before it
        before = _woken(pid)
        for _ in range(20):
            node.sync()
        t.check(_woken(pid) <= before + 1, "it woke up %d times" % (_woken(pid) - before))


if __name__ == "__main__":
    t.main({"one": one, "one-in-a-slice": one_in_a_slice, "halves": halves, "slices": slices,
            "disabled": disabled, "memory": memory, "memory-in-a-slice": memory_in_a_slice, "fault": fault, "death": death, "idle": idle})
