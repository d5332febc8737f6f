"""From base to head in steps: the sum is exact, whatever the rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.compare.diff import diff
from snapviz.compare.waterfall import waterfall_of, waterfalls
from snapviz.schema import BELOW, DANGLING, OTHER, DiffReport, DiffRow, Moment, RankPoint, Trust, Unchanged, Waterfall
from tests.analyze.builders import run_of, sample
from tests.compare.jobs import job
from tests.compare.recorded import sharded, steps

KINDS = ["unknown", "parameter", "shard", "gradient", "optimizer state", "activation", "communication", "temporary"]
KINDS += ["buffer", "workspace", "graph pool"]
BASE = 1 << 40


def row(category: str, delta: int, dangling: bool = False, stack: str = "f (a.py)", evidence: str = "recorded"):
    base, head = max(0, -delta), max(0, delta)
    return DiffRow(
        owner="",
        category=category,
        birth_phase="train",
        module="",
        found_in="base" if base else "head",
        dangling=dangling,
        evidence=evidence,  # type: ignore[arg-type]
        stack=(stack,),
        base_lines=None,
        head_lines=None,
        base_bytes=base,
        base_count=1 if base else 0,
        head_bytes=head,
        head_count=1 if head else 0,
        delta_bytes=delta,
        base_requested_bytes=base,
        head_requested_bytes=head,
        base_dangling_bytes=base if dangling else 0,
        head_dangling_bytes=head if dangling else 0,
    )


def moment(phase: str | None = "train", whole: bool = True) -> Moment:
    trust = Trust(exact=whole, whole=whole, counted=False)
    return Moment(event=0, time_us=None, phase=phase, trust=trust, counted_bytes=None)


def point(rows: list[DiffRow], base: int = BASE, **rest: object) -> RankPoint:
    delta = sum(one.delta_bytes for one in rows)
    known = {"base_moment": moment(), "head_moment": moment(), "comparable": True} | rest
    return RankPoint(
        rank=3,
        base_total_bytes=base,
        head_total_bytes=base + delta,
        delta_bytes=delta,
        rows=tuple(rows),
        unchanged=Unchanged(rows=0, total_bytes=base),
        **known,  # type: ignore[arg-type]
    )


def of(rows: list[DiffRow]) -> Waterfall:
    found = waterfall_of(point(rows), "peak")
    assert found is not None
    return found


ROWS = st.lists(
    st.builds(
        row,
        st.sampled_from(KINDS),
        st.one_of(st.integers(-(1 << 35), 1 << 35), st.integers(-600, 600)),
        st.booleans(),
        st.sampled_from(["f (a.py)", "g (b.py)"]),
        st.sampled_from(["recorded", "annotated", "inferred"]),
    ),
    max_size=40,
)


@given(rows=ROWS)
def test_the_steps_go_from_base_to_head_to_the_byte(rows: list[DiffRow]) -> None:
    one = point(rows)
    found = waterfall_of(one, "peak")
    assert found is not None
    level = one.base_total_bytes
    for step in found.steps:
        assert (step.from_bytes, step.to_bytes) == (level, level + step.delta_bytes)
        assert step.delta_bytes != 0
        level = step.to_bytes
    assert level == one.head_total_bytes
    named = [name for step in found.steps for name in step.categories] + list(found.moved)
    assert len(set(named)) == len(named)
    assert set(named) <= {DANGLING if each.dangling else each.category for each in rows}
    sizes = [abs(step.delta_bytes) for step in found.steps if step.what != OTHER]
    assert sizes == sorted(sizes, reverse=True)
    assert OTHER not in [step.what for step in found.steps[:-1]]
    assert len(found.steps) <= 9


@given(rows=ROWS)
def test_swapped_every_step_has_the_other_sign(rows: list[DiffRow]) -> None:
    there = of(rows)
    back = of([row(r.category, -r.delta_bytes, r.dangling, r.stack[0], r.evidence) for r in rows])
    told = [(s.what, s.categories, -s.delta_bytes, s.head_count, s.base_count, s.evidence) for s in there.steps]
    assert [(s.what, s.categories, s.delta_bytes, s.base_count, s.head_count, s.evidence) for s in back.steps] == told
    assert back.moved == there.moved


def test_what_dangles_is_a_step_of_its_own_and_never_folded() -> None:
    found = of([row("activation", 10**9), row("parameter", 5, dangling=True), row("parameter", 7), row("shard", 3)])
    assert [(s.what, s.delta_bytes, s.categories) for s in found.steps] == [
        ("activation", 10**9, ("activation",)),
        (DANGLING, 5, (DANGLING,)),
        (OTHER, 10, ("parameter", "shard")),
    ]


def test_one_small_step_keeps_its_name_and_small_ones_that_cancel_are_none() -> None:
    assert [s.what for s in of([row("activation", 10**9), row("shard", 3)]).steps] == ["activation", "shard"]
    found = of([row("activation", 10**9), row("shard", 3), row("buffer", -3)])
    assert [s.what for s in found.steps] == ["activation"]


def test_at_most_seven_have_a_name() -> None:
    found = of([row(kind, 1000 - place) for place, kind in enumerate(KINDS)])
    assert [s.what for s in found.steps] == [*KINDS[:7], OTHER]
    assert found.steps[-1].categories == tuple(KINDS[7:])


def test_what_only_moved_is_named_and_no_step() -> None:
    found = of([row("activation", 64, stack="f (a.py)"), row("activation", -64, stack="g (b.py)"), row("shard", 1)])
    assert [s.what for s in found.steps] == ["shard"]
    assert found.moved == ("activation",)


def test_folded_rows_are_in_the_last_step() -> None:
    base, head = sample("fsdp2_after"), sample("fsdp2_before_notfixed")
    report = diff(base, head, threshold="10 MiB")
    # a report has the steps of all rows, whatever it folds of them
    assert report.waterfall == diff(base, head).waterfall
    for point in report.points:
        (rank,) = point.ranks
        found = waterfall_of(rank, point.at)
        assert found is not None
        assert rank.folded is not None
        assert (found.steps[-1].what, found.steps[-1].categories[-1]) == (OTHER, BELOW)
        assert found.steps[-1].delta_bytes == rank.folded.delta_bytes
        assert found.from_bytes + sum(step.delta_bytes for step in found.steps) == found.to_bytes


@pytest.mark.parametrize("view", [{"mode": "absolute"}, {"mode": "ratio"}, {"by": "owner"}, {"by": "rank"}], ids=str)
def test_the_steps_are_the_same_whatever_rows_are_shown_by(view: dict[str, str]) -> None:
    base, head = sample("fsdp2_after"), sample("fsdp2_before_notfixed")
    known = diff(base, head)
    assert diff(base, head, **view).waterfall == known.waterfall
    if "by" not in view:
        points = diff(base, head, **view).points
        assert waterfalls(points) == known.waterfall


@pytest.mark.parametrize("measure", ["requested", "active", "reserved"])
def test_the_steps_of_every_measure(measure: str) -> None:
    report = diff(sample("fsdp2_after"), sample("fsdp2_before_notfixed"), measure=measure)
    ranks = [rank for point in report.points for rank in point.ranks]
    assert [(w.from_bytes, w.to_bytes) for w in report.waterfall] == [
        (rank.base_total_bytes, rank.head_total_bytes) for rank in ranks
    ]


def test_a_step_rests_on_its_weakest_row() -> None:
    found = of([row("shard", 64), row("shard", 64, stack="g (b.py)", evidence="annotated")])
    assert found.steps[0].evidence == "annotated"


def test_nothing_without_two_sides_and_what_is_cut_is_said() -> None:
    assert waterfall_of(point([], comparable=False), "end") is None
    bare = point([row("shard", 4)]).model_copy(update={"base_total_bytes": None})
    assert waterfall_of(bare, "end") is None
    cut = waterfall_of(point([row("shard", 4)], head_moment=moment("train/step1", whole=False)), "end")
    assert cut is not None
    assert not cut.whole
    assert (cut.base_phase, cut.head_phase) == ("train", "train/step1")


def test_a_diff_has_one_of_every_point_and_rank() -> None:
    base, head = (run_of(job(), job(leak=leak), name=name) for leak, name in ((0, "a"), (2, "b")))
    report = diff(base, head)
    assert [(w.at, w.rank) for w in report.waterfall] == [("end", 0), ("end", 1), ("peak", 0), ("peak", 1)]
    assert report.waterfall == waterfalls(report.points)
    for found, known in zip(report.waterfall, [r for p in report.points for r in p.ranks], strict=True):
        assert (found.from_bytes, found.to_bytes) == (known.base_total_bytes, known.head_total_bytes)
        assert sum(s.delta_bytes for s in found.steps) == known.delta_bytes


def test_the_samples_in_steps() -> None:
    report = diff(sample("fsdp2_after"), sample("fsdp2_before_notfixed"))
    peak = report.waterfall[1]
    assert (peak.from_bytes, peak.to_bytes) == (746_574_848, 1_049_399_808)
    assert peak.steps[0].what == DANGLING
    assert peak.steps[0].delta_bytes == 343_967_744
    assert sum(step.delta_bytes for step in peak.steps) == 302_824_960


def test_two_peaks_in_different_phases() -> None:
    (_, peak) = diff(steps((100, 40)), steps((40, 120))).waterfall
    assert (peak.base_phase, peak.head_phase) == ("train/step0", "train/step1")


def test_old_documents_have_none_and_new_ones_come_back() -> None:
    report = diff(sharded(name="a"), sharded(leak=True, name="b"))
    assert DiffReport.model_validate_json(report.model_dump_json()) == report
    old = report.model_dump(mode="json", exclude={"waterfall"})
    assert DiffReport.model_validate(old, strict=False).waterfall == ()
