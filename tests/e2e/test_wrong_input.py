"""Wrong input to cgpu: each case says what is wrong, exits 125, and leaves nothing behind."""

import os
import subprocess
import unittest

import launch
from old_kernel import NEW_LISTENER, seccomp_without

VERSION_FILES = ["/proc/driver/nvidia/version", "/sys/module/nvidia/version"]

# (flags of `cgpu run`, words of stderr)
RUN_CASES = [
    (["--mem", ""], ["is empty"]),
    (["--mem", "0"], ["is zero"]),
    (["--mem", "0GiB"], ["is zero"]),
    (["--mem=-1"], ["is negative"]),
    (["--mem", "-4GiB"], ["negative"]),
    (["--mem", "1.3GiB"], ["no whole number of MiB", "1331MiB"]),
    (["--mem", "3"], ["no program can start", "3GiB?"]),
    (["--mem", "lots"], ["not a number", "4096MiB"]),
    (["--mem", "4PB"], ["unknown unit", "4GiB"]),
    (["--mem", "0%"], ["1% to 100%"]),
    (["--mem", "101%"], ["1% to 100%"]),
    (["--mem", "18446744073709551616"], ["too large"]),
    (["--mem", "18446744073709551615GiB"], ["too large"]),
    (["--mem", "16161MiB"], ["16161 MiB asked", "16160 MiB"]),
    (["--mem", "1TiB"], ["1048576 MiB asked", "16160 MiB"]),
    (["--units", "0"], ["is zero"]),
    (["--units=-2"], ["is negative"]),
    (["--units", "1.5"], ["fraction"]),
    (["--units", "many"], ["not a number"]),
    (["--units", "99999999999999999999"], ["too large"]),
    (["--units", "7"], ["cannot be divided evenly over 2 GPUs"]),
    (["--units", "32"], ["16 units asked", "has 15"]),
    (["--gpus", "1", "--units", "16"], ["16 units asked", "has 15"]),
    (["--units", "4", "--mem", "1G"], ["--mem and --units"]),
    (["--gpus", ""], ["is empty"]),
    (["--gpus", "0"], ["is zero"]),
    (["--gpus=-1"], ["is negative"]),
    (["--gpus", "3"], ["3 GPUs asked", "this node has 2 GPUs"]),
    (["--gpus", "some"], ["not a number", "device=0,2"]),
    (["--gpus", "device="], ["empty entry"]),
    (["--gpus", "device=7"], ["there is no GPU 7", "0, 1"]),
    (["--gpus", "device=0,0"], ["named twice"]),
    (["--gpus", "device=GPU-00000000-0000"], ["no GPU with the UUID"]),
    (["--gpus", "device=zzz"], ["no GPU with the UUID"]),
    (["--gpus", "all,capabilities=utility"], ["not understood"]),
    (["--name", ""], ["name is empty"]),
    (["--name", "a b"], ["cannot be a container's name"]),
    (["--name", "../x"], ["cannot be a container's name"]),
    (["--name", "x" * 65], ["cannot be a container's name"]),
    (["--frobnicate"], ["--frobnicate", "not an option"]),
    (["--mem"], ["--mem"]),
]

A_QUARTER = {"ALIYUN_COM_GPU_MEM_CONTAINER": "4", "ALIYUN_COM_GPU_MEM_DEV": "16"}

# (environment of `cgpu run`, flags, words of stderr)
ENVIRONMENT_CASES = [
    ({"CGPU_MEM": "0"}, [], ["CGPU_MEM", "is zero"]),
    ({"CGPU_MEM": "-1GiB"}, [], ["CGPU_MEM", "negative"]),
    ({"CGPU_MEM": "lots"}, [], ["CGPU_MEM", "not a number"]),
    ({"CGPU_MEM": "16161"}, [], ["16161 MiB asked", "16160 MiB"]),
    ({"CGPU_DEVICES": "7"}, [], ["there is no GPU 7"]),
    ({"CGPU_DEVICES": "0,0"}, [], ["named twice"]),
    ({"CGPU_DEVICES": "GPU-00000000"}, [], ["no GPU with the UUID"]),
    ({"ALIYUN_COM_GPU_MEM_CONTAINER": "17", "ALIYUN_COM_GPU_MEM_DEV": "16"}, [],
     ["ALIYUN_COM_GPU_MEM_CONTAINER=17 is more than ALIYUN_COM_GPU_MEM_DEV=16"]),
    ({"ALIYUN_COM_GPU_MEM_CONTAINER": "4"}, [], ["without ALIYUN_COM_GPU_MEM_DEV"]),
    ({"ALIYUN_COM_GPU_MEM_CONTAINER": "4", "ALIYUN_COM_GPU_MEM_DEV": "0"}, [],
     ["ALIYUN_COM_GPU_MEM_DEV", "is zero"]),
    ({"ALIYUN_COM_GPU_MEM_CONTAINER": "x", "ALIYUN_COM_GPU_MEM_DEV": "16"}, [],
     ["ALIYUN_COM_GPU_MEM_CONTAINER", "not a number"]),
    (A_QUARTER | {"CGPU_MEM": "4041"}, [],
     ["differs: 4040 MiB and 4041 MiB", "CGPU_MEM or the ALIYUN_COM_GPU_MEM_ names"]),
    ({"CGPU_DEVICES": "0", "ALIYUN_COM_GPU_VISIBLE_DEVICES": "1"}, [],
     ["differ", "CGPU_DEVICES or ALIYUN_COM_GPU_VISIBLE_DEVICES"]),
    ({"CGPU_WEIGHT": "2", "ALIYUN_COM_GPU_SCHD_WEIGHT": "3"}, [], ["differ"]),
]

