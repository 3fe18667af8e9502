#!/usr/bin/env python3
"""Prints the SBOM of the packages in a folder, as SPDX 2.3 in JSON: what their programs were linked of.

    tools/sbom.py BUILD PACKAGES    BUILD is the folder that CMake built in, PACKAGES has the .deb files

The linker wrote which files it read (cmake/options.cmake), ninja knows which headers were compiled,
and dpkg knows which packages of Debian all of them belong to. A package is

    STATIC_LINK          one whose archives a program has parts of
    DYNAMIC_LINK         one whose libraries a program loads, itself or through another library
    BUILD_DEPENDENCY_OF  one whose headers, and so maybe inline code, were compiled
    CONTAINS             one of npm that the page within a program was built of

of one of ours. The time is that of SOURCE_DATE_EPOCH.
"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNKNOWN = "NOASSERTION"


def output(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def programs_of(package):
    """Names of the programs in a .deb."""
    listed = output("dpkg-deb", "--contents", package)
    return re.findall(r" \./usr/bin/(\S+)$", listed, re.MULTILINE)


def linked(build, program):
    """Paths of all files that the linker read for a program; those of the build relative to it."""
    with open(build / "link" / (program + ".d"), encoding="utf-8") as file:
        words = file.read().replace("\\\n", " ").split()
    return sorted({word for word in words if not word.endswith(":")})


def compiled(build):
    """object -> the headers of the machine that it was compiled with; all by ninja."""
    found, current = {}, None
    for line in output("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line.startswith("    "):
            if line.strip().startswith("/usr/"):
                current.append(line.strip())
        elif ": #deps" in line:
            current = found.setdefault(line.split(": #deps")[0], [])
    return found


def objects_of(files, objects):
    """The objects that a program has: those that it was linked of, and those of our archives."""
    folders = tuple("%s/CMakeFiles/%s.dir/" % (os.path.dirname(path), os.path.basename(path)[3:-2])
                    for path in files if path.endswith(".a") and not path.startswith("/"))
    return [name for name in objects if name in files or name.startswith(folders)]


def owners(paths):
    """path -> the package of Debian that it belongs to. dpkg knows some paths without /usr."""
    asked = {}
    for path in paths:
        real = os.path.realpath(path)
        for form in {real, real.removeprefix("/usr"), "/usr" + real}:
            asked.setdefault(form, set()).add(path)
    done = subprocess.run(["dpkg-query", "--search", *asked], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found = {}
    for line in done.stdout.splitlines():
        if not line.startswith("diversion"):
            names, form = line.split(": ", 1)
            found.update((path, names.split(", ")[0]) for path in asked[form])
    return found


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def relations(build, programs, objects):
    """{(relation, package of Debian)} of all programs of a package."""
    static, dynamic, headers = set(), set(), set()
    for program in programs:
        files = linked(build, program)
        for path in files:
            if path.startswith("/") and path.endswith((".a", ".o")):
                static.add(path)
            elif path.startswith("/") and is_elf(path):
                dynamic.add(path)
        for name in objects_of(files, objects):
            headers.update(objects[name])
    found = set()
    for relation, paths in (("STATIC_LINK", static), ("DYNAMIC_LINK", dynamic),
                            ("BUILD_DEPENDENCY_OF", headers)):
        known = owners(paths)
        missing = [path for path in paths if path not in known]
        if missing:
            raise SystemExit("error: no package has %s" % missing[0])
        found |= {(relation, name) for name in known.values()}
    return found


def identifier(kind, name):
    return "SPDXRef-%s-%s" % (kind, re.sub(r"[^A-Za-z0-9.-]", "-", name))


def described(ref, name, version, purl="", **more):
    """A package of the document."""
    fields = {"SPDXID": ref, "name": name, "versionInfo": version, "downloadLocation": UNKNOWN,
              "filesAnalyzed": False, "licenseConcluded": UNKNOWN, "licenseDeclared": UNKNOWN,
              "copyrightText": UNKNOWN, **more}
    if purl:
        fields["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                   "referenceLocator": purl}]
    return fields


def of_debian(name):
    plain = name.split(":")[0]
    version, architecture, source = output(
        "dpkg-query", "--show", "--showformat", "${Version} ${Architecture} ${source:Package}",
        name).split()
    purl = "pkg:deb/debian/%s@%s?arch=%s" % (plain, version.replace("+", "%2B").replace(":", "%3A"),
                                             architecture)
    return described(identifier("Debian", plain), plain, version, purl,
                     sourceInfo="built from the source package " + source)


def of_npm():
    """Packages that the page has parts of, if the build had a page."""
    if not (ROOT / "page/dist/index.html").exists():
        return []
    lock = json.loads((ROOT / "page/package-lock.json").read_text(encoding="utf-8"))
    return [described(identifier("npm", path.rsplit("node_modules/", 1)[1]),
                      path.rsplit("node_modules/", 1)[1], entry["version"],
                      "pkg:npm/%s@%s" % (path.rsplit("node_modules/", 1)[1], entry["version"]),
                      licenseDeclared=entry.get("license", UNKNOWN))
            for path, entry in lock["packages"].items() if path and not entry.get("dev")]


def document(build, folder):
    objects = compiled(build)
    packages, related = {}, []

    def relate(one, relation, other):
        related.append({"spdxElementId": one, "relationshipType": relation,
                        "relatedSpdxElement": other})

    debs = sorted(folder.glob("*.deb"))
    for deb in debs:
        name, version = output("dpkg-deb", "--show", "--showformat", "${Package} ${Version}",
                               str(deb)).split()
        ref = identifier("cgpu", name)
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        packages[ref] = described(ref, name, version, packageFileName=deb.name,
                                  licenseDeclared="Apache-2.0",
                                  checksums=[{"algorithm": "SHA256", "checksumValue": digest}])
        relate("SPDXRef-DOCUMENT", "DESCRIBES", ref)
        programs = [one for one in programs_of(str(deb)) if (build / "link" / (one + ".d")).exists()]
        for relation, other in sorted(relations(build, programs, objects)):
            entry = of_debian(other)
            packages[entry["SPDXID"]] = entry
            ends = (ref, entry["SPDXID"])
            relate(*((ends[0], relation, ends[1]) if relation != "BUILD_DEPENDENCY_OF" else
                     (ends[1], relation, ends[0])))
        if any(path.endswith("libcgpu_page.a") for one in programs for path in linked(build, one)):
            for entry in of_npm():
                packages[entry["SPDXID"]] = entry
                relate(ref, "CONTAINS", entry["SPDXID"])
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]),
                                              datetime.timezone.utc)
    whole = hashlib.sha256("".join(sorted(str(one.get("checksums")) for one in packages.values()))
                           .encode()).hexdigest()
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": "cgpu", "documentNamespace": "urn:cgpu:sbom:" + whole,
            "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": ["Tool: cgpu-sbom"]},
            "packages": list(packages.values()), "relationships": related}


print(json.dumps(document(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])), indent=2))
