"""Calls that cgpu's boundary leaves to the driver to refuse (docs/reference/driver-leans.md): does it?
Without cgpu, by a process without capabilities; nothing changes for others on the GPU."""
import json

from kit.report import SKIP


def check(report):
    done = report.do(*report.plain(report.tool("gpu-orders"), "leans"))
    said = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    report.keep("leans", [done.status, said, done.errors])
    if done.status != 0 or not said:
        report.judge("the driver is asked", False, done.last_words())
    for line in said:
        if line["mapping"] and report.node:
            report.row(line["lean"], SKIP, "a simulated driver is not asked about mappings")
        else:
            report.judge(line["lean"], line["good"], line["says"])
