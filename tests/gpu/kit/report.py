"""Parts of all checks: the programs they run, the time they have, what they found."""
import ctypes
import gzip
import json
import os
import re
import subprocess
import sys
import time
import traceback

from kit import processes

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Time of one program, unless less is left of the whole budget.
PROGRAM_SECONDS = 90
LEAST_SECONDS = 1
PASS, FAIL, SKIP = "pass", "FAIL", "skip"


class Skip(Exception):
    """This check cannot be made here; says why."""


class NoTime(Skip):
    """The time is over."""


class Over(BaseException):
    """A step has reached its limit. No check may catch it."""

    def __init__(self, outcome, text):
        super().__init__(text)
        self.outcome = outcome


def programs():
    """The folder of cgpu's programs."""
    places = [os.environ.get("CGPU_BIN"), os.path.join(HERE, "bin"),
              os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "bin")]
    for place in filter(None, places):
        if os.access(os.path.join(place, "cgpu"), os.X_OK):
            return place
    raise SystemExit("cgpu's programs are not there: `make build`, or a bundle of `make gpu-bundle`")


def has_notification():
    """Whether the kernel has seccomp user notification (SECCOMP_GET_ACTION_AVAIL, <linux/seccomp.h>)."""
    action = ctypes.c_uint32(0x7FC00000)
    return ctypes.CDLL(None).syscall(317, 2, 0, ctypes.byref(action)) == 0


class Done:
    """A program that has ended."""

    def __init__(self, argv, status, output, errors, seconds):
        self.argv, self.status, self.output, self.errors = argv, status, output, errors
        self.seconds = seconds

    def last_words(self):
        """Returns its last line."""
        lines = (self.errors.strip() or self.output.strip()).splitlines()
        return "status %s%s" % (self.status, ": " + lines[-1][:300] if lines else "")


