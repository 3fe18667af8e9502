"""How `cgpu run` stands between its caller and the command: status, signals, terminal, descriptors,
namespaces, privileges. As root and as an ordinary user."""

import os
import pty
import resource
import select
import signal
import subprocess
import unittest

import launch

# Counts a signal until its standard input ends, then prints how many came.
# Waits in select() for a byte per signal: a handler of Python's own does not run while a read that
# began just after the signal came is blocked.
COUNT = r"""
import os, select, signal, sys
reader, writer = os.pipe()
os.set_blocking(writer, False)
signal.set_wakeup_fd(writer)
signal.signal(int(sys.argv[1]), lambda *_: None)
count = 0
print("ready", flush=True)
while True:
    ready = select.select([0, reader], [], [])[0]
    if reader in ready:
        count += len(os.read(reader, 1))
        print("got", flush=True)
    elif not os.read(0, 1):
        break
print("count", count, flush=True)
"""


# Gives a thread that is not the first a name by /proc, and fills, seals and maps a file of memory.
NAMES_AND_FILES = r"""
import fcntl, mmap, os, threading
def name():
    path = "/proc/self/task/%d/comm" % threading.get_native_id()
    with open(path, "w") as file:
        file.write("of-a-thread")
    with open(path) as file:
        print("named", file.read().strip())
thread = threading.Thread(target=name)
thread.start()
thread.join()
file = os.memfd_create("cuda", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.ftruncate(file, 4096)
view = mmap.mmap(file, 4096)
view[:4] = b"cuda"
os.lseek(file, 0, os.SEEK_SET)
F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2
fcntl.fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK)
print("file", len(os.read(file, 8192)) if view[:4] == b"cuda" else "other")
"""


