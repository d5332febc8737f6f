"""Reports of what is empty, huge, or not a number."""

from __future__ import annotations

import json
import math
import re

import pytest

from snapviz.analyze.info import info
from snapviz.analyze.run import RankFailure
from snapviz.compare.diff import diff
from snapviz.report.difftables import metric_lines, phase_lines, rank_lines
from snapviz.report.difftext import diff_lines
from snapviz.report.environment import environment_lines
from snapviz.report.infotext import info_lines
from snapviz.report.jsonout import to_json
from snapviz.report.layout import Line
from snapviz.schema import DiffReport, RunManifest
from tests.analyze.builders import Trace, frame, run_of
from tests.compare.jobs import job


def text_of(lines: list[Line]) -> str:
    return "\n".join("".join(span.text for span in spans).rstrip() for spans in lines) + "\n"


@pytest.fixture(scope="module")
def report() -> DiffReport:
    return diff(run_of(job(), name="main"), run_of(job(leak=1), name="pr"))


def test_an_empty_table_prints_nothing(report: DiffReport) -> None:
    for empty in (report.model_copy(update={"phases": ()}), report.model_copy(update={"phases": (), "points": ()})):
        assert phase_lines(empty, 100) == []
        assert metric_lines(empty, 100) == []
        assert environment_lines(empty, 100) == []
        assert diff_lines(empty)
    assert rank_lines(report.model_copy(update={"points": ()}), 100) == []
    # what explains the difference needs no phases
    assert "why, at the end" in text_of(diff_lines(report.model_copy(update={"phases": ()})))


def test_a_worst_rank_without_phases_leaves_the_table_to_another(report: DiffReport) -> None:
    points = tuple(point.model_copy(update={"worst_rank": 7}) for point in report.points)
    assert phase_lines(report.model_copy(update={"points": points}), 100)


def test_tables_of_phases_end_at_60_rows() -> None:
    def run(name: str, mib: int):
        trace = Trace()
        for i in range(75):
            trace.mark("START", f"part{'abcdefghij'[i // 10]}{'abcdefghij'[i % 10]}")
            trace.free(trace.alloc(mib))
            trace.mark("END", f"part{'abcdefghij'[i // 10]}{'abcdefghij'[i % 10]}")
        return run_of(trace, name=name)

    grown = diff(run("main", 20), run("pr", 40))
    assert len(grown.phases) >= 75
    text = text_of(phase_lines(grown, 100))
    assert len(re.findall(r"^part", text, re.MULTILINE)) == 60
    assert re.search(r"^\d+ more phases: --format json has them$", text, re.MULTILINE)
    told = text_of(info_lines(info(run("main", 20))))
    assert re.search(r"^\d+ more phases: --format json has them$", told, re.MULTILINE)
    assert len(re.findall(r"^part", told, re.MULTILINE)) == 120  # two tables


def with_metrics(report: DiffReport, base: dict[str, float], head: dict[str, float]) -> str:
    sides = {"base": base, "head": head}
    update = {side: getattr(report, side).model_copy(update={"metrics": sides[side]}) for side in sides}
    return text_of(metric_lines(report.model_copy(update=update), 100))


def test_metrics_of_any_size_and_none(report: DiffReport) -> None:
    nan, inf = math.nan, math.inf
    for base, head, change in [
        (10**400, 10**401, "+900.0%"),
        (1, 10**400, "–"),
        (nan, nan, ""),
        (nan, 1.0, "–"),
        (inf, inf, ""),
        (inf, 1.0, "–"),
        (1e-300, 1e300, "–"),
        (1, 10**9, "×1e+09"),
        (100, 99, "-1.0%"),
        (0, 5, "from 0"),
    ]:
        row = with_metrics(report, {"m": base}, {"m": head}).splitlines()[-1]
        assert row.split("  ")[-1].strip() == change or (not change and "%" not in row and "–" not in row), row


def test_a_setting_that_is_not_a_number_is_no_difference_from_itself() -> None:
    def run(name: str, value: object):
        one = run_of(job(), name=name)
        one.manifest = RunManifest.model_construct(
            schema_version=1, name=name, settings={"x": value, "y": [value]}, packages={}, metrics={}
        )
        return one

    assert diff(run("a", float("nan")), run("b", float("nan"))).environment == ()
    assert len(diff(run("a", float("nan")), run("b", 1.0)).environment) == 2


def test_an_empty_setting_is_seen() -> None:
    def run(name: str, value: object):
        one = run_of(job(), name=name)
        one.manifest = RunManifest.model_construct(
            schema_version=1, name=name, settings={"x": value}, packages={}, metrics={}
        )
        return one

    assert "different: setting x: (empty) → a" in text_of(diff_lines(diff(run("m", ""), run("p", "a"))))


def test_a_measure_that_did_not_change_is_said_where_its_table_is_left_out() -> None:
    text = text_of(diff_lines(diff(run_of(spike(100), name="main"), run_of(spike(140), name="pr")), 60))
    assert "peak main" in text
    assert "\nend: did not change in any phase\n" in text
    assert "\nend of the run: did not change\n" in text


def spike(mib: int) -> Trace:
    trace = Trace()
    trace.alloc(20)
    trace.mark("START", "ProfilerStep#0")
    trace.free(trace.alloc(mib))
    trace.mark("END", "ProfilerStep#0")
    trace.free(trace.alloc(20))
    return trace


def test_json_is_ascii_whatever_it_tells_of() -> None:
    name = "modèle\x7f\x85\u202e\u2028𝔘"
    trace = Trace()
    trace.alloc(20, frame(name))
    for one in (diff(run_of(trace, name=name), run_of(job(), name="b")), info(run_of(trace, name=name))):
        text = to_json(one)
        assert text.isascii()
        assert re.fullmatch(r"[ -~\n]*", text)
        assert name in json.dumps(json.loads(text), ensure_ascii=False)
        assert type(one).model_validate_json(text) == one


def test_runs_of_one_name_are_told_apart_in_every_sentence() -> None:
    failures = (RankFailure(1, "rank1.pickle", "cut"),)
    report = diff(run_of(job(), name="main", notes=("x",)), run_of(job(leak=1), name="main", failures=failures))
    assert (report.base.name, report.head.name) == ("main", "main")
    text = text_of(diff_lines(report))
    assert text.startswith("main (base) → main (head) ")
    assert report.verdict.startswith("main (head) ends and peaks 64.00 MiB higher")
    assert "! main (head): rank 1 is not in these numbers: cut" in text
    assert "main (base): x" in report.notes
    assert not re.search(r"main(?! \()", text)


def test_ranks_that_are_only_counted_read_as_a_sentence() -> None:
    failures = (RankFailure(5, "rank5.pickle", "cut"), RankFailure(None, "", "1,008 more ranks are missing", 1008))
    head = run_of(job(), name="pr", failures=failures)
    report = diff(run_of(job(), name="main"), head)
    assert "! pr: 1,008 more ranks are missing\n" in text_of(diff_lines(report))
    assert "1,009 ranks could not be read" in report.verdict
    assert "! 1,008 more ranks are missing\n" in text_of(info_lines(info(head)))
    assert diff(run_of(job(), name="main"), head, rank=0).broken == ()
    named = run_of(job(), name="pr", failures=(RankFailure(None, "x.pickle", "cut"),))
    assert "! pr: x.pickle is not in these numbers: cut" in text_of(diff_lines(diff(run_of(job(), name="main"), named)))
