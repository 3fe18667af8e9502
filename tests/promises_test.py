#!/usr/bin/env python3
"""Checks what pages and programs promise of compute time: a percentage is a cap only on GPUs where cgpu
knows a means. So each sentence that says "never more", "at most" or "cap" of a percentage says in the same
sentence where that holds. Reads README.md, docs and the sources' texts; tests/engines/compute_idle_test.py
asks the programs on GPUs of each kind. --self-test feeds it sentences.
"""

import re
import sys

from layers_test import ROOT, our_files

PAGES = re.compile(r"(README\.md|docs/(howto|explanation|tutorial|reference)/.*\.md)$")
# Texts of programs: strings of sources that are not tests, of the page, and of the chart.
SOURCES = re.compile(r"(src/(?!.*_test\.cc).*\.cc|page/src/(?!.*\.test\.).*\.tsx?)$")

OTHERS = ("docs/explanation/comparison.md",)  # it speaks of others, and says of cgpu's caps what compute.md does

# Compute time, as against memory.
ABOUT = re.compile(r"percent(age)?s?\b|\bcompute\b|`fixed`|`fair`|--compute|share of (the )?time|\bmaxim(um|a)\b", re.I)
PROMISE = re.compile(r"\bnever\b.*\bmore\b|\bno more\b|\bnever exceeds?|\bat (the )?most\b|\bheld\b|\bholds?\b|\bcap(s|ped)?\b"
                     r"|\blimit(s|ed)?\b|\benforce", re.I)
# Makes the sentence true: it names the GPUs for which it holds, or says that there are others.
WHERE = re.compile(r"\(\S*#caps\)|calibrat|GPUs? that caps?\b|simulated|GPUs? (has|have) (a |\[)|\bmeans\b|no caps?\b"
                   r"|idle group|duty cycle|real (GPU|one)s?|does not cap|no longer|without (a )?caps?|`cgpu policy`", re.I)

# Sentences that hold as they are: part of the sentence -> why.
TRUE = {
    "A percentage of compute time is a cap": "the title of a check of cgpu doctor, which asks each GPU",
    "the policies fixed and fair, and maxima, are caps": "what that check says where `cgpu policy` says so",
    "cannot enforce compute time in this way": "no promise",
    "add up to at most 100": "what is granted, not what is used",
    "| one that fills it, beside one that pauses or waits |": "measured, of simulated GPUs, as above the table",
    "the first two windows of 3 s of each mix": "measured, of simulated GPUs, as the page says first",
    "limit of memory, and": "of memory",
    "the limit of memory, and CUDA graphs": "of memory",
    "has a limit of memory and no share": "of memory",
    "slices (20, at most 64)": "a number of slices",
    "`--query-compute-apps": "of memory",
    "FIFO_DISABLE_CHANNELS of anybody's channels": "what the simulated driver does",
    "processes with an object of a compute or 3D class": "of memory",
    "Pwr:Usage/Cap": "of power",
    "shares of compute time hold when cgpud runs": "a share",
}


def sentences(path, text):
    """Yields the sentences of a page, or the texts in a source."""
    if not path.endswith(".md"):
        joined = re.sub(r'"\s*\n\s*"', "", text)
        for string in re.findall(r'"((?:[^"\\\n]|\\.){12,})"', joined):
            yield from re.split(r"(?<=[.;]) ", string)
        return
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    for block in re.split(r"\n\s*\n|\n(?=\s*[*|#-] ?)", text):
        block = " ".join(block.split())
        # A row of a table is read as a whole; so is what stands in brackets.
        yield from [block] if block.startswith("|") else re.split(r"(?<=[.!?]) (?=[A-Z`*])", block)


def faults(path, text):
    for sentence in sentences(path, text):
        if ABOUT.search(sentence) and PROMISE.search(sentence) and not WHERE.search(sentence) and \
                not any(part in sentence for part in TRUE):
            yield "%s promises a cap without saying where it holds: %s" % (path, sentence)


def self_test():
    bad = ("With `fixed` a container gets its percentage, never more.",
           "| `fixed` | its percentage, never more | stays unused |",
           "A percentage is a cap.", "cgpu caps a container to its percentage.")
    good = ("With `fixed` a container gets its percentage, never more (without a [cap](compute.md#caps): a share).",
            "A slice is never more than its memory.", "A percentage is a cap once the GPU was calibrated.")
    for sentence in bad:
        assert list(faults("README.md", sentence)), sentence
        assert list(faults("src/x.cc", 'Say("%s");' % sentence)), sentence
    for sentence in good:
        assert not list(faults("README.md", sentence)), sentence
    assert list(faults("README.md", "A percentage\nis a cap. On simulated GPUs.")), "two sentences"
    assert list(faults("src/x.cc", 'Say("a percentage "\n    "is a cap");')), "a text in two parts"


def main():
    if "--self-test" in sys.argv[1:]:
        self_test()
        return 0
    chart = [(str(file.relative_to(ROOT)), file) for file in sorted((ROOT / "deploy/chart").rglob("*.yaml"))]
    texts = [(path, file.read_text(encoding="utf-8")) for path, file in our_files()
             if path not in OTHERS and (PAGES.match(path) or SOURCES.match(path))]
    texts += [(path, file.read_text(encoding="utf-8")) for path, file in chart]
    assert len(texts) > 100 and chart, "only %d files were read" % len(texts)
    found = [fault for path, text in texts for fault in faults(path, text)]
    everything = [sentence for path, text in texts for sentence in sentences(path, text)]
    found += ["nothing needs the row %r" % part for part in TRUE if not any(part in one for one in everything)]
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
