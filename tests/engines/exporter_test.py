"""cgpu-exporter shows Prometheus what the driver's accounting says. Cases by name, see
tests/lib/cgpu_test.py."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile

import cgpu_test as t
import isolation
from upgrading import NEXT, OWN, upgrade

# Debian's python3-prometheus-client, whichever Python runs this.
sys.path.append("/usr/lib/python3/dist-packages")
try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    t.skip("no parser on this machine (package python3-prometheus-client)")

RMTOOL = os.path.abspath(os.path.join(t.BIN, "rmtool"))
BURN = os.path.abspath(os.path.join(t.BIN, "cgpu-burn"))
TOKEN = "0123456789abcdef0123456789abcdef"
IDLE_CLIENTS = 100
PAGE = os.path.join(os.path.dirname(__file__), "../../docs/howto/metrics.md")


def own_registry():
    """A registry without other tests' containers."""
    os.makedirs("/run/cgpu", exist_ok=True)
    t.command("mount", "-t", "tmpfs", "-o", "mode=711", "tmpfs", "/run/cgpu")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Exporter:
    """A cgpu-exporter for this node: `with Exporter(node) as exporter`. `tls`: it speaks TLS."""

    def __init__(self, node, settings="", listen="127.0.0.1", tls=False):
        self.port = free_port()
        self._tls = ssl._create_unverified_context() if tls else None  # by itself it trusts nobody
        self._settings = ("node: %s\nexporter_listen: %s:%d\n" % (node.name, listen, self.port) +
                          settings)

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        path = os.path.join(self._folder.name, "config.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._settings)
        self.process = t.Process([os.path.join(t.BIN, "cgpu-exporter"), "--config", path])
        t.wait_for(self._listens, "cgpu-exporter does not listen")
        return self

    def __exit__(self, *_):
        self.process.popen.send_signal(signal.SIGTERM)
        status = self.process.wait()
        self._folder.cleanup()
        t.check(status == 0, "cgpu-exporter ended with %d" % status)

    def _listens(self):
        t.check(self.process.popen.poll() is None, "cgpu-exporter ended")
        with contextlib.suppress(ConnectionRefusedError):
            return self.ask("GET", "/healthz")[0] == 200
        return False

    def connection(self):
        if self._tls:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=t.DEADLINE,
                                               context=self._tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=t.DEADLINE)

    def ask(self, method, path, headers=None, body=None):
        """Status and text of an answer."""
        return self.answer(method, path, headers, body)[::2]

    def answer(self, method, path, headers=None, body=None):
        """Status, headers and text of an answer."""
        with contextlib.closing(self.connection()) as connection:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def text(self, headers=None):
        status, text = self.ask("GET", "/metrics", headers)
        t.check(status == 200, "/metrics answers %d: %s" % (status, text))
        return text.decode()

    def scrape(self):
        return Scrape(self.text())


class Scrape:
    """A scrape, as Prometheus' own client reads it."""

    def __init__(self, text):
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def all(self, name, /, **labels):
        return [sample for sample in self.samples if sample.name == name and
                all(sample.labels.get(key) == value for key, value in labels.items())]

    def value(self, name, /, **labels):
        found = self.all(name, **labels)
        t.check(len(found) == 1, "%s%s is there %d times" % (name, labels, len(found)))
        return found[0].value

    def id_of(self, name):
        (info,) = self.all("cgpu_container_info", name=name)
        return info.labels["container_id"]


LINT_FAULTS = 3  # promtool's status where the text is sound


def promtool(text):
    """Checks the text as Prometheus does."""
    if shutil.which("promtool") is None:
        t.skip("no promtool on this machine (package prometheus)")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                          capture_output=True, check=False)
    # DCGM's labels are as they are.
    faults = [line for line in (done.stdout + done.stderr).splitlines()
              if line and not re.match("DCGM_.* label names .* not 'camelCase'$", line)]
    t.check(done.returncode in (0, LINT_FAULTS) and not faults, "promtool: %s" % faults)


