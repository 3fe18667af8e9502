#!/usr/bin/env python3
"""bench/report: what it computes, what it draws and the page that it writes, without measuring anything."""
import html
import inspect
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "bench"))
import shares  # noqa: E402,F401  it finds tests/lib
from draw_shares import CHARACTER  # noqa: E402
from report import calls, compute, draw, findings, hardware, lifetime, memory, page, published  # noqa: E402
from report.host import Host  # noqa: E402


def near(a, b):
    assert abs(a - b) < 0.11, (a, b)


def sample():
    """A report with one section of each kind, and words that mean to do harm."""
    section = findings.Section("memory", "Memory & <b>", "Text <script>alert(1)</script>")
    section.figure("over", "Over \"it\"", "bytes", [0, 4096, 0], findings.at_most(0), worst=True)
    section.figure("reached", "Got", "%", [99, 100, 98], findings.at_least(98))
    section.figure("plain", "No goal", "ms", [1.5])
    section.bars("Bars", "MiB", [("a < b", 512, 1024), ("c", 1024, None)])
    section.curves("Curves", "\u00b5s", {"alone": list(range(1, 1001)), "beside": [10 * one for one in range(1, 1001)]})
    section.note("A note.")
    failed = findings.Section("start", "Start", "Text.")
    failed.give_up("there is no runc.")
    return {"format": 1, "made": "2026-11-26 06:00 UTC", "mode": "cgpu", "simulated": True, "quick": True,
            "tenants": "", "seconds": 31.5, "machine": [["GPU", "<NVIDIA> A10"]],
            "sections": [section.json(), failed.json()], "not_measured": [{"what": "L2", "needs": "a real GPU"}],
            "published": published.ROWS}


def figures_are_medians_or_the_worst():
    report = sample()
    over, reached, plain = report["sections"][0]["figures"]
    assert (over["value"], over["is"], over["met"], over["times"]) == (4096, "worst", False, 3), over
    assert (reached["value"], reached["least"], reached["most"], reached["met"]) == (99, 98, 100, True), reached
    assert plain["goal"] is plain["met"] is None, plain
    assert findings.counts(report) == (2, 1)
    assert findings.figure_of(report, "memory.over") is over and findings.figure_of(report, "memory.none") is None
    # The furthest from a goal of "at least" is the least.
    section = findings.Section("a", "A", "")
    assert section.figure("b", "B", "%", [100, 0, 100], findings.at_least(100), worst=True) == 0


def percentiles_are_values_that_occurred():
    values = list(range(1000, 0, -1))
    assert findings.percentiles(values) == [500, 990, 999]
    assert findings.percentiles([7]) == [7, 7, 7]
    points = findings.curve(values)
    assert points[0] == [0, 1] and points[-1] == [0.999, 999], points
    assert all(a[0] < b[0] and a[1] <= b[1] for a, b in zip(points, points[1:])), points


def numbers_are_short():
    for value, wanted in ((0, "0"), (0.01084, "0.0108"), (3.04, "3.04"), (24.0, "24"), (99.96, "100"), (1024, "1\u202f024"),
                          (-61.89, "-61.9"), (1e9, "1\u202f000\u202f000\u202f000")):
        assert draw.amount(value) == wanted, (value, draw.amount(value))


def parse(svg):
    return ElementTree.fromstring(svg)


def bars_are_as_long_as_their_values():
    picture = parse(draw.draw(sample()["sections"][0]["plots"][0]))
    wide = [float(one.get("width")) for one in picture.iter("rect") if one.get("class") == "bar"]
    near(wide[0], draw.WIDTH / 2)
    near(wide[1], draw.WIDTH)
    (mark,) = [one for one in picture.iter("line") if one.get("class") == "mark"]
    near(float(mark.get("x1")), draw.WIDTH - 1)
    gauge = parse(draw.gauge(1, 2))
    (bar,) = [one for one in gauge.iter("rect") if one.get("class") == "bar"]
    near(float(bar.get("width")), draw.WIDTH / 3)
    for value, goal in ((0, 0), (5, 0), (100, 100)):
        parse(draw.gauge(value, goal))