class Status(launch.LaunchTest):
    def test_is_the_commands(self):
        for command, expected in (
                (["true"], 0),
                (["sh", "-c", "exit 3"], 3),
                (["sh", "-c", "exit 125"], 125),
                (["sh", "-c", "exit 255"], 255),
                (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
                (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
                (["sh", "-c", "kill -SEGV $$"], 128 + signal.SIGSEGV)):
            with self.subTest(command=command):
                self.assertEqual(self.run_in(command), (expected, "", ""))

    def test_126_and_127_are_as_with_env(self):
        for command, expected, says in (
                (["/no/such/program"], 127, "No such file"),
                (["no-such-program"], 127, "No such file"),
                (["/etc/passwd"], 126, "Permission denied"),
                (["/etc"], 126, "Permission denied")):
            with self.subTest(command=command):
                status, _, err = self.run_in(command)
                self.assertEqual(status, expected)
                self.assertIn(says, err)
                self.assertIn(command[0], err)

    def test_words_reach_the_command_as_they_are(self):
        words = ["", "a b", "--", "-c", "--gpus", "%%", "[1,2]", "{}", "ä", "\\", "$HOME"]
        script = "import sys; print(ascii(sys.argv[1:]))"
        status, out, err = self.run_in([launch.PYTHON, "-c", script, *words])
        self.assertEqual((status, out, err), (0, ascii(words) + "\n", ""))

    def test_the_command_may_come_without_dashes(self):
        self.assertEqual(self.call("run", "--node", self.node.name, "sh", "-c", "exit 4")[0], 4)


class StatusAsUser(Status):
    user = launch.SOME_USER


class Streams(launch.LaunchTest):
    def test_standard_input_is_the_commands(self):
        process = self.start_run(["cat"], stdin=subprocess.PIPE)
        data = bytes(range(256)) * 4096
        out, err = process.communicate(data, timeout=launch.TIMEOUT)
        self.assertEqual(err, b"")
        self.assertTrue(out == data)

    def test_the_end_of_output_is_seen_when_the_command_closes_it(self):
        process = self.start_run(["sh", "-c", "exec >&-; read line"], stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.read(), b"")  # while the command still runs
        self.assertIsNone(process.poll(), "it ended")
        process.stdin.write(b"line\n")
        process.stdin.close()
        err = process.stderr.read()
        self.assertEqual((process.wait(launch.TIMEOUT), err), (0, b""))

    def test_the_end_of_input_is_seen_by_the_writer(self):
        process = self.start_run(["sh", "-c", "exec <&-; echo closed; exec cat /dev/zero >/dev/null"],
                                 stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"closed\n")
        with self.assertRaises(BrokenPipeError):
            while True:
                os.write(process.stdin.fileno(), b"x" * 65536)

    def test_inherited_descriptors_are_passed_and_none_of_ours(self):
        ends = os.pipe()
        self.addCleanup(os.close, ends[0])
        script = f"echo hello >&{ends[1]}; exec {ends[1]}>&-; ls /proc/self/fd"
        process = self.start_run(["sh", "-c", script], pass_fds=[ends[1]])
        os.close(ends[1])
        out, _ = process.communicate(timeout=launch.TIMEOUT)
        with os.fdopen(os.dup(ends[0])) as reader:
            self.assertEqual(reader.read(), "hello\n")
        self.assertEqual(out.decode().split(), ["0", "1", "2", "3"])  # 3 is ls's own

    def test_closed_standard_descriptors_stay_closed(self):
        script = "for i in 0 1 2; do [ -e /proc/self/fd/$i ] && echo $i >>$0; done; exit 9"
        result = os.path.join(self.programs, "open-" + str(self.user))
        with open(result, "w", encoding="utf-8"):
            os.chmod(result, 0o666)
        wrapper = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh",
                   *self.words("run", "--node", self.node.name), "--", "sh", "-c", script, result]
        done = subprocess.run(wrapper, env=self.environment(), cwd="/", check=False,
                              preexec_fn=launch.become(self.user), timeout=launch.TIMEOUT)
        self.assertEqual(done.returncode, 9)
        with open(result, encoding="utf-8") as text:
            self.assertEqual(text.read(), "")

    def test_process_one_and_the_launcher_hold_nothing(self):
        script = "ls -l /proc/1/fd 2>&1 | grep -c -- '->'; ls /proc/1/fd >/dev/null 2>&1; true"
        self.assertEqual(self.shell(script), "0\n")


class StreamsAsUser(Streams):
    user = launch.SOME_USER


class Signals(launch.LaunchTest):
    def start_counting(self, number, *flags, **options):
        process = self.start_run([launch.PYTHON, "-c", COUNT, str(int(number))], *flags,
                                 stdin=subprocess.PIPE, **options)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def finish(self, process):
        process.stdin.close()
        out = process.stdout.read()
        self.assertEqual(process.wait(launch.TIMEOUT), 0)
        return out

    def test_are_forwarded_once(self):
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM,
                       signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGALRM):
            with self.subTest(signal=number.name):
                process = self.start_counting(number)
                process.send_signal(number)
                self.assertEqual(process.stdout.readline(), b"got\n")
                self.assertEqual(self.finish(process), b"count 1\n")

    def test_end_the_command_that_does_not_handle_them(self):
        process = self.start_run(["sh", "-c", "echo up; exec sleep 1000"])
        self.assertEqual(process.stdout.readline(), b"up\n")
        process.terminate()
        self.assertEqual(process.wait(launch.TIMEOUT), 128 + signal.SIGTERM)

    def test_ignored_by_the_caller_are_ignored_by_the_command(self):
        def nohup():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            if self.user:
                launch.become(self.user)()
        process = self.start_run(["sh", "-c", "grep SigIgn /proc/self/status; cat"],
                                 stdin=subprocess.PIPE, preexec_fn=nohup)
        ignored = int(process.stdout.readline().split()[1], 16)
        self.assertTrue(ignored & 1)
        process.send_signal(signal.SIGHUP)
        process.stdin.close()
        self.assertEqual(process.wait(launch.TIMEOUT), 0)

    def test_none_is_blocked_or_ignored_for_the_command(self):
        with open("/proc/self/status", encoding="utf-8") as text:
            own = launch.status_fields(text.read())
        fields = launch.status_fields(self.shell("exec cat /proc/self/status"))
        self.assertEqual(fields["SigBlk"], own["SigBlk"])
        # Nothing but what this test was itself started with; Python's own SIGPIPE and SIGXFSZ are
        # restored by subprocess.
        pythons = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
        inherited = int(own["SigIgn"], 16) & ~pythons
        self.assertEqual(int(fields["SigIgn"], 16) & ~inherited, 0)

    def test_children_can_be_waited_for_where_the_caller_ignores_them(self):
        def ignore():
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            if self.user:
                launch.become(self.user)()
        self.assertEqual(self.run_in(["sh", "-c", "exit 6"], preexec_fn=ignore)[0], 6)


class SignalsAsUser(Signals):
    user = launch.SOME_USER