# (environment of `cgpu run`, flags, MiB on each GPU)
ENVIRONMENT_GRANTS = [
    ({"CGPU_MEM": "4GiB"}, [], [4096, 4096]),
    ({"CGPU_MEM": "25%", "CGPU_DEVICES": "1"}, [], [4040]),
    (A_QUARTER, [], [4040, 4040]),
    (A_QUARTER | {"CGPU_MEM": "4040"}, [], [4040, 4040]),
    (A_QUARTER, ["--mem", "1GiB"], [1024, 1024]),
    ({"CGPU_MEM": "4GiB", "CGPU_DEVICES": "0"}, ["--gpus", "2", "--units", "8"], [4309, 4309]),
]

# (words after cgpu, words of stderr)
CASES = [
    ([], ["subcommand"]),
    (["frobnicate"], ["frobnicate"]),
    (["run"], ["no command"]),
    (["run", "--"], ["no command"]),
    (["run", "--node", "no-such-node", "--", "true"], ["no simulated node", "cgpu sim start"]),
    (["run", "--node", "../etc", "--", "true"], ["cannot be a node's name"]),
    (["run", "--node", "", "--", "true"], ["node's name is empty"]),
    (["ps", "--frobnicate"], ["--frobnicate"]),
    (["set"], ["ID"]),
    (["set", "x"], ["--mem"]),
    (["set", "no-such-container", "--mem", "1G"], ["no container", "cgpu ps"]),
    (["set", "x", "--mem", "0"], ["is zero"]),
    (["set", "x", "--mem", "much"], ["not a number"]),
]


class WrongInput(launch.LaunchTest):
    def check(self, words, says, **options):
        status, out, err = self.call(*words, **options)
        self.assertEqual((status, out), (125, ""), err)
        self.assertRegex(err, r"\Aerror: .+\nhint: .+\n\Z")  # what happened, and what to do
        for word in says:
            self.assertIn(word, err)

    def test_run(self):
        for flags, says in RUN_CASES:
            with self.subTest(flags=flags):
                self.check(["run", "--node", self.node.name, *flags, "--", "true"], says)
        self.assertEqual(self.containers(), [])
        self.assertEqual(self.shims(), [])

    def test_commands(self):
        for words, says in CASES:
            with self.subTest(words=words):
                self.check(words, says)

    def test_environment(self):
        for variables, flags, says in ENVIRONMENT_CASES:
            with self.subTest(variables=variables, flags=flags):
                self.check(["run", "--node", self.node.name, *flags, "--", "true"], says,
                           variables=variables)
        self.assertEqual(self.containers(), [])

    def test_what_the_environment_asks_for(self):
        for variables, flags, limits in ENVIRONMENT_GRANTS:
            with self.subTest(variables=variables, flags=flags):
                process = self.start_run(["sh", "-c", "echo up; cat"], *flags,
                                         stdin=subprocess.PIPE, variables=variables)
                self.assertEqual(process.stdout.readline(), b"up\n")
                (container,) = self.containers()
                self.assertEqual([gpu["limit_bytes"] >> 20 for gpu in container["gpus"]], limits)
                process.stdin.close()
                self.assertEqual(process.wait(launch.TIMEOUT), 0)

    def test_an_ambiguous_uuid(self):
        shared = self.node.gpus[0]["uuid"][:12]  # the beginning of both
        for uuid in (shared, shared.lower()):
            self.check(["run", "--node", self.node.name, "--gpus", f"device={uuid}", "--", "true"],
                       ["ambiguous", "GPU 0", "GPU 1", "cgpu smi -L"])

    def test_an_unknown_driver(self):
        node = launch.FileNode(driver="999.01.02")
        self.addCleanup(node.close)
        self.check(["run", "--node", node.name, "--", "true"],
                   ["999.01.02", "install a driver of these: 535."])

    def test_no_driver(self):
        if any(map(os.path.exists, VERSION_FILES)):
            self.skipTest("this machine has a driver")
        if os.path.exists(launch.NODES + "/default"):
            self.skipTest("a default node runs")
        self.check(["run", "--", "true"],
                   ["no NVIDIA driver was found", "cgpu sim start --gpus v100-16g:2"])

    def test_an_old_kernel(self):
        def old_kernel():
            seccomp_without(NEW_LISTENER)
            if self.user:
                launch.become(self.user)()
        self.check(["run", "--node", self.node.name, "--", "true"],
                   ["kernel lacks seccomp user notification", "needs Linux 5.10"],
                   preexec_fn=old_kernel)

    def test_run_inside_run(self):
        self.check(["run", "--node", self.node.name, "--", self.cgpu, "run", "--node",
                    self.node.name, "--", "true"], ["inside a `cgpu run` already"])


