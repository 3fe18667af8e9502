#!/usr/bin/env python3
"""bench/draw_shares.py: a picture is well formed, says what its samples say, has no text upon another, and
those of the documentation are what their samples come to."""
import copy
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "bench"))
import draw_shares  # noqa: E402

PICTURES = os.path.join(ROOT, "docs", "pictures")
MOST_BYTES = 60000
SVG = "{http://www.w3.org/2000/svg}"

# 20 windows of 100 ms; a has 60 and then 20, b 30.
SHARES = {
    "kind": "shares", "title": "T & <t>", "note": "n", "step_s": 0.1,
    "members": [{"name": "a", "measured": [60.0] * 10 + [20.0] * 10, "promised": [[0, 61], [1, 21]]},
                {"name": "b", "measured": [30.0] * 20, "promised": [[0, 29]]}],
    "events": [{"at_s": 1.0, "text": "x < y & z"}]}
# 1 to 1000 ms, and a tenth of it.
LATENCIES = {
    "kind": "latencies", "title": "T", "note": "n", "columns": ["p50"],
    "panels": [{"title": "here", "curves": [
        {"name": "slow", "us": [1000 * i for i in range(1, 1001)], "values": ["500 ms"]},
        {"name": "fast", "us": [100 * i for i in range(1000, 0, -1)], "values": ["50 ms"]}]}]}


def tree(samples):
    return ElementTree.fromstring(draw_shares.draw(samples))


def near(a, b):
    assert abs(a - b) < 0.11, (a, b)


def of_class(picture, tag, cls):
    return [one for one in picture.iter(SVG + tag) if cls in one.get("class", "").split()]


def texts(picture):
    return [one.text for one in picture.iter(SVG + "text")]


def steps_are_shares():
    """The upper edge of each area is the sum of the shares up to it, the promised lines likewise."""
    top, height = draw_shares.Shares.TOP, draw_shares.Shares.HEIGHT
    picture = tree(SHARES)
    for which, sums in enumerate(([60.0] * 10 + [20.0] * 10, [90.0] * 10 + [50.0] * 10)):
        (area,) = of_class(picture, "path", "area%d" % which)
        steps = re.findall(r"V([\d.]+)H([\d.]+)", area.get("d"))
        assert len(steps) == 20, steps
        for i, (y, x) in enumerate(steps):
            near(float(y), top + height * (1 - sums[i] / 100))
            near(float(x), draw_shares.LEFT + (i + 1) / 20 *
                 (draw_shares.WIDTH - draw_shares.LEFT - draw_shares.RIGHT))
    lines = [[float(pair.split(",")[1]) for pair in one.get("points").split()]
             for one in of_class(picture, "polyline", "promised")]
    for line, sums in zip(lines, ((61, 61, 21, 21), (90, 90, 50, 50)), strict=True):
        for y, percent in zip(line, sums, strict=True):
            near(y, top + height * (1 - percent / 100))


def labels_are_means():
    """Labels are means of what was measured once it had settled, not right after an event."""
    samples = copy.deepcopy(SHARES)
    samples["members"][0]["measured"][10:14] = [99.0] * 4  # the first 0.4 s after the event
    found = [words for words in texts(tree(samples)) if re.fullmatch(r"[\d.]+", words) and "." in words]
    assert found == ["60.0", "30.0", "20.0", "30.0"], found
    assert "1 s: x < y & z" in texts(tree(samples)) and "T & <t>" in texts(tree(samples))


def curves_are_percentiles():
    """x and y of a curve: the part of the requests, and how long they took at the most."""
    picture = tree(LATENCIES)
    drawn = draw_shares.Latencies(LATENCIES)
    for which, factor in ((0, 1.0), (1, 0.1)):
        (curve,) = [one for one in of_class(picture, "polyline", "line%d" % which)]
        pairs = [tuple(map(float, pair.split(","))) for pair in curve.get("points").split()]
        left, width = pairs[0][0], pairs[-1][0] - pairs[0][0]
        for x, y in pairs:
            part = 1 - 10 ** (-3 * (x - left) / width)
            low, high = (draw_shares.Latencies.TOP + draw_shares.Latencies.HEIGHT * at for at in (1, 0))
            first, last = drawn._ticks[0], drawn._ticks[-1]  # pylint: disable=protected-access
            ms = first * (last / first) ** ((low - y) / (low - high))
            wanted = max(1, 1000 * part) * factor
            assert abs(ms - wanted) < 0.03 * wanted + factor, (x, y, ms, wanted)
    values = sorted(LATENCIES["panels"][0]["curves"][0]["us"])
    assert [draw_shares.at_part(values, part) for part in (0, 0.5, 0.99, 0.999, 1)] == [
        1000, 500000, 990000, 999000, 1000000]


def boxes(picture):
    """Where each text is, taken for wider than it is."""
    for one in picture.iter(SVG + "text"):
        size = 15 if one.get("class") == "title" else 12
        x, y, wide = float(one.get("x")), float(one.get("y")), len(one.text) * size * draw_shares.CHARACTER
        left = {"start": x, "middle": x - wide / 2, "end": x - wide}[one.get("text-anchor", "start")]
        yield one.text, left, left + wide, y - 0.8 * size, y + 0.25 * size


def is_readable(picture):
    found = list(boxes(picture))
    wide, high = float(picture.get("width")), float(picture.get("height"))
    for i, (words, left, right, top, bottom) in enumerate(found):
        assert 0 <= left and right <= wide and 0 <= top and bottom <= high, "%r is cut off" % words
        for other, left2, right2, top2, bottom2 in found[:i]:
            assert right <= left2 or right2 <= left or bottom <= top2 or bottom2 <= top, (
                "%r lies upon %r" % (words, other))


def is_self_contained(text):
    for word in ("href", "<script", "<image", "@import", "url("):
        assert word not in text, word
    assert "prefers-color-scheme: dark" in text


def same_bytes():
    for samples in (SHARES, LATENCIES):
        text = draw_shares.draw(samples)
        assert text == draw_shares.draw(copy.deepcopy(samples))
        is_self_contained(text)
        is_readable(ElementTree.fromstring(text))


def refused():
    for change in ({"kind": "cake"}, {"members": SHARES["members"][:1] + [{**SHARES["members"][1],
                                                                           "measured": [1.0]}]}):
        try:
            draw_shares.draw({**SHARES, **change})
        except ValueError:
            continue
        raise AssertionError("it draws %s" % change)


def documented():
    """The pictures are those that the tool draws of the samples: a change of either draws them
    again."""
    names = sorted(name.removesuffix(".json") for name in os.listdir(PICTURES) if name.endswith(".json"))
    assert names, "no samples"
    for name in names:
        with open(os.path.join(PICTURES, name + ".json"), encoding="utf-8") as file:
            text = draw_shares.draw(draw_shares.json.load(file))
        with open(os.path.join(PICTURES, name + ".svg"), encoding="utf-8") as file:
            assert file.read() == text, "draw %s.svg anew: bench/draw_shares.py" % name
        assert len(text) < MOST_BYTES, "%s.svg has %d bytes" % (name, len(text))
        is_self_contained(text)
        is_readable(ElementTree.fromstring(text))


for case in (steps_are_shares, labels_are_means, curves_are_percentiles, same_bytes, refused, documented):
    case()
    print("%s: ok" % case.__name__)
