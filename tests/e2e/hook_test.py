"""Containers that OCI runtimes make on a simulated node, with the createContainer hook and nothing
else of cgpu's (oci_hook.cc): which files of GPUs they have, what becomes of the host, and hostile
images. Cases by name, RUNTIME-CASE, see tests/lib/cgpu_test.py."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile

import cgpu_test as t

HOOK = os.path.abspath(os.path.join(t.TEST_BIN, "oci_hook"))
CARD = 1  # of the node's two; the container has this one
MAPPED = 100000  # uid 0 of a container with a user namespace

# Before /dev is left: what a program finds of the GPUs.
LOOK = """
exec 2>&1
echo "dev: $(cd /dev; ls -d nvidia* .nvidia .nvidia/* | tr '\\n' ' ')"
ls -l /dev
cat /proc/driver/nvidia/version /proc/driver/nvidia/gpus/*/information
echo "gpus: $(ls /proc/driver/nvidia/gpus)"
echo "pci: $(ls /sys/bus/pci/devices)"
cat /sys/bus/pci/devices/*/vendor
for folder in /proc/driver/nvidia /sys/bus/pci /sys/bus /proc/driver; do
  touch $folder/new 2>/dev/null && echo "written: $folder"
done
/cgpu/rmtool info
"""
# A program's own.
HOLD = LOOK + "exec /cgpu/rmtool hold 64\n"


def _outer(*, unified=True, shared=False):
    """Words before the runtime's: a mount namespace like the host's, as each runtime needs it."""
    steps = []
    if not unified:
        steps.append("umount /sys/fs/cgroup/unified 2>/dev/null")
    steps.append("mount --make-r%s /" % ("shared" if shared else "private"))
    return ["unshare", "-m", "sh", "-c", "; ".join(steps) + '; exec "$@"', "sh"]


class Runtime:
    """An OCI runtime, or a skip with the reason why it cannot run here."""

    def __init__(self, name):
        self.name = name
        path = shutil.which(name)
        if path is None:
            t.skip(name + " is not installed")
        self.path = path
        if shutil.which("unshare") is None:
            t.skip("there is no unshare")

    def words(self, shared=False):
        # crun 1.8 says "cgroups in hybrid mode not supported".
        return _outer(unified=self.name != "crun", shared=shared) + [self.path]

    def require(self):
        """That it runs a container without the hook."""
        with Bundle(self, ["/bin/true"]) as bundle:
            done = bundle.run()
            if done.returncode != 0:
                t.skip("%s cannot run a container here: %s" % (self.name, done.stderr.strip()))


class Bundle:
    """A container's bundle, hand-made: the programs are the host's. `with Bundle(...) as bundle`."""

    def __init__(self, runtime, argv, tree=None):
        self.runtime = runtime
        self.folder = tempfile.mkdtemp(prefix="cgpu-hook-")
        os.chmod(self.folder, 0o755)
        self.rootfs = os.path.join(self.folder, "rootfs")
        self.id = os.path.basename(self.folder)
        os.mkdir(self.rootfs)
        for name in ("bin", "sbin", "lib", "lib64"):  # as distributions have them
            os.symlink("usr/" + name, os.path.join(self.rootfs, name))
        t.command(runtime.path, "spec", cwd=self.folder, stdin=subprocess.DEVNULL)
        with open(self.folder + "/config.json", encoding="utf-8") as file:
            self.config = json.load(file)
        self.config["process"].update(terminal=False, args=argv)
        self.config["process"]["env"] = ["PATH=/usr/bin:/bin"]
        self.config["root"] = {"path": "rootfs", "readonly": False}
        self.bind("/usr", "/usr", "ro")
        self.bind(os.path.abspath(t.BIN), "/cgpu", "ro")
        if tree is not None:
            words = t.command(HOOK, "--arguments", *tree).splitlines()
            self.config["hooks"] = {"createContainer": [{"path": HOOK, "args": ["hook", *words]}]}
            # Where crun puts what hooks say; runc puts it into its own error.
            self.config["annotations"] = {"run.oci.hooks.stderr": self.folder + "/hook.err"}

    def bind(self, source, target, *options):
        self.config["mounts"].append({"destination": target, "type": "bind", "source": source,
                                      "options": ["rbind", *options]})

    def mounts(self, target):
        """The configuration's mounts at one place."""
        return [mount for mount in self.config["mounts"] if mount["destination"] == target]

    def remove_mounts(self, *targets):
        self.config["mounts"] = [mount for mount in self.config["mounts"]
                                 if not mount["destination"].startswith(targets)]

    def map_users(self):
        """A user namespace, the image belongs to its root."""
        parts = self.config["linux"]
        parts["namespaces"].append({"type": "user"})
        for kind in ("uidMappings", "gidMappings"):
            parts[kind] = [{"containerID": 0, "hostID": MAPPED, "size": 65536}]
        os.chown(self.rootfs, MAPPED, MAPPED)
        self.remove_mounts("/sys/fs/cgroup")

    def _words(self, verb, *words, shared=False):
        with open(self.folder + "/config.json", "w", encoding="utf-8") as file:
            json.dump(self.config, file)
        return self.runtime.words(shared) + ["--root", self.folder + "/state", verb, *words]

    def start(self, shared=False):
        """The running container."""
        return t.Process(self._words("run", "--bundle", self.folder, self.id, shared=shared),
                         self.runtime.name, cwd=self.folder)

    def run(self):
        """The container to its end."""
        return t.command(*self._words("run", "--bundle", self.folder, self.id), ok=False,
                         stdin=subprocess.DEVNULL, cwd=self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        t.Process.end_all()
        t.command(*self._words("delete", "--force", self.id), ok=False, stdin=subprocess.DEVNULL)
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder)


