"""cgpu smi says what the driver's accounting and /proc say, in the forms of nvidia-smi. Cases by
name, see tests/lib/cgpu_test.py."""
import csv
import io
import os
import re
import signal
import subprocess
import tempfile
import xml.etree.ElementTree

import cgpu_test as t

RMTOOL = os.path.abspath(os.path.join(t.BIN, "rmtool"))
BURN = os.path.abspath(os.path.join(t.BIN, "cgpu-burn"))
GPUS = "v100-16g:1,t4:1,a10:1"
WIDTH = 91
BOARD = ("vbios_version", "inforom.img", "inforom.oem", "inforom.ecc", "inforom.pwr", "pstate")


def smi(node, *words, **options):
    return t.command(t.CGPU, "smi", "--node", node.name, *words, **options)


def rows(text):
    """CSV as a program reads it, by the names in the header."""
    return list(csv.DictReader(io.StringIO(text), skipinitialspace=True))


def query(node, fields, *words):
    return rows(smi(node, "--query-gpu=" + fields, "--format=csv", *words))


def apps(node, *words):
    return rows(smi(node, "--query-compute-apps=pid,process_name,used_memory,gpu_uuid,gpu_name",
                    "--format=csv", *words))


def framed(table):
    """The table, after checking its width."""
    lines = table.splitlines()
    t.check(all(len(line) == WIDTH for line in lines[1:]), "not %d wide:\n%s" % (WIDTH, table))
    return table


def held(process, mib):
    process.expect("^holding %d MiB$" % mib)
    return process


def exe(pid):
    return os.readlink("/proc/%d/exe" % pid)


def all_fields(help_text):
    """Names in a list of fields, without their second names."""
    return [re.match(r"  [* ] ([\w.]+)", line).group(1)
            for line in help_text.splitlines() if re.match(r"  [* ] \S", line)]


