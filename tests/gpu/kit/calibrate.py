"""`cgpu calibrate`: how the GPU takes orders, seen by copies of cgpu's own."""
import json

from kit.report import PASS


def check(report):
    words = ["calibrate", "0", "--again", "--json", "--interruptions", "200" if report.quick else "10000"]
    if report.node:
        words += ["--node", report.node]
    done = report.do(report.tool("cgpu"), *words, seconds=55)
    report.keep("calibrate", [done.status, done.output, done.errors])
    try:
        card = json.loads(done.output)
    except ValueError:
        card = None
    good = done.status == 0 and card is not None
    report.judge("cgpu calibrate", good, "time slices take effect: %s; before the first schedule: %s; channels go off: "
                 "%s; interleave levels: %s; list of switches: %s" % tuple(
                     card[key] for key in ("slices", "slices_at_start", "off", "levels", "switches"))
                 if good else done.last_words())
    for name, value in (card or {}).get("figures", {}).items():
        report.row(name, PASS, "%.1f" % value)
