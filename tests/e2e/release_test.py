"""A release: the commit that its programs name, its signature, and its SBOM."""
import json
import os
import re
import shutil
import tempfile

import cgpu_test as t

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.path.abspath(t.BIN))
PACKAGES = BUILD + "/tests/packages"


def _commit_of(tree, file):
    t.command("cmake", "-DTREE=" + tree, "-DFILE=" + file, "-P", ROOT + "/cmake/commit.cmake")
    with open(file, encoding="utf-8") as text:
        return json.loads(text.read())  # a string of C++ that is one of JSON, too


def commit():
    """A build names the commit of its own repository, and says if files differ from it; none without a
    repository, and none of a repository around it. The file is written only if that changes."""
    with tempfile.TemporaryDirectory() as folder:
        tree, file = folder + "/tree", folder + "/commit.inc"
        os.makedirs(tree + "/inner")
        t.check(_commit_of(tree, file) == "", "a commit without a repository")
        git = ("git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@localhost")
        t.command(*git, "init", "--quiet")
        with open(tree + "/source", "w", encoding="utf-8") as source:
            source.write("1")
        t.command(*git, "add", "source")
        t.command(*git, "commit", "--quiet", "--message", "one")
        head = t.command(*git, "rev-parse", "--short=12", "HEAD").strip()
        t.check(_commit_of(tree, file) == head, "it names another commit")
        t.check(_commit_of(tree + "/inner", folder + "/other.inc") == "", "the outer repository's")
        os.utime(file, (1, 1))
        t.check(_commit_of(tree, file) == head and os.stat(file).st_mtime == 1, "it is written again")
        with open(tree + "/source", "a", encoding="utf-8") as source:
            source.write("2")
        t.check(_commit_of(tree, file) == head + " with changes", "it hides the changes")


def _verified(folder, environment):
    """Whether the signature holds, and the sums."""
    signature = t.command("gpg", "--batch", "--verify", "SHA256SUMS.asc", "SHA256SUMS", cwd=folder,
                          env=environment, ok=False).returncode == 0
    sums = t.command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=folder,
                     ok=False).returncode == 0
    return signature, sums


def _change_a_byte(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def signed():
    """It can be checked with the key, and a changed byte is noticed, wherever it is."""
    if not shutil.which("gpg"):
        t.skip("no gpg on this machine")
    with tempfile.TemporaryDirectory() as keys, tempfile.TemporaryDirectory() as folder:
        environment = {"GNUPGHOME": keys, "PATH": "/usr/bin:/bin"}
        t.command("gpg", "--batch", "--passphrase", "", "--quick-gen-key", "cgpu <test@localhost>",
                  "ed25519", "sign", "never", env=environment)
        try:
            for name in ("one.deb", "two.rpm"):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(os.urandom(4096))
            t.command(ROOT + "/tools/sign_release.sh", folder, "test@localhost", env=environment)
            with open(folder + "/SHA256SUMS", encoding="utf-8") as file:
                t.check(re.findall(r"^[0-9a-f]{64}  (.*)$", file.read(), re.MULTILINE) ==
                        ["one.deb", "two.rpm"], "not the sums of the files")
            t.check(_verified(folder, environment) == (True, True), "it does not hold")
            _change_a_byte(folder + "/two.rpm")
            t.check(_verified(folder, environment) == (True, False), "a changed file is not noticed")
            _change_a_byte(folder + "/two.rpm")
            _change_a_byte(folder + "/SHA256SUMS")
            t.check(not _verified(folder, environment)[0], "changed sums are not noticed")
        finally:
            t.command("gpgconf", "--kill", "all", env=environment)


def _sbom():
    text = t.command("python3", "-B", ROOT + "/tools/sbom.py", BUILD, PACKAGES,
                     env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    return json.loads(text)


def sbom():
    """It names what dpkg-shlibdeps found that the programs load, the archives of static programs, and
    what is headers alone, in the versions that are installed."""
    if not os.path.isdir(PACKAGES):
        t.skip("package-made has made no packages")
    document = _sbom()
    t.check(document["creationInfo"]["created"] == "2023-11-14T22:13:20Z", "%s" % document)
    packages = {one["SPDXID"]: one for one in document["packages"]}
    t.check(len(packages) == len(document["packages"]), "an identifier twice")
    related = set()
    for one in document["relationships"]:
        for end in (one["spdxElementId"], one["relatedSpdxElement"]):
            t.check(end in packages or end == "SPDXRef-DOCUMENT", "what is %s?" % end)
        related.add((one["spdxElementId"], one["relationshipType"], one["relatedSpdxElement"]))
    for name in ("cgpu", "cgpu-exporter", "cgpu-kubernetes"):
        own = "SPDXRef-cgpu-" + name
        t.check(("SPDXRef-DOCUMENT", "DESCRIBES", own) in related, "it does not describe " + name)
        package = packages[own]["packageFileName"]
        depends = t.command("dpkg-deb", "--field", PACKAGES + "/" + package, "Depends")
        libraries = {re.sub(r" .*", "", one) for one in depends.strip().split(", ")} - {
            "adduser", "cgpu"}
        loads = {packages[other]["name"] for one, kind, other in related
                 if one == own and kind == "DYNAMIC_LINK"}
        t.check(libraries and libraries <= loads, "%s loads %s, not %s" % (name, libraries, loads))
    for end, kind, other in (("cgpu", "STATIC_LINK", "libc6-dev"),
                             ("cgpu", "STATIC_LINK", "libyaml-cpp-dev")):
        t.check(("SPDXRef-cgpu-" + end, kind, "SPDXRef-Debian-" + other) in related,
                "no %s of %s" % (kind, other))
    for header in ("nlohmann-json3-dev", "libcli11-dev", "libtomlplusplus-dev"):
        t.check(("SPDXRef-Debian-" + header, "BUILD_DEPENDENCY_OF", "SPDXRef-cgpu-cgpu") in related,
                "no " + header)
        version = t.command("dpkg-query", "--show", "--showformat", "${Version}", header)
        t.check(packages["SPDXRef-Debian-" + header]["versionInfo"] == version, "another version")


t.main({"commit": commit, "signed": signed, "sbom": sbom}, root=False)
