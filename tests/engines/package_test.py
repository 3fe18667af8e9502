"""The Debian packages: what is in them, and what becomes of a machine that cgpu's own is installed on,
upgraded on and removed from."""
import filecmp
import grp
import os
import re
import shutil
import stat
import subprocess

import cgpu_test as t
import isolation
import packages
import systemctl
from bundles import Runc
from engines import write_settings
from upgrading import LOOP, NEXT, check_goes_on

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RMTOOL = os.path.abspath(os.path.join(t.BIN, "rmtool"))
UNIT = "cgpud.service"
FORMER = "cgpu-km.service"  # earlier versions had it
RM_ALLOC, NV01_MEMORY_LOCAL_USER = 0x2B, 0x40
PROGRAMS = {"cgpu": "-rwxr-xr-x", "cgpu-burn": "-rwxr-xr-x", "cgpu-runtime": "-rwxr-xr-x", "cgpu-sim": "-rwxr-xr-x",
            "cgpud": "-rwxr-xr-x", "cgpu-shim": "-rwx--x--x", "cgpu-smi": "lrwxrwxrwx", "rmtool": "-rwxr-xr-x"}
EXPORTER_UNIT = "cgpu-exporter.service"
OF_KUBERNETES = ("cgpu-device-plugin", "cgpu-scheduler", "kubectl-inspect-cgpu")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def _documents():
    names = {"README.md", "SECURITY.md", "ARCHITECTURE.md", "NOTICE", "config.yaml", "copyright"}
    for folder, _, files in os.walk(ROOT + "/docs"):
        names |= {os.path.relpath(os.path.join(folder, name), ROOT) for name in files}
    return names


def _listed(package):
    """path -> mode, of all but folders; the links with where they lead. All is root's."""
    found = {}
    for line in t.command("dpkg-deb", "--contents", package).splitlines():
        mode, owner, _, _, _, path = line.split(None, 5)
        t.check(owner == "root/root", "not root's: " + line)
        if mode.startswith("d"):
            t.check(mode == "drwxr-xr-x", "a folder of another mode: " + line)
        else:
            found[path.removeprefix(".")] = mode
    return found


def _pages(component):
    """Manual pages and completions, as the build has made them (tests/e2e/cli_pages_test.py)."""
    made = os.path.join(packages.BUILD, "cli", component, "share")
    found = {"/usr/share/" + os.path.relpath(os.path.join(folder, name), made)
             for folder, _, files in os.walk(made) for name in files}
    t.check(len(found) >= 4, "no pages in " + made)
    return {path.replace("/zsh/site-functions/", "/zsh/vendor-completions/"): "-rw-r--r--"
            for path in found}


def _check_manual(files):
    """Each program has a manual page."""
    programs = {os.path.basename(path.split()[0]) for path in files if path.startswith("/usr/bin/")}
    pages = {os.path.basename(path).split(".")[0] for path in files if "/man/" in path}
    t.check(programs and programs <= pages, "no pages of %s" % (programs - pages))


def _check_lists(package):
    expected = {"/usr/bin/" + name: mode for name, mode in PROGRAMS.items()}
    expected["/usr/bin/cgpu-smi -> cgpu"] = expected.pop("/usr/bin/cgpu-smi")
    expected["/usr/lib/cgpu/libnvidia-ml.so.1"] = "-rw-r--r--"
    expected["/etc/cgpu/config.yaml"] = "-rw-r--r--"
    expected["/usr/lib/systemd/system/" + UNIT] = "-rw-r--r--"
    expected.update({"/usr/share/doc/cgpu/" + name: "-rw-r--r--" for name in _documents()})
    expected.update(_pages("host"))
    found = _listed(package)
    t.check(found == expected, "in the package and not: %s" %
            sorted(found.items() ^ expected.items()))
    _check_manual(found)


