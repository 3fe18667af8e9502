#!/usr/bin/env python3
"""embed.py FOLDER FILE: writes FILE, the C++ source with all files of FOLDER for assets.h."""
import os
import sys

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".css": "text/css; charset=utf-8", ".txt": "text/plain; charset=utf-8"}
WIDTH = 24  # bytes in a line

HEAD = """// Written by src/page/embed.py.
#include <algorithm>
#include <cstddef>

#include "page/assets.h"

namespace cgpu::page {
namespace {
"""
TAIL = """};

}  // namespace

const Asset* FindAsset(std::string_view path) {
  const Asset* const found = std::ranges::find(kAssets, path, &Asset::path);
  return found == std::end(kAssets) ? nullptr : found;
}

}  // namespace cgpu::page
"""


def array(number, data):
    """A file as an array. It ends with a zero, since no array is empty."""
    lines = ["constexpr char kFile%d[] = {" % number]
    values = ["'\\x%02x'" % byte for byte in data + b"\0"]
    for at in range(0, len(values), WIDTH):
        lines.append(",".join(values[at:at + WIDTH]) + ",")
    return "\n".join([*lines, "};\n"])


def main(folder, out):
    paths = sorted(os.path.relpath(os.path.join(where, name), folder)
                   for where, _, names in os.walk(folder) for name in names)
    arrays, rows = [], []
    for number, path in enumerate(paths):
        with open(os.path.join(folder, path), "rb") as file:
            arrays.append(array(number, file.read()))
        shown = "/" if path == "index.html" else "/" + path
        rows.append('    {"%s", "%s", {kFile%d, sizeof(kFile%d) - 1}},' %
                    (shown, TYPES[os.path.splitext(path)[1]], number, number))
    text = HEAD + "\n".join(arrays) + "\nconstexpr Asset kAssets[] = {\n" + "\n".join(rows) + "\n"
    with open(out, "w", encoding="utf-8") as file:
        file.write(text + TAIL)


if __name__ == "__main__":
    main(*sys.argv[1:])
