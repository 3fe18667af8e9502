"""bench-client, wherever it runs: in a container of a container engine, in one of `cgpu run`, or without cgpu."""
import struct
import subprocess

import cgpu_test as t


class Client:
    """Starts it by these words, and tells it what to do a line at a time (bench/client.cc)."""

    def __init__(self, words, name):
        self.popen = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        t.check(self.popen.stdout.readline() == b"ready\n", name + " does not start")

    def say(self, line):
        self.popen.stdin.write((line + "\n").encode())
        self.popen.stdin.flush()

    def calls(self, count):
        """Returns how long each of its next calls takes, in nanoseconds."""
        self.say("calls %d" % count)
        took = self.popen.stdout.read(4 * count)
        t.check(len(took) == 4 * count, "a call failed")
        return struct.unpack("=%dI" % count, took)

    def floods(self, kind, threads):
        self.say("%s %d" % (kind, threads))
        t.check(self.popen.stdout.readline() == b"going\n", kind + " does not begin")

    def stop(self):
        """Ends its flood; how many of its kind it made."""
        self.say("stop")
        return int(self.popen.stdout.readline())

    def end(self):
        self.popen.stdin.close()
        self.popen.wait(t.DEADLINE)