def _check_control(package, version):
    fields = dict(line.split(": ", 1) for line in t.command(
        "dpkg-deb", "--field", package, "Package", "Version", "Architecture", "Depends",
        "Maintainer").splitlines())
    t.check((fields["Package"], fields["Version"]) == ("cgpu", version), "%s" % fields)
    architecture = t.command("dpkg", "--print-architecture").strip()
    t.check(fields["Architecture"] == architecture, "%s" % fields)
    t.check(os.path.basename(package) == "cgpu_%s_%s.deb" % (version, architecture), package)
    depends = {word.split()[0] for word in fields["Depends"].split(", ")}
    t.check({"adduser", "libc6", "libfuse3-3"} <= depends, "it needs %s" % depends)
    conffiles = t.command("dpkg-deb", "--info", package, "conffiles")
    t.check(conffiles == "/etc/cgpu/config.yaml\n", "conffiles: %r" % conffiles)
    for script in ("postinst", "prerm", "postrm"):
        text = t.command("dpkg-deb", "--info", package, script)
        done = subprocess.run(["sh", "-n"], input=text, text=True, check=False, timeout=t.DEADLINE)
        t.check(done.returncode == 0 and "set -e" in text, script + " is no script")


def _check_kubernetes(package, version):
    """The other package: it has the programs of Kubernetes alone, and what they are linked with."""
    expected = {"/usr/bin/" + name: "-rwxr-xr-x" for name in OF_KUBERNETES}
    expected.update(_pages("kubernetes"))
    _check_other(package, version, "cgpu-kubernetes", expected, {"libc6", "libcurl4", "libssl3"})


def _check_exporter(package, version):
    """The metrics: their program and its service, dashboards and alerts."""
    expected = {"/usr/bin/cgpu-exporter": "-rwxr-xr-x",
                "/usr/lib/systemd/system/" + EXPORTER_UNIT: "-rw-r--r--", **_pages("exporter")}
    for name in ("rules.yml", "grafana/app.json", "grafana/cluster.json", "grafana/node.json"):
        expected["/usr/share/cgpu-exporter/" + name] = "-rw-r--r--"
    _check_other(package, version, "cgpu-exporter", expected,
                 {"cgpu", "libc6", "libprometheus-cpp-core1.0"})


def _check_other(package, version, name, files, needs):
    path = package.replace("/cgpu_", "/%s_" % name)
    files["/usr/share/doc/%s/copyright" % name] = "-rw-r--r--"
    t.check(_listed(path) == files, "in the package is %s" % _listed(path))
    _check_manual(files)
    fields = dict(line.split(": ", 1) for line in t.command(
        "dpkg-deb", "--field", path, "Package", "Version", "Depends").splitlines())
    t.check((fields["Package"], fields["Version"]) == (name, version), "%s" % fields)
    depends = {word.split()[0] for word in fields["Depends"].split(", ")}
    t.check(needs <= depends, "it needs %s" % depends)


def _check_unit(folder, prefix="/usr"):
    with open(folder + "/lib/systemd/system/" + UNIT, encoding="utf-8") as file:
        t.check("ExecStart=%s/bin/cgpud\n" % prefix in file.read(), "it starts something else")


def _use(folder):
    """The programs in `folder` find each other: a node, a slice on it."""
    cgpu = folder + "/cgpu"
    node = "unpacked"

    def do(*words):
        done = subprocess.run([cgpu, *words], env=ENVIRONMENT, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, check=False, timeout=t.DEADLINE)
        t.check(done.returncode == 0, "cgpu %s: %d" % (words, done.returncode))
        return done.stdout

    do("sim", "start", "--name", node, "--gpus", "v100-16g:1")
    out = do("run", "--node", node, "--mem", "3GiB", "--", RMTOOL, "info")
    t.check(re.findall(r"(\d+)MiB total", out) == ["3072"], "rmtool info says " + out)
    out = do("run", "--node", node, "--mem", "3GiB", "--", folder + "/cgpu-smi")
    t.check("3072MiB" in out, "cgpu-smi says " + out)
    do("sim", "stop", "--name", node)


def _lint(package):
    if not shutil.which("lintian"):
        print("not done: no lintian on this machine")
        return
    # Statically linked on purpose; no changelog of Debian's.
    done = t.command("lintian", "--fail-on", "error", "--suppress-tags",
                     "statically-linked-binary,no-changelog,no-copyright-file", package, ok=False)
    t.check(done.returncode == 0, done.stdout)


