#!/usr/bin/env python3
"""Draws samples of compute shares as a self-contained SVG file: the pictures of docs/explanation/compute.md.

  draw_shares.py SAMPLES.json PICTURE.svg

bench/share_story.py writes the samples. What they are is said by their "kind":

"shares": what each container had of a GPU over time, one above the other; what is left above them
  nobody had. Thin lines: what they were promised.
    "title", "note"   texts
    "step_s"          length of one window
    "members"         [{"name", "measured": [percent of each window], "promised": [[from_s, percent],
                      ...]}], from the lowest
    "events"          [{"at_s", "text"}], in their order: numbered in the picture, listed below it
"latencies": how long requests took, by the part of them that took no longer; both axes logarithmic, so
  that the slowest one in a hundred or thousand is to be seen.
    "title", "note"   texts
    "columns"         names of what `values` are
    "panels"          [{"title", "curves": [{"name", "us": [latency of each request],
                      "values": [text, ...]}]}]; all panels have the same names in the same order

The same samples come to the same bytes. Colours are those of the reader's theme, light or dark.
"""
import html
import json
import math
import sys

WIDTH = 900
LEFT, RIGHT = 62, 28
CHARACTER = 0.62  # of the font's size: wider than most are
SETTLED_S = 0.6  # after an event: a label tells what was measured from then to the next one

LIGHT = {"paper": "#ffffff", "ink": "#1f2328", "faint": "#d1d9e0", "grey": "#59636e", "on": "#ffffff",
         "colours": ("#2f6fb3", "#c2571a", "#2e7d5b", "#8250a8", "#7a6a1f")}
DARK = {"paper": "#0d1117", "ink": "#f0f6fc", "faint": "#3d444d", "grey": "#9198a1", "on": "#0d1117",
        "colours": ("#6cb0f5", "#f0965a", "#5fc796", "#c39be8", "#d6c25a")}


def _colours(theme):
    """Rules of one theme. Without variables, which not every program knows that shows SVG."""
    rules = """.paper { fill: %(paper)s; }
text { fill: %(ink)s; }
text.grey { fill: %(grey)s; }
text.on { fill: %(on)s; }
.grid { stroke: %(faint)s; }
.event, .promised { stroke: %(ink)s; }
.mark { fill: %(paper)s; stroke: %(ink)s; }
""" % theme
    for which, colour in enumerate(theme["colours"]):
        rules += ".area%d { fill: %s; }\n.line%d { stroke: %s; }\n" % (which, colour, which, colour)
    return rules


STYLE = """
svg { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
text { font-size: 12px; }
text.title { font-size: 15px; font-weight: 600; }
text.on { font-weight: 600; }
.grid, .event, .promised, .line { fill: none; }
.event { stroke-dasharray: 2 3; }
.promised { stroke-width: 1.3; }
.line { stroke-width: 2; }
""" + _colours(LIGHT) + "@media (prefers-color-scheme: dark) {\n" + _colours(DARK) + "}\n"


def number(value):
    """A coordinate, as short as it can be."""
    text = ("%.1f" % value).removesuffix(".0")
    return "0" if text == "-0" else text


def points(pairs):
    return " ".join("%s,%s" % (number(x), number(y)) for x, y in pairs)