def tree_of(node, pci=True):
    """Returns what the hook is to show: the control files and one GPU."""
    info = node.info()
    files = [file for file in info["files"] if file["kind"] != "gpu" or file["minor"] == CARD]
    mount = info["mount"]
    return [",".join("%s=%s" % (file["name"], file["dir"]) for file in files),
            mount + "/proc/driver/nvidia", mount + "/sys/bus/pci" if pci else "",
            info["gpus"][CARD]["bdf"]]


def leaks(bundle, pid="self", runtimes=True):
    """Lines of a mount namespace outside that have something of the container's: what the hook
    mounts and, unless told otherwise, what the runtime does."""
    hooks = r"/\.nvidia| - tmpfs cgpu | /proc/driver| /sys/bus"
    with open("/proc/%s/mountinfo" % pid, encoding="utf-8") as mounts:
        return [line for line in mounts
                if re.search(hooks, line) or runtimes and bundle.id in line]


def check_look(node, lines):
    """That the container sees its GPU and no other, as files and in words."""
    info = node.info()
    text = "\n".join(lines)
    names = ["nvidiactl", "nvidia-uvm", "nvidia%d" % CARD]
    folders = [".nvidia/" + os.path.basename(file["dir"]) for file in info["files"]
               if file["name"] in names]
    found = re.search("^dev: (.*)$", text, re.M).group(1).split()
    t.check(sorted(found) == sorted(names + folders + [".nvidia"]), "in /dev: %s" % found)
    for gpu in info["gpus"]:
        own = gpu["index"] == CARD
        t.check((gpu["uuid"] in text) == own, "%s is %s:\n%s" %
                (gpu["uuid"], "not shown" if own else "shown", text))
    bdf = info["gpus"][CARD]["bdf"]
    for place in ("gpus", "pci"):
        t.check(re.search("^%s: (.*)$" % place, text, re.M).group(1) == bdf,
                "%s shows other cards:\n%s" % (place, text))
    t.check("0x10de" in text, "the card's PCI files are not there:\n" + text)
    t.check("written:" not in text, "a folder can be written:\n" + text)


def hold(node, bundle, shared=False):
    """Starts the container, which looks and then holds memory; checks all of it, and that nothing
    shows outside."""
    t.check(not leaks(bundle), "before the container: %s" % leaks(bundle))
    process = bundle.start(shared)
    process.expect("^holding 64 MiB$")
    check_look(node, process.lines)
    t.check(node.used(CARD) >= 64 * t.MIB, "the driver has no such memory in its books")
    t.check(node.used(0) == 0, "the other card was used")
    # Where mounts are shared the runtime's own may be outside.
    outside = leaks(bundle) + leaks(bundle, process.popen.pid, runtimes=not shared)
    t.check(not outside, "of the container outside: %s" % "".join(outside))
    t.check(process.end() == 0, "the container failed: %s" % process.lines)
    node.wait_used(0, "after the container")
    t.check(not leaks(bundle), "after the container: %s" % leaks(bundle))