def hold(node, name, mib, gpu, mem="4096MiB"):
    process = node.run([RMTOOL, "hold", str(mib)], mem=mem, name=name,
                       flags=("--name", name, "--gpus", "device=%d" % gpu))
    process.expect("^holding %d MiB$" % mib)
    return process


def memory():
    """Bytes, of containers, of other processes and of GPUs; series end with their container."""
    own_registry()
    with t.Node("v100-16g:2") as node, Exporter(node) as exporter:
        uuids = [gpu["uuid"] for gpu in node.info()["gpus"]]
        promtool(exporter.text())
        first, second = hold(node, "first", 100, 0), hold(node, "second", 300, 1)
        plain = node.exec([RMTOOL, "hold", "50"], name="plain")
        plain.expect("^holding 50 MiB$")
        text = exporter.text()
        promtool(text)
        scrape = Scrape(text)
        node.sync()
        for gpu, uuid in enumerate(uuids):
            t.check(scrape.value("cgpu_gpu_memory_used_bytes", uuid=uuid) == node.used(gpu),
                    "GPU %d: %s, not %d" % (gpu, scrape.all("cgpu_gpu_memory_used_bytes"),
                                            node.used(gpu)))
        (info,) = scrape.all("cgpu_gpu_info", uuid=uuids[1])
        t.check(info.labels["gpu"] == "1" and "V100" in info.labels["model"] and
                info.labels["pci"] == node.info()["gpus"][1]["bdf"], "it is called %s" % info.labels)
        _check_containers(node, scrape)
        _check_sums(scrape, uuids)
        other = scrape.value("cgpu_unmanaged_memory_used_bytes", uuid=uuids[0])
        t.check(other >= 50 * t.MIB and
                scrape.value("cgpu_unmanaged_processes", uuid=uuids[0]) == 1 and
                scrape.value("cgpu_unmanaged_memory_used_bytes", uuid=uuids[1]) == 0,
                "other processes hold %d" % other)
        ended = scrape.id_of("first")
        first.end()
        t.wait_for(lambda: len(node.containers()) == 1, "the container does not end")
        scrape = exporter.scrape()
        t.check(not [s for s in scrape.samples if s.labels.get("container_id") == ended],
                "there are series of a container that has ended")
        t.check(scrape.value("cgpu_containers") == 1, "it counts %s" % scrape.all("cgpu_containers"))
        second.end()
        plain.end()


def _check_containers(node, scrape):
    """The figures of each container are those of its shim."""
    for container in node.containers():
        (gpu,) = container["gpus"]
        labels = {"container_id": container["id"], "uuid": gpu["uuid"]}
        for metric, key in (("limit_bytes", "limit_bytes"), ("used_bytes", "used_bytes"),
                            ("peak_bytes", "peak_bytes"), ("refused_total", "denied")):
            got = scrape.value("cgpu_container_memory_" + metric, **labels)
            t.check(got == gpu[key], "%s of %s is %s, not %s" % (metric, container["name"], got, gpu))


def _check_sums(scrape, uuids):
    """Bytes that containers and other processes hold are what the driver says is used."""
    for uuid in uuids:
        parts = [s.value for s in scrape.all("cgpu_container_memory_used_bytes", uuid=uuid)]
        parts += [scrape.value("cgpu_unmanaged_memory_used_bytes", uuid=uuid)]
        whole = scrape.value("cgpu_gpu_memory_used_bytes", uuid=uuid)
        t.check(sum(parts) == whole, "GPU %s: %s are not %d" % (uuid, parts, whole))


def _escaped(raw):
    """A word as the registry's files have it (src/base/words.h)."""
    return b"".join(b"%c" % byte if 0x20 < byte < 0x7f and byte != 0x25 else b"%%%02x" % byte
                    for byte in raw)


def _series(scrape):
    """All series, without the labels that the container's names are in."""
    return sorted((s.name, *sorted((key, value) for key, value in s.labels.items()
                                   if key not in ("container", "engine_id")))
                  for s in scrape.samples)