def contents():
    package = packages.take("/run/package")
    version = t.command(t.CGPU, "--version").split()[1]
    _check_lists(package)
    _check_control(package, version)
    _check_kubernetes(package, version)
    _check_exporter(package, version)
    folder = "/run/unpacked"
    t.command("dpkg-deb", "--extract", package, folder)
    t.check(t.command(folder + "/usr/bin/cgpu", "--version").split()[1] == version, "another version")
    _check_unit(folder + "/usr")
    shim = os.stat(folder + "/usr/bin/cgpu-shim")
    t.check(stat.S_IMODE(shim.st_mode) == 0o711, "cgpu-shim can be read")
    _use(folder + "/usr/bin")
    _lint(package)
    _without_systemd(package)
    _in_place()


def _without_systemd(package):
    """In a container there is none: nothing is started, and nothing fails."""
    packages.own_usr(systemd=False)
    said = _dpkg("--install", package)
    t.check("start its daemon as root: cgpud &" in said, "it says " + said)
    t.check(isolation.processes() == {}, "it started %s" % isolation.processes())
    _dpkg("--purge", "cgpu")


def _in_place():
    """Checks what `make install` does."""
    t.command("cmake", "--install", packages.BUILD, "--strip", "--prefix", "/usr/local",
              env={**ENVIRONMENT, "DESTDIR": "/run/staged"})
    for name in (*PROGRAMS, *OF_KUBERNETES, "cgpu-exporter"):
        t.check(os.path.lexists("/run/staged/usr/local/bin/" + name), name + " is missing")
    t.check(not os.path.exists("/run/staged/etc"), "it writes to /etc")
    _check_unit("/run/staged/usr/local", "/usr/local")


def _dpkg(*words):
    done = t.command("dpkg", "--force-confold", *words, env=ENVIRONMENT, ok=False,
                     stdin=subprocess.DEVNULL)
    said = done.stdout + done.stderr
    print(said)
    t.check(done.returncode == 0, "dpkg %s ended with %d" % (words, done.returncode))
    return said


def _installed(package):
    """The daemon runs, is enabled, and its group is there."""
    _dpkg("--install", package)
    grp.getgrnam("cgpu")
    t.check(t.command("systemctl", "is-enabled", UNIT) == "enabled\n", "not enabled")
    pid = systemctl.pid_of(UNIT)
    t.check(pid and os.readlink("/proc/%d/exe" % pid).startswith("/usr/bin/cgpud"),
            "cgpud does not run")
    return pid


def lives():
    """Installed, upgraded, removed, installed again, purged: a slice goes on through all of it."""
    packages.own_usr()
    package = packages.take("/run/package")
    daemon = _installed(package)
    with t.Node() as node:
        holds = t.Process(["/usr/bin/cgpu", "run", "--node", node.name, "--mem", "1024MiB", "--",
                           RMTOOL, "hold", "700"], "slice", env=ENVIRONMENT)
        holds.expect("holding 700 MiB")
        with open("/etc/cgpu/config.yaml", encoding="utf-8") as file:
            text = file.read()
        with open("/etc/cgpu/config.yaml", "w", encoding="utf-8") as file:
            file.write("# the administrator's\n" + text.replace('node: ""', "node: " + node.name))
        t.command("/usr/bin/cgpu", "policy", "0", "soft", env=ENVIRONMENT)
        newer = packages.with_version(package, "9.0", "/run/package")
        t.check(_installed(newer) == daemon, "the upgrade ended the daemon")
        said = _dpkg("--remove", "cgpu")
        t.check(re.search(r"run on, held to their slices.*\n.*\n.* 700 / 1024 MiB ", said), said)
        t.check(not systemctl.pid_of(UNIT), "cgpud goes on without its package")
        t.check(os.path.exists("/var/lib/cgpu/policy"), "what `cgpu policy` has set is gone")
        t.check(not os.path.lexists("/usr/bin/cgpu"), "the program is left")
        with open("/etc/cgpu/config.yaml", encoding="utf-8") as file:
            t.check("administrator" in file.read(), "the settings are not as they were left")
        node.sync()
        t.check(node.used() == 700 * t.MIB and holds.popen.poll() is None, "the slice is gone")
        _installed(newer)
        holds.end()
        node.wait_used(0, "after the slice")
    _dpkg("--purge", "cgpu")
    t.check(not os.path.exists("/etc/cgpu") and not os.path.exists("/var/lib/cgpu") and
            not systemctl.pid_of(UNIT), "it is not purged")
    with open(systemctl.CALLS, encoding="utf-8") as file:
        t.check("daemon-reload" in file.read(), "systemd was not told of the unit")


