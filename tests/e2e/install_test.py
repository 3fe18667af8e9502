"""`cgpu install` and `cgpu uninstall` on configurations in folders of the test's own. Cases by
name, see tests/lib/cgpu_test.py. Nothing here touches the machine's own engines."""
import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import tomllib

import cgpu_test as t

SOME_USER = 47111
NAMES = {"docker": "daemon.json", "containerd": "config.toml", "crio": "cgpu.conf",
         "podman": "cgpu.conf"}
CRI = 'plugins."io.containerd.grpc.v1.cri".containerd'
RUNC = '[%s.runtimes.runc]\n  runtime_type = "io.containerd.runc.v2"\n' % CRI

# Whole files, byte by byte; what is odd about them is to come back.
TEXTS = {
    "docker": [b"", b"{}", b'{"debug":true}', b'{\r\n\t"a" : [ ]\r\n}\r\n\r\n',
               b'\xef\xbb\xbf{ "default-runtime":"runc" , "runtimes": { } }',
               '{\n   "€": {"runtimes": {"cgpu": 1}},\n "z":1}'.encode()],
    "containerd": [b"", b"# nothing\n", b"version = 2", b"version = 2\r\n[plugins]\r\n",
                   b"disabled_plugins = ['cri']\n", b"version = 3\n\n\n\n",
                   ("version = 2\n\t%s[z]\nx='''\n[y]\n'''" % RUNC).encode()],
    "crio": [b"", b"\n\n# x", b"[crio.runtime]\ndefault_runtime='crun' # c\n\n"],
    "podman": [b"", b"[engine]\n\truntime = \"crun\"\n[engine.runtimes]\ncrun=[ ]",
               "# é\r\n[engine.runtimes]\r\n".encode()],
}


