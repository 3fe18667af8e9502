"""Records the terminal session that README shows: real commands on a host with Docker and a simulated
GPU, and what they said, as an SVG file: docs/pictures/terminal.svg, or the file that is named.

`make terminal-picture` runs it as root. The host is the one of tests/engines/newcomer.py.
"""
import html
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("CGPU_BIN", os.path.join(ROOT, "build", "bin"))
sys.path += [os.path.join(ROOT, "tests", folder) for folder in ("lib", "engines")]

import isolation  # noqa: E402
import newcomer  # noqa: E402
from cgpu_test import BIN, check  # noqa: E402

IMAGE = "my-image"
SLICE = "docker run --runtime=cgpu -e CGPU_MEM=3GiB "
SESSION = (  # (comment, command, whether it succeeds)
    ("A container with 3 GiB of an A10 sees a GPU of 3 GiB.", SLICE + IMAGE + " cgpu-smi", True),
    ("It gets no more than that.", SLICE + IMAGE + " rmtool alloc 4096 --fill", False),
    ("Another one gets more while it runs.",
     SLICE + "--detach --name train \\\n    " + IMAGE + " rmtool hold 2048 --forever", True),
    (None, "cgpu set train --mem 6GiB", True),
    (None, "cgpu ps", True),
)

COLUMNS, WIDTH = 91, 800
MARGIN, TOP = 16, 48
ADVANCE = (WIDTH - 2 * MARGIN) / COLUMNS
LINE = 17
STEP_S, LINE_S = 1.2, 0.03  # before each command, and between lines of what it says
STYLE = """
text { font: %.1fpx ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #c9d1d9; white-space: pre; }
.comment { fill: #8b949e; font-style: italic; }
.prompt { fill: #3fb950; }
.command { fill: #ffffff; }
.error { fill: #ff7b72; }
@media (prefers-reduced-motion: no-preference) {
  .late { animation: show 0.01s both; }
  @keyframes show { from { opacity: 0; } to { opacity: 1; } }
}
""" % (ADVANCE / 0.602)  # such fonts have characters of about that width


def _run(command, succeeds):
    done = subprocess.run(["sh", "-c", command], cwd=newcomer.HOME, stdin=subprocess.DEVNULL, text=True,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": newcomer.HOME},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=120)
    check((done.returncode == 0) == succeeds, "`%s` ended with %d: %s" %
          (command, done.returncode, done.stdout))
    # dockerd says this of the host that the recording is made on: it has no network.
    return [line for line in done.stdout.splitlines() if "IPv4 forwarding" not in line]


def _lines():
    """The screen, as (class, text, whether a step begins)."""
    for comment, command, succeeds in SESSION:
        if comment:
            yield "", "", False
            yield "comment", comment, True
        first, *more = command.split("\n")
        yield "command", "# " + first, not comment
        for line in more:
            yield "command", line, False
        said = _run(command, succeeds)
        if "--detach" in command:  # what comes next is to show what it holds
            newcomer.shell("until docker logs train | grep holding; do sleep 0.1; done")
        for line in said:
            for part in [line[i:i + COLUMNS] for i in range(0, len(line), COLUMNS)] or [""]:
                yield ("error" if "out of memory" in line else ""), part, False


def draw(lines):
    """The picture of a screen: one line of text each, shown one after the other."""
    elements, at = [], 0.0
    for row, (kind, text, begins) in enumerate(lines):
        at += STEP_S if begins else LINE_S
        if not text:
            continue
        indent = len(text) - len(text.lstrip())
        text = text.strip()
        words = html.escape(text, quote=False)
        if kind == "command":
            words = re.sub("^# ", '<tspan class="prompt"># </tspan>', words)
        elements.append(
            '<text class="late %s" x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs" '
            'xml:space="preserve" style="animation-delay: %.2fs">%s</text>' %
            (kind, MARGIN + indent * ADVANCE, TOP + 8 + row * LINE, len(text) * ADVANCE, at, words))
    height = TOP + len(lines) * LINE + 8
    dots = "".join('<circle cx="%d" cy="20" r="6" fill="%s"/>' % (MARGIN + 6 + 20 * which, colour)
                   for which, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")))
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">' %
        (WIDTH, height, WIDTH, height),
        "<title>A terminal: containers that share one GPU, each held to its slice</title>",
        "<style>%s</style>" % STYLE,
        '<rect width="%d" height="%d" rx="8" fill="#0d1117"/>' % (WIDTH, height), dots, *elements,
        "</svg>", ""])


def main():
    path = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ROOT + "/docs/pictures/terminal.svg"
    isolation.enter()
    newcomer.start()
    newcomer.start_docker(IMAGE + ":latest", [os.path.join(BIN, name) for name in ("cgpu-smi", "rmtool")])
    newcomer.shell("apt install --yes ./build/cgpu_*.deb\ncgpu sim start --gpus a10:1\n"
                   "cgpu install docker\nsystemctl reload docker")
    lines = list(_lines())[1:]
    newcomer.shell("docker rm --force train\ncgpu sim stop\nsystemctl stop docker")
    with open(path, "w", encoding="utf-8") as file:
        file.write(draw(lines))


if __name__ == "__main__":
    main()
