"""Wrong input to cgpu: each case says what is wrong, exits 125, and leaves nothing behind."""

import subprocess
import unittest

import launch

# (flags of `cgpu run`, words of stderr)
RUN_CASES = [
    (["--mem", ""], ["is empty"]),
    (["--mem", "0"], ["is zero"]),
    (["--mem", "0GiB"], ["is zero"]),
    (["--mem=-1"], ["is negative"]),
    (["--mem", "-4GiB"], ["negative"]),
    (["--mem", "1.5GiB"], ["fraction", "4096MiB"]),
    (["--mem", "lots"], ["not a number", "4096MiB"]),
    (["--mem", "4GB"], ["unknown unit", "4GiB"]),
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
    def check(self, words, says):
        status, out, err = self.call(*words)
        self.assertEqual((status, out), (125, ""), err)
        self.assertTrue(err.startswith("error: "), err)
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

    def test_an_ambiguous_uuid(self):
        # Both begin with "GPU-", and an empty prefix fits every card.
        self.check(["run", "--node", self.node.name, "--gpus", "device=GPU-", "--", "true"],
                   ["no GPU with the UUID"])

    def test_run_inside_run(self):
        self.check(["run", "--node", self.node.name, "--", self.cgpu, "run", "--node",
                    self.node.name, "--", "true"], ["inside a `cgpu run` already"])


class WrongInputAsUser(WrongInput):
    user = launch.SOME_USER


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

    def test_a_registry_that_somebody_else_owns(self):
        folder = f"/tmp/cgpu-{launch.SOME_USER}"
        environment = {"PATH": "/usr/bin:/bin"}  # no XDG_RUNTIME_DIR
        subprocess.run(["rm", "-rf", folder], check=True)
        subprocess.run(["mkdir", "-m", "0777", folder], check=True)
        self.addCleanup(subprocess.run, ["rm", "-rf", folder], check=True)
        done = subprocess.run([self.cgpu, "run", "--node", self.node.name, "--", "true"],
                              env=environment, capture_output=True, check=False, cwd="/",
                              preexec_fn=launch.become(launch.SOME_USER))
        self.assertEqual(done.returncode, 125)
        self.assertIn(folder.encode(), done.stderr)


if __name__ == "__main__":
    launch.main()
