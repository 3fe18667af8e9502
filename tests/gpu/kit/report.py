"""Parts of all checks: the programs they run, the time they have, what they found."""
import ctypes
import gzip
import json
import os
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Time of one program, unless less is left of the whole budget.
PROGRAM_SECONDS = 90
LEAST_SECONDS = 1
PASS, FAIL, SKIP = "pass", "FAIL", "skip"


class Skip(Exception):
    """This check cannot be made here; says why."""


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
        self.rows, self.raw, self.calls = [], {"seconds": {}}, []
        self.lacking = None
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

    def lack(self, sentences):
        """Adds what succeeds without cgpu and not in a slice: named first of all."""
        self.lacking = (self.lacking or []) + sentences
        self._write()

    def left(self):
        return self.until - time.monotonic()

    def need(self, seconds):
        """Skip the rest of the check where there is less time than this."""
        if self.left() < seconds:
            raise Skip("there is no time for it: %d s of %d are left" % (max(0, self.left()), self.budget))

    def tool(self, name):
        """One of cgpu's programs; those for tests alone have a folder of their own in a build."""
        path = os.path.join(self.bin, name)
        return path if os.path.exists(path) else os.path.join(os.path.dirname(self.bin), "tests", "bin", name)

    def do(self, *argv, stdin="", environment=None, seconds=PROGRAM_SECONDS):
        """Runs a program to its end. One that does not end has the status None. Skip when the time is over."""
        self.need(LEAST_SECONDS)
        seconds = min(seconds, self.left())
        begin = time.monotonic()
        try:
            done = subprocess.run(argv, input=stdin, capture_output=True, text=True, errors="replace",
                                  timeout=seconds, check=False,
                                  env={**os.environ, **(environment or {})})
            result = Done(argv, done.returncode, done.stdout, done.stderr, time.monotonic() - begin)
        except subprocess.TimeoutExpired:
            self.need(LEAST_SECONDS)
            result = Done(argv, None, "", "no end within %.0f s" % seconds, seconds)
        except OSError as error:
            result = Done(argv, None, "", str(error), 0)
        return result

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
        self._check = name
        begin = time.monotonic()
        try:
            self.need(LEAST_SECONDS)
            check(self)
        except Skip as reason:
            self.row("the rest", SKIP, str(reason))
        except Exception:  # a check that is wrong must not take the others with it
            self.row("the check itself", FAIL, traceback.format_exc(limit=-2).replace("\n", " "))
        except BaseException:
            self.row("the rest", SKIP, "it was told to end")
            raise
        finally:
            self.raw["seconds"][name] = round(time.monotonic() - begin, 1)
            self._write(to_disk=True)

    def end(self):
        for one in self.lacking or []:
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
        calls = "".join("== %s\n%s" % (name, text) for name, text in self.calls)
        for name, content in (("results.json", json.dumps({"lacking": self.lacking, "rows": self.rows, "raw": self.raw}, indent=1).encode()),
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
