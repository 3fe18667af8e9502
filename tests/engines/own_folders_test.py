"""cgpu's own folders, with its sockets and settings, by other names than theirs: no container with a
slice has them. Cases by name: ENGINE-CASE."""
import glob
import os

import cgpu_test as t
import slices_test


def _alias(source, target):
    """Another name for a folder or file of the machine, with what is mounted below."""
    if os.path.isdir(source):
        os.makedirs(target)
    else:
        open(target, "wb").close()
    t.command("mount", "--rbind", source, target)
    return target


def aliases(test):
    """By no name does a container have cgpu's sockets and settings: a bind of a bind, a folder above
    it, one of its files, a layer of an overlay. /run/cgpu has the container's own socket at least."""
    look = ["sh", "-c", "for f in /x /y/cgpu /z/cgpu; do find $f; done 2>&1"]
    slice_of = {"env": {"CGPU_MEM": "100MiB"}}
    out = test.run(0, "", "aliases", look, **slice_of,
                   mounts=((_alias("/run/cgpu", "/run/first"), "/x"),
                           (_alias("/run", "/run/second"), "/y"),
                           (_alias("/etc", "/run/third"), "/z")))
    t.check(out.split() == ["/x", "/y/cgpu", "/z/cgpu"], "of cgpu's folders is seen: " + out)
    socket_ = _alias(glob.glob("/run/cgpu/*.sock")[0], "/run/socket")
    test.run(test.refused, "of cgpu itself", "socket", look, mounts=((socket_, "/x"),), **slice_of)
    os.makedirs("/run/work")

    def overlay(options):
        return lambda spec: spec["mounts"].append(
            {"type": "overlay", "source": "overlay", "destination": "/x", "options": options})

    for name, options in (("lower", ["lowerdir=/run/first:/run/daemon"]),
                          ("above", ["lowerdir=/usr:/run"]),
                          ("upper", ["lowerdir=/run/daemon", "upperdir=/run/cgpu",
                                     "workdir=/run/work"])):
        print(name)
        test.run(test.refused, "of cgpu itself.*in an overlay", name, look, edit=overlay(options),
                 **slice_of)
    os.makedirs("/run/other")
    test.run(0, "", "other", ["rmtool", "alloc", "10"],
             edit=overlay(["lowerdir=/run/other:/run/daemon"]), **slice_of)


def volumes(test):
    """Docker's own ways to an alias: a volume that is a bind mount, and one that is an overlay."""
    def volume(*words):
        return ("--mount", ",".join(["type=volume,dst=/x,volume-driver=local",
                                     *("volume-opt=" + word for word in words)]))

    slice_of = {"env": {"CGPU_MEM": "100MiB"}}
    out = test.run(0, "", "bind", ["find", "/x"],
                   options=volume("type=none", "o=bind", "device=/run/cgpu"), **slice_of)
    t.check(out.split() == ["/x"], "of cgpu's folder is seen: " + out)
    os.makedirs("/run/other")
    test.run(test.refused, "in an overlay", "overlay", ["find", "/x"],
             options=volume("type=overlay", "device=overlay", "o=lowerdir=/run/cgpu:/run/other"),
             **slice_of)


def host_root(test):
    """A container whose root is the machine's, by another name."""
    def edit(spec):
        spec["root"].update(path=_alias("/", "/run/root"), readonly=True)

    out = test.run(0, "", "root", ["sh", "-c", "/bin/ls -d /run/cgpu/* /etc/cgpu/* /etc/passwd"
                                   " 2>/dev/null; true"], edit=edit, env={"CGPU_MEM": "100MiB"})
    t.check(out.split() == ["/etc/passwd"], "of cgpu's folders is seen: " + out)


if __name__ == "__main__":
    slices_test.main({"aliases": aliases, "volumes": volumes, "host-root": host_root})