def removed():
    """Removal takes the runtime out of the configuration of engines, of which one has it as its default,
    and has them read it. Where it cannot, the package stays."""
    packages.own_usr()
    package = packages.take("/run/package")
    _installed(package)
    daemon_json, podman = "/etc/docker/daemon.json", "/etc/containers/containers.conf.d/cgpu.conf"
    for path in (daemon_json, podman):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    before = '{ "debug":  true }\n'
    with open(daemon_json, "w", encoding="utf-8") as file:
        file.write(before)
    for words in (("docker", "--set-default"), ("podman",)):
        t.command("/usr/bin/cgpu", "install", *words, env=ENVIRONMENT)
    with open(daemon_json, encoding="utf-8") as file:
        installed = file.read()
    t.check('"default-runtime": "cgpu"' in installed and os.path.exists(podman), installed)
    with open(daemon_json, "w", encoding="utf-8") as file:
        file.write(installed + "}")
    done = t.command("dpkg", "--remove", "cgpu", env=ENVIRONMENT, ok=False)
    t.check(done.returncode != 0 and daemon_json + " names cgpu-runtime" in done.stderr, "%s" % done)
    t.check(os.path.exists("/usr/bin/cgpu-runtime"), "the runtime that Docker names is gone")
    with open(daemon_json, "w", encoding="utf-8") as file:
        file.write(installed)
    _dpkg("--purge", "cgpu")
    with open(daemon_json, encoding="utf-8") as file:
        t.check(file.read() == before, "Docker's configuration is not as before")
    t.check(not os.path.exists(podman), "podman names a runtime that is gone")
    with open(systemctl.CALLS, encoding="utf-8") as file:
        t.check("try-reload-or-restart docker\n" in file.read(), "Docker was not told")


# A service that says when it is ready and ends when it is told to.
SERVICE = """#!/usr/bin/python3
import os, signal, socket
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
signal.pause()
"""


