"""The reports as text: golden for the samples, and what no report may do."""

from __future__ import annotations

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from snapviz.analyze.info import info
from snapviz.analyze.run import RankFailure
from snapviz.compare.diff import diff
from snapviz.report.difftext import diff_lines
from snapviz.report.infotext import info_lines
from snapviz.report.jsonout import to_json
from snapviz.report.layout import Line, width_of
from snapviz.schema import DiffReport, InfoReport
from tests.analyze.builders import MIB, Trace, frame, record, run_of, sample
from tests.compare.jobs import job

PAIRS = [("main", "pr"), ("fsdp2_after", "fsdp2_before_notfixed")]


def text_of(lines: list[Line]) -> str:
    return "\n".join("".join(span.text for span in spans).rstrip() for spans in lines) + "\n"


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_diff_of_the_samples(pair: tuple[str, str], width: int, snapshot: SnapshotAssertion) -> None:
    lines = diff_lines(diff(sample(pair[0]), sample(pair[1])), width)
    assert text_of(lines) == snapshot
    assert max(sum(width_of(span.text) for span in spans) for spans in lines) <= width


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("name", ["pr", "fsdp2_before_notfixed"])
def test_info_of_the_samples(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    lines = info_lines(info(sample(name)), width)
    assert text_of(lines) == snapshot
    assert max(sum(width_of(span.text) for span in spans) for spans in lines) <= width


def test_every_stale_parameter_is_in_the_text() -> None:
    text = text_of(diff_lines(diff(sample("fsdp2_after"), sample("fsdp2_before_notfixed")), 80, top=1))
    for name in ("lm_head.weight", "model.norm.weight", "model.layers.0-7.post_attention_layernorm.weight"):
        assert name in text
    assert "+302,235,136 bytes" in text


@pytest.mark.parametrize(("top", "rows", "others"), [(0, 0, 75), (3, 3, 65), (1000, 12, 0)])
def test_the_list_of_what_dangles_ends_at_top_rows(top: int, rows: int, others: int) -> None:
    text = text_of(info_lines(info(sample("fsdp2_before_notfixed")), 100, top))
    told = text[text.index("dangling: 75 parameters") :]
    assert len(re.findall(r"blocks? · born materialize", told)) == rows
    assert (f" in {others} more parameters\n" in told) == bool(others)


@pytest.mark.parametrize("top", [0, 1, 3, 1000])
@pytest.mark.parametrize("width", [60, 80, 130, 200])
def test_the_amounts_of_a_point_sum_to_its_total(top: int, width: int) -> None:
    report = diff(sample("fsdp2_after"), sample("fsdp2_before_notfixed"), ["phase:shard:end"])
    lines = [[span.text for span in spans] for spans in diff_lines(report, width, top)]
    why = next(i for i, spans in enumerate(lines) if spans and spans[0].startswith("why"))
    # a category's line is marked or stands alone; together they are all there is, as rounded
    marked = [spans for spans in lines[why + 1 :] if spans and spans[0] in ("▲", "▼")]
    assert [spans[2].strip() for spans in marked] == ["+328.03 MiB"]
    assert report.points[0].ranks[0].delta_bytes == 343_967_744


def test_what_is_not_certain_stands_above_the_tables() -> None:
    failures = (RankFailure(1, "rank1.pickle", "truncated"),)
    report = diff(run_of(job(), name="main"), run_of(job(leak=1), name="pr", failures=failures))
    text = text_of(diff_lines(report, 100))
    first_table = text.index("phase ")
    assert 0 < text.index("! pr: rank 1 is not in these numbers: truncated") < first_table
    assert "1 rank could not be read and counts for nothing here." in " ".join(text[:first_table].split())
    bare = text_of(diff_lines(diff(run_of(job()), sample_bare()), 100))
    assert bare.index("~ ") < bare.index("phase ")


def sample_bare():
    trace = Trace()
    trace.alloc(20)
    return run_of(trace, name="bare")


def test_ranks_that_differ_have_a_table_and_the_worst_is_named() -> None:
    base = run_of(*(job() for _ in range(3)), name="main")
    head = run_of(*(job(leak=n) for n in (0, 2, 1)), name="pr")
    text = text_of(diff_lines(diff(base, head), 100))
    assert "on rank 1, the worst of 3" in text
    assert re.search(r"rank 1 \(worst\) +66.00 MiB +194.00 MiB +\+128.00 MiB\nrank 2 ", text)
    assert "rank 1 (worst of 3): +134,217,728 bytes" in text
    assert "phase (rank 1)" in text


def test_a_run_against_itself_says_so_and_nothing_more() -> None:
    text = text_of(diff_lines(diff(run_of(job(), name="a"), run_of(job(), name="b")), 100))
    assert "in the same allocations." in text
    assert "why" not in text
    assert "Δ" not in text


EVIL = "\x1b]0;owned\x07[bold red]\u202e\n\x00"


def evil_reports() -> tuple[DiffReport, InfoReport]:
    trace = Trace()
    trace.mark("START", EVIL)
    address = trace.alloc(20, frame(EVIL, f"/w/{EVIL}.py"))
    trace.mark("END", EVIL)
    known = record(
        [(EVIL, 0, trace.now), ("shard", trace.now + 1, trace.now + 2)],
        [(trace.now, [("parameter", EVIL, address, 20 * MIB)])],
        holders=({"parameter": EVIL, "path": EVIL},),
    )
    failures = (RankFailure(9, EVIL, EVIL),)
    head = run_of(trace, records=[known], name=EVIL, failures=failures, notes=(EVIL,))
    base = run_of(job(), records=[record([(EVIL, 0, 1)])], name=EVIL + "2")
    return diff(base, head), info(head)


@pytest.mark.parametrize("width", [60, 200])
def test_no_text_of_a_file_reaches_the_terminal_as_more_than_text(width: int) -> None:
    report, told = evil_reports()
    for lines in (diff_lines(report, width), info_lines(told, width)):
        shown = text_of(lines)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
        assert "\\x1b]0;owned" in shown


def test_json_carries_hostile_text_escaped_and_comes_back() -> None:
    report, told = evil_reports()
    for one in (report, told):
        text = to_json(one)
        assert "\x1b" not in text
        assert type(one).model_validate_json(text) == one
        assert next(iter(type(one).model_fields)) == "schema_version"


def test_live_rows_sum_to_the_peak() -> None:
    for name in ("pr", "fsdp2_before_notfixed"):
        for rank in info(sample(name)).ranks:
            assert sum(row.live_bytes for row in rank.live_at_peak) == rank.peak.allocated_bytes
            keys = [(r.owner, r.category, r.birth_phase, r.dangling, r.stack) for r in rank.live_at_peak]
            assert len(set(keys)) == len(keys)
