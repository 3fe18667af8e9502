#!/usr/bin/env python3
"""Checks that links lead somewhere: each relative link of a Markdown page to a file or folder of the
tree, and its anchor to a heading there; each page of docs that a source names by its path; and that
the index docs/README.md names every page of docs. --self-test feeds it broken pages.
"""

import os
import re
import sys

from layers_test import ROOT, our_files

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?) *#*$")
NAMED = re.compile(r'<a (?:id|name)="([^"]+)"')
# A page of docs as comments, messages and settings name it.
MENTION = re.compile(r"(?<![\w./-])docs/(?:[a-z-]+/)*[\w-]+\.md(?:#[\w-]+)?")
INDEX = "docs/README.md"
# Files that name pages of other projects, or none.
OTHERS = ("tests/gpu/records/", "src/install/engines.h", "src/install/toml_engines.cc",
          "docs/explanation/comparison.md", "tests/layers_test.py", "tests/links_test.py")


def prose(text):
    """The lines outside fenced code, without code in the line."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield line


def anchors(text):
    """The names that GitHub gives the headings of a page, and those that the page gives itself."""
    found = set()
    for line in prose(text):
        found.update(NAMED.findall(line))
        heading = HEADING.match(line)
        if heading:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
            name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            count = 0
            while (name if not count else "%s-%d" % (name, count)) in found:
                count += 1
            found.add(name if not count else "%s-%d" % (name, count))
    return found


def targets(path, text):
    """Yields where a file leads to within the tree, as (path, anchor)."""
    if path.endswith(".md"):
        for line in prose(text):
            for link in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if not re.match(r"[a-z]+:", link):
                    file, _, anchor = link.partition("#")
                    folder = os.path.dirname(path)
                    yield os.path.normpath(os.path.join(folder, file)) if file else path, anchor
    if not path.startswith(OTHERS):
        for mention in MENTION.findall(text):
            file, _, anchor = mention.partition("#")
            yield file, anchor


def check(pages, exists):
    """`pages`: path -> text; `exists` tells whether a path of the tree is there."""
    faults = []
    names = {path: anchors(text) for path, text in pages.items() if path.endswith(".md")}
    for path, text in pages.items():
        for file, anchor in sorted(set(targets(path, text))):
            if not exists(file):
                faults.append(f"{path}: there is no {file}")
            elif anchor and anchor not in names.get(file, ()):
                faults.append(f"{path}: {file} has no heading #{anchor}")
    linked = {file for file, _ in targets(INDEX, pages.get(INDEX, ""))}
    faults += [f"{INDEX}: does not lead to {path}" for path in sorted(names)
               if path.startswith("docs/") and path not in linked | {INDEX}]
    return faults


def self_test():
    page = "# A `b` c!\n## D [e](f.md)\n## D e\n<a id=\"own\"></a>\n```\n# no\n[x](none)\n```\n"
    assert anchors(page) == {"a-b-c", "d-e", "d-e-1", "own"}, anchors(page)
    good = {"docs/f.md": "# F", "docs/a.md": page, INDEX: "[a](a.md) [f](f.md)",
            "x.md": "[1](docs/a.md#own) [2](docs/) [3](https://x.y/#z) `[4](none)` [5](#h)\n# H\n"
                    "docs/a.md, our/docs/none.md",
            "src/a.cc": "// docs/a.md#own says so, docs/f.md", OTHERS[0] + "a": "docs/none.md"}

    def faults(changes):
        pages = {**good, **changes}
        return check(pages, lambda path: path in pages or path in ("docs", "f.md"))

    assert faults({}) == [], faults({})
    for path, text in (("x.md", "[a](docs/none.md)"), ("x.md", "[a](docs/a.md#none)"),
                       ("x.md", "[a](#none)"), ("docs/f.md", "[a](docs/a.md)"),
                       ("src/a.cc", "// (docs/none.md)"), ("src/a.cc", '"docs/a.md#none"'),
                       (INDEX, "[a](a.md)")):
        assert len(faults({path: text})) == 1, (path, text, faults({path: text}))


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    faults = check({name: path.read_text(errors="replace") for name, path in our_files()},
                   lambda path: (ROOT / path).exists())
    for fault in faults:
        print(fault)
    print(f"links: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