def _add_former(content):
    """Makes the package one of those that had another service, which its postinst knew."""
    for path, text, mode in (
            ("usr/bin/cgpu-km", SERVICE, 0o755),
            ("usr/lib/systemd/system/" + FORMER, "[Service]\nType=notify\nExecStart=/usr/bin/cgpu-km\n"
             "[Install]\nWantedBy=multi-user.target\n", 0o644)):
        with open(os.path.join(content, path), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(os.path.join(content, path), mode)
    with open(content + "/DEBIAN/postinst", "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nset -e\naddgroup --quiet --system cgpu\n"
                   "deb-systemd-helper enable %s >/dev/null\n"
                   "deb-systemd-helper update-state %s >/dev/null\n"
                   "deb-systemd-invoke start %s >/dev/null\n" % (UNIT, FORMER, UNIT))


def former():
    """An upgrade from a version with cgpu-km stops it and leaves nothing that would start it."""
    packages.own_usr()
    package = packages.take("/run/package")
    _installed(packages.with_version(package, "0.0.1", "/run/package", edit=_add_former))
    t.command("systemctl", "enable", FORMER)
    t.command("systemctl", "start", FORMER)
    t.check(systemctl.pid_of(FORMER), "there is nothing to stop")
    _installed(package)
    t.check(not systemctl.pid_of(FORMER), "it goes on")
    left = [os.path.join(folder, name) for place in ("/etc/systemd", "/var/lib/systemd", "/usr/lib/systemd")
            for folder, folders, files in os.walk(place) for name in folders + files
            if name.startswith("cgpu-km")]
    t.check(not left and not os.path.exists("/usr/bin/cgpu-km"), "left are %s" % left)
    done = t.command("systemctl", "is-enabled", FORMER, ok=False)
    t.check(done.returncode != 0 and "enabled" not in done.stdout, "%s" % done)
    _dpkg("--purge", "cgpu")


HELD = 600  # MiB, of the 1000 of a slice


def _same_file(path, other):
    return os.path.samestat(os.stat(path), os.stat(other))


def _check_held(engine, node, name):
    for mib, status in ((1001 - HELD, 2), (200, 0)):
        # At once: it takes nothing from those that work if it is refused.
        done = engine.exec(name, ["rmtool", "alloc", str(mib), "--chunk", str(mib), "--page", "big"])
        t.check(done.returncode == status, "%d MiB more: %s" % (mib, done))
    shims = {client["pid"] for client in node.books()["clients"]}  # the driver's callers
    t.check(len(shims) == 1, "the driver is called by %s" % shims)
    return shims.pop()


def upgraded():
    """A container of runc works while dpkg puts in another version and its scripts upgrade what runs:
    no call fails, its shim is the same process, of the new file, and the slice is held; and back."""
    packages.own_usr()
    package = packages.take("/run/package")
    newer = packages.with_version(package, "9.0", "/run/package", {"cgpu-shim": NEXT})
    with t.Node() as node, Runc("/usr/bin/cgpu-runtime", in_image=[RMTOOL]) as engine:
        write_settings(node, engine.plain)
        daemon = _installed(package)
        hold = "rmtool hold %d --page big --forever" % HELD
        loads = engine.talk("loads", ["sh", "-c", "%s & (%s) & %s" % (hold, LOOP, LOOP)],
                            env={"CGPU_MEM": "1000MiB"})
        loads.expect("holding %d MiB" % HELD)
        check_goes_on(loads)
        shim = _check_held(engine, node, "loads")
        for version in (newer, package):
            before = os.stat("/proc/%d/exe" % shim)
            said = _dpkg("--install", version)
            t.check(said.count(": upgraded;") == 1 and "cgpud: upgraded" in said, "it says " + said)
            check_goes_on(loads)
            t.check(_check_held(engine, node, "loads") == shim, "another process is the shim now")
            for pid, program in ((shim, "cgpu-shim"), (daemon, "cgpud")):
                t.check(_same_file("/proc/%d/exe" % pid, "/usr/bin/" + program),
                        "%s is %s" % (program, os.readlink("/proc/%d/exe" % pid)))
            t.check(not os.path.samestat(before, os.stat("/usr/bin/cgpu-shim")), "no new file")
            t.check(filecmp.cmp("/usr/bin/cgpu-shim", NEXT, False) == (version == newer),
                    "another shim is installed")
        # In a long call it keeps its version, which is said and is no failure of dpkg's.
        before = os.stat("/proc/%d/exe" % shim)
        node.hold(1, escape=RM_ALLOC, cls=NV01_MEMORY_LOCAL_USER)
        node.wait_held(1)
        said = _dpkg("--install", newer)
        t.check("left as it was: it is in NV_ESC_RM_ALLOC" in said and "later: cgpu upgrade" in said,
                "it says " + said)
        t.check(os.path.samestat(before, os.stat("/proc/%d/exe" % shim)), "another program runs")
        node.release()
        t.command("/usr/bin/cgpu", "upgrade", env=ENVIRONMENT)
        t.check(_check_held(engine, node, "loads") == shim, "another process is the shim now")
        t.check(_same_file("/proc/%d/exe" % shim, "/usr/bin/cgpu-shim"), "it was not upgraded")
        check_goes_on(loads)
        loads.kill()
        engine.remove("loads")
        node.wait_used(0, "after the containers")
    _dpkg("--purge", "cgpu")


isolation.main({"made": packages.make, "contents": contents, "lives": lives, "former": former, "removed": removed, "upgraded": upgraded})