class Report:
    """Rows (check, what, outcome, detail) and raw data; written with each row, so that the folder is
    complete even if what comes next takes the machine down."""

    def __init__(self, folder, budget, node, quick, notification=True, answers=()):
        self.folder, self.node, self.quick, self.answers = folder, node, quick, answers
        self.notification = notification and has_notification()
        self.begin, self.budget = time.monotonic(), budget
        self.until = self.begin + budget
        self.bin = programs()
        self.rows, self.raw, self.calls = [], {"seconds": {}}, {}
        self.last = ""  # program that was started
        self.grace = 0  # seconds after the time is over, where something else ends what runs
        self.states = {}  # of a lease's steps: "begun", "cut off", "whole"
        self._check = self._cuda = None
        os.makedirs(folder, exist_ok=True)

    # --- For the checks.

    def row(self, what, outcome, detail=""):
        self.rows.append((self._check, what, outcome, detail))
        self._write()
        print("%-9s %-4s  %s%s" % (self._check, outcome, what, ": " + detail if detail else ""),
              flush=True)

    def judge(self, what, good, detail=""):
        self.row(what, PASS if good else FAIL, detail)
        return good

    def keep(self, name, value):
        """Raw data, in JSON's types."""
        self.raw.setdefault(self._check, {})[name] = value

    @property
    def check(self):
        """The name of what is under way."""
        return self._check

    @property
    def lacking(self):
        """Sentences about what succeeds without cgpu and not in a slice; None where nothing was compared yet."""
        found = self.raw.get("lacking")
        return None if found is None else [one for some in found.values() for one in some]

    def lack(self, sentences):
        """Adds what succeeds without cgpu and not in a slice: named first of all."""
        self.raw.setdefault("lacking", {}).setdefault(self._check, []).extend(sentences)
        self._write()
        for one in sentences:
            print("succeeds without cgpu and not in a slice: " + one, flush=True)

    def left(self):
        return self.until - time.monotonic()

    def need(self, seconds):
        """Skip the rest of the check where there is less time than this."""
        if self.left() < seconds:
            raise NoTime("there is no time for it: %d s are left" % max(0, self.left()))

    def tool(self, name):
        """One of cgpu's programs; those for tests alone have a folder of their own in a build."""
        path = os.path.join(self.bin, name)
        return path if os.path.exists(path) else os.path.join(os.path.dirname(self.bin), "tests", "bin", name)

    def start(self, argv, environment=None, **options):
        """Starts a program, which the kernel ends when the kit has ended."""
        self.last = " ".join(" ".join(argv).split())[:200]
        return subprocess.Popen(argv, preexec_fn=processes.end_with_parent,
                                env={**os.environ, **(environment or {})}, **options)

    def do(self, *argv, stdin="", environment=None, seconds=PROGRAM_SECONDS):
        """Runs a program to its end. One that does not end has the status None. Skip when the time is over."""
        self.need(LEAST_SECONDS)
        seconds = min(seconds, self.left() + self.grace)
        begin = time.monotonic()
        try:
            process = self.start(argv, environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, errors="replace")
        except (OSError, subprocess.SubprocessError) as error:
            return Done(argv, None, "", str(error), 0)
        with process:
            try:
                output, errors = process.communicate(stdin, timeout=seconds)
            except subprocess.TimeoutExpired:
                processes.end(processes.below(process.pid))
                process.kill()
                self.need(LEAST_SECONDS)
                return Done(argv, None, "", "no end within %.0f s" % seconds, seconds)
        return Done(argv, process.returncode, output, errors, time.monotonic() - begin)

    def slice(self, *argv, flags=()):
        """The words of `argv` in a slice."""
        node = ["--node", self.node] if self.node else []
        return [self.tool("cgpu"), "run", *node, *flags, "--", *argv]

    def plain(self, *argv):
        """The words of `argv` without cgpu: on a simulated node by way of it."""
        if not self.node:
            return list(argv)
        return [self.tool("cgpu"), "sim", "exec", "--name", self.node, "--", *argv]

    def require_cgpu(self):
        """Skip where no slice can be had."""
        if not self.notification:
            raise Skip("there is no user notification here, so no slices")
        run = self.do(*self.slice("true", flags=["--mem", "64MiB"]))
        if run.status != 0:
            raise Skip("cgpu run does not work here: " + run.last_words())

    def require_cuda(self):
        """Skip where there is no CUDA."""
        look = self._cuda or self.do(*self.plain(sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"))
        self._cuda = look
        if look.status != 0:
            raise Skip("there is no CUDA here: " + look.last_words())

    def cuda(self):
        """The words of the CUDA program."""
        self.require_cuda()
        return [sys.executable, os.path.join(HERE, "kit", "cuda_program.py")]

    # --- For the program.

    def run(self, name, check):
        """Makes a check and writes down whatever becomes of it. Returns whether it is whole."""
        self._check = name
        begin, whole = time.monotonic(), False
        try:
            self.need(LEAST_SECONDS)
            check(self)
            whole = True
        except Skip as reason:
            self.row("the rest", SKIP, str(reason))
            whole = not isinstance(reason, NoTime)
        except Exception:  # a check that is wrong must not take the others with it
            self.row("the check itself", FAIL, traceback.format_exc(limit=-2).replace("\n", " "))
            whole = True
        except Over as over:
            self.row("the rest", over.outcome, str(over))
        except BaseException:
            self.row("the rest", SKIP, "it was told to end")
            raise
        finally:
            self.raw["seconds"][name] = round(time.monotonic() - begin, 1)
            self._write(to_disk=True)
        return whole

    def go_on(self):
        """Takes over what an earlier run has left in the folder."""
        try:
            with open(os.path.join(self.folder, "results.json"), encoding="utf-8") as file:
                found = json.load(file)
            with gzip.open(os.path.join(self.folder, "calls.txt.gz"), "rt", errors="replace") as file:
                calls = re.split(r"^== (.*)\n", file.read(), flags=re.MULTILINE)
        except (OSError, ValueError, EOFError):
            return
        self.rows = [tuple(row) for row in found["rows"]]
        self.raw, self.states = found["raw"], found.get("steps", {})
        self.calls = dict(zip(calls[1::2], calls[2::2]))

    def set_state(self, name, state):
        self.states[name] = state
        self._write(to_disk=True)

    def forget(self, name):
        """Drops what an earlier run has found in a step that is made again."""
        self.rows = [row for row in self.rows if row[0] != name]
        for kept in (self.raw, self.raw["seconds"], self.raw.get("lacking", {})):
            kept.pop(name, None)

    def say(self, sentence):
        """Prints what is no row."""
        print("%-9s %s" % (self._check, sentence), flush=True)

    def end(self):
        for one in self.lacking or []:  # once more, at the end of all
            print("succeeds without cgpu and not in a slice: " + one)
        print("%d rows, %d failed; %d s of %d (%s); see %s" % (
            len(self.rows), self._failed(), time.monotonic() - self.begin, self.budget, self._seconds(), self.folder))
        return 1 if self._failed() else 0

    def _failed(self):
        return sum(row[2] == FAIL for row in self.rows)

    def _seconds(self):
        return ", ".join("%s %.0f" % check for check in self.raw["seconds"].items())

    def _write(self, to_disk=False):
        ground = self.raw.get("ground", {})
        page = "# %s, driver %s\n\nLinux %s, on %s, in %d s of %d (%s).\n\n" % (
            ground.get("gpu", "a GPU"), ground.get("driver", "?"), os.uname().release,
            time.strftime("%Y-%m-%d"), time.monotonic() - self.begin, self.budget, self._seconds())
        if self.lacking is not None:
            page += "Succeeds without cgpu and not in a slice:\n\n%s\n\n" % (
                "\n".join("* " + one for one in self.lacking) or "* nothing")
        page += "| check | what | outcome | |\n|---|---|---|---|\n"
        for row in self.rows:
            page += "| %s |\n" % " | ".join(cell.replace("|", "\\|") for cell in row)
        calls = "".join("== %s\n%s" % (name, text) for name, text in self.calls.items())
        for name, content in (("results.json", json.dumps({
                                  "lacking": self.lacking, "steps": self.states, "rows": self.rows, "raw": self.raw}, indent=1).encode()),
                              ("page.md", page.encode()),
                              ("calls.txt.gz", gzip.compress(calls.encode(errors="replace")))):
            self._replace(name, content, to_disk)

    def _replace(self, name, content, to_disk):
        """As a whole or not at all."""
        path = os.path.join(self.folder, name)
        with open(path + ".new", "wb") as file:
            file.write(content)
            if to_disk:
                file.flush()
                os.fsync(file.fileno())
        os.replace(path + ".new", path)
