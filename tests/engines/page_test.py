"""The page of cgpu-exporter: who may see it, what it shows, and what it looks like in Chromium. Cases by
name, see tests/lib/cgpu_test.py."""
import base64
import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile

import cgpu_test as t
import isolation
from exporter_test import BURN, TOKEN, Exporter, hold, idle_clients, own_registry

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
SOURCE = os.path.join(ROOT, "page")
# Without a registry of npm there are none, and no page.
HAS_PACKAGES = os.path.exists(os.path.join(SOURCE, "node_modules/.package-lock.json"))
SCREENS = os.path.join(os.path.dirname(os.path.abspath(t.BIN)), "screens")
PATHS = ("/", "/api/overview", "/metrics", "/licenses.txt", "/nowhere", "/index.html", "/%2e%2e/etc")
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " \
         "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def need_browser():
    """Skips the test where there is nothing to show the page with."""
    if shutil.which("node") is None or not os.path.exists("/usr/bin/chromium"):
        t.skip("no node or no chromium on this machine (packages nodejs and chromium)")
    if not HAS_PACKAGES:
        t.skip("the page's packages are not there (make page)", excused=True)


def need_page(exporter, headers=None):
    if b"<script" not in exporter.ask("GET", "/", headers)[1]:
        t.skip("this build has no page (make page, then build again)", excused=not HAS_PACKAGES)


def basic(password, user="any"):
    words = base64.b64encode(("%s:%s" % (user, password)).encode()).decode()
    return {"Authorization": "Basic " + words}


@contextlib.contextmanager
def token_file():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(TOKEN + "\n")
        file.flush()
        yield "exporter_token_file: %s\n" % file.name


def logic():
    """The page's own tests of what needs no browser."""
    need_browser()
    t.command("npm", "--prefix", SOURCE, "test", "--silent")


def access():
    """Where other hosts reach it, nothing is told without the token; nothing can be changed; each
    answer has the headers that keep a browser from harm."""
    with t.Node() as node, token_file() as setting:
        with Exporter(node, setting, listen="0.0.0.0") as exporter:
            for path in PATHS:
                for headers in ({}, basic(TOKEN[:-1]), basic(""), basic("x", TOKEN),
                                {"Authorization": "Bearer " + TOKEN + "0"}):
                    status, got, text = exporter.answer("GET", path, headers)
                    t.check(status == 401 and b"GPU" not in text and
                            got["WWW-Authenticate"] == 'Basic realm="cgpu"',
                            "%s, %s: %d, %s" % (path, headers, status, text))
            for headers in (basic(TOKEN), basic(TOKEN, ""), {"Authorization": "Bearer " + TOKEN}):
                t.check(exporter.ask("GET", "/api/overview", headers)[0] == 200, "%s" % headers)
            _check_answers(exporter, basic(TOKEN))
        with Exporter(node) as exporter:
            _check_answers(exporter, {})
            for host, status in (("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:1", 200),
                                 ("a.example", 421), ("127.0.0.1.example:9400", 421)):
                got = exporter.ask("GET", "/api/overview", {"Host": host})[0]
                t.check(got == status, "%s is answered %d" % (host, got))


def _check_answers(exporter, headers):
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        for path in PATHS[:3]:
            status, got, _ = exporter.answer(method, path, headers)
            t.check(status == 405 and got["Allow"] == "GET, HEAD", "%s %s: %d" % (method, path, status))
    for path in PATHS:
        status, got, _ = exporter.answer("GET", path, headers)
        t.check(status == (200 if path in PATHS[:3] else 404) or path == PATHS[3],
                "%s: %d" % (path, status))
        t.check(got["Content-Security-Policy"] == POLICY and
                got["X-Content-Type-Options"] == "nosniff" and
                got["Referrer-Policy"] == "no-referrer" and got["Cache-Control"] == "no-store",
                "%s: %s" % (path, got))
    status, _, text = exporter.answer("HEAD", "/api/overview", headers)
    t.check(status == 200 and text == b"", "HEAD: %d, %s" % (status, text))


def idle():
    """Clients that say nothing, or not all, keep nobody from the page."""
    with t.Node() as node, Exporter(node) as exporter, idle_clients(exporter, "/api/overview"):
        for path in PATHS[:3]:
            t.check(exporter.ask("GET", path)[0] == 200, path)


def _make_certificate(folder, name):
    done = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-subj", "/CN=" + name, "-keyout", folder + "/key", "-out", folder + "/cert"],
        capture_output=True, text=True, check=False)
    t.check(done.returncode == 0, "openssl: " + done.stderr)


def _presented(exporter):
    """The certificate that the next client gets."""
    return ssl.get_server_certificate(("127.0.0.1", exporter.port))