def fields():
    """Each field of --query-gpu against the node's file and the driver's accounting."""
    with t.Node(GPUS) as node:
        held(node.exec([RMTOOL, "hold", "300"], name="plain"), 300)
        held(node.run([RMTOOL, "hold", "500"], flags=("--gpus", "device=1"), name="slice"), 500)
        node.sync()
        gpus, books = node.info()["gpus"], node.books()
        names = all_fields(t.command(t.CGPU, "smi", "--help-query-gpu"))
        shown = query(node, ",".join(names))
        t.check(len(shown) == len(gpus) and len(names) > 100, "%d rows" % len(shown))
        for row, gpu, accounted in zip(shown, gpus, books["gpus"]):
            domain, bus, device, _ = re.split("[:.]", gpu["bdf"])
            total, used = (accounted[key] // t.MIB for key in ("memory_bytes", "used_bytes"))
            wanted = {"index": str(gpu["index"]), "count": str(len(gpus)), "uuid": gpu["uuid"],
                      "driver_version": books["driver"], "pci.bus_id": "0000" + gpu["bdf"].upper(),
                      "pci.domain": "0x" + domain, "pci.bus": "0x" + bus.upper(),
                      "pci.device": "0x" + device, "memory.total [MiB]": "%d MiB" % total,
                      "memory.used [MiB]": "%d MiB" % used,
                      "memory.free [MiB]": "%d MiB" % (total - used)}
            t.check(wanted.items() <= row.items(), "%s\nis not\n%s" % (row, wanted))
            t.check(used > 0 or gpu["index"] == 2, "nothing is used: %s" % accounted)
            t.check(None not in row and None not in row.values(), "columns: %s" % row)
            unknown = {"temperature.gpu", "power.draw [W]", "clocks.current.sm [MHz]"}
            t.check({row[name] for name in unknown} == {"[N/A]"}, "figures from nowhere: %s" % row)
        t.check([row["compute_cap"] for row in shown] == ["7.0", "7.5", "8.6"], "%s" % shown)
        boards = [tuple(row[name] for name in BOARD) for row in shown]
        t.check(boards == [(bios, "G000.0000.00.01", "2.0", "6.16", "[N/A]", "P0") for bios in
                           ("88.00.00.00.01", "90.00.00.00.01", "94.00.00.00.01")], "%s" % boards)
        bare = smi(node, "--query-gpu=index,memory.total", "--format=csv,noheader,nounits", "-i",
                   "0000" + gpus[2]["bdf"] + "," + gpus[0]["uuid"])
        totals = [gpu["memory_bytes"] // t.MIB for gpu in books["gpus"]]
        t.check(bare == "0, %d\n2, %d\n" % (totals[0], totals[2]), "-i says: " + bare)
        log = smi(node, "-q", "-d", "MEMORY", "-i", "1")
        t.check("Total                             : %d MiB" % totals[1] in log and
                "Attached GPUs                             : 3" in log and "Product" not in log,
                "-q -d MEMORY says: " + log)
        tree = xml.etree.ElementTree.fromstring(smi(node, "-q", "-x"))
        t.check([gpu.findtext("uuid") for gpu in tree.iter("gpu")] ==
                [gpu["uuid"] for gpu in gpus], "-x lists other GPUs")
        t.check([gpu.findtext("fb_memory_usage/used") for gpu in tree.iter("gpu")] ==
                [row["memory.used [MiB]"] for row in shown], "-x says other figures")


def errors():
    """Memory errors are those of the accounting, and the modes those of the driver."""
    fields = ("index,persistence_mode,mig.mode.current,ecc.mode.current,"
              "ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total")
    with t.Node("v100-16g:1,a100-80g:1") as node:
        node.sim("fault", "--gpu", "1", "--ecc-corrected", "7")
        node.sim("fault", "--gpu", "1", "--ecc-uncorrected", "3")
        node.sim("fault", "--gpu", "1", "--ecc-uncorrected", "2")
        shown = query(node, fields)
        accounted = [(str(gpu["ecc_corrected"]), str(gpu["ecc_uncorrected"]))
                     for gpu in node.books()["gpus"]]
        t.check(accounted == [("0", "0"), ("7", "5")], "accounted: %s" % accounted)
        t.check([(row["ecc.errors.corrected.volatile.total"],
                  row["ecc.errors.uncorrected.volatile.total"]) for row in shown] == accounted,
                "shown: %s" % shown)
        t.check([row["ecc.mode.current"] for row in shown] == ["Enabled", "Enabled"], "%s" % shown)
        print(shown)
        t.check(re.search(r"\| +1  NVIDIA A100.* 5 \|$", framed(smi(node)), re.M), smi(node))


def processes():
    """The processes of a container in place of its shim, and those that are in none."""
    hold = '"$0" hold 300 --forever & "$0" hold 200 --forever & read line; kill %1 %2; wait'
    with t.Node(GPUS) as node:
        uuid = [gpu["uuid"] for gpu in node.info()["gpus"]]
        plain = held(node.exec([RMTOOL, "hold", "700"], name="plain"), 700)
        inside = node.run(["bash", "-c", hold, RMTOOL], flags=("--gpus", "device=1", "--name",
                                                             "train"), name="slice")
        for _ in range(2):
            inside.expect("^holding [23]00 MiB$")
        shown = apps(node)
        (container,) = node.containers()
        by_size = {row["used_gpu_memory [MiB]"]: row for row in shown}
        print(shown)
        t.check(len(shown) == 3 and set(by_size) == {"200 MiB", "300 MiB", "700 MiB"},
                "processes: %s" % shown)
        t.check(int(by_size["700 MiB"]["pid"]) == plain.popen.pid, "not %d" % plain.popen.pid)
        t.check([by_size[size]["gpu_uuid"] for size in ("200 MiB", "300 MiB", "700 MiB")] ==
                [uuid[1], uuid[1], uuid[0]], "on other GPUs: %s" % shown)
        for row in shown:
            t.check(row["process_name"] == exe(int(row["pid"])) == RMTOOL, "names: %s" % row)
        table = framed(smi(node))
        t.check("cgpu-shim" not in table, "a shim is shown:\n" + table)
        t.check(re.search(r"\| +1   %s   train .* 500MiB / +1024MiB \|" % container["id"], table),
                "no container:\n" + table)
        t.check(re.search(r"\| +0 .* %d +C .* 700MiB \|" % plain.popen.pid, table),
                "no process:\n" + table)
        t.check(smi(node, "-i", "2").count("No running processes found") == 1, "on an idle GPU")
        t.check(apps(node, "-i", "2") == [], "processes on an idle GPU")
        inside.say("end")
        t.check((inside.end(), plain.end()) == (0, 0), "a process failed")
        node.wait_used(0, "after the container")


def names():
    """Names that a tenant chose keep the table's width and the CSV's columns."""
    with t.Node("v100-16g:16") as node, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'a,b "c" ' + 100 * "n" + "\n")
        os.symlink(RMTOOL, path + "link")
        with open(RMTOOL, "rb") as source, open(path, "wb") as target:
            target.write(source.read())
        os.chmod(path, 0o755)
        process = held(node.exec([path, "hold", "10"], name="odd"), 10)
        table = framed(smi(node))
        t.check(len(re.findall(r"^\| +\d+  Tesla", table, re.M)) == 16, "not 16 GPUs:\n" + table)
        (row,) = apps(node)
        t.check(row["process_name"] == path.replace("\n", "?") and
                row["used_gpu_memory [MiB]"] == "10 MiB", "the row is %s" % row)
        t.check(process.end() == 0, "it failed")


def until(pattern, read, flags=re.M):
    """Reads until it matches: what a load makes of the GPU varies with the machine."""
    t.wait_for(lambda: re.search(pattern, read(), flags), lambda: "it says " + read())


def use():
    """The use of a GPU is there while a load is, for its process and in each form."""
    with t.Node("v100-16g:2") as node:
        load = node.run([BURN, "--kernel-us", "500"], flags=("--gpus", "device=1"), name="load")
        percents = ("--query-gpu=utilization.gpu", "--format=csv,noheader")
        until("^0 %\n100 %$", lambda: smi(node, *percents))
        until(r"\A#.*\n#.*\n +0 +- +- .*\n +1 +\d+ +C +100 .* cgpu-burn *\n\Z",
              lambda: smi(node, "pmon", "-c", "1"))
        used = node.books()["gpus"][1]["used_bytes"] // t.MIB
        until(r"\A#.*\n#.*\n( +1 +100 .* %d +\d+ +- \n){2}\Z" % used,
              lambda: smi(node, "dmon", "-s", "um", "-c", "2", "-i", "1"))
        until(r"100% +Default \|$", lambda: framed(smi(node, "-i", "1")))
        until(r"Gpu +: 100 %$", lambda: smi(node, "-q", "-d", "UTILIZATION"))
        load.kill()
        until("^0 %\n0 %$", lambda: smi(node, *percents))


def duty():
    """The use of a GPU that is busy for a part of the time is that of the accounting."""
    with t.Node() as node:
        load = node.exec([BURN, "--kernel-us", "500", "--duty", "50", "--period-ms", "20"], "load")
        seen = []

        def agrees():
            engine = t.graphics(node.books()["gpus"][0])
            seen.append((t.counted_ns(engine), engine["busy_ns"]))
            percent = int(smi(node, "--query-gpu=utilization.gpu",
                              "--format=csv,noheader,nounits"))
            before = [one for one in seen if seen[-1][0] - one[0] >= 1e9]
            if not before:
                return False
            counted, busy = (now - then for now, then in zip(seen[-1], before[-1]))
            print("%d %%, by the accounting %.1f %%" % (percent, 100 * busy / counted))
            return 20 < percent < 80 and abs(percent - 100 * busy / counted) < 5

        t.wait_for(agrees, lambda: "the use is not that of the accounting")
        load.kill()


def sliced():
    """In a slice: the slice's memory and processes, and nothing of how busy the GPU is."""
    script = ('"$0" hold 300 --forever & read line; for words in '
              '"--query-gpu=memory.total,memory.used,utilization.gpu,count --format=csv,noheader" '
              '"--query-compute-apps=pid,used_memory --format=csv,noheader" "dmon -s um -c 1" '
              '"pmon -c 1" "--query-gpu=vbios_version,inforom.img,pstate --format=csv,noheader" '
              '"-q -d UTILIZATION"; do "$1" smi $words || exit; done')
    with t.Node("v100-16g:2") as node:
        load = node.run([BURN, "--kernel-us", "500"], flags=("--gpus", "device=0"), name="load")
        process = node.run(["sh", "-c", script, RMTOOL, os.path.abspath(t.CGPU)],
                           flags=("--gpus", "device=0"), name="slice")
        process.expect("^holding 300 MiB$")
        process.say("look")
        t.check(process.end() == 0, "it failed: %s" % process.lines)
        said = process.lines[process.lines.index("holding 300 MiB") + 1:]
        print("\n".join(said))
        t.check(said[0] == "1024 MiB, 300 MiB, [N/A], 1", "the GPU: " + said[0])
        t.check(re.fullmatch(r"\d\d?, 300 MiB", said[1]), "the process: " + said[1])
        t.check(re.match(r" +0      -      -      -      -      -      -    300 ", said[4]), said[4])
        t.check(re.match(r" +0 +\d\d? +C +- .* rmtool *$", said[7]), said[7])
        t.check(said[8] == "88.00.00.00.01, G000.0000.00.01, P0", "the board: " + said[8])
        t.check("        Gpu                               : N/A" in said, "-q says how busy it is")
        load.kill()


WRONG = (
    (("--query-gpu=index",), '"--format=" switch is missing', "csv[,noheader]"),
    (("--query-compute-apps=pid",), '"--format=" switch is missing', "csv[,noheader]"),
    (("--query-gpu=bogus", "--format=csv"), 'Field "bogus" is not a valid field', "--help-query"),
    (("--query-gpu", "", "--format=csv"), 'Field "" is not a valid field', "--help-query-gpu"),
    (("--query-compute-apps=memory.used", "--format=csv"), "not a valid field", "compute-apps"),
    (("--query-gpu=index", "--format=xml"), '"xml" is not a format', "csv[,noheader]"),
    (("--format=csv",), "--format is for a query", "--query-gpu"),
    (("-i", "7"), 'there is no GPU "7"', "smi -L"),
    (("-i", ""), 'there is no GPU ""', "smi -L"),
    (("-q", "-d", "BOGUS"), '"BOGUS" is no part', "MEMORY"),
    (("-d", "MEMORY"), "--query", "--help"),
    (("-x",), "--query", "--help"),
    (("-q", "-L"), "--list-gpus", "--help"),
    (("-l", "0"), "--loop", "--help"),
    (("-l", "1.5"), "--loop", "--help"),
    (("-lms", "-1"), "--loop-ms", "--help"),
    (("-l", "1", "-lms", "5"), "--loop", "--help"),
    (("--bogus",), "--bogus", "smi --help"),
    (("-f", "/nonexistent/file"), "cannot write /nonexistent/file", ""),
    (("dmon", "-s", "x"), '-s has no "x"', "pucvmet"),
    (("dmon", "-o", "x"), '-o has no "x"', "DT"),
    (("dmon", "-c", "0"), "--count", "--help"),
    (("dmon", "-d", "0"), "--delay", "--help"),
    (("pmon", "-s", "p"), '-s has no "p"', "um"),
    (("pmon", "-i", "9", "-c", "1"), 'there is no GPU "9"', "smi -L"),
)


def wrong():
    """Wrong values are refused, with a sentence and what to do."""
    with t.Node() as node:
        for words, sentence, hint in WRONG:
            done = t.command(t.CGPU, "smi", "--node", node.name, *words, ok=False)
            t.check(done.returncode == 125 and done.stdout == "", "%s: %s" % (words, done))
            t.check(sentence in done.stderr and hint in done.stderr, "%s: %s" % (words, done))


def loops():
    """A loop writes until it is interrupted or nobody reads, and then says nothing."""
    with t.Node() as node:
        words = [t.CGPU, "smi", "--node", node.name]
        each = ["--query-gpu=index", "--format=csv"]
        for more in (each + ["-lms", "10"], each + ["--loop-ms=10"], each + ["-l", "1"],
                     each + ["-l"], ["dmon"], ["pmon"], ["-q", "--loop-ms", "10"],
                     ["--loop-ms", "10"]):
            for how in ("SIGINT", "SIGPIPE"):
                if how == "SIGPIPE" and "-l" in more:
                    continue  # takes as many seconds as it says
                loop = subprocess.Popen(words + more, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
                first = loop.stdout.readline()
                t.check(first != "", "%s said nothing" % more)
                if how == "SIGINT":
                    loop.send_signal(signal.SIGINT)
                    rest, errors = loop.communicate(timeout=t.DEADLINE)
                    t.check("index" not in rest, "%s: a second header" % more)
                else:
                    loop.stdout.close()
                    loop.stdout = None
                    _, errors = loop.communicate(timeout=t.DEADLINE)
                t.check(errors == "" and loop.returncode in (-signal.SIGINT, -signal.SIGPIPE),
                        "%s: %d, %s" % (more, loop.returncode, errors))
        loop = subprocess.Popen(words + each + ["-lms", "10"], stdout=subprocess.PIPE, text=True)
        said = [loop.stdout.readline() for _ in range(4)]
        loop.kill()
        loop.communicate()
        t.check(said == ["index\n", "0\n", "0\n", "0\n"], "it says %s" % said)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log")
            t.check(smi(node, "-L", "-f", path) == "", "with -f it writes to its output")
            with open(path, encoding="utf-8") as file:
                t.check(file.read() == smi(node, "-L"), "the file has other lines")


def nvidia_smi():
    """Under the name nvidia-smi, as a link and mounted in its place."""
    with t.Node() as node, tempfile.TemporaryDirectory() as folder:
        link = os.path.join(folder, "nvidia-smi")
        os.symlink(os.path.abspath(t.CGPU), link)
        listed = smi(node, "-L")
        t.check(t.command(link, "-L", "--node", node.name) == listed, "the link says otherwise")
        t.check(t.command(t.CGPU, "sim", "exec", "--name", node.name, "--", link, "-L") == listed,
                "on the node it says otherwise")
        program = os.path.join(folder, "bin")
        os.mkdir(program)
        place = os.path.join(program, "nvidia-smi")
        with open(place, "w", encoding="utf-8"):
            pass
        script = 'mount --bind "$0" "$1" && PATH="$2:$PATH" nvidia-smi -L --node "$3"'
        said = t.command("unshare", "-m", "sh", "-c", script, os.path.abspath(t.CGPU), place,
                         program, node.name)
        t.check(said == listed, "mounted it says: " + said)
        version = t.command(link, "--version", "--node", node.name)
        t.check(re.search(r"^DRIVER version +: %s$" % node.books()["driver"], version, re.M) and
                re.search(r"^CUDA Version +: \d+\.\d+$", version, re.M), version)


def lost():
    """A GPU that does not answer is told of, and the others are shown."""
    memory, gone = 0x20801303, ("--status", 0xF)  # FB_GET_INFO_V2, NV_ERR_GPU_IS_LOST
    words = ["--query-gpu=index", "--format=csv,noheader"]
    with t.Node("v100-16g:2") as node:
        for count, status, listed in ((1, 0, "1\n"), (2, 125, "")):
            node.fault(*gone, control=memory, count=count)
            done = t.command(t.CGPU, "smi", "--node", node.name, *words, ok=False)
            t.check((done.returncode, done.stdout) == (status, listed) and
                    re.search(r"GPU 0 \(00000000:01:00.0\) does not answer: .*NV_ERR_GPU_IS_LOST",
                              done.stderr), "%s" % done)
        node.fault(*gone, control=memory, count=1)
        loop = subprocess.Popen([t.CGPU, "smi", "--node", node.name, *words, "-lms", "10"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = [loop.stdout.readline() for _ in range(5)]
        loop.send_signal(signal.SIGINT)
        _, errors = loop.communicate(timeout=t.DEADLINE)
        t.check(said == ["1\n", "0\n", "1\n", "0\n", "1\n"] and errors.count("answer") == 1,
                "%s, %s" % (said, errors))


def nowhere():
    """Where there is no GPU: in a container, how to get a slice; elsewhere, how to get a node."""
    if os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/nvidiactl"):
        t.skip("this machine has a driver")

    def said(**env):
        script = 'mount -t tmpfs none /run && exec "$0" smi'
        kept = {key: value for key, value in os.environ.items()
                if key not in ("container", "KUBERNETES_SERVICE_HOST")}
        done = t.command("unshare", "-m", "sh", "-c", script, os.path.abspath(t.CGPU), ok=False,
                         env={**kept, **env})
        t.check(done.returncode == 125 and done.stdout == "", "%s" % done)
        return done.stderr

    for env in ({"container": "podman"}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}):
        text = said(**env)
        t.check("this container has no slice of a GPU" in text and "CGPU_MEM=4GiB" in text and
                "aliyun.com/gpu-mem" in text and "sim start" not in text, text)
    if not os.path.exists("/.dockerenv"):
        t.check("cgpu sim start" in said(), said())


if __name__ == "__main__":
    t.main({"duty": duty, "errors": errors, "fields": fields, "loops": loops, "lost": lost, "names": names, "nowhere": nowhere,
            "nvidia-smi": nvidia_smi, "processes": processes, "sliced": sliced, "use": use,
            "wrong": wrong})
