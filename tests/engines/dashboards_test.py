"""The dashboards of deploy/grafana and the alerts of deploy/prometheus, against a Prometheus that scrapes
cgpu-exporter. Cases by name, see tests/lib/cgpu_test.py."""
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import cgpu_test as t
import isolation
from exporter_test import Exporter, free_port, own_registry

DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy")
PAGE = os.path.join(DEPLOY, "../docs/howto/metrics.md")
RULES = DEPLOY + "/prometheus/rules.yml"
RMTOOL = os.path.abspath(os.path.join(t.BIN, "rmtool"))
BURN = os.path.abspath(os.path.join(t.BIN, "cgpu-burn"))
TIMER_GET_TIME = 0x20800403  # NV2080_CTRL_CMD_TIMER_GET_TIME, by which the exporter asks for health
WIDTH = 100


def need(program):
    if shutil.which(program) is None:
        t.skip("no %s on this machine (package prometheus)" % program)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def dashboards():
    found = {path: json.loads(read(path)) for path in sorted(glob.glob(DEPLOY + "/grafana/*.json"))}
    t.check(len(found) == 3, "dashboards: %s" % list(found))
    return found


def formatted(value, indent=0, room=WIDTH):
    """JSON with sorted keys: on one line if it fits, else with a line for each member."""
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or indent + len(line) <= room:
        return line
    inner = indent + 2
    if isinstance(value, dict):
        members = ['"%s": %s' % (key, formatted(value[key], inner, room - len(key) - 4))
                   for key in sorted(value)]
    else:
        members = [formatted(one, inner, room) for one in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return begin + ",".join("\n" + " " * inner + one for one in members) + "\n" + " " * indent + end


def _check_panels(path, board):
    """Panels have a description and a unit, and lie side by side on Grafana's 24 columns."""
    taken = set()
    t.check(len({panel["id"] for panel in board["panels"]}) == len(board["panels"]), path)
    for panel in board["panels"]:
        where = "%s: %s" % (path, panel["title"])
        t.check(panel["description"].endswith("."), where + " has no description")
        t.check(panel["fieldConfig"]["defaults"]["unit"], where + " has no unit")
        t.check(panel["datasource"]["uid"] == "${datasource}", where + " has its own data source")
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        t.check(place["x"] + place["w"] <= 24 and not cells & taken, where + " lies on another")
        taken |= cells


def written():
    """Dashboards are written in one way. Each alert has tests, and a paragraph that says what to do."""
    need("promtool")
    for path, board in dashboards().items():
        text = formatted(board) + "\n"
        if os.environ.get("CGPU_WRITE_TESTDATA"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        t.check(read(path) == text, path + ": CGPU_WRITE_TESTDATA=1 writes it as it has to be")
        _check_panels(path, board)
    rules = read(RULES)
    names = re.findall("alert: (.*)", rules)
    anchors = {re.sub("[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
               for title in re.findall("(?m)^#+ (.*)$", read(PAGE))}
    for name, alert in zip(names, rules.split("  - alert: ")[1:], strict=True):
        (link,) = re.findall("runbook: docs/howto/metrics.md#(.*)", alert)
        t.check(link == name.lower() and link in anchors, "%s: no heading #%s" % (name, link))
        t.check("summary: " in alert and "$value" in alert, "%s says too little" % name)
    tests = DEPLOY + "/prometheus/rules_test.yml"
    for name in names:
        cases = re.findall("alertname: %s\n *exp_alerts:(.*)" % name, read(tests))
        t.check({case.strip() for case in cases} == {"", "[]"}, "%s: it is to fire, and not to" % name)
    print(t.command("promtool", "test", "rules", tests))


class Prometheus:
    """Asks these targets each `every` seconds: `with Prometheus(targets) as prometheus`. `targets`: ports
    by name. It has our rules, with a few seconds for minutes and for a day: rules_test.yml has the times."""

    def __init__(self, targets, every=2):
        self._port = free_port()
        self._folder = tempfile.TemporaryDirectory()
        folder = self._folder.name
        self._argv = ["prometheus", "--config.file=%s/prometheus.yml" % folder, "--log.level=warn",
                      "--storage.tsdb.path=%s/data" % folder,
                      "--web.listen-address=127.0.0.1:%d" % self._port]
        with open(folder + "/rules.yml", "w", encoding="utf-8") as file:
            rules = re.sub(r"\[\d+m\]", "[10s]", re.sub(r"for: \d+m", "for: 2s", read(RULES)))
            file.write(rules.replace("< 600", "< 10").replace("> 86400", "> 10"))
        with open(folder + "/prometheus.yml", "w", encoding="utf-8") as file:
            json.dump({
                "global": {"scrape_interval": "%ds" % every, "evaluation_interval": "1s"},
                "rule_files": ["rules.yml"],
                "scrape_configs": [{"job_name": "cgpu", "honor_labels": True, "static_configs": [
                    {"targets": ["127.0.0.1:%d" % port], "labels": {"instance": name}}
                    for name, port in targets.items()]}]}, file)

    def __enter__(self):
        self._process = t.Process(self._argv)
        t.wait_for(self._is_ready, "Prometheus does not get ready")
        return self

    def __exit__(self, *_):
        self._process.popen.send_signal(signal.SIGTERM)
        self._process.wait()
        self._folder.cleanup()

    def _is_ready(self):
        t.check(self._process.popen.poll() is None, "Prometheus ended")
        with contextlib.suppress(urllib.error.URLError):
            return bool(self.ask("query", query="vector(1)"))
        return False

    def ask(self, path, **words):
        url = "http://127.0.0.1:%d/api/v1/%s?%s" % (self._port, path, urllib.parse.urlencode(words))
        try:
            with urllib.request.urlopen(url, timeout=t.DEADLINE) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise t.Failure("%s: %s" % (words, error.read().decode())) from None
            raise

    def query(self, expression):
        """The series, without those that are no number."""
        return [one for one in self.ask("query", query=expression)["result"]
                if one["value"][1] != "NaN"]

    def alerts(self):
        """Those that have fired, as (name, container or GPU or instance)."""
        return {(labels["alertname"], labels.get("container_id", labels.get("uuid", labels["instance"])))
                for labels in (one["metric"] for one in self.query(
                    'last_over_time(ALERTS{alertstate="firing"}[1h])'))}


def queries(board):
    """All queries of a dashboard, with everything selected, and the labels that it shows of the results;
    by the panel's or the variable's name."""
    found = {}
    for panel in board["panels"]:
        for target in panel["targets"]:
            found["%s %s" % (panel["title"], target["refId"])] = (
                target["expr"], re.findall(r"{{(\w+)}}", target["legendFormat"]))
    variables = {one["name"]: one for one in board["templating"]["list"] if one["type"] == "query"}
    for name, variable in variables.items():
        selector, label = re.fullmatch(r"\w+\((.*?)(?:, (\w+))?\)", variable["query"]).groups()
        shown = [label] if label else re.findall(r'(\w+)="\(', variable["regex"])
        found["variable " + name] = (selector, shown)
    for name, (expression, labels) in found.items():
        expression = expression.replace("$__rate_interval", "10s").replace("$__range", "20s")
        for variable in variables:
            expression = expression.replace('"$%s"' % variable, '".*"')
        t.check("$" not in expression, "%s: %s" % (name, expression))
        found[name] = (expression, labels)
    return found


def _check_names(shown, expressions):
    """No query asks for a metric that cgpu-exporter does not have."""
    metrics = set(re.findall("^# TYPE ([^ ]+)", shown, re.M))
    for expression in expressions:
        asked = set(re.findall(r"\bcgpu_\w+", expression))
        unknown = {re.sub("_bucket$", "", name) for name in asked} - metrics
        t.check(not unknown and (asked or "up{" in expression), "%s: %s" % (expression, unknown))


def _run(node, name, argv, mem, *flags):
    return node.run(argv, mem=mem, name=name, flags=("--name", name, *flags))


def _start(node):
    """Containers on two GPUs. They are throttled, idle, refused a call, and at the memory limit."""
    t.command(t.CGPU, "policy", "0", "fixed", "--node", node.name)
    script = '"$0" raw ioctl 0x38 0 --file uvm --type 0 --dir 0; while read line; do "$0" info >/dev/null; done'
    on = {gpu: ("--gpus", "device=%d" % gpu) for gpu in (0, 1)}
    caller = _run(node, "caller", ["sh", "-c", script, RMTOOL], "1024MiB", *on[0], "--compute", "10")
    _run(node, "idle", [RMTOOL, "hold", "500"], "4096MiB", *on[0], "--compute", "10")
    too_much = ["sh", "-c", '"$0" alloc 15800; exec "$0" hold 15500', RMTOOL]
    full = _run(node, "full", too_much, "15700MiB", *on[1])
    busy = _run(node, "busy", [BURN, "--json", "--kernel-us", "10000"], "48MiB", *on[0], "--compute", "30")
    busy.expect('^{"gpu":')
    full.expect("^holding ")
    t.wait_for(lambda: len(node.containers()) == 4, "not all containers are there")
    return caller


@contextlib.contextmanager
def _cgpud(node):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("node: %s\n" % node.name)
        file.flush()
        daemon = t.Process([os.path.join(t.BIN, "cgpud"), "--config", file.name])
        t.wait_for(lambda: os.path.exists("/run/cgpu/cgpud.sock"), "cgpud does not listen")
        yield
        daemon.kill()


def _put_into_pod(container):
    """Makes the registry say that the container is of a pod."""
    uid = "01234567-89ab-cdef-0123-456789abcdef"
    path = "/run/cgpu/%s.grant" % container
    grant = re.sub("(?m)^(since .*)$", r"\1\npod %s\ncontainer main" % uid, read(path))
    os.makedirs("/run/cgpu/pods", 0o700, exist_ok=True)
    pod = {"namespace": "ml", "name": "train-0", "gpus": [], "containers": {}}
    for name, text in (("/run/cgpu/pods/" + uid, json.dumps(pod)), (path, grant)):
        with open(name + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(name + ".new", name)


def _wait_for_data(prometheus, caller, wanted):
    """Waits until each query has results, with the labels that the dashboard shows."""
    missing = dict(wanted)

    def are_there():
        caller.say("call")
        for name, (expression, labels) in list(missing.items()):
            results = [one["metric"] for one in prometheus.query(expression)]
            if results and all(any(label in one for one in results) for label in labels):
                del missing[name]
        return not missing
    t.wait_for(are_there, lambda: "no data: %s" % missing)


def _shim(container):
    """The process that answers for the container."""
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("r") as lines:
        connection.connect("/run/cgpu/%s.sock" % container)
        connection.sendall(b"ps\n")
        return int(next(line for line in lines if line.startswith("shim ")).split()[1])


def _check_lost(node, exporter, container, uuids):
    """Alerts when GPUs give no answer, and when a shim gives none: a scrape takes longer then."""
    shim = _shim(container)
    os.kill(shim, signal.SIGSTOP)
    node.hold(len(uuids), control=TIMER_GET_TIME)
    with Prometheus({"here": exporter.port}, every=5) as prometheus:
        lost = {("CgpuShimLost", "here"), *(("CgpuGpuUnhealthy", uuid) for uuid in uuids)}
        t.wait_for(lambda: lost <= prometheus.alerts(),
                   lambda: "fired: %s" % sorted(prometheus.alerts()))
    os.kill(shim, signal.SIGCONT)
    node.release()


def loaded():
    """Each query of each panel has data, and the alerts that fire are those of the load."""
    need("prometheus")
    own_registry()
    shown = {"%s: %s" % (os.path.basename(path), name): query
             for path, board in dashboards().items() for name, query in queries(board).items()}
    with t.Node("v100-16g:2") as node, _cgpud(node), Exporter(node) as exporter, \
            socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        uuids = [gpu["uuid"] for gpu in node.info()["gpus"]]
        with Prometheus({"here": exporter.port, "nobody": nobody.getsockname()[1]}) as prometheus:
            caller = _start(node)
            ids = {one["name"]: one["id"] for one in node.containers()}
            _put_into_pod(ids["caller"])
            (group,) = prometheus.ask("rules")["groups"]
            _check_names(exporter.text(), [expression for expression, _ in shown.values()] +
                         [rule["query"] for rule in group["rules"]])
            _wait_for_data(prometheus, caller, shown)
            load = {("CgpuGpuNearlyFull", uuids[1]), ("CgpuContainerNearLimit", ids["full"]),
                    ("CgpuMemoryRefused", ids["full"]), ("CgpuContainerThrottled", ids["busy"]),
                    ("CgpuCallsRefused", ids["caller"]), ("CgpuExporterSilent", "nobody"),
                    ("CgpuGrantUnused", ids["idle"]), ("CgpuGrantUnused", ids["caller"])}
            t.wait_for(lambda: prometheus.alerts() == load,
                       lambda: "only expected or fired: %s" % sorted(prometheus.alerts() ^ load))
        _check_lost(node, exporter, ids["idle"], uuids)


CASES = {"written": written, "loaded": loaded}

if __name__ == "__main__":
    isolation.main(CASES, outside=("written",))
