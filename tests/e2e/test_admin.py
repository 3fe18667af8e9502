"""Grants side by side: sums, names, `cgpu ps` and `cgpu set`."""

import json
import os
import re
import signal
import subprocess
import unittest

import launch

UP = ["sh", "-c", "echo up; cat"]


class Containers(launch.LaunchTest):
    def hold(self, *flags):
        """A container that runs until its standard input is closed."""
        process = self.start_run(UP, *flags, stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"up\n", flags)
        return process

    def release(self, process):
        process.stdin.close()
        self.assertEqual(process.wait(launch.TIMEOUT), 0)

    def refused(self, *words):
        status, out, err = self.call(*words)
        self.assertEqual((status, out), (125, ""))
        return err

    def run_refused(self, *flags):
        return self.refused("run", "--node", self.node.name, *flags, "--", "true")

    def limits(self, name):
        (found,) = [c for c in self.containers() if c["name"] == name]
        return [gpu["limit_bytes"] >> 20 for gpu in found["gpus"]]

    def test_ps_tells_what_runs(self):
        process = self.hold("--name", "one", "--units", "8")
        (container,) = self.containers()
        self.assertEqual(sorted(container),
                         sorted(["id", "name", "pid", "user", "state", "since", "engine_id", "origin",
                                 "isolated", "compute", "gpus"]))
        self.assertEqual((container["engine_id"], container["origin"]), ("", "flags"))
        self.assertEqual((container["isolated"], container["compute"]), (True, {}))
        self.assertRegex(container["id"], "^[0-9a-f]{12}$")
        self.assertEqual((container["name"], container["state"]), ("one", "running"))
        self.assertEqual(os.stat(f"/proc/{container['pid']}").st_uid, self.user)
        with open(f"/proc/{container['pid']}/cmdline", "rb") as text:
            self.assertEqual(text.read().split(b"\0")[0], b"sh")
        self.assertEqual(container["user"], "root" if self.user == 0 else str(self.user))
        self.assertRegex(container["since"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual([sorted(gpu) for gpu in container["gpus"]],
                         [sorted(["index", "uuid", "host_index", "limit_bytes", "used_bytes",
                                  "reserved_bytes", "peak_bytes", "denied", "processes"])] * 2)
        self.assertEqual([gpu["processes"] for gpu in container["gpus"]],
                         [[{"pid": container["pid"], "bytes": 100 << 20}]] * 2)
        for kind in ("limit_bytes", "reserved_bytes"):
            self.assertEqual([gpu[kind] for gpu in container["gpus"]], [4309 << 20] * 2)
        self.assertEqual([gpu["uuid"] for gpu in container["gpus"]],
                         [gpu["uuid"] for gpu in self.node.gpus])
        _, table, _ = self.call("ps")
        self.assertTrue(re.search(rf"{container['id']} +one +running +\d+s +0 +100 / 4309 MiB +equal", table),
                        table)
        self.assertLessEqual(max(map(len, table.splitlines())), 80, table)
        self.release(process)
        self.assertEqual(self.containers(), [])

    def test_indices_count_from_zero_inside(self):
        process = self.hold("--gpus", "device=1", "--mem", "1GiB")
        (gpu,) = self.containers()[0]["gpus"]
        self.assertEqual((gpu["index"], gpu["host_index"]), (0, 1))
        self.release(process)

    def test_names_are_unique_among_the_living(self):
        first = self.hold("--name", "twin", "--mem", "1GiB")
        self.assertIn("in use", self.run_refused("--name", "twin", "--mem", "1GiB"))
        self.release(first)
        self.release(self.hold("--name", "twin", "--mem", "1GiB"))

    def test_made_up_names_differ(self):
        processes = [self.hold("--mem", "1GiB") for _ in range(3)]
        self.assertEqual(len({c["name"] for c in self.containers()}), 3)
        for process in processes:
            self.release(process)

    def test_grants_never_exceed_a_card(self):
        first = self.hold("--gpus", "device=0", "--mem", "10000")
        err = self.run_refused("--gpus", "device=0", "--mem", "6161")
        self.assertIn("6161 MiB asked on GPU 0", err)
        self.assertIn("6160 MiB of 16160 MiB are free", err)
        second = self.hold("--gpus", "device=0", "--mem", "6160")
        self.run_refused("--gpus", "device=0", "--mem", "1MiB")
        self.run_refused()  # whole GPUs
        other = self.hold("--name", "other", "--gpus", "1", "--mem", "100%")
        (found,) = [c for c in self.containers() if c["name"] == "other"]
        self.assertEqual(found["gpus"][0]["host_index"], 1)  # the first GPU with room
        self.release(first)
        self.release(self.hold("--gpus", "device=0", "--mem", "10000"))
        self.release(second)
        self.release(other)

    def test_of_many_at_once_exactly_those_run_that_fit(self):
        processes = [self.start_run(UP, "--gpus", "device=0", "--mem", "1616",
                                    stdin=subprocess.PIPE) for _ in range(14)]
        lines = [process.stdout.readline() for process in processes]
        self.assertEqual(lines.count(b"up\n"), 10)
        self.assertEqual(len(self.containers()), 10)
        for process, line in zip(processes, lines):
            if line:
                self.release(process)
            else:
                self.assertEqual(process.wait(launch.TIMEOUT), 125)
                self.assertIn(b"are free", process.stderr.read())
        self.assertEqual(self.containers(), [])

    def test_a_killed_launchers_grant_is_free_again(self):
        process = self.hold("--mem", "100%")
        process.kill()
        process.wait()
        self.eventually(lambda: not self.shims(), "the shim stays")
        self.release(self.hold("--mem", "100%"))

    def test_set_changes_the_limit_while_it_runs(self):
        process = self.hold("--name", "job", "--mem", "1GiB")
        container = self.containers()[0]["id"]
        for reference, flags, expected in (
                ("job", ["--mem", "2GiB"], [2048, 2048]),
                (container, ["--mem", "25%", "--gpu", "1"], [2048, 4040]),
                (container[:6], ["--mem", "512", "--gpu", "0"], [512, 4040]),
                ("job", ["--mem", "700", "--gpu", self.node.gpus[1]["uuid"]], [512, 700])):
            with self.subTest(reference=reference, flags=flags):
                status, _, err = self.call("set", reference, *flags)
                self.assertEqual((status, err), (0, ""))
                self.assertEqual(self.limits("job"), expected)
        status, out, _ = self.call("set", "job", "--mem", "600", "--json")
        self.assertEqual((status, json.loads(out)), (0, self.containers()))
        self.assertEqual(self.limits("job"), [600, 600])
        self.release(process)

    def test_set_below_use_says_that_growth_is_stopped(self):
        process = self.hold("--name", "job", "--mem", "1GiB")
        status, out, _ = self.call("set", "job", "--mem", "50MiB")  # the stub says that it uses 100
        self.assertEqual(status, 0)
        self.assertIn("100 MiB are in use", out)
        self.assertIn("growth is stopped", out)
        self.assertEqual(self.limits("job"), [50, 50])
        # Memory that is held above the limit is nobody else's.
        self.assertIn("16060 MiB of 16160 MiB are free", self.run_refused("--mem", "16061"))
        other = self.hold("--name", "other", "--mem", "16060")
        self.assertIn("16060 MiB of 16160", self.refused("set", "other", "--mem", "16061"))
        self.release(other)
        self.release(process)

    def test_set_cannot_take_what_others_have(self):
        first = self.hold("--name", "first", "--mem", "8000")
        second = self.hold("--name", "second", "--mem", "8000")
        err = self.refused("set", "first", "--mem", "8161")
        self.assertIn("8160 MiB of 16160 MiB are free", err)
        self.assertEqual(self.limits("first"), [8000, 8000])
        self.assertEqual(self.call("set", "second", "--mem", "1000")[0], 0)
        self.assertEqual(self.call("set", "first", "--mem", "15160")[0], 0)
        self.assertIn("1000 MiB of 16160", self.refused("set", "second", "--mem", "1001"))
        self.assertIn("which has 16160 MiB", self.refused("set", "first", "--mem", "16161"))
        self.assertIn("there is no GPU 2", self.refused("set", "first", "--mem", "1MiB", "--gpu", "2"))
        self.release(first)
        self.release(second)

    def test_set_on_an_ended_container(self):
        process = self.hold("--name", "gone", "--mem", "1GiB")
        container = self.containers()[0]["id"]
        self.release(process)
        for reference in ("gone", container):
            err = self.refused("set", reference, "--mem", "2GiB")
            self.assertIn("no container", err)
            self.assertIn("cgpu ps", err)

    def test_set_twice_at_once(self):
        first = self.hold("--name", "first", "--mem", "1000")
        second = self.hold("--name", "second", "--mem", "1000")
        for _ in range(5):
            both = [self.start("set", name, "--mem", "10000") for name in ("first", "second")]
            statuses = sorted(process.wait(launch.TIMEOUT) for process in both)
            self.assertEqual(statuses, [0, 125])  # together they do not fit
            self.assertEqual(sorted(self.limits("first") + self.limits("second")),
                             [1000, 1000, 10000, 10000])
            for name in ("first", "second"):
                self.assertEqual(self.call("set", name, "--mem", "1000")[0], 0)
        same = [self.start("set", "first", "--mem", size) for size in ("2000", "3000")]
        self.assertEqual([process.wait(launch.TIMEOUT) for process in same], [0, 0])
        self.assertIn(self.limits("first"), ([2000, 2000], [3000, 3000]))
        self.release(first)
        self.release(second)

    def test_an_ambiguous_reference(self):
        processes = []
        while True:  # two ids with the same first digit come soon
            processes.append(self.hold("--mem", "100"))
            firsts = [c["id"][0] for c in self.containers()]
            if len(set(firsts)) < len(firsts):
                break
        twice = next(digit for digit in firsts if firsts.count(digit) > 1)
        self.assertIn("ambiguous", self.refused("set", twice, "--mem", "200"))
        for process in processes:
            self.release(process)


class ContainersAsUser(Containers):
    user = launch.SOME_USER

    # With silent shims, so only in a registry that no other test asks.

    def test_ps_asks_all_at_once(self):
        processes = [self.hold("--name", "patient-%d" % i, "--mem", "1GiB") for i in range(3)]
        ps = self.start("ps", "--json")
        pids = self.shims()
        self.assertEqual(len(pids), 3)
        # None answers before all were asked.
        self.eventually(lambda: [launch.process_name(pid) for pid in pids] == ["asked"] * 3,
                        "not all are asked")
        for pid in pids:
            os.kill(pid, signal.SIGUSR1)
        out, _ = ps.communicate(timeout=launch.TIMEOUT)
        mine = {gpu["uuid"] for gpu in self.node.gpus}
        found = [c for c in json.loads(out) if c["gpus"][0]["uuid"] in mine]
        self.assertEqual([c["state"] for c in found], ["running"] * 3)
        for process in processes:
            self.release(process)

    def test_ps_shows_stopped_shims_and_the_others(self):
        stopped = [self.hold("--name", "stopped-%d" % i, "--mem", "1GiB") for i in range(2)]
        pids = self.shims()
        other = self.hold("--name", "other", "--mem", "1GiB")
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        containers = self.containers()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        states = {c["name"]: c["state"] for c in containers}
        named = {c["name"]: c["gpus"][0]["processes"] is not None for c in containers}
        self.assertEqual(named, {"stopped-0": False, "stopped-1": False, "other": True})
        self.assertEqual(states, {"stopped-0": "unresponsive", "stopped-1": "unresponsive",
                                  "other": "running"})
        for process in (*stopped, other):
            self.release(process)


if __name__ == "__main__":
    launch.main()
