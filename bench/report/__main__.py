"""Measures how well this machine keeps tenants of one GPU apart, and writes one HTML page and the same as
JSON. `make report` runs it; docs/howto/report.md explains it.

    python3 bench/report [--out build/report.html] [--quick] [--baseline] [--simulated]
                         [--through CMD] [--load CMD] [--verbose]

It needs root. Where there is no GPU, the tenants are on a simulated node.
"""
import argparse
import contextlib
import json
import os
import shlex
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.dirname(HERE)

import shares  # noqa: E402  it finds the parts of tests/lib and tests/engines
import cgpu_test as t  # noqa: E402
import isolation  # noqa: E402
from report import calls, compute, findings, hardware, lifetime, memory, page, published  # noqa: E402
from report.host import Host, describe, has_gpu  # noqa: E402

FORMAT = 1
MEASURES = (("memory", memory.measure), ("shares", compute.measure_shares), ("priority", compute.measure_priority),
            ("calls", calls.measure), ("start", lifetime.measure_start), ("upgrade", lifetime.measure_upgrade),
            ("faults", lifetime.measure_faults), ("hardware", hardware.measure))
ROUNDS = 3


def parse():
    parser = argparse.ArgumentParser(prog="bench/report", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "report.html"),
                        help="the page; the JSON lies beside it (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="the least of each: about half a minute")
    parser.add_argument("--baseline", action="store_true", help="without cgpu")
    parser.add_argument("--simulated", action="store_true", help="on a simulated node, also where there is a GPU")
    parser.add_argument("--through", default="", metavar="CMD", help="with --baseline: words before the command of each tenant, to "
                        "measure what others do; {mib} and {percent} stand for its memory and its share")
    parser.add_argument("--load", default="", metavar="CMD", help="keeps the GPU busy in place of cgpu-burn; it says each second "
                        'a line {"second": N, "launches": M}')
    parser.add_argument("--verbose", action="store_true", help="show what the programs say")
    options = parser.parse_args()
    if options.through and not options.baseline:
        parser.error("--through needs --baseline: a tenant is held by cgpu, or by others")
    return options


def one_section(key, measure, host, options):
    """The section, and whether it is as it should be. A section that fails says so; the others go on."""
    began = time.monotonic()
    try:
        section, good = measure(host, 1 if options.quick else ROUNDS, options.quick), True
    except (t.Failure, OSError, ValueError, KeyError) as error:
        t.Process.end_all()
        traceback.print_exc(limit=-3, file=sys.__stderr__)
        section = findings.Section(key, key.capitalize(), "This section failed.")
        section.give_up("its measurement failed: %s" % (str(error) or type(error).__name__))
        good = False
    print("%s: %.0f s" % (key, time.monotonic() - began), file=sys.__stderr__, flush=True)
    return section, good


def measure(options, simulated):
    """The report, and whether all of it was measured."""
    began = time.monotonic()
    sections, good = [], True
    with Host(not options.baseline, simulated, shlex.split(options.through), shlex.split(options.load) or None) as host:
        for key, measure_one in MEASURES:
            section, fine = one_section(key, measure_one, host, options)
            sections.append(section.json())
            good = good and fine
        report = {"format": FORMAT, "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
                  "mode": "baseline" if options.baseline else "cgpu", "simulated": simulated, "quick": options.quick,
                  "tenants": options.through, "seconds": round(time.monotonic() - began, 1), "machine": describe(host),
                  "sections": [section for section in sections if section["figures"] or section["reason"]],
                  "not_measured": hardware.missing(host), "published": published.ROWS}
    return report, good


def main():
    options = parse()
    simulated = options.simulated or not has_gpu()
    if simulated:
        t.require_machine()
    elif os.geteuid() != 0:
        t.skip("only root may measure")
    path = os.path.abspath(options.out)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # Opened before the process leaves the machine's own /run, /etc and /var.
    with open(path, "w", encoding="utf-8") as html, \
            open(os.path.splitext(path)[0] + ".json", "w", encoding="utf-8") as data:
        if not options.through:  # others' tools are to find what they need
            isolation.enter()
        shares.go_first()
        log = sys.stderr if options.verbose else open(os.devnull, "w", encoding="utf-8")
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            report, good = measure(options, simulated)
        json.dump(report, data, indent=1)
        html.write(page.render(report))
    judged, met = findings.counts(report)
    print("report: %d of %d goals met; %s" % (met, judged, path))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
