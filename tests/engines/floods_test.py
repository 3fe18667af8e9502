"""cgpu-exporter and cgpu-scheduler's webhook beside clients that send without end, slowly, or large
bodies: they answer others, and stay small. Cases by name, see tests/lib/cgpu_test.py."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import threading

import cgpu_test as t
import isolation
from exporter_test import Exporter, free_port, own_registry

MOST_MEMORY = 200 * t.MIB
SLOW_CLIENTS = 700  # more than there are places for
ANSWERS = 20
REVIEW = json.dumps({"request": {"uid": "r", "object": {"spec": {"containers": []}}}})


def _most_memory(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) << 10


class Webhook:
    """A cgpu-scheduler that reaches no API server: `with Webhook(folder) as webhook`."""

    def __init__(self, folder):
        self._path = lambda name: os.path.join(folder, name)
        self.port = free_port()
        self._tls = ssl._create_unverified_context()

    def __enter__(self):
        path = self._path
        t.command("openssl", "genpkey", "-algorithm", "ed25519", "-out", path("sign.pem"))
        t.command("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                  "-subj", "/CN=x", "-keyout", path("key.pem"), "-out", path("cert.pem"))
        cluster = {"server": "https://127.0.0.1:1", "certificate-authority": path("cert.pem")}
        with open(path("kubeconfig"), "w", encoding="ascii") as file:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "a",
                       "clusters": [{"name": "a", "cluster": cluster}],
                       "users": [{"name": "a", "user": {"token": "x"}}],
                       "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]}, file)
        self.process = t.Process(
            [os.path.join(t.BIN, "cgpu-scheduler"), "--kubeconfig", path("kubeconfig"),
             "--signing-key", path("sign.pem"), "--port", str(free_port()), "--webhook-port",
             str(self.port), "--tls-cert", path("cert.pem"), "--tls-key", path("key.pem")])
        t.wait_for(self._listens, "cgpu-scheduler does not listen")
        return self

    def __exit__(self, *_):
        self.process.kill()

    def _listens(self):
        with contextlib.suppress(ConnectionRefusedError):
            return self.answer() == 200
        return False

    def answer(self, body=REVIEW, headers=None):
        """The status of a review."""
        with contextlib.closing(http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=t.DEADLINE, context=self._tls)) as connection:
            connection.request("POST", "/admit", body=body, headers=headers or {})
            return connection.getresponse().status

    def connect(self):
        return self._tls.wrap_socket(socket.create_connection(("127.0.0.1", self.port)))


class _Scraped:
    def __init__(self, exporter):
        self.process, self.ask_whole, self._port = exporter.process, exporter.answer, exporter.port

    def connect(self):
        return socket.create_connection(("127.0.0.1", self._port))

    def answer(self):
        """The status of a scrape."""
        return self.ask_whole("GET", "/metrics")[0]


@contextlib.contextmanager
def _exporter():
    own_registry()
    with t.Node() as node, Exporter(node) as exporter:
        yield _Scraped(exporter)


@contextlib.contextmanager
def _webhook():
    os.makedirs("/run/hook")
    with Webhook("/run/hook") as webhook:
        yield webhook


def _check_memory(server):
    most = _most_memory(server.process.popen.pid)
    print("it had %d MiB at most" % (most >> 20))
    t.check(most <= MOST_MEMORY, "it had %d MiB" % (most >> 20))


def _headers(server):
    """Headers without end."""
    line = b"".join(b"X-%05d: %s\r\n" % (number, b"a" * 8000) for number in range(100))
    with contextlib.closing(server.connect()) as client, contextlib.suppress(OSError):
        client.sendall(b"GET /metrics HTTP/1.1\r\n")
        for _ in range(500):
            client.sendall(line)
    t.check(server.answer() == 200, "it does not answer")
    _check_memory(server)


def _slow(server):
    """Clients that never end their request, and come again when they are thrown out."""
    ends, made = threading.Event(), threading.Semaphore(0)

    def client():
        while not ends.is_set():
            with contextlib.suppress(OSError), contextlib.closing(server.connect()) as connection:
                connection.sendall(b"POST /admit HTTP/1.1\r\nX: ")
                made.release()
                while not ends.wait(0.5):
                    connection.sendall(b"a\r\nX: ")
            made.release()
            ends.wait(0.5)

    threads = [threading.Thread(target=client, daemon=True) for _ in range(SLOW_CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        for _ in threads[:SLOW_CLIENTS // 2]:
            t.check(made.acquire(timeout=t.DEADLINE), "there are fewer clients")
        for _ in range(ANSWERS):
            t.check(server.answer() == 200, "it does not answer")
    finally:
        ends.set()
    _check_memory(server)


def exporter_headers():
    with _exporter() as exporter:
        _headers(exporter)


def exporter_slow():
    with _exporter() as exporter:
        _slow(exporter)


def exporter_ranges():
    """Many ranges of one answer are no reason to make it larger."""
    with _exporter() as exporter:
        page = exporter.ask_whole("GET", "/")[2]
        for ranges in ("0-", "0-," * 2500 + "0-"):
            status, _, text = exporter.ask_whole("GET", "/", {"Range": "bytes=" + ranges})
            t.check(status == 200 and text == page,
                    "%s: %d, %d bytes" % (ranges[:20], status, len(text)))
        _check_memory(exporter)


def webhook_headers():
    with _webhook() as webhook:
        _headers(webhook)


def webhook_slow():
    with _webhook() as webhook:
        _slow(webhook)


def webhook_large():
    """Bodies of many values, of a length that is not said, and packed ones."""
    many = '{"request":{"uid":"r","object":{"spec":{"x":[%s[]]}}}}'
    with _webhook() as webhook:
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for size, statuses in ((15 * t.MIB, {413, None}), (2 * t.MIB, {200})):
                body = many % ("[]," * (size // 3))

                def send(_, body=body):
                    with contextlib.suppress(OSError):  # it is refused before it is sent
                        return webhook.answer(body)
                got = set(pool.map(send, range(16)))
                t.check(got <= statuses, "bodies of %d bytes: %s" % (size, got))
        t.check(webhook.answer(iter([REVIEW.encode()])) == 411, "it takes chunks")
        t.check(webhook.answer(REVIEW, {"Content-Encoding": "gzip"}) == 415, "it unpacks")
        _check_many_on_one_connection(webhook)
        _check_memory(webhook)


def _check_many_on_one_connection(webhook):
    request = ("POST /admit HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" %
               (len(REVIEW), REVIEW)).encode()
    with contextlib.closing(webhook.connect()) as connection:
        connection.settimeout(t.DEADLINE)
        for requests in (1, 3):  # the second time they come at once
            connection.sendall(request * requests)
            got = b""
            while got.count(b'"allowed":true') < requests:
                more = connection.recv(1 << 16)
                t.check(more, "it answers %s" % got)
                got += more


CASES = {"exporter-headers": exporter_headers, "exporter-slow": exporter_slow,
         "exporter-ranges": exporter_ranges, "webhook-headers": webhook_headers,
         "webhook-slow": webhook_slow, "webhook-large": webhook_large}

if __name__ == "__main__":
    isolation.main(CASES)
