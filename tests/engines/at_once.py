"""Things done at the same time, and again and again, beside a test."""
import re
import threading

import cgpu_test as t


def at_once(*doings):
    """Does all of it at the same time; what each returned."""
    results = [None] * len(doings)

    def do(number, doing):
        try:
            results[number] = doing()
        except Exception as error:  # the test's to tell
            results[number] = error

    threads = [threading.Thread(target=do, args=pair, daemon=True) for pair in enumerate(doings)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


class Again:
    """Does something again and again on threads while the block runs; `said`: what came of it."""

    def __init__(self, doing, threads=2):
        self._doing, self._stop = doing, threading.Event()
        self.said, self._failed = [], []
        self._threads = [threading.Thread(target=self._loop, daemon=True) for _ in range(threads)]

    def _loop(self):
        try:
            while not self._stop.is_set():
                self.said.append(self._doing())
        except Exception as error:
            self._failed.append(error)

    def count(self, pattern):
        return sum(bool(re.search(pattern, one)) for one in list(self.said))

    def wait_more(self, pattern, more=2):
        """Waits until this was said so many times more."""
        before = self.count(pattern)
        t.wait_for(lambda: self._failed or self.count(pattern) >= before + more,
                   lambda: "%r is said no more: %s" % (pattern, self.said[-5:]))
        self._raise()

    def _raise(self):
        if self._failed:
            raise self._failed[0]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if not kind:
            self._raise()