@contextlib.contextmanager
def folder():
    """A folder with a program that can be the runtime."""
    with tempfile.TemporaryDirectory(prefix="cgpu-install-") as path:
        os.chmod(path, 0o755)
        path = os.path.realpath(path)
        runtime = os.path.join(path, "runtime")
        with open(runtime, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n")
        os.chmod(runtime, 0o755)
        yield path


def words(verb, engine, config, *flags):
    runtime = []
    if verb == "install":
        runtime = ["--runtime-path", os.path.join(os.path.dirname(config), "runtime")]
    return [t.CGPU, verb, engine, "--config", config, *runtime, *flags]


def cgpu(verb, engine, config, *flags):
    return t.command(*words(verb, engine, config, *flags))


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def tree(path):
    """All that there is below the folder, with contents, modes and owners."""
    found = {}
    for base, folders, files in os.walk(path):
        for name in folders + files:
            whole = os.path.join(base, name)
            status = os.lstat(whole)
            content = read(whole) if stat.S_ISREG(status.st_mode) else None
            found[whole] = (status.st_mode, status.st_uid, status.st_gid, content)
    return found


def refused(argv, *says, **options):
    done = t.command(*argv, ok=False, **options)
    t.check(done.returncode == 125 and "is changed" not in done.stdout,
            "`%s`: %s" % (" ".join(argv), done))
    for word in says:
        t.check(word in done.stderr, "%r is not said: %s" % (word, done.stderr))


def undone():
    """Install, twice, and uninstall, twice: not a byte is different, of any odd file."""
    for engine, texts in TEXTS.items():
        for text in texts:
            for flags in [], ["--set-default"]:
                with folder() as path:
                    config = os.path.join(path, NAMES[engine])
                    write(config, text)
                    os.chmod(config, 0o640)
                    before = tree(path)
                    cgpu("install", engine, config, *flags)
                    installed = tree(path)
                    t.check(installed[config][3] != text, "%s: %r is as before" % (engine, text))
                    t.check(installed[config][:3] == before[config][:3], "mode and owner differ")
                    t.check(installed.get(config + ".before-cgpu") ==
                            (before[config] if engine == "docker" else None),
                            "only JSON cannot say what it was")
                    said = cgpu("install", engine, config, *flags)
                    t.check("nothing to do: " in said, said)
                    t.check(tree(path) == installed, "the second time something changed")
                    cgpu("uninstall", engine, config)
                    t.check(tree(path) == before, "%s: %r became %r" % (engine, text,
                                                                        tree(path)[config]))
                    said = cgpu("uninstall", engine, config)
                    t.check("nothing to do: " in said, said)
                    t.check(tree(path) == before, "the second time something changed")


def made():
    """Where there was no file there is none afterwards; in one step and in two."""
    for engine, name in NAMES.items():
        with folder() as path:
            config = os.path.join(path, name)
            before = tree(path)
            cgpu("install", engine, config)
            t.check(stat.S_IMODE(os.stat(config).st_mode) == 0o644, "mode of the new file")
            t.check(not os.path.exists(config + ".before-cgpu"), "there is an original of nothing")
            cgpu("install", engine, config, "--set-default")
            cgpu("uninstall", engine, config)
            t.check(tree(path) == before, "%s leaves %s" % (engine, tree(path)))


def parsed(engine, data):
    text = data.decode("utf-8-sig")
    return json.loads(text) if engine == "docker" else tomllib.loads(text)


def within(some, whole):
    """Whether all of a document is in the other one."""
    if not isinstance(some, dict):
        return some == whole
    return all(key in whole and within(value, whole[key]) for key, value in some.items())


def dry_run():
    """Nothing changes; and all that is shown is in the file after the real run."""
    for engine in NAMES:
        for text in TEXTS[engine] + [None]:
            with folder() as path:
                config = os.path.join(path, NAMES[engine])
                if text is not None:
                    write(config, text)
                before = tree(path)
                said = cgpu("install", engine, config, "--set-default", "--dry-run")
                t.check(tree(path) == before, "dry-run changed something")
                shown = said[:said.index("nothing was changed")]
                done = cgpu("install", engine, config, "--set-default")
                t.check(done.startswith(shown),
                        "dry-run shows another change than the real one: %s\n%s" % (said, done))
                name, entry = re.sub("^note: .*\n", "", shown, flags=re.M).split(" gets\n", 1)
                t.check(name == config, "%r is shown for %r" % (name, config))
                entry = parsed(engine, entry.encode())
                t.check(path + "/runtime" in str(entry), "the program is not shown: %s" % said)
                t.check(within(entry, parsed(engine, read(config))),
                        "%s is shown, %s is written" % (entry, read(config)))
                installed = tree(path)
                said = cgpu("uninstall", engine, config, "--dry-run")
                t.check(tree(path) == installed, "dry-run of uninstall changed something")
                t.check(config + (" goes" if text is None else " loses the runtime") in said,
                        said)


def edited():
    """Edits that somebody made in between stay; ours goes, and the earlier default comes back."""
    with folder() as path:
        config = os.path.join(path, "daemon.json")
        write(config, b'{\n  "default-runtime": "crun",\n  "runtimes": {"crun": {"path": "/c"}}\n}\n')
        cgpu("install", "docker", config, "--set-default")
        write(config, read(config).replace(b"{\n", b'{\n  "debug": true,\n', 1))
        cgpu("uninstall", "docker", config)
        t.check(list(json.loads(read(config)).items()) == [
            ("debug", True), ("default-runtime", "crun"),
            ("runtimes", {"crun": {"path": "/c"}})], read(config))
        t.check(not os.path.exists(config + ".before-cgpu"), "the original is left")

        config = os.path.join(path, "config.toml")
        write(config, ("version = 2\n# mine\n" + RUNC).encode())
        cgpu("install", "containerd", config, "--set-default")
        write(config, read(config).replace(b"# mine", b"# changed") + b"[timeouts]\n")
        cgpu("uninstall", "containerd", config)
        t.check(read(config) == ("version = 2\n# changed\n" + RUNC + "[timeouts]\n").encode(),
                read(config))

        # Made by us, then somebody's own settings came in: the file is theirs now.
        config = os.path.join(path, "own.json")
        cgpu("install", "docker", config)
        write(config, json.dumps(json.loads(read(config)) | {"debug": True}).encode())
        cgpu("uninstall", "docker", config)
        t.check(json.loads(read(config)) == {"debug": True}, read(config))

        # Taken out by hand, changed, and installed again: what is kept is what was there last.
        config = os.path.join(path, "again.json")
        write(config, b"{}")
        cgpu("install", "docker", config)
        write(config, b'{"debug": 1}')
        said = cgpu("uninstall", "docker", config)
        t.check(".before-cgpu stays" in said and "nothing to do" in said and read(config) == b'{"debug": 1}', said)
        cgpu("install", "docker", config)
        cgpu("uninstall", "docker", config)
        t.check(read(config) == b'{"debug": 1}', read(config))


def wrong():
    """An installation that cannot be done says so, and changes nothing."""
    with folder() as path:
        config = os.path.join(path, "daemon.json")
        for text, says in ((b'{"a": 1,}', "is not valid JSON"), (b"[]", "is not a JSON object"),
                           (b'{"runtimes": {"cgpu": {"path": "/x"}}}', "with another program: /x")):
            write(config, text)
            before = tree(path)
            refused(words("install", "docker", config), config, says, "hint: "
                    if text != b"[]" else "")
            t.check(tree(path) == before, "a refused installation changed something")
        toml = os.path.join(path, "config.toml")
        inline = b'version = 2\nplugins = { "io.containerd.grpc.v1.cri" = { } }\n'
        write(toml, inline)
        refused(words("install", "containerd", toml), toml, "nothing can be added",
                "add this by hand:\n[%s.runtimes.cgpu]\n" % CRI)
        t.check(read(toml) == inline, "a refused installation changed something")
        ours = '[%s.runtimes.cgpu.options]\nBinaryName = "%s/runtime"\n' % (CRI, path)
        write(toml, ("version = 2\n" + ours).encode())
        t.check("nothing to do" in cgpu("install", "containerd", toml), "it is there already")
        refused(words("uninstall", "containerd", toml), toml, "by hand")
        write(toml, b"version = 2\n[plugins\n")
        refused(words("install", "containerd", toml), toml, "is not valid TOML: line 2")
        refused([t.CGPU, "uninstall"], "no container engine is named", "--all")
        refused([t.CGPU, "install", "rkt"], "no container engine \"rkt\"", "docker, containerd")
        refused([t.CGPU, "install", "docker", "--config", config, "--runtime-path", "/nowhere/x"],
                "no program /nowhere/x", "--runtime-path")
        refused([t.CGPU, "install", "docker", "--config", config, "--runtime-path", "runtime"],
                "no absolute path")
        refused(words("install", "docker", path), "not a regular file")
        os.mkfifo(os.path.join(path, "pipe"))
        refused(words("install", "docker", os.path.join(path, "pipe")), "not a regular file")
        os.symlink("/nowhere/x", os.path.join(path, "dangling"))
        refused(words("install", "docker", os.path.join(path, "dangling")),
                "a link to a file that does not exist")
        write(config, b"{" + b" " * (1 << 20) + b"}")
        refused(words("install", "docker", config), "longer than expected")


def links():
    """A link stays one, and the file that it leads to is changed."""
    with folder() as path:
        os.mkdir(os.path.join(path, "real"))
        real = os.path.join(path, "real", "d.json")
        write(real, b"{}")
        config = os.path.join(path, "daemon.json")
        os.symlink("real/d.json", config)
        before = tree(path)
        cgpu("install", "docker", config)
        t.check(os.path.islink(config) and b"cgpu" in read(real), "the link, or the file")
        t.check(read(real + ".before-cgpu") == b"{}", "the original is beside the real file")
        cgpu("uninstall", "docker", config)
        t.check(tree(path) == before, "%s" % tree(path))


def folders():
    """In a folder that engines read as a whole there is nothing but the configuration."""
    with folder() as path:
        inner = os.path.join(path, "crio.conf.d")
        os.mkdir(inner)
        shutil.copy(os.path.join(path, "runtime"), os.path.join(path, "r"))
        config = os.path.join(inner, "10-crio.conf")
        write(config, b"[crio.runtime]\n")
        argv = [t.CGPU, "install", "crio", "--config", config, "--runtime-path",
                os.path.join(path, "r")]
        t.command(*argv)
        t.check(os.listdir(inner) == ["10-crio.conf"], "%s" % os.listdir(inner))
        t.command(t.CGPU, "uninstall", "crio", "--config", config)
        t.check(read(config) == b"[crio.runtime]\n", read(config))
        missing = os.path.join(path, "not", "there", "yet.conf")
        t.command(*argv[:4], missing, *argv[5:])
        t.check(b"runtimes.cgpu" in read(missing), read(missing))


def imports():
    """containerd: a file of ours in a folder whose files are merged; none where they hide others."""
    with folder() as path:
        os.mkdir(os.path.join(path, "conf.d"))
        config = os.path.join(path, "config.toml")
        plugin = 'plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc'
        write(config, ('version = 3\nimports = ["%s/conf.d/*.toml"]\n[%s]\n'
                       'runtime_type = "io.containerd.runc.v2"\n[%s.options]\n'
                       'SystemdCgroup = true\n' % (path, plugin, plugin)).encode())
        before = tree(path)
        cgpu("install", "containerd", config)
        t.check(read(config) == before[config][3], "the main file was changed")
        ours = os.path.join(path, "conf.d", "cgpu.toml")
        t.check(b"SystemdCgroup = true" in read(ours) and b"version = 3" in read(ours), read(ours))
        t.check("nothing to do" in cgpu("install", "containerd", config), "twice")
        cgpu("install", "containerd", config, "--set-default")
        t.check(b'default_runtime_name = "cgpu"' in read(ours), read(ours))
        cgpu("uninstall", "containerd", config)
        t.check(tree(path) == before, "%s" % tree(path))

        other = os.path.join(path, "conf.d", "other.toml")
        write(other, b'version = 2\n[plugins."io.containerd.grpc.v1.cri".registry]\nx = 1\n')
        write(config, ('version = 2\nimports = ["%s/conf.d/*.toml"]\n' % path).encode())
        before = tree(path)
        refused(words("install", "containerd", config), other, "takes the place",
                "--config " + other)
        t.check(tree(path) == before, "a refused installation changed something")


def at_once():
    """Many runs at the same time: each finds a whole file, and all of it comes back."""
    with folder() as path:
        for engine, name in (("docker", "daemon.json"), ("containerd", "config.toml")):
            config = os.path.join(path, name)
            write(config, TEXTS[engine][-1])
        before = tree(path)
        for last in "install", "uninstall":
            running = []
            for i in range(24):
                verb = ("install", "uninstall")[i % 2]
                engine, name = (("docker", "daemon.json"), ("containerd", "config.toml"))[i % 4 // 2]
                running.append(subprocess.Popen(
                    words(verb, engine, os.path.join(path, name)), stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True))
            for process in running:
                out, err = process.communicate(timeout=t.DEADLINE)
                t.check(process.returncode == 0, "%s: %s%s" % (process.args, out, err))
            for engine, name in ("docker", "daemon.json"), ("containerd", "config.toml"):
                cgpu(last, engine, os.path.join(path, name))
        t.check(tree(path) == before, "%s" % tree(path))


def permissions():
    """A user without permission is told to be root, and nothing is left behind."""
    if os.geteuid() != 0:
        t.skip("only root can become somebody else")
    with folder() as path:
        shutil.copy(t.CGPU, path)
        config = os.path.join(path, "daemon.json")
        write(config, b"{}")
        before = tree(path)
        argv = [os.path.join(path, "cgpu")] + words("install", "docker", config)[1:]
        user = {"user": SOME_USER, "group": SOME_USER, "extra_groups": [], "cwd": "/"}
        refused(argv, "run as root", **user)
        missing = os.path.join(path, "no", "daemon.json")
        refused([*argv[:4], missing, *argv[5:]], "run as root", **user)
        os.chmod(config, 0o600)
        refused(argv, "run as root", **user)
        os.chmod(config, 0o644)
        t.check(tree(path) == before, "%s" % tree(path))
        # A user's own files need no root.
        own = os.path.join(path, "own")
        os.mkdir(own)
        os.chown(own, SOME_USER, SOME_USER)
        t.command(*argv[:4], os.path.join(own, "daemon.json"), *argv[5:], **user)
        t.check(os.stat(os.path.join(own, "daemon.json")).st_uid == SOME_USER, "the owner")
        # Root keeps the owner that there is.
        os.chown(config, SOME_USER, SOME_USER)
        cgpu("install", "docker", config)
        t.check(os.stat(config).st_uid == SOME_USER, "the owner")


def read_only():
    """On a file system that cannot be written: said, and nothing is changed."""
    if os.geteuid() != 0:
        t.skip("only root can mount")
    with folder() as path:
        config = os.path.join(path, "daemon.json")
        write(config, b"{}")
        script = 'mount --bind -o ro "$0" "$0" && exec "$@"'
        argv = ["unshare", "--mount", "sh", "-c", script, path]
        if t.command(*argv, "true", ok=False).returncode != 0:
            t.skip("this machine does not let root mount")
        done = t.command(*argv, *words("install", "docker", config), ok=False)
        t.check(done.returncode == 125 and "Read-only file system" in done.stderr, "%s" % done)
        t.check(read(config) == b"{}" and len(os.listdir(path)) == 2, "%s" % os.listdir(path))


def containerd():
    """The real containerd reads what we write, and has the runtime, and runc still."""
    if not shutil.which("containerd"):
        t.skip("there is no containerd on this machine")
    for text in TEXTS["containerd"] + [None]:
        if text is not None and b"version = 3" in text:
            continue  # containerd 1 knows nothing of it
        for flags in [], ["--set-default"]:
            with folder() as path:
                config = os.path.join(path, "config.toml")
                if text is not None:
                    write(config, text.replace(b"disabled_plugins = ['cri']", b"oom_score = 1"))
                cgpu("install", "containerd", config, *flags)
                dump = t.command("containerd", "--config", config, "config", "dump")
                for runtime in "cgpu", "runc":
                    t.check("[%s.runtimes.%s]\n" % (CRI, runtime) in dump, "%s: %s" % (text, dump))
                t.check('BinaryName = "%s/runtime"' % path in dump, dump)
                default = "cgpu" if flags else "runc"
                t.check('default_runtime_name = "%s"' % default in dump, dump)


def podman():
    """The real podman knows the runtime by its name, and its own runtimes still."""
    if not shutil.which("podman") or os.geteuid() != 0:
        t.skip("there is no podman on this machine, or we are not root")
    with folder() as path:
        config = os.path.join(path, "containers.conf.d", "cgpu.conf")
        cgpu_words = [t.CGPU, "install", "podman", "--config", config, "--set-default",
                      "--runtime-path", os.path.join(path, "runtime")]
        t.command(*cgpu_words)
        # Its folder is fixed: in a mount namespace of our own ours is there.
        script = ('mkdir -p "$0/etc" && cp -r /etc/containers/. "$0/etc" && '
                  'cp -r "$0/containers.conf.d" "$0/etc/" && '
                  'mount --bind "$0/etc" /etc/containers && exec podman --root "$0/root" '
                  '--runroot "$0/run" --storage-driver vfs --cgroup-manager cgroupfs "$@"')
        argv = ["unshare", "--mount", "sh", "-c", script, path]
        done = t.command(*argv, "info", "--format", "{{.Host.OCIRuntime.Path}}", ok=False)
        if "ounting" in done.stderr or "ermission" in done.stderr:
            t.skip("podman does not run here: " + done.stderr.strip())
        t.check(done.stdout.strip() == os.path.join(path, "runtime"), "%s" % done)
        done = t.command(*argv, "--runtime", "runc", "info", "--format",
                         "{{.Host.OCIRuntime.Name}}", ok=False)
        t.check(done.stdout.strip() == "runc", "%s" % done)


def docker():
    """The real dockerd takes the file. Started by a user, it reads the file first and then asks for root."""
    dockerd = shutil.which("dockerd")
    if not dockerd or os.geteuid() != 0:
        t.skip("there is no dockerd on this machine, or we are not root")

    def takes(config):
        said = subprocess.run([dockerd, "--config-file", config], user="nobody", text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE).stderr
        taken = "needs to be started with root" in said
        t.check(taken or config in said, "dockerd says of %s: %s" % (config, said))
        return taken

    taken = 0
    for text in TEXTS["docker"]:
        with folder() as path:
            config = os.path.join(path, "daemon.json")
            write(config, text)
            if not takes(config):
                continue  # not even before
            cgpu("install", "docker", config, "--set-default")
            t.check(takes(config), "dockerd does not take %s any more" % text)
            taken += 1
    t.check(taken > 0, "dockerd takes none of the files")


def as_json():
    """The same as objects: which file of which engine, what became of it, and what to do next."""
    def said(*argv):
        (one,) = json.loads(cgpu(*argv, "--json"))
        return one

    for engine, name in NAMES.items():
        with folder() as path:
            config = os.path.join(path, name)
            before = tree(path)
            planned = said("install", engine, config, "--dry-run")
            t.check(tree(path) == before, "it was changed")
            (file,) = planned["files"]
            t.check(planned["engine"] == engine and planned["dry_run"] and "next" not in planned,
                    "%s" % planned)
            t.check(file["file"] == config and file["change"] == "written" and
                    os.path.join(path, "runtime") in file["gets"], "%s" % planned)
            done = said("install", engine, config)
            t.check(done["files"] == planned["files"] and not done["dry_run"], "%s" % done)
            t.check(isinstance(done["next"], str) and "cgpu" in done["then"], "%s" % done)
            t.check(os.path.exists(config), "nothing was written")
            again = said("install", engine, config)
            t.check(again["files"] == [] and "next" not in again, "%s" % again)
            gone = said("uninstall", engine, config)
            t.check(gone["files"] == [{"file": config, "change": "removed"}], "%s" % gone)
            t.check(tree(path) == before and said("uninstall", engine, config)["files"] == [],
                    "it is still there")
    with folder() as path:
        config = os.path.join(path, "daemon.json")
        write(config, b"{}")
        done = said("install", "docker", config)
        t.check(done["files"][0]["change"] == "changed" and
                read(done["files"][0]["kept_as"]) == b"{}", "%s" % done)
        write(config, b"{}")
        left = said("uninstall", "docker", config)
        t.check(left["files"] == [] and len(left["notes"]) == 1, "%s" % left)


if __name__ == "__main__":
    t.main({"undone": undone, "made": made, "dry-run": dry_run, "edited": edited, "wrong": wrong,
            "json": as_json,
            "links": links, "folders": folders, "imports": imports, "at-once": at_once,
            "permissions": permissions, "read-only": read_only, "containerd": containerd,
            "podman": podman, "docker": docker}, root=False)
