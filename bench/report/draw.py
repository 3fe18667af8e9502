"""Plots as inline SVG, narrow enough for a phone: the page lays several side by side. Pure. Colours are
classes of the page's style (report/page.py)."""
import html
import math

from draw_shares import CHARACTER, Picture, number, points

WIDTH = 360
ROW = 42  # of a plot of bars: a line of text, the bar below it
BAR = 12
LEFT, RIGHT, TOP, HEIGHT = 46, 12, 12, 168  # of a plot of curves
SIZE = 12  # of the text
COLOURS = 5
PARTS = (0.0, 0.5, 0.9, 0.99, 0.999)


def amount(value):
    """A number with three significant digits at most, and no trailing zeros."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return "{:,.0f}".format(value).replace(",", "\u202f")
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = "%.*f" % (min(digits, 4), value)
    return text.rstrip("0").rstrip(".") if "." in text else text


class Plot(Picture):
    """A picture within the page, which has its style."""

    def svg(self, height, title):
        return "\n".join(['<svg viewBox="0 0 %d %s" role="img" aria-label="%s">' %
                          (WIDTH, number(height), html.escape(title)), *self._lines, "</svg>"])


def fits(words, width):
    """The words, cut where they would not fit."""
    most = int(width / (SIZE * CHARACTER))
    return words if len(words) <= most else words[:max(1, most - 1)].rstrip() + "\u2026"


def bars(plot):
    """Horizontal bars with their values; a thin line across a bar is its mark."""
    rows = plot["rows"]
    top = max([row["value"] for row in rows] + [row["mark"] or 0 for row in rows]) or 1
    picture = Plot()
    for place, row in enumerate(rows):
        y = place * ROW
        value = "%s %s" % (amount(row["value"]), plot["unit"])
        picture.text(0, y + 12, fits(row["name"], WIDTH - len(value) * SIZE * CHARACTER - 12))
        picture.text(WIDTH, y + 12, value, "value", "end")
        picture.add("rect", x=0, y=y + 18, width=WIDTH, height=BAR, rx=3, cls="rail")
        picture.add("rect", x=0, y=y + 18, width=WIDTH * row["value"] / top, height=BAR, rx=3, cls="bar")
        if row["mark"] is not None:
            x = min(WIDTH - 1, max(1, WIDTH * row["mark"] / top))
            picture.line(x, y + 14, x, y + 22 + BAR, "mark")
    return picture.svg(len(rows) * ROW, plot["title"])


def short(value):
    """A power of ten, short enough for an axis."""
    return "%gk" % (value / 1000) if value >= 1000 else "%g" % value


def ticks(low, high):
    """1, 10, 100 and so on from `low` or less to `high` or more."""
    first = math.floor(math.log10(max(low, 1e-3)))
    last = max(first + 1, math.ceil(math.log10(max(high, 1e-3)) - 1e-9))
    return [10.0 ** power for power in range(first, last + 1)]


class Curves:
    """Lines of latencies. Both axes are logarithmic, so that the slowest in a hundred or a thousand is to be
    seen."""

    def __init__(self, plot):
        self._plot = plot
        values = [value for line in plot["lines"] for _, value in line["points"]]
        self._ticks = ticks(min(values), max(values))
        self._picture = Plot()

    def _x(self, part):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log10(1 - part) / math.log10(1 - PARTS[-1])

    def _y(self, value):
        low, high = math.log10(self._ticks[0]), math.log10(self._ticks[-1])
        return TOP + HEIGHT * (high - math.log10(max(value, self._ticks[0]))) / (high - low)

    def draw(self):
        picture = self._picture
        for tick in self._ticks:
            picture.line(LEFT, self._y(tick), WIDTH - RIGHT, self._y(tick), "grid")
            picture.text(LEFT - 6, self._y(tick) + 4, short(tick), "grey", "end")
        for part in PARTS:
            x = self._x(part)
            picture.line(x, TOP, x, TOP + HEIGHT, "grid")
            picture.text(x, TOP + HEIGHT + 18, "%g %%" % (100 * part), "grey",
                         "end" if part == PARTS[-1] else "middle")
        y = TOP + HEIGHT + 40
        for colour, line in enumerate(self._plot["lines"]):
            picture.add("polyline", cls="line line%d" % (colour % COLOURS), points=points(
                (self._x(part), self._y(value)) for part, value in line["points"]))
            picture.line(0, y - 4, 20, y - 4, "line line%d" % (colour % COLOURS))
            picture.text(28, y, fits(line["name"], WIDTH - 28))
            y += 20
        return picture.svg(y - 8, self._plot["title"])


def draw(plot):
    if plot["kind"] == "bars":
        return bars(plot)
    if plot["kind"] == "curves":
        return Curves(plot).draw()
    raise ValueError("there is no plot of the kind " + plot["kind"])


def gauge(value, goal):
    """A bar of one figure with its goal as a line: the goal is at two thirds of the width, or the bar is as long
    as what is more than that."""
    scale = max(1.5 * abs(goal), abs(value)) or 1
    picture = Plot()
    picture.add("rect", x=0, y=3, width=WIDTH, height=8, rx=4, cls="rail")
    picture.add("rect", x=0, y=3, width=WIDTH * abs(value) / scale, height=8, rx=4, cls="bar")
    x = min(WIDTH - 2, max(2, WIDTH * abs(goal) / scale))
    picture.line(x, 0, x, 14, "mark")
    return picture.svg(14, "%s, goal %s" % (amount(value), amount(goal)))