class WrongInputAsUser(WrongInput):
    user = launch.SOME_USER


class MachineDriver(launch.LaunchTest):
    """A driver seems to be loaded: its version file is made in a mount namespace of the test's."""

    def call_with(self, version, *words):
        if os.path.exists("/dev/nvidiactl") or not os.path.isdir("/proc/driver"):
            self.skipTest("this machine has a driver's files, or no /proc/driver to put them in")
        script = ("mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia && "
                  "echo \"$0\" > /proc/driver/nvidia/version && exec \"$@\"")
        line = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Jul 13 2021"
        return subprocess.run(["unshare", "-m", "sh", "-c", script, line, self.cgpu, *words],
                              env=self.environment(), capture_output=True, check=False, cwd="/")

    def refused(self, version, words, *expected):
        done = self.call_with(version, *words)
        self.assertEqual(done.returncode, 125, done.stderr)
        for text in expected:
            self.assertIn(text.encode(), done.stderr)
        self.assertEqual(self.containers(), [])
        self.assertEqual(self.shims(), [])

    def test_an_unknown_release_is_not_touched(self):
        for words in (["run", "--", "true"], ["smi"]):
            self.refused("470.57.02", words, "NVIDIA driver 470.57.02 is not one",
                         "install a driver of these: 535.")

    def test_a_driver_without_its_files_is_not_replaced_by_a_simulated_one(self):
        for words in (["run", "--", "true"], ["smi"]):
            self.refused("550.163.01", words, "NVIDIA driver 550.163.01 is loaded",
                         "/dev/nvidiactl is not there", "run nvidia-smi once as root", "--node")

    def test_a_simulated_node_is_there_by_its_name(self):
        name = self.node.name
        for words in (["run", "--node", name], ["sim", "exec", "--name", name]):
            done = self.call_with("470.57.02", *words, "--", "cat", "/proc/driver/nvidia/version")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, b"")
            self.assertNotIn(b"470.57.02", done.stdout)

    def test_sim_exec_takes_simulated_nodes_only(self):
        self.refused("550.163.01", ["sim", "exec", "--name", "", "--", "true"],
                     "cannot be a node's name")


class NoPermission(launch.LaunchTest):
    def test_root_without_sys_admin(self):
        done = subprocess.run(
            ["setpriv", "--bounding-set", "-sys_admin", self.cgpu, "run", "--node",
             self.node.name, "--", "true"], env=self.environment(), capture_output=True,
            check=False, cwd="/")
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"CAP_SYS_ADMIN", done.stderr)
        self.assertEqual(self.containers(), [])
        self.assertEqual(self.shims(), [])

    def test_a_node_without_the_rights(self):
        for right in ("sys_admin", "sys_ptrace"):
            done = subprocess.run(
                ["setpriv", "--bounding-set", "-" + right, self.cgpu, "sim", "start", "--name",
                 "without-rights", "--gpus", "t4"], env=self.environment(), capture_output=True,
                check=False, cwd="/")
            self.assertEqual(done.returncode, 125)
            self.assertIn(b"needs CAP_" + right.upper().encode() + b",", done.stderr)
            self.assertIn(b"--cap-add SYS_PTRACE", done.stderr)
            self.assertFalse(os.path.exists("/run/cgpu-sim/without-rights"))

    def test_a_registry_that_somebody_else_owns(self):
        folder = f"/tmp/cgpu-{launch.SOME_USER}"
        environment = {"PATH": "/usr/bin:/bin"}  # no XDG_RUNTIME_DIR
        subprocess.run(["rm", "-rf", folder], check=True)
        subprocess.run(["mkdir", "-m", "0777", folder], check=True)
        self.addCleanup(subprocess.run, ["rm", "-rf", folder], check=True)
        done = subprocess.run([self.cgpu, "run", "--alone", "--node", self.node.name, "--", "true"],
                              env=environment, capture_output=True, check=False, cwd="/",
                              preexec_fn=launch.become(launch.SOME_USER))
        self.assertEqual(done.returncode, 125)
        self.assertIn(folder.encode(), done.stderr)


if __name__ == "__main__":
    launch.main()
