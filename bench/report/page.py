"""The report as one HTML page without scripts and without anything from elsewhere. Pure."""
import html

from draw_shares import DARK, LIGHT
from report.draw import amount, draw, gauge
from report.findings import AT_MOST, counts, figure_of


def _variables(theme):
    """Variables of one theme: those of the project's other pictures."""
    names = {key: theme[key] for key in ("paper", "ink", "faint", "grey")}
    names.update({"line%d" % which: colour for which, colour in enumerate(theme["colours"])})
    return " ".join("--%s: %s;" % pair for pair in names.items())


STYLE = """
:root { color-scheme: light dark; %s --good: #1a7f37; --bad: #b42318; --rail: #eaeef2; }
@media (prefers-color-scheme: dark) { :root { %s --good: #57ab5a; --bad: #f47067; --rail: #262c36; } }
""" % (_variables(LIGHT), _variables(DARK)) + """
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: break-word;
  font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .25rem; padding-top: 1rem; border-top: 1px solid var(--faint); }
h3 { font-size: .9rem; font-weight: 600; margin: 0 0 .6rem; }
p { margin: .25rem 0 .75rem; max-width: 46rem; }
.grey, .note { color: var(--grey); font-size: .9rem; }
.warning { border-left: 4px solid var(--line1); padding: .1rem .8rem; max-width: 46rem; }
table { width: 100%; border-collapse: collapse; font-size: .92rem; table-layout: fixed; }
th, td { text-align: left; vertical-align: top; padding: .45rem .5rem .45rem 0; border-bottom: 1px solid var(--faint);
  font-weight: 400; overflow-wrap: anywhere; }
thead th { color: var(--grey); font-size: .8rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; padding-right: .9rem; }
td.number b { font-weight: 600; }
td small, th small { display: block; color: var(--grey); font-size: .78rem; }
.figures col.measured { width: 30%; } .figures col.goal { width: 24%; }
.machine col.key { width: 38%; } .machine { max-width: 46rem; }
.met { color: var(--good); font-weight: 600; } .missed { color: var(--bad); font-weight: 600; }
.plots figure { margin: 1.2rem 0 0; max-width: 28rem; }
@media (min-width: 62rem) {
  .found { display: grid; grid-template-columns: minmax(0, 1fr) 24rem; gap: 0 3rem; align-items: start; }
  .plots figure { margin: .4rem 0 1.5rem; }
}
svg { display: block; width: 100%; height: auto; overflow: hidden; }
svg text { fill: var(--ink); font-size: 12px; } svg text.grey { fill: var(--grey); font-size: 11px; }
svg text.value { font-weight: 600; }
svg .bar { fill: var(--line0); } svg .rail { fill: var(--rail); }
svg .mark { stroke: var(--ink); stroke-width: 2; } svg .grid { stroke: var(--faint); }
svg .line { fill: none; stroke-width: 2; }
.missed-row svg .bar { fill: var(--bad); } .met-row svg .bar { fill: var(--good); }
.gauge { margin-top: .35rem; max-width: 16rem; }
""" + "\n".join("svg .line%d { stroke: var(--line%d); }" % (which, which) for which in range(5)) + """
.summary { display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin: 1rem 0; padding: 0; list-style: none; }
.summary b { display: block; font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
a { color: var(--line0); }
.published col.what { width: 34%; } .published col.ours { width: 22%; }
@media (max-width: 34rem) {
  body { font-size: 15px; } h1 { font-size: 1.35rem; } main { padding: 1rem .75rem 2rem; }
  table { font-size: .84rem; } th, td { padding-right: .4rem; }
  td.number, th.number { padding-right: .5rem; }
  .figures col.measured { width: 33%; } .figures col.goal { width: 20%; }
}
@media print { .plots { break-inside: avoid; } }
"""


def text(words):
    return html.escape(str(words), quote=False)


def measured(figure):
    return ("%s %s" % (amount(figure["value"]), figure["unit"])).strip()


def _goal(figure):
    goal = figure["goal"]
    if goal is None:
        return '<td class="number">\u2013</td>'
    sign = "\u2264" if goal["kind"] == AT_MOST else "\u2265"
    verdict = ("met", "met") if figure["met"] else ("missed", "missed")
    return '<td class="number">%s\u00a0%s<small class="%s">%s</small></td>' % (sign, amount(goal["value"]), *verdict)


def _spread(figure):
    if figure["times"] == 1:
        return "once"
    if figure["least"] == figure["most"]:
        return "each of %d times" % figure["times"]
    return "%s of %d: %s to %s" % (figure["is"], figure["times"], amount(figure["least"]), amount(figure["most"]))


def _figure_row(figure):
    bar, cls = "", ""
    if figure["goal"] is not None:
        bar = '<div class="gauge">%s</div>' % gauge(figure["value"], figure["goal"]["value"])
        cls = ' class="%s-row"' % ("met" if figure["met"] else "missed")
    return '<tr%s><th scope="row">%s%s</th><td class="number"><b>%s</b><small>%s</small></td>%s</tr>' % (
        cls, text(figure["name"]), bar, text(measured(figure)), text(_spread(figure)), _goal(figure))