def curves_are_latencies():
    picture = parse(draw.draw(sample()["sections"][0]["plots"][1]))
    lines = {one.get("class"): one.get("points") for one in picture.iter("polyline")}
    ys = [[float(pair.split(",")[1]) for pair in lines["line line%d" % which].split()] for which in (0, 1)]
    # 1 to 10000: a factor of ten is a quarter of the height, at each part.
    for slow, fast in zip(ys[1], ys[0], strict=True):
        near(fast - slow, draw.HEIGHT / 4)
    try:
        draw.draw({"kind": "cake"})
    except ValueError:
        return
    raise AssertionError("it draws a cake")


def texts_lie_apart():
    """No text of a plot lies upon another one or leaves the picture, taken for wider than it is."""
    long = {"kind": "bars", "title": "t", "unit": "points", "rows": [{"name": "very long name " * 9, "value": 1e6, "mark": 1}]}
    for plot in [*sample()["sections"][0]["plots"], long]:
        boxes = []
        for one in parse(draw.draw(plot)).iter("text"):
            x, y, wide = float(one.get("x")), float(one.get("y")), len(one.text) * draw.SIZE * CHARACTER
            left = {"start": x, "middle": x - wide / 2, "end": x - wide}[one.get("text-anchor", "start")]
            assert -1 <= left and left + wide <= draw.WIDTH + 1, one.text
            for words, low, high, line in boxes:
                assert line != y or left + wide <= low or high <= left, "%r lies upon %r" % (one.text, words)
            boxes.append((one.text, left, left + wide, y))


def page_is_self_contained():
    text = page.render(sample())
    assert text == page.render(sample())
    for word in ("<script", "<img", "<link", "@import", "url(", "<b>\"", "onload"):
        assert word not in text, word
    assert "&lt;script&gt;" in text and "Memory &amp; &lt;b&gt;" in text and "&lt;NVIDIA&gt;" in text
    assert "prefers-color-scheme: dark" in text
    links = set(map(html.unescape, re.findall(r'href="([^"]*)"', text)))
    assert links == {row["link"] for row in published.ROWS}, links
    assert "Not measured here: there is no runc." in text and "1 of 2" in text


def figures_beside_others_exist():
    """A row beside a figure that no section makes would stand beside nothing."""
    made = "".join(map(inspect.getsource, (memory, compute, calls, lifetime, hardware)))
    for row in published.ROWS:
        if row["beside"]:
            name = row["beside"].split(".")[1]
            assert '"%s"' % name in made or '"_%s"' % name.split("_", 1)[1] in made, row


def published_rows_have_sources():
    report = sample()
    text = page.render(report)
    assert text.count("published, not measured here") == len(published.ROWS)
    for row in published.ROWS:
        assert row["link"].startswith("https://") and row["published"] and re.fullmatch(r"\d{4}-\d\d-\d\d", row["read"]), row
    # Beside another's memory limit stands this run's figure.
    assert "99 %<small>Got</small>" in text


def tenants_run_through_the_words_of_others():
    flags = ("--name", "m0", "--compute", 30)
    others = Host(cgpu=False, simulated=False, through=["env", "LIMIT={mib}m", "SHARE={percent}"])
    assert others.words(["a", "b"], "512MiB", flags) == ["env", "LIMIT=512m", "SHARE=30", "a", "b"]
    assert others.words(["a"]) == ["env", "LIMIT=1024m", "SHARE=100", "a"]
    assert Host(cgpu=False, simulated=False).words(["a"], "1MiB", flags) == ["a"]
    held = Host(cgpu=True, simulated=False).words(["a"], "1MiB", flags)
    assert held[1:] == ["run", "--mem", "1MiB", "--name", "m0", "--compute", "30", "--", "a"], held


for case in (figures_are_medians_or_the_worst, percentiles_are_values_that_occurred, numbers_are_short,
             bars_are_as_long_as_their_values, curves_are_latencies, texts_lie_apart, page_is_self_contained,
             figures_beside_others_exist, published_rows_have_sources, tenants_run_through_the_words_of_others):
    case()
    print("%s: ok" % case.__name__)
