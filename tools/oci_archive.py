#!/usr/bin/env python3
"""oci_archive.py ROOT ARCHIVE NAME VERSION ENTRYPOINT...: writes the folder ROOT as an image of one
layer, as an archive that docker load and podman load take.

It is an OCI image layout (github.com/opencontainers/image-spec, image-layout.md), and has beside it the
manifest.json of `docker save` (github.com/moby/docker-image-spec, v1.2): Docker before 25 reads no
other. Files keep their numeric owners; none is newer than SOURCE_DATE_EPOCH, if that is set. The same
input gives the same bytes.
"""
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import tempfile
import time

EMPTY = ("dev", "proc", "run", "sys")  # an engine mounts something there
OCI = "application/vnd.oci.image."
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))


class Digest:
    """Passes on what is written to it, and knows its SHA-256."""

    def __init__(self, file):
        self._file = file
        self._sha = hashlib.sha256()

    def write(self, content):
        self._sha.update(content)
        return self._file.write(content)

    def flush(self):
        self._file.flush()

    def __str__(self):
        return "sha256:" + self._sha.hexdigest()


def _plain(member):
    if os.path.dirname(member.name) in EMPTY:
        return None
    member.uname = member.gname = ""
    member.mtime = min(member.mtime, EPOCH)
    return member


def _write_layer(root, file):
    """Writes the layer, compressed; its digest, and that of what is in it."""
    whole = Digest(file)
    with gzip.GzipFile(filename="", fileobj=whole, mode="wb", compresslevel=6, mtime=0) as packed:
        content = Digest(packed)
        with tarfile.open(fileobj=content, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for name in sorted(os.listdir(root)):
                tar.add(os.path.join(root, name), arcname=name, filter=_plain)
    return str(whole), str(content)


def _add(tar, name, file, size):
    member = tarfile.TarInfo(name)
    member.size, member.mtime = size, EPOCH
    tar.addfile(member, file)


def _add_json(tar, content, name=None):
    """Adds it under that name, or as a blob, which it describes."""
    data = json.dumps(content, sort_keys=True).encode()
    digest = hashlib.sha256(data).hexdigest()
    _add(tar, name or "blobs/sha256/" + digest, io.BytesIO(data), len(data))
    return {"digest": "sha256:" + digest, "size": len(data)}


def write(root, path, name, version, entrypoint):
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH))
    with tempfile.TemporaryFile() as layer, tarfile.open(path, "w") as tar:
        packed, content = _write_layer(root, layer)
        size = layer.tell()
        layer.seek(0)
        blob = "blobs/sha256/" + packed.removeprefix("sha256:")
        _add(tar, blob, layer, size)
        config = _add_json(tar, {
            "architecture": "amd64", "os": "linux", "created": created,
            "config": {"Entrypoint": entrypoint, "WorkingDir": "/",
                       "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                       "Labels": {"org.opencontainers.image.version": version}},
            "rootfs": {"type": "layers", "diff_ids": [content]},
            "history": [{"created": created, "created_by": "cgpu"}]})
        manifest = _add_json(tar, {
            "schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
            "config": {"mediaType": OCI + "config.v1+json", **config},
            "layers": [{"mediaType": OCI + "layer.v1.tar+gzip", "digest": packed, "size": size}]})
        _add_json(tar, {"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [
            {"mediaType": OCI + "manifest.v1+json", **manifest,
             "annotations": {"io.containerd.image.name": name,
                             "org.opencontainers.image.ref.name": name}}]}, "index.json")
        _add_json(tar, {"imageLayoutVersion": "1.0.0"}, "oci-layout")
        _add_json(tar, [{"Config": config["digest"].replace("sha256:", "blobs/sha256/"),
                         "RepoTags": [name], "Layers": [blob]}], "manifest.json")


write(*sys.argv[1:5], sys.argv[5:])