def _figures(section):
    return ['<table class="figures" aria-label="%s">' % html.escape(section["title"]),
            '<colgroup><col><col class="measured"><col class="goal"></colgroup>',
            '<thead><tr><th scope="col">Figure</th><th scope="col" class="number">Measured</th>'
            '<th scope="col" class="number">Goal</th></tr></thead><tbody>',
            *map(_figure_row, section["figures"]), "</tbody></table>"]


def _plots(section):
    if not section["plots"]:
        return []
    return ['<div class="plots">', *("<figure><h3>%s, in %s</h3>%s</figure>" % (text(plot["title"]), text(plot["unit"]), draw(plot))
                                     for plot in section["plots"]), "</div>"]


def _section(section):
    lines = ['<section id="%s"><h2>%s</h2><p>%s</p>' % (section["id"], text(section["title"]), text(section["text"]))]
    if section["reason"]:
        lines.append('<p class="warning">Not measured here: %s</p>' % text(section["reason"]))
    if section["figures"]:
        lines += ['<div class="found">', *_figures(section), *_plots(section), "</div>"]
    lines += ['<p class="note">%s</p>' % text(note) for note in section["notes"]]
    return lines + ["</section>"]


def _machine(report):
    return ['<section id="machine"><h2>Machine</h2>', '<table class="machine" aria-label="Machine">',
            '<colgroup><col class="key"><col></colgroup>',
            '<thead><tr><th scope="col">Part</th><th scope="col">Name and version</th></tr></thead><tbody>',
            *('<tr><th scope="row">%s</th><td>%s</td></tr>' % (text(name), text(value)) for name, value in report["machine"]),
            "</tbody></table></section>"]


def _missing(report):
    if not report["not_measured"]:
        return []
    return ['<section id="not-measured"><h2>Not measured here</h2>',
            '<table class="machine" aria-label="Not measured here">'
            '<colgroup><col class="key"><col></colgroup>'
            '<thead><tr><th scope="col">What</th><th scope="col">It needs</th></tr></thead><tbody>',
            *('<tr><th scope="row">%s</th><td>%s</td></tr>' % (text(one["what"]), text(one["needs"]))
              for one in report["not_measured"]), "</tbody></table></section>"]


def _published_row(report, row):
    ours = figure_of(report, row["beside"]) if row["beside"] else None
    beside = "%s<small>%s</small>" % (text(measured(ours)), text(ours["name"])) if ours else "\u2013"
    return ('<tr><th scope="row">%s<small>%s</small></th><td>%s<small>published, not measured here: '
            '<a href="%s">%s</a>, %s; read %s</small></td><td>%s</td></tr>') % (
                text(row["system"]), text(row["what"]), text(row["value"]), html.escape(row["link"]), text(row["source"]),
                text(row["published"]), text(row["read"]), beside)


def _published(report):
    return ['<section id="published"><h2>What others have published</h2>',
            "<p>These are the words and figures of their sources, measured on other machines, with other methods. "
            "None of them was measured here; compare with care.</p>",
            '<table class="published" aria-label="Published figures">',
            '<colgroup><col class="what"><col><col class="ours"></colgroup>',
            '<thead><tr><th scope="col">System</th><th scope="col">Published</th><th scope="col">This run</th></tr></thead><tbody>',
            *(_published_row(report, row) for row in report["published"]), "</tbody></table></section>"]


def _head(report):
    judged, met = counts(report)
    who = "held by cgpu" if report["mode"] == "cgpu" else "without cgpu (baseline)"
    lines = ["<h1>GPU isolation report</h1>",
             '<p class="grey">Tenants %s. Measured %s in %s s%s.</p>' % (
                 text(who), text(report["made"]), amount(report["seconds"]), ", the short form" if report["quick"] else "")]
    if report["simulated"]:
        lines.append('<p class="warning">This is a simulated GPU. What the figures say of cgpu\u2019s rules holds anywhere; '
                     "times are those of this machine and of the model, not of a real GPU.</p>")
    if report["tenants"]:
        lines.append('<p class="warning">Each tenant ran through: <code>%s</code></p>' % text(report["tenants"]))
    return [*lines, '<ul class="summary"><li><b>%d of %d</b>goals met</li><li><b>%d</b>figures</li><li><b>%d</b>not measured'
            "</li></ul>" % (met, judged, sum(len(section["figures"]) for section in report["sections"]),
                            len(report["not_measured"]) + sum(bool(section["reason"]) for section in report["sections"]))]


def render(report):
    """The whole file."""
    body = _head(report)
    for section in report["sections"]:
        body += _section(section)
    body += _missing(report) + _machine(report) + _published(report)
    return "\n".join(['<!DOCTYPE html>', '<html lang="en">', "<head>", '<meta charset="utf-8">',
                      "<title>GPU isolation report</title>",
                      '<meta name="viewport" content="width=device-width, initial-scale=1">',
                      "<style>%s</style>" % STYLE, "</head>", "<body>", "<main>", *body, "</main>", "</body>", "</html>", ""])