def hostile():
    """Names that a container engine gives a container add no series, whatever they are."""
    names = (b'a"} 1\ncgpu_containers 99\n#', b"q" * 1000, b"b\\", b"c\xff\xfe", b"d\r\x1b[31m",
             b'e{x="y"}', b"f\x00g", b"h\xc3")
    own_registry()
    with t.Node() as node, Exporter(node) as exporter:
        first = hold(node, "first", 10, 0)
        before = _series(exporter.scrape())
        path, text = _only_grant()
        grant = text.encode()
        for name in names:
            word = _escaped(name)
            _replace(path, re.sub(rb"(?m)^(since .*)$", lambda line: line.group() + b"\nengine " +
                                  word + b"\ncontainer " + word, grant).decode())
            text = exporter.text()
            promtool(text)
            scrape = Scrape(text)
            t.check(_series(scrape) == before, "%r: %s" % (name, text))
            (info,) = scrape.all("cgpu_container_info")
            for label in ("engine_id", "container"):
                shown = info.labels[label]
                t.check(shown[0].encode() == name[:1] and len(shown.encode()) <= 256,
                        "it shows %r" % shown)
        _replace(path, grant.decode())
        first.end()


def _only_grant():
    """Path and text of the one grant in the registry."""
    (path,) = [entry.path for entry in os.scandir("/run/cgpu") if entry.name.endswith(".grant")]
    with open(path, encoding="ascii") as file:
        return path, file.read()


def _replace(path, text):
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.rename(path + ".new", path)


def pods():
    """The series of a pod's container have the names that the grant of the pod has."""
    uid = "01234567-89ab-cdef-0123-456789abcdef"
    own_registry()
    with t.Node() as node, Exporter(node, "exporter_dcgm: true\n") as exporter:
        held = hold(node, "held", 10, 0)
        path, grant = _only_grant()
        _replace(path, re.sub("(?m)^(since .*)$", r"\1\npod %s\ncontainer main" % uid, grant))
        os.mkdir("/run/cgpu/pods", 0o700)
        with open("/run/cgpu/pods/" + uid, "w", encoding="utf-8") as file:
            json.dump({"namespace": "ml", "name": "train-0", "gpus": [], "containers": {}}, file)
        text = exporter.text()
        promtool(text)
        (container,) = node.containers()
        wanted = {"namespace": "ml", "pod": "train-0", "container": "main"}
        scrape = Scrape(text)
        series = [s for s in scrape.samples if s.labels.get("container_id") == container["id"]]
        series += scrape.all("DCGM_FI_DEV_FB_USED", pod_uid=uid)
        t.check(len(series) > 10, "only %s" % series)
        for sample in series:
            t.check(wanted.items() <= sample.labels.items(), "%s" % (sample,))
        used = scrape.value("DCGM_FI_DEV_FB_USED", pod="train-0")
        t.check(used * t.MIB == container["gpus"][0]["used_bytes"], "%s: %s" % (used, container))
        _replace(path, grant)
        held.end()


