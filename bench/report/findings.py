"""The contents of a report, in JSON's types: sections with figures and plots. Pure.

docs/howto/report.md documents the keys.
"""
import statistics

from draw_shares import at_part

AT_MOST, AT_LEAST = "at most", "at least"


def at_most(value):
    """A goal that a figure meets if it is no more than this."""
    return {"kind": AT_MOST, "value": value}


def at_least(value):
    return {"kind": AT_LEAST, "value": value}


def meets(value, goal):
    return value <= goal["value"] if goal["kind"] == AT_MOST else value >= goal["value"]


def percentiles(values, parts=(0.5, 0.99, 0.999)):
    """The values that these parts of all do not exceed."""
    ordered = sorted(values)
    return [at_part(ordered, part) for part in parts]


def curve(values, points=60, last=0.999):
    """Points (part, value) of a latency curve: 1 - part falls by the same factor from one to the next."""
    ordered = sorted(values)
    parts = [1 - (1 - last) ** (step / points) for step in range(points + 1)]
    return [[round(part, 6), round(at_part(ordered, part), 3)] for part in parts]


class Section:
    """A section of the report, from its first measurement on."""

    def __init__(self, key, title, text):
        self._found = {"id": key, "title": title, "text": text, "reason": None, "notes": [],
                       "figures": [], "plots": []}

    def figure(self, key, name, unit, values, goal=None, worst=False):
        """A figure measured once for each of `values`. It is their median, or with `worst` the one that is
        furthest from the goal: a promise that is to hold each time."""
        values = [round(value, 4) for value in values]
        value = statistics.median(values)
        if worst:
            value = max(values) if goal["kind"] == AT_MOST else min(values)
        self._found["figures"].append({
            "id": "%s.%s" % (self._found["id"], key), "name": name, "unit": unit, "value": round(value, 4),
            "is": "worst" if worst else "median", "least": min(values), "most": max(values),
            "times": len(values), "goal": goal, "met": None if goal is None else meets(value, goal)})
        return value

    def note(self, sentence):
        if sentence not in self._found["notes"]:
            self._found["notes"].append(sentence)

    def bars(self, title, unit, rows):
        """A plot of bars. Each row is (name, value, mark): the mark is what was promised, or None."""
        self._found["plots"].append({
            "kind": "bars", "title": title, "unit": unit,
            "rows": [{"name": name, "value": round(value, 3), "mark": mark} for name, value, mark in rows]})

    def curves(self, title, unit, lines):
        """A plot of latencies: {name: values}."""
        self._found["plots"].append({
            "kind": "curves", "title": title, "unit": unit,
            "lines": [{"name": name, "points": curve(values)} for name, values in lines.items()]})

    def give_up(self, reason):
        """Says why what is missing from here on was not measured."""
        self._found["reason"] = reason

    def json(self):
        return self._found


def figure_of(report, key):
    """The figure with this id, or None."""
    for section in report["sections"]:
        for figure in section["figures"]:
            if figure["id"] == key:
                return figure
    return None


def counts(report):
    """How many figures have a goal, and how many of those meet it."""
    judged = [figure for section in report["sections"] for figure in section["figures"]
              if figure["goal"] is not None]
    return len(judged), sum(figure["met"] for figure in judged)