def tls():
    """It speaks TLS with the certificate that the files have, also with one that is renewed. It does not
    start with a key of another."""
    if shutil.which("openssl") is None:
        t.skip("no openssl on this machine")
    with t.Node() as node, tempfile.TemporaryDirectory() as folder, token_file() as token:
        settings = token + "exporter_tls_cert: %s/cert\nexporter_tls_key: %s/key\n" % (folder, folder)
        _make_certificate(folder, "first")
        with Exporter(node, settings, tls=True) as exporter:
            t.check(exporter.ask("GET", "/api/overview")[0] == 401, "no token is asked for")
            t.check(exporter.ask("GET", "/api/overview", basic(TOKEN))[0] == 200, "no answer by TLS")
            first = _presented(exporter)
            _make_certificate(folder, "second")
            t.check(_presented(exporter) not in ("", first), "it keeps the first certificate")
            with socket.create_connection(("127.0.0.1", exporter.port)) as plain:
                plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                t.check(b"HTTP" not in plain.recv(1000), "it speaks without TLS")
        key = folder + "/key"
        os.rename(key, key + ".old")
        _make_certificate(folder, "third")
        os.rename(key + ".old", key)
        config = folder + "/config.yaml"
        with open(config, "w", encoding="utf-8") as file:
            file.write("node: %s\n%s" % (node.name, settings))
        done = t.command(os.path.join(t.BIN, "cgpu-exporter"), "--config", config, ok=False)
        t.check(done.returncode == 1 and "has the key of" in done.stderr, done.stderr)


def _show(browser):
    browser.say("show")
    return json.loads(browser.expect("^{.*}$").group())


def _loaded(node, name, gpu, *words):
    process = node.run([BURN, "--json", *words], name=name,
                       flags=("--name", name, "--gpus", "device=%d" % gpu))
    process.expect('^{"gpu":')
    return process


def _busy(node):
    """Nanoseconds of each GPU's engine: of all channel groups, and at all."""
    books = node.books()
    return [(sum(t.use_ns(books, group) for group in t.groups(gpu)), t.counted_ns(t.graphics(gpu)))
            for gpu in books["gpus"]]


NEAR = 0.03  # parts of a GPU's time
SECONDS, WINDOWS = 7, 3


def figures():
    """The page shows what the driver's accounting says: bytes of GPUs and containers, and parts of the
    GPUs' time. Chromium gives the token when the page asks for it."""
    need_browser()
    own_registry()
    with t.Node("a10:2", "580") as node, token_file() as token:
        with Exporter(node, token) as exporter:
            need_page(exporter, basic(TOKEN))
            held = [hold(node, "first", 100, 0), hold(node, "second", 300, 1)]
            url = "http://127.0.0.1:%d/" % exporter.port
            browser = t.Process(["node", "check/figures.mjs", url, TOKEN], name="page", cwd=SOURCE)
            _check_memory(node, _show(browser))
            loads = [_loaded(node, "left", 0), _loaded(node, "right", 0),
                     _loaded(node, "third", 1, "--duty", "30", "--period-ms", "100")]
            _check_times(node, browser, loads[0])
            t.check(browser.end() == 0, "the page does what it must not do")
            for process in loads + held:
                process.kill()


def _check_memory(node, shown):
    node.sync()
    t.check([gpu["used"] for gpu in shown["gpus"]] == [node.used(0), node.used(1)],
            "%s, not %s" % (shown["gpus"], [node.used(0), node.used(1)]))
    slices = {one["name"]: one for one in shown["slices"]}
    for container in node.containers():
        (gpu,) = container["gpus"]
        one = slices.pop(container["name"])
        t.check((one["used"], one["limit"], one["peak"]) ==
                (gpu["used_bytes"], gpu["limit_bytes"], gpu["peak_bytes"]),
                "%s is not %s" % (one, gpu))
    t.check(not slices, "there are others: %s" % slices)


def _check_times(node, browser, load):
    """Compares the use of some seconds. A machine that stands still for a moment, as virtual ones do,
    may spoil one or two of the windows: the page's are not quite those of the accounting."""
    for _ in range(WINDOWS):
        load.expect('^{"second":')
        before = _busy(node)
        for _ in range(SECONDS):
            load.expect('^{"second":')
        truth = [(now[0] - then[0]) / (now[1] - then[1]) for now, then in zip(_busy(node), before)]
        shown = _show(browser)
        print("the engines were busy for %s; the page shows %s" % (truth, shown))
        wrong = _wrong_times(shown, truth)
        if not wrong:
            return
    t.check(False, "\n".join(wrong))


def _wrong_times(shown, truth):
    wanted = {"first": 0, "second": 0, "left": truth[0] / 2, "right": truth[0] / 2, "third": truth[1]}
    got = {one["name"]: one["busy"] for one in shown["slices"]}
    pairs = [(name, got.get(name), part) for name, part in wanted.items()]
    pairs += [("a GPU", gpu["busy"], part) for gpu, part in zip(shown["gpus"], truth)]
    return ["%s: %s, not %s" % (name, one, part) for name, one, part in pairs
            if one is None or abs(one - part) > NEAR]


def looks():
    """The page with answers that it is given, at the widths of a desk and of a phone: nothing overlaps or
    is cut off, keys reach each slice, axe finds nothing, the policy is kept, and names that tenants
    chose are words. Screenshots are in build/screens."""
    need_browser()
    os.makedirs(SCREENS, exist_ok=True)
    with t.Node() as node, Exporter(node) as exporter:
        need_page(exporter)
        url = "http://127.0.0.1:%d/" % exporter.port
        t.command("node", "check/looks.mjs", url, os.path.abspath(SCREENS), cwd=SOURCE)


CASES = {"logic": logic, "access": access, "idle": idle, "tls": tls, "figures": figures, "looks": looks}

if __name__ == "__main__":
    isolation.main(CASES, outside=("logic",))
