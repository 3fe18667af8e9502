"""cgpud for the time of a lease: the one that runs here, or one of the kit's own."""
import os
import socket
import subprocess
import tempfile
import time

SOCKET = "/run/cgpu/cgpud.sock"
START_SECONDS, END_SECONDS = 15, 10


def answers():
    """Whether a cgpud runs here."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            connection.connect(SOCKET)
        except OSError:
            return False
    return True


class Daemon:
    """`with Daemon(report) as daemon`; `pid` is that of the kit's own, or None."""

    def __init__(self, report):
        self._report, self._process, self.pid = report, None, None

    def __enter__(self):
        if not self._report.notification or answers():
            return self
        self._folder = tempfile.TemporaryDirectory()
        settings, self._log = (os.path.join(self._folder.name, name) for name in ("config.yaml", "log"))
        with open(settings, "w", encoding="utf-8") as file:
            file.write("calibrate: false\n%s" % ("node: %s\n" % self._report.node if self._report.node else ""))
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = self._report.start([self._report.tool("cgpud"), "--config", settings],
                                               stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = self._process.pid
        until = time.monotonic() + START_SECONDS
        while not answers() and self._process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        return self

    def text(self):
        """Returns the end of its log; "" of a cgpud that is not the kit's."""
        if not self._process:
            return ""
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]

    def __exit__(self, *_):
        if not self._process:
            return
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()
