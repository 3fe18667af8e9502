"""cgpu-burn by CUDA in a container, in the background."""
import json
import os
import subprocess
import tempfile
import time

from kit import processes

TIMEOUT = 60  # seconds


class Burn:
    """`with Burn(report, ["--queue", "4"], ["--mem", "2GiB"]) as burn`. What it says can be read while it
    runs; it is stopped at the end, or before by stop()."""

    def __init__(self, report, words, flags, seconds=TIMEOUT):
        """`seconds`: how long it is waited for each time."""
        self._report, self._timeout = report, seconds
        self._argv = report.slice(report.tool("cgpu-burn"), "--cuda", "--json", *words, flags=flags)

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        self._path = os.path.join(self._folder.name, "said")
        with open(self._path, "w", encoding="utf-8") as said:
            self._process = self._report.start(self._argv, stdin=subprocess.DEVNULL, stdout=said,
                                               stderr=subprocess.STDOUT)
        return self

    def __exit__(self, *_):
        self.stop()
        self._folder.cleanup()

    def text(self):
        with open(self._path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def seconds(self):
        """Returns its lines, one for each second."""
        said = [line for line in self.text().split("\n")[:-1] if line.startswith("{")]
        return [second for second in map(json.loads, said) if "second" in second]

    def _until(self, has_said):
        """Whether it has said so before its end, in time."""
        until = time.monotonic() + min(self._timeout, max(1, self._report.left()))
        while not has_said() and self._process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        return has_said()

    def begins(self):
        """Waits until it has its channels; whether it does."""
        return self._until(lambda: '{"gpu"' in self.text())

    def wait(self, count):
        """Until it has told of so many seconds; whether it has."""
        return self._until(lambda: len(self.seconds()) >= count)

    def computes(self):
        """Waits until it has told of a second in which launches ended; whether it has."""
        return self._until(lambda: any(second["launches"] for second in self.seconds()))

    def tell(self):
        """Tells it to end, and does not wait for it."""
        self._process.terminate()

    def stop(self):
        """Its exit status; None if it did not end when it was told to."""
        self._process.terminate()
        try:
            return self._process.wait(timeout=self._timeout)
        except subprocess.TimeoutExpired:
            processes.end(processes.below(self._process.pid))
            self._process.kill()
            self._process.wait()
            return None