class Picture:
    """Lines of an SVG file, from its top."""

    def __init__(self):
        self._lines = []

    def add(self, element, inner=None, **attributes):
        """`cls` is the class; underscores stand for hyphens."""
        words = ['%s="%s"' % (key.replace("cls", "class").replace("_", "-"),
                              html.escape(number(value) if isinstance(value, (int, float)) else value))
                 for key, value in attributes.items()]
        opened = "<%s>" % " ".join([element, *words])
        self._lines.append(opened[:-1] + "/>" if inner is None else
                           "%s%s</%s>" % (opened, html.escape(inner, quote=False), element))

    def text(self, x, y, words, cls="", anchor="start"):
        more = {"cls": cls} if cls else {}
        if anchor != "start":
            more["text_anchor"] = anchor
        self.add("text", words, x=x, y=y, **more)

    def line(self, x1, y1, x2, y2, cls):
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, cls=cls)

    def file(self, height, title):
        size = 'width="%d" height="%d" viewBox="0 0 %d %d"' % (WIDTH, height, WIDTH, height)
        return "\n".join(['<svg xmlns="http://www.w3.org/2000/svg" %s role="img">' % size,
                          "<title>%s</title>" % html.escape(title, quote=False),
                          "<style>%s</style>" % STYLE,
                          '<rect class="paper" width="%d" height="%d" rx="6"/>' % (WIDTH, height),
                          *self._lines, "</svg>", ""])

    def heading(self, samples):
        self.text(LEFT, 26, samples["title"], "title")
        self.text(LEFT, 45, samples["note"], "grey")