def with_node(course):
    """A case on a node of two GPUs with this runtime, which is known to run."""
    def case(runtime):
        runtime.require()
        with t.Node("v100-16g:2") as node:
            course(node, lambda argv=("/bin/sh", "-c", HOLD), **options: Bundle(
                runtime, list(argv), tree_of(node, **options)))
    return case


@with_node
def plain(node, bundle):
    with bundle() as container:
        hold(node, container)


@with_node
def read_only(node, bundle):
    """The root file system, /dev and /sys."""
    with bundle() as container:
        container.config["root"]["readonly"] = True
        container.mounts("/dev")[0]["options"].append("ro")
        hold(node, container)


@with_node
def users(node, bundle):
    with bundle() as container:
        container.map_users()
        hold(node, container)


@with_node
def user(node, bundle):
    """A program that is not root."""
    with bundle() as container:
        container.config["process"]["user"] = {"uid": 1000, "gid": 1000}
        container.config["process"]["capabilities"] = {}
        hold(node, container)


@with_node
def masked(node, bundle):
    """Paths that the runtime covers, some of which the hook covers too."""
    with bundle() as container:
        container.config["linux"]["maskedPaths"] += ["/proc/driver", "/sys/class/drm"]
        container.config["linux"]["readonlyPaths"] += ["/sys/bus", "/proc/bus"]
        process = container.start()
        process.expect("^holding 64 MiB$")
        process.end()
    with bundle() as container:
        container.config["linux"]["readonlyPaths"] += ["/proc/driver", "/sys/bus", "/proc/bus"]
        hold(node, container)


@with_node
def shared(node, bundle):
    """Where every mount of the host is shared with others, the container's root too, and /sys is
    the host's."""
    with bundle() as container:
        container.config["linux"]["rootfsPropagation"] = "shared"
        hold(node, container, shared=True)
    with bundle() as container:
        container.config["linux"]["rootfsPropagation"] = "shared"
        container.remove_mounts("/sys")
        container.bind("/sys", "/sys", "rshared")
        hold(node, container, shared=True)


@with_node
def without(node, bundle):
    """No /sys: it is not made, the GPU works."""
    with bundle(["/cgpu/rmtool", "hold", "64"]) as container:
        container.remove_mounts("/sys")
        container.config["linux"].update(maskedPaths=[], readonlyPaths=[])
        process = container.start()
        process.expect("^holding 64 MiB$")
        t.check(node.used(CARD) >= 64 * t.MIB, "the driver has no such memory in its books")
        process.end()
        t.check(not os.path.exists(os.path.join(container.rootfs, "sys")), "there is a /sys")


def _listing(folder):
    """All that is in a folder, with what files say."""
    found = {}
    for path, folders, files in os.walk(folder):
        for name in folders + files:
            whole = os.path.join(path, name)
            if os.path.islink(whole):
                found[whole] = os.readlink(whole)
            elif os.path.isfile(whole):
                with open(whole, encoding="utf-8") as file:
                    found[whole] = file.read()
            else:
                found[whole] = None
    return found


def _refused(container, says):
    done = container.run()
    t.check(done.returncode != 0, "the container was started:\n" + done.stdout)
    with contextlib.suppress(FileNotFoundError):
        with open(container.folder + "/hook.err", encoding="utf-8") as file:
            done.stderr += file.read()
    t.check(says in done.stderr, "the reason is not said: " + done.stderr)
    t.check(not leaks(container), "of the container outside: %s" % leaks(container))


@contextlib.contextmanager
def _victim():
    """A folder of the host's that must stay as it is."""
    folder = tempfile.mkdtemp(prefix="cgpu-victim-")
    try:
        os.chmod(folder, 0o777)
        with open(folder + "/file", "w", encoding="utf-8") as file:
            file.write("mine")
        for name in ("nvidia", "pci", "bus", "driver"):
            os.mkdir(os.path.join(folder, name))
        yield folder
    finally:
        shutil.rmtree(folder)