class Terminal(launch.LaunchTest):
    """A session leader with a terminal that runs cgpu as a shell would."""

    def on_terminal(self, command, drive):
        """Runs `command` in a container as the foreground job of a new terminal. drive(write,
        read_until) plays the user. Returns what a shell would have seen: wait statuses."""
        pid, master = pty.fork()
        if pid == 0:
            os._exit(self._shell(command))
        seen = b""
        def read_until(text):
            nonlocal seen
            while text not in seen:
                self.assertTrue(select.select([master], [], [], launch.TIMEOUT)[0],
                                f"no {text!r} comes; the terminal showed {seen!r}")
                try:
                    part = os.read(master, 4096)
                except OSError:
                    part = b""
                self.assertTrue(part, f"the terminal closed before {text!r}; it showed {seen!r}")
                seen += part
            seen = seen[seen.index(text) + len(text):]
        try:
            drive(lambda text: os.write(master, text), read_until)
            read_until(b"all done")
        finally:
            os.close(master)
            os.waitpid(pid, 0)

    def _shell(self, command):
        """In the session leader: one foreground job, continued when it stops."""
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        job = os.fork()
        if job == 0:
            os.setpgid(0, 0)
            os.tcsetpgrp(0, os.getpgrp())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            if self.user:
                launch.become(self.user)()
            os.execve(self.cgpu, self.words("run", "--node", self.node.name, "--", *command),
                      self.environment())
        while True:
            _, status = os.waitpid(job, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                print("stopped by", signal.Signals(os.WSTOPSIG(status)).name, flush=True)
                os.tcsetpgrp(0, job)
                os.killpg(job, signal.SIGCONT)
                continue
            print("ended with", os.waitstatus_to_exitcode(status), "all done", flush=True)
            return 0

    def test_is_the_commands(self):
        script = "test -t 0 && test -t 1 && tty && stty size >/dev/null && echo fine </dev/tty"
        def drive(_, read_until):
            read_until(b"/dev/pts/")
            read_until(b"fine")
            read_until(b"ended with 0")
        self.on_terminal(["sh", "-c", script], drive)

    def test_control_c_reaches_the_command_once(self):
        def drive(write, read_until):
            read_until(b"ready")
            write(b"\x03")
            read_until(b"got")
            write(b"\x04")  # end of input
            read_until(b"count 1\r\n")
            read_until(b"ended with 0")
        self.on_terminal([launch.PYTHON, "-c", COUNT, str(int(signal.SIGINT))], drive)

    def test_control_c_ends_the_command(self):
        def drive(write, read_until):
            read_until(b"up")
            write(b"\x03")
            read_until(b"ended with 130")
        self.on_terminal(["sh", "-c", "echo up; exec sleep 1000"], drive)

    def test_control_z_stops_the_job_and_it_goes_on(self):
        def drive(write, read_until):
            read_until(b"up")
            write(b"\x1a")
            read_until(b"stopped by SIGTSTP")
            write(b"hello\n")
            read_until(b"read hello")
            read_until(b"ended with 0")
        self.on_terminal(["sh", "-c", "echo up; read x; echo read $x"], drive)

    def test_a_shell_inside_has_job_control(self):
        def drive(write, read_until):
            # The quotation marks tell what is printed from the terminal's echo of what is typed.
            write(b"PS1=; sh -c 'echo u\"\"p; read x; echo go\"\"t $x'\n")
            read_until(b"up")
            write(b"\x1a")
            read_until(b"Stopped")
            write(b"fg\nhello\n")
            read_until(b"got hello")
            write(b"exit 7\n")
            read_until(b"ended with 7")
        self.on_terminal(["bash", "--norc", "-i"], drive)


class TerminalAsUser(Terminal):
    user = launch.SOME_USER


class World(launch.LaunchTest):
    def test_holds_only_the_granted_cards(self):
        out = self.shell("ls /dev | grep nvidia; cat /dev/nvidia1 /dev/nvidiactl;"
                         "ls /proc/driver/nvidia/gpus /sys/bus/pci/devices", "--gpus", "device=1")
        self.assertEqual(out.split("\n"), [
            "nvidia-uvm", "nvidia1", "nvidiactl", "this is nvidia1", "this is nvidiactl",
            "/proc/driver/nvidia/gpus:", "0000:02:00.0", "", "/sys/bus/pci/devices:",
            "0000:02:00.0", ""])

    def test_a_working_directory_in_dev_is_the_new_dev(self):
        status, _, err = self.run_in(["cat", "./nvidia1"], "--gpus", "device=0", cwd="/dev")
        self.assertEqual(status, 1)
        self.assertIn("No such file", err)
        self.assertEqual(self.run_in(["cat", "./nvidia0"], "--gpus", "device=0", cwd="/dev")[1],
                         "this is nvidia0\n")

    def test_keeps_the_working_directory(self):
        self.assertEqual(self.shell("pwd", cwd="/usr/lib"), "/usr/lib\n")

    def test_hides_nodes_and_registries(self):
        out = self.shell(f"ls -A /run/cgpu-sim /run/cgpu {self.runtime}/cgpu 2>/dev/null; true")
        self.assertNotIn(self.node.name, out)
        self.assertNotIn(".sock", out)

    def test_has_pids_of_its_own(self):
        out = self.shell("echo $$; cat /proc/1/comm; ls /proc | grep -cx '[0-9]*'")
        pid, first, count = out.split()
        self.assertEqual((pid, first), ("2", "cgpu-init"))
        self.assertLessEqual(int(count), 5)

    def test_lets_threads_have_names_and_files_without_one(self):
        # CUDA ends with error 304 where it may not write a thread's name (NVIDIA/OpenShell#1486) or
        # make such a file (NVIDIA/OpenShell#1696).
        self.assertEqual(self.run_in([launch.PYTHON, "-c", NAMES_AND_FILES]),
                         (0, "named of-a-thread\nfile 4096\n", ""))

    def test_is_not_seen_outside(self):
        process = self.start_run(["sh", "-c", "echo up; cat"], stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"up\n")
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            self.assertNotIn("/.nvidia/", mounts.read())
        self.assertFalse(os.path.exists("/dev/.nvidia"))
        process.stdin.close()
        process.wait(launch.TIMEOUT)

    def test_background_processes_end_with_the_command(self):
        ends = os.pipe()
        process = self.start_run(["sh", "-c", "setsid sleep 1000 & setsid sleep 1000 & exit 5"],
                                 pass_fds=[ends[1]])
        os.close(ends[1])
        with os.fdopen(ends[0]) as reader:
            self.assertEqual(reader.read(), "")  # ends when the last holder does
        self.assertEqual(process.wait(launch.TIMEOUT), 5)

    def test_everything_ends_with_a_killed_launcher(self):
        ends = os.pipe()
        process = self.start_run(["sh", "-c", "setsid sleep 1000 & echo up; sleep 1000"],
                                 pass_fds=[ends[1]])
        os.close(ends[1])
        self.assertEqual(process.stdout.readline(), b"up\n")
        self.assertEqual(len(self.containers()), 1)
        process.kill()
        with os.fdopen(ends[0]) as reader:
            self.assertEqual(reader.read(), "")
        self.eventually(lambda: not self.shims(), "the shim stays")
        self.assertEqual(self.containers(), [])

    def test_orphans_are_reaped(self):
        script = "(true &) ; (true &) ; i=0; while ps -eo stat= | grep -q Z; do i=$((i+1));" \
                 " [ $i -lt 10000 ] || exit 1; done"
        self.shell(script)


class WorldAsUser(World):
    user = launch.SOME_USER


class Privileges(launch.LaunchTest):
    DROPPED = {"SYS_PTRACE": 19, "SYS_ADMIN": 21, "SYS_MODULE": 16, "SYS_RAWIO": 17, "MKNOD": 27,
               "BPF": 39, "PERFMON": 38, "SYS_NICE": 23, "SYS_BOOT": 22, "DAC_READ_SEARCH": 2,
               "SYS_TIME": 25, "SYSLOG": 34, "SYS_PACCT": 20, "AUDIT_CONTROL": 30,
               "MAC_ADMIN": 33, "MAC_OVERRIDE": 32}
    SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")

    def test_roots_container_lacks_what_would_lead_out(self):
        fields = launch.status_fields(self.shell("exec cat /proc/self/status"))
        for name in self.SETS:
            for capability, bit in self.DROPPED.items():
                self.assertFalse(int(fields[name], 16) >> bit & 1, f"{capability} in {name}")
        self.assertTrue(int(fields["CapEff"], 16) & 1)  # CAP_CHOWN: it is root's still
        self.assertEqual(fields["Seccomp"], "2")

    def test_roots_container_cannot_mount_or_make_nodes(self):
        for script in ("umount /dev/.nvidia/ctl", "mount -t tmpfs x /mnt", "mknod /dev/x c 195 1",
                       "umount /run/cgpu-sim"):
            status, _, _ = self.run_in(["sh", "-c", script])
            self.assertNotEqual(status, 0, script)

    def test_the_shim_has_what_it_needs_and_no_more(self):
        process = self.start_run(["sh", "-c", "echo up; cat"], stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"up\n")
        (shim,) = self.shims()
        with open(f"/proc/{shim}/status", encoding="utf-8") as text:
            fields = launch.status_fields(text.read())
        for name in self.SETS:  # SYS_PTRACE, KILL and DAC_OVERRIDE
            self.assertEqual(int(fields[name], 16), 1 << 19 | 1 << 5 | 1 << 1, name)
        uids = {int(uid) for uid in fields["Uid"].split() + fields["Gid"].split()}
        self.assertEqual(len(uids), 1)
        self.assertTrue(2_000_000_000 <= uids.pop() < 2_000_065_536)
        self.assertEqual(fields["Groups"].split(), [])
        self.assertEqual(fields["NoNewPrivs"], "1")
        self.assertEqual(fields["SigBlk"], "0" * 16)
        # The limit counts all processes of a uid, which others may take. Who may not raise it gives its most.
        with open(f"/proc/{shim}/limits", encoding="utf-8") as text:
            (most,) = [line[26:].split()[:2] for line in text if line.startswith("Max processes")]
        own = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        self.assertIn(most, (["unlimited"] * 2, [str(own)] * 2))
        self.assertEqual(os.readlink(f"/proc/{shim}/cwd"), "/")
        with open(f"/proc/{shim}/environ", "rb") as text:
            self.assertEqual(text.read(), b"")
        # 0 to 2 are /dev/null, 3 the launcher, 4 the admin socket, 5 the record, 6 the agent and 7
        # the creator (here none of the three), 8 the listener.
        self.assertEqual({int(fd) for fd in os.listdir(f"/proc/{shim}/fd")}, set(range(9)))
        self.assertNotEqual(os.getsid(shim), os.getsid(process.pid))
        self.assertNotEqual(int(fields["PPid"]), process.pid)
        process.stdin.close()
        process.wait(launch.TIMEOUT)

    def test_two_shims_have_two_uids(self):
        processes = [self.start_run(["sh", "-c", "echo up; cat"], "--mem", "1GiB",
                                    stdin=subprocess.PIPE) for _ in range(2)]
        for process in processes:
            self.assertEqual(process.stdout.readline(), b"up\n")
        self.assertEqual(len({os.stat(f"/proc/{shim}").st_uid for shim in self.shims()}), 2)


class PrivilegesAsUser(launch.LaunchTest):
    user = launch.SOME_USER

    def test_a_users_container_has_no_capability(self):
        fields = launch.status_fields(self.shell("exec cat /proc/self/status"))
        for name in Privileges.SETS:
            self.assertEqual(int(fields[name], 16), 0, name)
        self.assertEqual(fields["NoNewPrivs"], "1")
        self.assertEqual(fields["Seccomp"], "2")
        self.assertEqual(fields["Uid"].split(), [str(self.user)] * 4)

    def test_the_shim_runs_as_the_user_outside(self):
        process = self.start_run(["sh", "-c", "echo up; cat"], stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"up\n")
        (shim,) = self.shims()
        with open(f"/proc/{shim}/status", encoding="utf-8") as text:
            fields = launch.status_fields(text.read())
        self.assertEqual(fields["Uid"].split(), [str(self.user)] * 4)
        self.assertEqual(int(fields["CapPrm"], 16), 0)
        self.assertEqual(os.readlink(f"/proc/{shim}/ns/user"), os.readlink("/proc/self/ns/user"))
        self.assertEqual(os.readlink(f"/proc/{shim}/ns/mnt"), os.readlink("/proc/self/ns/mnt"))

    def test_nothing_undoes_a_mount(self):
        status, _, _ = self.run_in(["unshare", "-Urm", "umount", "/run/cgpu-sim"])
        self.assertNotEqual(status, 0)


# Writes to each file named as a shell would and prints what came of it, by errno.
WRITE = r"""
import errno, os, sys
for path in sys.argv[1:]:
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError as error:
        print(path, errno.errorcode[error.errno])
    else:
        print(path, "open")
"""

# Every block device and every node of memory that a walk through /dev finds.
NODES = r"""
import os, stat
MEMORY = [(1, 1), (1, 2), (1, 4), (1, 11), (10, 144)]
for folder, folders, files in os.walk("/dev"):
    for name in files:
        st = os.lstat(os.path.join(folder, name))
        number = (os.major(st.st_rdev), os.minor(st.st_rdev))
        if stat.S_ISBLK(st.st_mode) or stat.S_ISCHR(st.st_mode) and number in MEMORY:
            print(os.path.join(folder, name))
"""


class Machine(launch.LaunchTest):
    """A command cannot write to the machine itself. Root may write all of it outside, so what stops
    it inside is not a file's mode."""

    CONTROLS = ["/proc/sysrq-trigger", "/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern",
                "/proc/sys/vm/drop_caches", "/sys/kernel/profiling"]

    def writes(self, prefix=()):
        status, out, err = self.run_in([*prefix, launch.PYTHON, "-c", WRITE, *self.CONTROLS])
        self.assertEqual((status, err), (0, ""))
        return dict(line.split() for line in out.splitlines())

    def outside(self):
        """The same, outside: what there is to protect."""
        done = subprocess.run([launch.PYTHON, "-c", WRITE, *self.CONTROLS], check=True,
                              preexec_fn=launch.become(self.user), capture_output=True, text=True)
        return dict(line.split() for line in done.stdout.splitlines())

    def test_its_controls_cannot_be_written(self):
        outside = self.outside()
        if not self.user and "open" not in outside.values():
            self.skipTest("nothing can be written outside either")
        for path, result in self.writes().items():
            expected = "EROFS" if outside[path] == "open" else outside[path]
            self.assertIn(result, (expected, "EROFS"), path)

    def test_its_devices_are_not_there(self):
        found = subprocess.run([launch.PYTHON, "-c", NODES], check=True, capture_output=True)
        if not found.stdout:
            self.skipTest("this machine's /dev has no such device")
        self.assertEqual(self.run_in([launch.PYTHON, "-c", NODES]), (0, "", ""))

    def test_what_programs_need_is_there(self):
        out = self.shell("echo x >/dev/null; head -c1 /dev/zero /dev/urandom >/dev/null; cat /sys/"
                         "devices/system/cpu/online; cat /proc/sys/kernel/ostype; ls /dev/pts >/dev/null")
        with open("/sys/devices/system/cpu/online", encoding="utf-8") as text:
            self.assertEqual(out, text.read() + "Linux\n")

    def test_a_user_namespace_of_its_own_does_not_give_it_back(self):
        own = ["unshare", "-Urmpfn"]
        if subprocess.run([*own, "true"], preexec_fn=launch.become(launch.SOME_USER),
                          check=False, capture_output=True).returncode != 0:
            self.skipTest("no user namespaces here")
        self.assertEqual(self.run_in([*own, "true"])[0], 0)
        for script in ("umount /proc/sys", "umount -l /sys", "umount -l /dev", "umount -l /proc",
                       "mount -o remount,bind,rw /proc/sys", "mount -o remount,bind,rw /sys",
                       "mount -o remount,bind,rw /proc/sysrq-trigger", "mount --bind /proc /mnt",
                       "mount --bind /sys /mnt", "mount --bind /dev /mnt", "mount -t proc x /mnt",
                       "mount -t sysfs x /mnt"):
            with self.subTest(script=script):
                self.assertNotEqual(self.run_in([*own, "sh", "-c", script])[0], 0)
        self.assertNotIn("open", self.writes(own).values())


class MachineAsUser(Machine):
    user = launch.SOME_USER


class BrokenShim(launch.LaunchTest):
    def test_is_reported_and_nothing_stays(self):
        for name, command, says in (
                ("refuse", ["true"], "it does not like the name"),
                ("die-early", ["true"], "gave no answer"),
                ("die-late", [launch.PYTHON, "-c",
                              "import fcntl, time; print('up', flush=True)\n"
                              "try: fcntl.ioctl(0, 0xc0104600, bytearray(16))\n"
                              "except OSError: pass\ntime.sleep(1000)"],
                 "shim ended before the container")):
            with self.subTest(name=name):
                status, _, err = self.run_in(command, "--name", name)
                self.assertEqual(status, 125)
                self.assertIn(says, err)
                self.assertTrue(err.startswith("error: "), err)
                self.assertTrue(name == "die-late" or "\nhint: " in err, err)
                self.eventually(lambda: not self.shims(), "the shim stays")
                self.assertEqual(self.containers(), [])

    def test_a_missing_shim_is_named(self):
        environment = dict(self.environment(), CGPU_LIBEXEC="/no/such/folder")
        done = subprocess.run([self.cgpu, "run", "--node", self.node.name, "--", "true"],
                              env=environment, capture_output=True, check=False, cwd="/")
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"/no/such/folder/cgpu-shim", done.stderr)


if __name__ == "__main__":
    launch.main()