class Shares:
    """The picture of the kind "shares"."""

    TOP, HEIGHT = 86, 300
    ROW = 20  # of the list of events

    def __init__(self, samples):
        self._samples = samples
        self._members = samples["members"]
        self._step = samples["step_s"]
        self._windows = len(self._members[0]["measured"])
        if any(len(one["measured"]) != self._windows for one in self._members):
            raise ValueError("the members have not as many windows each")
        if len(self._members) > len(LIGHT["colours"]):
            raise ValueError("there are not so many colours")
        self._end = self._windows * self._step
        self._picture = Picture()

    def _x(self, seconds):
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / self._end

    def _y(self, percent):
        return self.TOP + self.HEIGHT * (1 - percent / 100)

    def _axes(self):
        picture = self._picture
        for percent in range(0, 101, 25):
            picture.line(LEFT, self._y(percent), WIDTH - RIGHT, self._y(percent), "grid")
            picture.text(LEFT - 8, self._y(percent) + 4, "%d %%" % percent, anchor="end")
        every = next(one for one in (1, 2, 5, 10, 20, 60, 300) if self._end / one <= 12)
        for seconds in range(0, int(self._end) + 1, every):
            picture.text(self._x(seconds), self._y(0) + 18, "%d s" % seconds, anchor="middle")

    def _areas(self):
        """Each from the axis up to the sum of it and those below, the highest first: the lower ones cover
        the rest of it."""
        sums = [0.0] * self._windows
        areas = []
        for which, member in enumerate(self._members):
            sums = [low + one for low, one in zip(sums, member["measured"])]
            steps = "".join("V%sH%s" % (number(self._y(level)), number(self._x((i + 1) * self._step)))
                            for i, level in enumerate(sums))
            areas.append(("M%s %s%sV%sZ" % (LEFT, number(self._y(0)), steps, number(self._y(0))), which))
        for path, which in reversed(areas):
            self._picture.add("path", d=path, cls="area%d" % which)

    @staticmethod
    def _promise(member, seconds):
        return [percent for since, percent in member["promised"] if since <= seconds][-1]

    def _promises(self):
        """A line above each, from one change of anybody's to the next."""
        changes = sorted({since for member in self._members for since, _ in member["promised"]})
        spans = list(zip(changes, changes[1:] + [self._end]))
        for which in range(len(self._members)):
            line = []
            for since, until in spans:
                level = sum(self._promise(one, since) for one in self._members[:which + 1])
                line += [(self._x(since), self._y(level)), (self._x(until), self._y(level))]
            self._picture.add("polyline", points=points(line), cls="promised")

    def spans(self):
        """From one event to the next, once it has settled: [(from_s, to_s, percent of each)]."""
        times = [0.0] + [event["at_s"] for event in self._samples["events"]] + [self._end]
        found = []
        for since, until in zip(times, times[1:]):
            first = math.ceil((since + SETTLED_S) / self._step)
            last = math.floor(until / self._step + 1e-9)
            if last > first:
                found.append((since, until, [sum(one["measured"][first:last]) / (last - first)
                                             for one in self._members]))
        return found

    def _labels(self):
        for since, until, shares in self.spans():
            level = 0.0
            for percent in shares:
                words = "%.1f" % percent
                wide = self._x(until) - self._x(since) > len(words) * 12 * CHARACTER + 8
                if wide and percent * self.HEIGHT / 100 >= 16:
                    self._picture.text(self._x((since + until) / 2), self._y(level + percent / 2) + 4,
                                       words, "on", "middle")
                level += percent

    def _events(self):
        picture = self._picture
        for count, event in enumerate(self._samples["events"], 1):
            x = self._x(event["at_s"])
            picture.line(x, self.TOP - 8, x, self._y(0), "event")
            picture.add("circle", cx=x, cy=self.TOP - 16, r=9, cls="mark")
            picture.text(x, self.TOP - 12, str(count), anchor="middle")

    def _legend(self, y):
        x = LEFT
        for which, member in enumerate(self._members):
            self._picture.add("rect", x=x, y=y - 10, width=12, height=12, cls="area%d" % which)
            self._picture.text(x + 18, y, member["name"])
            x += 18 + len(member["name"]) * 12 * CHARACTER + 20
        self._picture.line(x, y - 4, x + 20, y - 4, "promised")
        self._picture.text(x + 26, y, "promised (above each)")
        x += 26 + len("promised (above each)") * 12 * CHARACTER + 20
        self._picture.add("rect", x=x, y=y - 10, width=12, height=12, cls="grid")
        self._picture.text(x + 18, y, "nobody's, or switches; numbers: percent of the time, measured")

    def _list(self, y):
        """In two columns. Returns where it ends."""
        events = self._samples["events"]
        rows = (len(events) + 1) // 2
        for which, event in enumerate(events):
            x = LEFT + (which // rows) * (WIDTH - LEFT) / 2
            at = y + which % rows * self.ROW
            self._picture.text(x + 16, at, str(which + 1), "grey", "end")
            self._picture.text(x + 26, at, "%.0f s: %s" % (event["at_s"], event["text"]))
        return y + rows * self.ROW

    def draw(self):
        self._picture.heading(self._samples)
        self._axes()
        self._areas()
        self._promises()
        self._events()
        self._labels()
        bottom = self._y(0)
        self._legend(bottom + 46)
        height = self._list(bottom + 74) - self.ROW + 16
        return self._picture.file(round(height), self._samples["title"])


def at_part(values, part):
    """Returns the value that this part of the sorted `values` does not exceed."""
    return values[max(0, math.ceil(part * len(values) - 1e-9) - 1)]


class Latencies:
    """The picture of the kind "latencies"."""

    TOP, HEIGHT = 88, 280
    PARTS = (0.0, 0.5, 0.9, 0.99, 0.999)
    STEPS = 120  # points of a curve
    BETWEEN = 60  # panels
    ROW = 20

    def __init__(self, samples):
        self._samples = samples
        self._panels = samples["panels"]
        self._names = [curve["name"] for curve in self._panels[0]["curves"]]
        if any([curve["name"] for curve in panel["curves"]] != self._names for panel in self._panels):
            raise ValueError("the panels have not the same curves")
        if len(self._names) > len(LIGHT["colours"]):
            raise ValueError("there are not so many colours")
        self._width = (WIDTH - LEFT - RIGHT - self.BETWEEN * (len(self._panels) - 1)) / len(self._panels)
        every = [us / 1000 for panel in self._panels for curve in panel["curves"] for us in curve["us"]]
        steps = [step * 10.0 ** power for power in range(-4, 7) for step in (1, 2, 5)]
        low = max(one for one in steps if one <= min(every))
        high = min(one for one in steps if one >= max(every))
        self._ticks = [one for one in steps if low <= one <= high]
        self._picture = Picture()

    def _x(self, panel, part):
        whole = -math.log10(1 - self.PARTS[-1])
        return LEFT + panel * (self._width + self.BETWEEN) - self._width * math.log10(1 - part) / whole

    def _y(self, ms):
        low, high = math.log10(self._ticks[0]), math.log10(self._ticks[-1])
        return self.TOP + self.HEIGHT * (high - math.log10(ms)) / (high - low)

    def _axes(self, which, panel):
        picture = self._picture
        left, right = self._x(which, 0), self._x(which, self.PARTS[-1])
        picture.text(left, self.TOP - 14, panel["title"])
        for tick in self._ticks:
            picture.line(left, self._y(tick), right, self._y(tick), "grid")
            picture.text(left - 8, self._y(tick) + 4, "%g" % tick + (" ms" if which == 0 else ""),
                         anchor="end")
        for part in self.PARTS:
            x = self._x(which, part)
            picture.line(x, self.TOP, x, self._y(self._ticks[0]), "event" if part == 0.99 else "grid")
            picture.text(x, self._y(self._ticks[0]) + 18, "%g %%" % (100 * part), anchor="middle")

    def _curve(self, which, colour, curve):
        values = sorted(curve["us"])
        whole = -math.log10(1 - self.PARTS[-1])
        parts = [1 - 10 ** (-whole * step / self.STEPS) for step in range(self.STEPS + 1)]
        self._picture.add("polyline", cls="line line%d" % colour, points=points(
            (self._x(which, part), self._y(at_part(values, part) / 1000)) for part in parts))

    def _table(self, y):
        """Writes what each line is, with its figures for each panel. Returns where it ends."""
        columns = self._samples["columns"]
        place = 236.0  # where the figures begin
        wide = (WIDTH - RIGHT - place) / len(self._panels)

        def x(panel, column):
            return place + panel * wide + (column + 1) * wide / len(columns) - 4

        for panel, one in enumerate(self._panels):
            self._picture.text(x(panel, len(columns) - 1), y, one["title"], "grey", "end")
            for column, name in enumerate(columns):
                self._picture.text(x(panel, column), y + self.ROW, name, "grey", "end")
        y += 2 * self.ROW
        for colour, name in enumerate(self._names):
            self._picture.line(LEFT, y - 4, LEFT + 20, y - 4, "line line%d" % colour)
            self._picture.text(LEFT + 28, y, name)
            for panel, one in enumerate(self._panels):
                for column, words in enumerate(one["curves"][colour]["values"]):
                    self._picture.text(x(panel, column), y, words, anchor="end")
            y += self.ROW
        return y

    def draw(self):
        self._picture.heading(self._samples)
        for which, panel in enumerate(self._panels):
            self._axes(which, panel)
            for colour, curve in enumerate(panel["curves"]):
                self._curve(which, colour, curve)
        bottom = self._y(self._ticks[0])
        self._picture.text(LEFT, bottom + 40, "across: part of the requests that took no longer; "
                           "upwards: from when a request was due until its end was seen", "grey")
        height = self._table(bottom + 68) - self.ROW + 16
        return self._picture.file(round(height), self._samples["title"])


KINDS = {"shares": Shares, "latencies": Latencies}


def draw(samples):
    """The text of an SVG file. ValueError: they are not what the kind asks for."""
    if samples.get("kind") not in KINDS:
        raise ValueError("the kind is none of: " + ", ".join(KINDS))
    return KINDS[samples["kind"]](samples).draw()


def main(arguments):
    if len(arguments) != 2 or arguments[0].startswith("-"):
        sys.exit(__doc__)
    with open(arguments[0], encoding="utf-8") as file:
        samples = json.load(file)
    try:
        text = draw(samples)
    except (KeyError, ValueError) as error:
        sys.exit("draw_shares: %s: %s" % (arguments[0], error))
    with open(arguments[1], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