@with_node
def volumes(node, bundle):
    """/dev from the host, in whole or in part: refused, and nothing is made in it."""
    before = set(os.listdir("/dev"))
    with bundle() as container:
        container.remove_mounts("/dev")
        container.bind("/dev", "/dev")
        _refused(container, "no tmpfs of its own")
    t.check(not [name for name in set(os.listdir("/dev")) - before if "nvidia" in name],
            "something was made in the host's /dev")
    with _victim() as folder:
        before = _listing(folder)
        with bundle() as container:
            container.remove_mounts("/dev")
            container.bind(folder, "/dev")
            _refused(container, "no tmpfs of its own")
        t.check(_listing(folder) == before, "the folder was changed: %s" % _listing(folder))
        for name in ("nvidia0", "nvidia%d" % CARD, "nvidia-caps", ".nvidia"):
            with bundle() as container:
                container.bind(folder, "/dev/" + name)
                _refused(container, "has a file %s already" % name)
        t.check(_listing(folder) == before, "the folder was changed: %s" % _listing(folder))
    with bundle() as container:
        container.config["linux"]["devices"] = [
            {"path": "/dev/nvidia7", "type": "c", "major": 1, "minor": 3}]
        _refused(container, "has a file nvidia7 already")
    node.wait_used(0, "after the containers")


def _link(container, place, target):
    path = os.path.join(container.rootfs, place)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(target, path)


def _without_hook(container):
    """Runs it with the runtime alone: some write through the image's links, e.g. runc 1.1
    libcontainer/rootfs_linux.go setupDevSymlinks()."""
    hooks = container.config.pop("hooks")
    container.run()
    container.config["hooks"] = hooks


@with_node
def images(node, bundle):
    """Images in which the places that are mounted on are links out of it: whether the container
    starts or not, nothing of the host's changes by the hook."""
    with _victim() as folder:
        for place, mounted in (("dev", True), ("dev", False), ("proc", True), ("sys", True)):
            for target in (folder, "../" * 12 + folder[1:]):
                with bundle(["/bin/true"]) as container:
                    _link(container, place, target)
                    if not mounted:
                        container.remove_mounts("/" + place)
                    _without_hook(container)
                    before = _listing(folder)
                    done = container.run()
                    print(place, target, done.returncode, done.stderr.strip())
                    t.check(done.returncode != 0 and done.stderr, "it started: %s" % place)
                    t.check(_listing(folder) == before, "it changed: %s" % _listing(folder))
                    t.check(not leaks(container), "outside: %s" % leaks(container))
        before = _listing(folder)
        for place, target in (("sys", folder), ("sys/bus", folder), ("sys/bus/pci", "/etc"),
                              ("sys/class/drm", folder), ("sys", "/proc")):
            with bundle(["/bin/true"]) as container:
                container.remove_mounts("/sys")
                container.config["linux"].update(maskedPaths=[], readonlyPaths=[])
                _link(container, place, target)
                image = set(_listing(container.rootfs))
                done = container.run()
                t.check(done.returncode == 0, "%s -> %s: %s" % (place, target, done.stderr))
                made = {path for path in set(_listing(container.rootfs)) - image
                        if re.search("nvidia|pci|driver", path)}
                t.check(not made, "made in the image: %s" % made)
        t.check(_listing(folder) == before, "the folder was changed: %s" % _listing(folder))


@with_node
def broken(node, bundle):
    """A node that is gone, arguments of nobody's: no container."""
    with bundle() as container:
        container.config["hooks"]["createContainer"][0]["args"] += ["--folder", "nvidia9", "/none"]
        _refused(container, "cannot bind /none")
    with bundle() as container:
        container.config["hooks"]["createContainer"][0]["args"] += ["--what", "x"]
        _refused(container, "not known: --what")


CASES = {"plain": plain, "read-only": read_only, "users": users, "user": user, "masked": masked,
         "shared": shared, "without": without, "volumes": volumes, "images": images,
         "broken": broken}

if __name__ == "__main__":
    t.main({"%s-%s" % (runtime, name): lambda runtime=runtime, case=case: case(Runtime(runtime))
            for runtime in ("runc", "crun") for name, case in CASES.items()})
