"""The archive that `cgpu bundle` makes: what is in it, and what is not. Cases by name."""
import json
import os
import stat
import tarfile

import cgpu_test as t
import isolation
from bundles import Runc
from engines import RUNC, start_cgpud

RMTOOL = os.path.abspath(os.path.join(t.BIN, "rmtool"))
RUNTIME = os.path.abspath(os.path.join(t.BIN, "cgpu-runtime"))
ARCHIVE = "/run/bundle.tar.gz"
SETTINGS = "/etc/cgpu/config.yaml"
FORBIDDEN = ["rmtool", "raw", "ioctl", "0x4d", "72"]  # NV_ESC_RM_ACCESS_REGISTRY


def read():
    """The archive's files, by name."""
    with tarfile.open(ARCHIVE) as archive:
        found = {}
        for member in archive.getmembers():
            folder, _, name = member.name.partition("/")
            t.check(folder == "cgpu-bundle" and (member.isfile() or not name), member.name)
            if name:
                found[name] = archive.extractfile(member).read().decode()
        return found


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def annotate(spec):
    spec.setdefault("annotations", {})["note"] = "secret-of-annotation"


def contents():
    """It has what a bug report needs, names each file, and has no secret of the places where secrets
    are."""
    with t.Node("v100-16g:1") as node, Runc(RUNTIME, in_image=(RMTOOL,)) as engine:
        daemon = start_cgpud(node, RUNC, "# secret-of-comment\n")
        main = engine.talk("main", ["sh", "-c", "rmtool hold 10; : secret-of-words"], edit=annotate,
                           env={"CGPU_MEM": "100MiB", "PASSWORD": "secret-of-environment"})
        main.expect("holding 10 MiB")
        engine.exec("main", FORBIDDEN)
        row = node.containers()[0]
        put("/run/cgpu/pods/uid", '{"signature": "secret-of-signature"}')
        put("/run/cgpu/ba9876543210.grant", "secret-of-grant\n")
        put("/etc/cgpu/token", "secret-of-token\n")
        put("/etc/cgpu/tls.key", "-----BEGIN PRIVATE KEY-----\nsecret-of-key\n")
        said = t.command(t.CGPU, "bundle", "-o", ARCHIVE)
        files = read()
        t.check(json.loads(files["containers.json"])[0]["id"] == row["id"], files["containers.json"])
        t.check(all("exit status" not in text for text in files.values()), "%s" % files)
        for name, words in (("versions.txt", ("cgpu ", "Linux ")), ("config.yaml", ("node: " + node.name,)),
                            ("gpus.csv", (node.info()["gpus"][0]["uuid"],)),
                            ("policies.txt", ("GPU 0: preempt",)), ("plan.json", (row["id"],)),
                            ("events.json", ('"started"', row["id"])), ("journal.txt", ()),
                            ("refused.txt", ("       1  ",)), ("saved-policies.txt", ()),
                            ("shims.txt", (row["id"], "VmRSS")), ("registry.txt", (row["id"] + ".sock",)),
                            ("leftovers.txt", ("ba9876543210.grant",))):
            t.check(all(word in files[name] for word in words), "%s: %s" % (name, files[name]))
            t.check(name in files["MANIFEST.txt"] and name in said, "nothing is said of " + name)
        t.check(len(files) == 13 + 1, "%s" % sorted(files))
        # Settings that this version does not know may be secrets of a later one.
        put(SETTINGS, "token: secret-of-setting\nblock: |\n  secret-of-block\n")
        t.command(t.CGPU, "bundle", "-o", ARCHIVE)
        for found in (files, read()):
            for name, text in found.items():
                t.check("secret" not in text.replace("no secrets", ""), "%s: %s" % (name, text))
        t.check(stat.S_IMODE(os.stat(ARCHIVE).st_mode) == 0o600, "others may read it")
        t.check(not [name for name in os.listdir("/tmp") if name.startswith("cgpu-bundle-")],
                "a copy is left")
        done = t.command(t.CGPU, "bundle", ok=False, user=47110, group=47110, extra_groups=[])
        t.check(done.returncode == 125 and "only root" in done.stderr, "%s" % done)
        os.unlink("/run/cgpu/ba9876543210.grant")
        main.end()
        engine.remove("main")
        daemon.stop()


isolation.main({"contents": contents})
