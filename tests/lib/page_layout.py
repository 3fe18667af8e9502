"""Faults in how Chromium lays out a page: text upon text, text that is cut off or leaves the window, a
page that is wider than the window, numbers of one column that do not end at one line."""
import html
import json
import os
import re
import shutil
import subprocess
import tempfile

import cgpu_test as t

# The window of the page: Chromium's own may not be as narrow as a phone.
_FRAME = """<!DOCTYPE html><html><body style="margin: 0">
<iframe style="border: 0; width: %dpx; height: 900px" srcdoc="%s"></iframe></body></html>"""
# Measures the page that it is part of, once it is laid out, and writes what it finds beside the frame.
_MEASURE = """<script>
addEventListener("load", () => {
  const found = [], texts = [];
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide)
    found.push("the page is " + document.documentElement.scrollWidth + " wide");
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, words = node.data.trim();
    if (!words || node.parentElement.closest("script")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const picture = node.parentElement.closest("svg");
    const limits = picture ? picture.getBoundingClientRect() : {left: 0, right: wide};
    for (const box of range.getClientRects()) {
      if (box.width === 0) continue;
      if (box.left < limits.left - 1 || box.right > limits.right + 1) found.push("cut off: " + words);
      texts.push([box, words]);
    }
  }
  for (let i = 0; i < texts.length; ++i)
    for (let j = 0; j < i; ++j) {
      const [a, b] = [texts[i][0], texts[j][0]];
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (x > 1 && y > 3) found.push(texts[i][1] + " lies upon " + texts[j][1]);
    }
  for (const table of document.querySelectorAll("table")) {
    if (!table.querySelector("thead th[scope=col]")) found.push("a table has no headers");
    const edges = {};
    for (const cell of table.querySelectorAll("td.number")) {
      const range = document.createRange();
      range.selectNodeContents(cell);
      const right = Math.max(...[...range.getClientRects()].map((box) => box.right));
      const first = edges[cell.cellIndex] ??= right;
      if (Math.abs(right - first) > 1) found.push("not aligned: " + cell.textContent);
    }
  }
  const says = parent.document.createElement("div");
  says.id = "found";
  says.textContent = JSON.stringify({wide: innerWidth, texts: texts.length, found});
  parent.document.body.append(says);
});
</script></body>"""


def faults(page, width):
    """Returns what is wrong with this HTML, in a window of that width. Skips the test where there is no Chromium."""
    if shutil.which("chromium") is None:
        t.skip("no Chromium on this machine (package chromium)")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(_FRAME % (width, html.escape(page.replace("</body>", _MEASURE))))
        done = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             "--user-data-dir=" + os.path.join(folder, "profile"), "--window-size=%d,900" % max(width, 1000), "--dump-dom",
             "file://" + path], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=t.DEADLINE, check=False)
        said = re.search(r'<div id="found">(.*?)</div>', done.stdout, re.DOTALL)
        t.check(said is not None, "Chromium does not show the page: " + done.stderr[-500:])
    found = json.loads(html.unescape(said.group(1)))
    t.check(found["wide"] == width and found["texts"] > 0, "the window is %(wide)d wide, with %(texts)d texts" % found)
    return found["found"]
