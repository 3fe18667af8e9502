"""`cgpu ps --json` names the processes of each container and what each has of each GPU: held against
the driver's accounting. Cases by name, see tests/lib/cgpu_test.py."""
import cgpu_test as t
import worker as w


def _processes(node, name):
    """GPU of the host -> {process: bytes}, as `cgpu ps` says for the container."""
    (row,) = [row for row in node.containers() if row["name"] == name]
    found = {}
    for gpu in row["gpus"]:
        found[gpu["host_index"]] = {one["pid"]: one["bytes"] for one in gpu["processes"]}
        t.check(len(found[gpu["host_index"]]) == len(gpu["processes"]), "listed twice: %s" % gpu)
    return found


def _check(node, name, gpu, workers):
    """Each of these processes, given with its clients' handles, has what the accounting says."""
    node.sync()
    books = node.books()
    bytes_of = {client["handle"]: client["bytes"] for client in books["clients"]}
    expected = {worker.pid: sum(bytes_of[handle] for handle in handles)
                for worker, handles in workers.items()}
    found = _processes(node, name)[gpu]
    t.check(found == {pid: used for pid, used in expected.items() if used},
            "ps says %s, the accounting %s" % (found, expected))
    t.check(sum(found.values()) == books["gpus"][gpu]["used_bytes"], "the GPU: %s" % books)


def listed():
    """Two containers on two GPUs: as the accounting has it, also after an upgrade and an end."""
    with t.Node("v100-16g:2") as node, w.Workers() as workers:
        one = node.run(workers.argv("one"), flags=("--name", "one", "--gpus", "device=1"))
        other = workers.accept("one")
        both = node.run(workers.argv("both"), mem="2GiB", flags=("--name", "train"))
        first = workers.accept("both")
        second = workers.fork(first, "second")
        t.check(_processes(node, "train") == {0: {}, 1: {}}, "nothing was allocated yet")
        clients = {first: first.do("client", 1), second: second.do("client", 1)}
        clients[second] += second.do("client", 2)
        first.do("alloc", 1, 100)
        second.do("alloc", 1, 30)
        second.do("alloc", 2, 7)
        _check(node, "train", 0, clients)
        on_other = {other: other.do("client", 1)}
        other.do("alloc", 1, 55)
        _check(node, "one", 1, on_other)
        t.check(_processes(node, "train")[1] == {}, "it has nothing there")
        first.do("alloc", 1, 9)
        t.command(t.CGPU, "upgrade", "train")
        _check(node, "train", 0, clients)
        second.kill()
        node.sync()
        t.wait_for(lambda: set(_processes(node, "train")[0]) == {first.pid}, "an ended one is listed")
        # The shim frees the clients of a process a moment after it has ended.
        ended = set(clients.pop(second))
        t.wait_for(lambda: not ended & {one["handle"] for one in node.books()["clients"]},
                   "clients of an ended process are left")
        _check(node, "train", 0, clients)
        first.send("end")
        t.check(both.end() == 0, "it failed")
        other.send("end")
        one.end()


def orphans():
    """Memory that an ended process has made counts as used and is no process's while another has
    the file."""
    with t.Node() as node, w.Workers() as workers:
        run = node.run(workers.argv("c"), flags=("--name", "c"))
        parent = workers.accept("c")
        child = workers.fork(parent, "child")
        handle = child.do("client", 1)
        child.do("alloc", 1, 64)
        child.do("twin", 1)
        _check(node, "c", 0, {child: handle})
        child.send("send", "c", 1)
        parent.do("recv", "child", 1, *handle)
        t.check(child.line().startswith("0x0"), "it was not sent")
        child.kill()
        t.wait_for(lambda: not _processes(node, "c")[0], "a process that ended is listed")
        node.sync()
        used = node.used()
        t.check(used >= 64 * t.MIB, "it is not held any more: %d" % used)
        (gpu,) = node.containers()[0]["gpus"]
        t.check(gpu["used_bytes"] == used, "ps says %s, the accounting %d" % (gpu, used))
        parent.send("end")
        run.end()


if __name__ == "__main__":
    t.main({"listed": listed, "orphans": orphans})
