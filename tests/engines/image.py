"""The image that containers of these tests are made of: busybox and static programs of ours. Made
here, of this machine's files: nothing comes from a registry.
"""
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile

BUSYBOX = "/bin/busybox"
NAME = "localhost/cgpu-test:1"  # a name without a host would be looked for at a registry
# Command of a container that is told nothing: CRI's sandboxes are such.
COMMAND = ["/bin/sleep", "1000000"]
USERS = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
GROUPS = "root:x:0:\nnogroup:x:65534:\n"


def make_rootfs(folder, programs=()):
    """Fills `folder` with a root: busybox under its names, and `programs` (paths of static ones) in
    /bin."""
    for path in ("bin", "dev", "etc", "proc", "sys", "tmp", "run", "var"):
        os.makedirs(os.path.join(folder, path))
    os.chmod(os.path.join(folder, "tmp"), 0o1777)
    shutil.copy(BUSYBOX, os.path.join(folder, "bin/busybox"))
    names = subprocess.run([BUSYBOX, "--list"], stdout=subprocess.PIPE, text=True, timeout=60,
                           check=True).stdout.split()
    for name in names:
        if name != "busybox":
            os.symlink("busybox", os.path.join(folder, "bin", name))
    for program in programs:
        shutil.copy(program, os.path.join(folder, "bin"))
    for name, content in (("passwd", USERS), ("group", GROUPS)):
        with open(os.path.join(folder, "etc", name), "w", encoding="utf-8") as file:
            file.write(content)


def _root_owned(member):
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    return member


def make_archive(path, rootfs, name=NAME, user=""):
    """Writes `rootfs` as an image of one layer whose containers are `user`'s, in the format of
    `docker save`, which docker, ctr and podman all load (github.com/moby/docker-image-spec, v1.2:
    "Combined Image JSON + Filesystem Changeset Format")."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(rootfs, arcname=".", filter=_root_owned)
    layer = layer.getvalue()
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "created": "1970-01-01T00:00:00Z",
        "config": {"Cmd": COMMAND, "Env": ["PATH=/bin"], "WorkingDir": "/",
                   "User": str(user)},
        "rootfs": {"type": "layers",
                   "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "tests"}],
    }).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, mode="w") as tar:
        for name, content in ((config_name, config), ("layer.tar", layer),
                              ("manifest.json", json.dumps(manifest).encode())):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