def _resident(exporter):
    with open("/proc/%d/statm" % exporter.process.popen.pid, encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


FB_INFO = 0x20801303  # NV2080_CTRL_CMD_FB_GET_INFO_V2

ROUNDS, EACH = 40, 250
# An allocator does not give back every page. The texts of all containers are ten times as much.
MORE_MEMORY = 4 * t.MIB


def crowd():
    """10,000 containers that come and go leave neither series nor memory. They are further names of the
    socket of a real one."""
    own_registry()
    with t.Node() as node, Exporter(node) as exporter:
        held = hold(node, "held", 10, 0)
        path, grant = _only_grant()
        before = _series(exporter.scrape())
        for number in range(ROUNDS):
            ids = ["%012x" % (number * EACH + place) for place in range(EACH)]
            for one in ids:
                os.link(path.replace(".grant", ".sock"), "/run/cgpu/%s.sock" % one)
                _replace("/run/cgpu/%s.grant" % one, re.sub("(?m)^id .*$", "id " + one, grant))
            text = exporter.text()
            t.check("\ncgpu_containers %d\n" % (EACH + 1) in text, "not all are there")
            for one in ids:
                os.remove("/run/cgpu/%s.sock" % one)
                os.remove("/run/cgpu/%s.grant" % one)
            if number == 0:
                first = _resident(exporter)
        t.check(_series(exporter.scrape()) == before, "there are other series than before")
        last = _resident(exporter)
        print("%d KiB after %d containers, %d KiB after all" % (first >> 10, EACH, last >> 10))
        t.check(last - first <= MORE_MEMORY, "it takes %d bytes more" % (last - first))
        held.end()


def hung():
    """A GPU whose driver does not answer keeps nobody from a scrape."""
    with t.Node("v100-16g:2") as node, Exporter(node) as exporter:
        uuids = [gpu["uuid"] for gpu in node.info()["gpus"]]
        t.check(exporter.scrape().value("cgpu_gpu_memory_used_bytes", uuid=uuids[0]) >= 0, "")
        node.hold(1, control=FB_INFO)
        scrape = exporter.scrape()
        node.wait_held(1)
        known = [uuid for uuid in uuids if scrape.all("cgpu_gpu_memory_used_bytes", uuid=uuid)]
        t.check(len(known) == 1 and len(scrape.all("cgpu_gpu_healthy")) == 2, "it knows %s" % known)
        node.release()
        t.wait_for(lambda: len(exporter.scrape().all("cgpu_gpu_memory_used_bytes")) == 2,
                   "the GPU does not come back")


def requests():
    """GET and HEAD of a few paths, a token where one is asked for, and nothing else."""
    with t.Node() as node:
        with Exporter(node) as exporter:
            for method, path, status in (("GET", "/healthz", 200), ("GET", "/metrics", 200),
                                         ("GET", "/", 200), ("GET", "/metrics/", 404),
                                         ("GET", "/metrics%00", 404), ("POST", "/metrics", 405),
                                         ("HEAD", "/metrics", 200), ("DELETE", "/metrics", 405),
                                         ("PUT", "/healthz", 405), ("OPTIONS", "/x", 404)):
                got = exporter.ask(method, path, body=b"x" * 1000 if method == "POST" else None)[0]
                t.check(got == status, "%s %s is answered %d, not %d" % (method, path, got, status))
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(TOKEN + "\n")
            file.flush()
            with Exporter(node, "exporter_token_file: %s\n" % file.name) as exporter:
                t.check(exporter.ask("GET", "/healthz")[0] == 200, "/healthz needs a token")
                for token in (None, TOKEN[:-1], TOKEN + "0", TOKEN.upper()):
                    headers = {"Authorization": "Bearer " + token} if token else {}
                    status, text = exporter.ask("GET", "/metrics", headers)
                    t.check(status == 401 and b"cgpu_" not in text, "%s: %d" % (token, status))
                exporter.text({"Authorization": "Bearer " + TOKEN})


def public():
    """An address that other hosts reach is refused without a token, and so is one that is none."""
    with t.Node() as node, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.yaml")
        for listen, said in (("0.0.0.0:9400", "no token is asked for"),
                             ("'[::]:9400'", "no token is asked for"),
                             ("localhost:9400", "is no IP address with a port")):
            with open(path, "w", encoding="utf-8") as file:
                file.write("node: %s\nexporter_listen: %s\n" % (node.name, listen))
            done = t.command(os.path.join(t.BIN, "cgpu-exporter"), "--config", path, ok=False)
            t.check(done.returncode == 1 and said in done.stderr,
                    "%s: %d, %s" % (listen, done.returncode, done.stderr))


@contextlib.contextmanager
def idle_clients(exporter, path):
    """Clients that say nothing, and as many that do not end their request."""
    with contextlib.ExitStack() as stack:
        for number in range(IDLE_CLIENTS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", exporter.port)))
            if number % 2:
                client.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n" % path.encode())
        yield


def idle():
    """Clients that say nothing, or not all, keep nobody from a scrape."""
    with t.Node() as node, Exporter(node) as exporter, idle_clients(exporter, "/metrics"):
        promtool(exporter.text())


SCRAPERS, MORE = 4, 8  # seconds of use that are counted meanwhile


def stranger():
    """Shims that the registry does not know, yet or any more, hold up no scrape, and nobody who wants
    the registry's lock."""
    own_registry()
    with t.Node("a10:1", "580") as node, Exporter(node) as exporter:
        uuid = node.info()["gpus"][0]["uuid"]
        held = [hold(node, "held%d" % number, 10, 0, mem="100MiB") for number in range(4)]
        names = set(os.listdir("/run/cgpu"))
        loads = [node.run([BURN, "--json"], mem="100MiB", name="load%d" % number) for number in (0, 1)]
        for load in loads:
            load.expect('^{"gpu":')
        hidden = [name for name in set(os.listdir("/run/cgpu")) - names
                  if name.endswith((".grant", ".sock"))]
        t.check(len(hidden) == 4, "they have %s" % hidden)
        os.mkdir("/run/cgpu/hidden", 0o700)
        for name in hidden:
            os.rename("/run/cgpu/" + name, "/run/cgpu/hidden/" + name)

        def busy():
            return exporter.scrape().value("cgpu_gpu_busy_seconds_total", uuid=uuid)

        until = busy() + MORE

        def scrape_until():
            while busy() < until:
                pass

        with concurrent.futures.ThreadPoolExecutor(SCRAPERS) as pool:
            for one in [pool.submit(scrape_until) for _ in range(SCRAPERS)]:
                one.result()
        for name in hidden:
            os.rename("/run/cgpu/hidden/" + name, "/run/cgpu/" + name)
        t.check(len(node.containers()) == 6, "a container is lost")
        for process in held:
            process.end()
        for load in loads:
            load.kill()


# Two that always have work, and one with pauses. `plain` is in no container.
LOADS = {"full": (), "bursts": ("--duty", "50", "--period-ms", "100"), "plain": ()}
SECONDS = 4
KEPT_SECONDS, READS_EVERY = 10, 0.4  # of samples; the time between two readings, and a sample's
# Where some have pauses, the counts of each are estimates (docs/explanation/compute.md); their sum is none.
NEAR, NEAR_TOGETHER = 0.03, 0.005  # parts of the engine's time


def _start(node, name, words):
    """A load that begins at a word, and takes each further one for a signal and repeats it; and the
    process that its channels are of for the driver."""
    script = 'read begin; "$0" "$@" & while read signal; do kill -$signal $!; echo $signal; done'
    argv = ["sh", "-c", script, BURN, "--json", *words]
    before = {group["pid"] for group in t.groups(node.books()["gpus"][0])}
    process = (node.exec(argv, name=name) if name == "plain" else
               node.run(argv, name=name, flags=("--name", name)))
    process.say("begin")
    process.expect('^{"gpu":')
    (owner,) = {group["pid"] for group in t.groups(node.books()["gpus"][0])} - before
    return process, owner


def _signal(process, name):
    process.say(name)
    process.expect("^%s$" % name)


def _counts(scrape, uuid):
    got = {name: scrape.value("cgpu_container_busy_seconds_total", uuid=uuid,
                              container_id=scrape.id_of(name))
           for name in LOADS if name != "plain"}
    got["plain"] = scrape.value("cgpu_unmanaged_busy_seconds_total", uuid=uuid)
    return got, scrape.value("cgpu_gpu_busy_seconds_total", uuid=uuid)


def _engine(node):
    """The accounting of the GPU's engine: seconds of each process, and of all."""
    books = node.books()
    times = {}
    for group in t.groups(books["gpus"][0]):
        times[group["pid"]] = times.get(group["pid"], 0) + t.use_ns(books, group) / 1e9
    return times, sum(times.values())


def _settled(node):
    """The same once what was queued has run."""
    seen = []

    def quiet():
        engine = t.graphics(node.books()["gpus"][0])
        seen.append((engine["busy_ns"], engine["idle_ns"]))
        return len(seen) > 1 and seen[-2][0] == seen[-1][0] and seen[-2][1] < seen[-1][1]
    t.wait_for(quiet, "the loads go on")
    return _engine(node)


def _gaps(scrape, uuid):
    """How often the exporter read too late, on a machine without time for it. It then says less than was."""
    return scrape.value("cgpu_gpu_measuring_gaps_total", uuid=uuid)


def _check_counts(got, busy, times, together):
    t.check(abs(busy - together) <= NEAR_TOGETHER * together, "%.3f s, not %.3f" % (busy, together))
    for name in got:
        t.check(abs(got[name] - times[name]) <= NEAR * together,
                "%s had %.3f s, not %.3f" % (name, got[name], times[name]))


def _counted(meanwhile, upgrades=0):
    """Runs the loads and compares. `meanwhile` returns how many seconds the exporter may miss, if any."""
    own_registry()
    with t.Node("a10:1", "580") as node, Exporter(node) as exporter:
        uuid = node.info()["gpus"][0]["uuid"]
        t.check(exporter.scrape().value("cgpu_gpu_busy_seconds_total", uuid=uuid) == 0,
                "it was busy before the loads")
        loads = {name: _start(node, name, words) for name, words in LOADS.items()}
        lacks = meanwhile(node, exporter, {name: process for name, (process, _) in loads.items()}) or 0
        for process, _ in loads.values():
            _signal(process, "STOP")
        times, together = _settled(node)

        def all_counted():
            scrape = exporter.scrape()
            return (_counts(scrape, uuid)[1] >= (1 - NEAR_TOGETHER) * together - lacks or
                    not lacks and _gaps(scrape, uuid) > 0)
        t.wait_for(all_counted,
                   lambda: "%s; the engine %s" % (_counts(exporter.scrape(), uuid), _engine(node)))
        scrape = exporter.scrape()
        got, busy = _counts(scrape, uuid)
        times = {name: times[owner] for name, (_, owner) in loads.items()}
        print("counted %s, together %.3f s; the engine %s; gaps %d" %
              (got, busy, times, _gaps(scrape, uuid)))
        t.check(abs(sum(got.values()) - busy) < 1e-6, "they are not %.6f s" % busy)
        t.check(busy <= (1 + NEAR_TOGETHER) * together, "%.3f s, not %.3f" % (busy, together))
        if _gaps(scrape, uuid) == 0:
            _check_counts(got, busy, times, together)
        made = scrape.value("cgpu_container_upgrades_total", container_id=scrape.id_of("full"))
        t.check(made == upgrades, "%d upgrades, not %d" % (made, upgrades))
        for process, _ in loads.values():
            _signal(process, "KILL")
            process.end()


def used():
    """Seconds of use of two containers and another process, by what their loads have done."""
    def wait(_node, _exporter, processes):
        for process in processes.values():
            process.expect('^{"second":%d,' % SECONDS)
    _counted(wait)


def restarted():
    """The same while cgpud is killed and started again."""
    def kill_cgpud(node, exporter, processes):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("node: %s\n" % node.name)
            file.flush()
            for _ in range(3):
                daemon = t.Process([os.path.join(t.BIN, "cgpud"), "--config", file.name])
                t.wait_for(lambda: os.path.exists("/run/cgpu/cgpud.sock"), "cgpud does not listen")
                daemon.kill()
                os.remove("/run/cgpu/cgpud.sock")
        for process in processes.values():
            process.expect('^{"second":%d,' % SECONDS)
    _counted(kill_cgpud)


def starved():
    """An exporter that gets no processor time for longer than the driver keeps samples: it says that it
    missed some, and misses no more than it must."""
    def stop(node, exporter, _):
        uuid = node.info()["gpus"][0]["uuid"]

        def passed():
            return t.counted_ns(t.graphics(node.books()["gpus"][0])) / 1e9
        t.check(_gaps(exporter.scrape(), uuid) == 0, "it missed some before")
        begin = passed()
        exporter.process.popen.send_signal(signal.SIGSTOP)
        t.wait_for(lambda: passed() - begin >= KEPT_SECONDS + 2, "the GPU's time stands still")
        exporter.process.popen.send_signal(signal.SIGCONT)
        t.wait_for(lambda: _gaps(exporter.scrape(), uuid) > 0, "it does not say that it missed some")
        return passed() - begin - KEPT_SECONDS + READS_EVERY
    _counted(stop)


# Loads that work, one phase after another; each is as long.
PHASES = (("full",), ("full", "bursts"), ("bursts", "plain"), (), ("full", "bursts", "plain"),
          ("plain",), ("bursts",), ("full", "plain"))
CHANGING_SECONDS = float(os.environ.get("CGPU_CHANGING_SECONDS", "8"))


def changing():
    """Seconds and bytes while loads begin and stop, and the shim of one is upgraded in the midst of
    work. No count goes back."""
    def change(node, exporter, processes):
        uuid = node.info()["gpus"][0]["uuid"]
        before, works = {}, set(processes)
        for number, phase in enumerate(PHASES):
            for name in sorted(works ^ set(phase)):
                _signal(processes[name], "CONT" if name in phase else "STOP")
            works = set(phase)
            begin = t.counted_ns(t.graphics(node.books()["gpus"][0]))
            if "full" in works:
                upgrade("full", (NEXT, OWN)[number % 2])
            t.wait_for(lambda: t.counted_ns(t.graphics(node.books()["gpus"][0])) - begin >=
                       CHANGING_SECONDS / len(PHASES) * 1e9, "the GPU's time stands still")
            # A shim holds a few bytes for the moment of an order. The driver answers in KiB.
            t.wait_for(lambda: exporter.scrape().value("cgpu_gpu_memory_used_bytes", uuid=uuid) ==
                       -(-node.used() // 1024) * 1024, "other bytes than the driver's")
            scrape = exporter.scrape()
            _check_containers(node, scrape)
            counts = {(s.name, *sorted(s.labels.items())): s.value for s in scrape.samples
                      if s.name.endswith(("_total", "_count", "_bucket"))}
            back = [key for key in before if counts.get(key, -1) < before[key]]
            t.check(not back, "they go back: %s" % back)
            before = counts
    _counted(change, upgrades=sum("full" in phase for phase in PHASES))


def documented():
    """The page has all metrics, with the labels of their series."""
    own_registry()
    with open(PAGE, encoding="utf-8") as file:
        rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in file
                if re.match(r"\| `(cgpu|DCGM)_", line)]
    pod = {"container_id", "namespace", "pod", "container"}
    of = {"host": set(), "GPU": {"uuid"}, "container": pod, "container on a GPU": pod | {"uuid"}}
    page = {row[0].strip("`"): of[row[1]] | set(re.findall("`(.*?)`", row[2])) if len(row) == 4
            else None for row in rows}
    with t.Node("v100-16g:1") as node, Exporter(node, "exporter_dcgm: true\n") as exporter:
        held = hold(node, "held", 10, 0)
        text = exporter.text()
        promtool(text)
        shown = set(re.findall("^# TYPE ([^ ]+)", text, re.M))
        t.check(shown == set(page), "only here or there: %s" % sorted(shown ^ set(page)))
        for sample in Scrape(text).samples:
            labels = page.get(re.sub("_(bucket|sum|count)$", "", sample.name), page.get(sample.name))
            if labels is not None:
                t.check(set(sample.labels) | ({"le"} & labels) == labels,
                        "%s has %s" % (sample.name, sample.labels))
        (container,) = node.containers()
        series = [s for s in Scrape(text).samples if s.labels.get("container_id") == container["id"]]
        t.check(len(series) <= 40, "%d series of a container" % len(series))
        calls = sum(s.value for s in series if s.name == "cgpu_container_calls_total")
        timed = sum(s.value for s in series
                    if s.name == "cgpu_container_call_duration_seconds_count")
        t.check(calls == timed > 0, "%d calls, %d of them timed" % (calls, timed))
        held.end()


CASES = {"memory": memory, "documented": documented, "pods": pods, "crowd": crowd, "hung": hung,
          "hostile": hostile, "requests": requests, "public": public, "idle": idle,
         "used": used, "restarted": restarted, "starved": starved, "changing": changing, "stranger": stranger}

if __name__ == "__main__":
    isolation.main(CASES)
