"""The packages for RPM: they are Debian's by content, and their scriptlets do what Debian's do, by RPM's
ways. There is no host with RPM here: rpm installs them on Debian, without what they need."""
import grp
import os
import stat

import cgpu_test as t
import isolation
import packages
import systemctl

RMTOOL = os.path.abspath(os.path.join(t.BIN, "rmtool"))
UNIT = "cgpud.service"
DATABASE = "/var/lib/rpm"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def _rpm(*words):
    done = t.command("rpm", "--dbpath", DATABASE, "--nodeps", "--force-debian", *words, ok=False, env=ENVIRONMENT)
    print(done.stdout + done.stderr)
    t.check(done.returncode == 0, "rpm %s ended with %d" % (words, done.returncode))
    return done.stdout + done.stderr


def _content(folder):
    """path -> (mode, bytes or the link's target), of all but folders."""
    found = {}
    for place, folders, names in os.walk(folder):
        for name in names + [one for one in folders if os.path.islink(os.path.join(place, one))]:
            path = os.path.join(place, name)
            info = os.lstat(path)
            t.check((info.st_uid, info.st_gid) == (0, 0), "not root's: " + path)
            if stat.S_ISLNK(info.st_mode):
                content = os.readlink(path)
            else:
                with open(path, "rb") as file:
                    content = file.read()
            found[path.removeprefix(folder)] = (info.st_mode, content)
    return found


def _queried(path, *words):
    return t.command("rpm", "--query", "--package", *words, path).splitlines()


def contents():
    """Installed below an empty root, each package brings the files of Debian's package, the folders of
    zsh apart."""
    packages.take("/run/debian")
    made = packages.rpms()
    for name, path in made.items():
        root = "/run/root-" + name
        os.mkdir(root)
        _rpm("--root", root, "--noscripts", "--install", path)
        (debian,) = [os.path.join("/run/debian", one) for one in os.listdir("/run/debian")
                     if one.startswith(name + "_")]
        t.command("dpkg-deb", "--extract", debian, "/run/debian/" + name)
        expected = {file.replace("/zsh/vendor-completions/", "/zsh/site-functions/"): content
                    for file, content in _content("/run/debian/" + name).items()}
        found = {file: content for file, content in _content(root).items()
                 if not file.startswith(DATABASE)}
        t.check(found.keys() == expected.keys(), "%s: %s" % (name, found.keys() ^ expected.keys()))
        for file, content in expected.items():
            t.check(found[file] == content, "%s: %s differs" % (name, file))
        _rpm("--root", root, "--verify", name)
        owned = [line.split()[0] for line in _queried(path, "--list") if line]
        t.check(not {"/usr/share/man", "/usr/share/man/man1", "/usr/share/zsh", "/usr/lib/systemd"} &
                set(owned), "%s owns folders of others" % name)
    needs = _queried(made["cgpu"], "--requires")
    t.check({"libfuse3.so.3()(64bit)", "/usr/sbin/groupadd"} <= set(needs), "it needs %s" % needs)
    t.check(_queried(made["cgpu"], "--configfiles") == ["/etc/cgpu/config.yaml"], "no settings")
    t.check("cgpu" in _queried(made["cgpu-exporter"], "--requires"), "the exporter needs no cgpu")


def lives():
    """Installed, upgraded, removed: a slice goes on through all of it."""
    packages.own_usr()
    package = packages.rpms()["cgpu"]
    _rpm("--install", package)
    grp.getgrnam("cgpu")
    t.check(t.command("systemctl", "is-enabled", UNIT) == "enabled\n", "not enabled")
    daemon = systemctl.pid_of(UNIT)
    t.check(daemon, "cgpud does not run")
    with t.Node() as node:
        holds = t.Process(["/usr/bin/cgpu", "run", "--node", node.name, "--mem", "1024MiB", "--",
                           RMTOOL, "hold", "700"], "slice", env=ENVIRONMENT)
        holds.expect("holding 700 MiB")
        with open("/etc/cgpu/config.yaml", "a", encoding="utf-8") as file:
            file.write("# the administrator's\n")
        os.makedirs("/etc/docker", exist_ok=True)
        before = '{ "debug":  true }\n'
        with open("/etc/docker/daemon.json", "w", encoding="utf-8") as file:
            file.write(before)
        t.command("/usr/bin/cgpu", "install", "docker", env=ENVIRONMENT)
        said = _rpm("--upgrade", "--replacepkgs", package)
        t.check("cgpud: upgraded" in said, "the upgrade says " + said)
        t.check(systemctl.pid_of(UNIT) == daemon, "the upgrade ended the daemon")
        said = _rpm("--erase", "cgpu")
        t.check("run on, held to their slices" in said, said)
        t.check(not systemctl.pid_of(UNIT), "cgpud goes on without its package")
        t.check(not os.path.lexists("/usr/bin/cgpu"), "the program is left")
        with open("/etc/docker/daemon.json", encoding="utf-8") as file:
            t.check(file.read() == before, "Docker names a runtime that is gone")
        with open("/etc/cgpu/config.yaml.rpmsave", encoding="utf-8") as file:
            t.check("administrator" in file.read(), "the settings are gone")
        node.sync()
        t.check(node.used() == 700 * t.MIB and holds.popen.poll() is None, "the slice is gone")
        holds.kill()
    with open(systemctl.CALLS, encoding="utf-8") as file:
        t.check("daemon-reload" in file.read(), "systemd was not told of the unit")


isolation.main({"contents": contents, "lives": lives})
