"""A diff in which every text that a file can bring along is one text."""

from __future__ import annotations

from snapviz.analyze.run import RankFailure
from snapviz.compare.diff import diff
from snapviz.schema import Dangling, DiffReport, EnvironmentChange, GitState, Suspect
from tests.analyze.builders import MIB, Trace, frame, record, run_of

TEXTS = [
    "a|b",
    "`tick` `` two",
    "`",
    "<script>alert(1)</script>",
    "</code></details></table>",
    "<img src=https://evil.example/x onerror=alert(1)>",
    "@octocat please, @acme/team",
    "#12 GH-12 acme/repo#12 someone@evil.example",
    "--> <!-- snapviz:diff -->",
    "[x](https://evil.example) ![i](//evil.example/y.png)",
    "https://evil.example/ www.evil.example",
    "&lt;b&gt; &#64;octocat &amp;",
    "line\n\n# heading\n\n- item\r\n",
    "*b* **bb** _i_ __ii__ ~~s~~ $x$ :smile:",
    "- item",
    "1. one",
    "> quote",
    "    code",
    "| --- | --- |",
    "---",
    "===",
    "ends in \\",
    "\x1b[31m\u202e\u200b\x00",
    "' onload='x\" onload=\"y",
    "",
    " ",
    "名前 ← – ▲",
    "a" * 5000,
]


def hostile(text: str) -> DiffReport:
    """Base and head of two ranks, one of head's broken, a parameter that dangles, suspects, notes and all."""
    runs = []
    for extra in (0, 20):
        trace = Trace()
        trace.mark("START", text or "step")
        address = trace.alloc(20, frame(text, f"/w/{text}.py"), frame("main", "/w/train.py"))
        if extra:
            trace.alloc(20, frame(text, f"/w/{text}.py"))
        trace.mark("END", text or "step")
        known = record(
            [(text[:900] or "made", 0, trace.now), ("shard", trace.now + 1, trace.now + 2)],
            [(trace.now, [("parameter", text or "p", address, 20 * MIB)])],
            holders=({"parameter": text or "p", "path": text, "kind": "module"},),
        )
        failures = (RankFailure(9, text, text or "broken"),) if extra else ()
        runs.append(run_of(trace, records=[known], name=f"{text}{extra}", failures=failures, notes=(text,)))
    return _filled(diff(*runs), text)


def _dangling(text: str) -> Dangling:
    return Dangling(
        run="head",
        rank=0,
        name=text,
        names=(text, "tied"),
        allocation=0,
        requested_bytes=20 * MIB,
        block_bytes=20 * MIB,
        birth_phase=text,
        should_go_in=text,
        gone_in=text,
        dtype=text,
        shape=(1, 2),
        stack=(f"{text} ({text}.py:3)",),
        holders=(f"{text} ← {text}", text),
        holder_kinds=("module", "unexplained"),
    )


def _suspect(text: str) -> Suspect:
    known = {"run": "base", "rank": 1, "count": 2, "requested_bytes": 5, "block_bytes": 512, "birth_phase": text}
    return Suspect(evidence=(text, text), stack=(text,), **known)  # type: ignore[arg-type]


def _filled(report: DiffReport, text: str) -> DiffReport:
    side = {"torch": text, "device": text, "git": GitState(commit=text), "settings": {text: text}}
    side |= {"metrics": {text: 1.5}}
    update = {
        "base": report.base.model_copy(update=side),
        "head": report.head.model_copy(update=side | {"metrics": {text: 2.5}}),
        "environment": (EnvironmentChange(what=f"setting {text}", base=text, head=[text, {text: None}]),),
        "caveats": (*report.caveats, text, f"{text} is not exact"),
        "notes": (*report.notes, *(f"{text} {number}" for number in range(30))),
        "dangling": (_dangling(text),),
        "suspects": (_suspect(text),),
    }
    return report.model_copy(update=update)
