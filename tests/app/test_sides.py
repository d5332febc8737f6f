"""Which rank pages show, and what they call a moment: the same on all of them."""

from __future__ import annotations

from typing import Literal

import pytest

from snapviz.analyze.facts import MEASURES
from snapviz.analyze.marks import phase_ends
from snapviz.analyze.peak import Ask, peak
from snapviz.analyze.run import load_run
from snapviz.app.pages import compare, compare_rows, compare_top
from snapviz.app.pages.live_look import Looks
from snapviz.app.pages.live_parts import above
from snapviz.app.results import Results
from snapviz.app.runs import Registry
from snapviz.app.segmentviews import summary
from snapviz.app.sides import rank_of, rank_options
from snapviz.app.spaces import Spaces
from snapviz.app.state import State
from snapviz.app.timelinemoment import cursor_panel
from snapviz.app.timelinesides import sides_of
from snapviz.schema import MeasureName
from tests.analyze.builders import SAMPLES
from tests.app.test_timeline import text

UNEVEN = State(base="ddp", head="uneven_ranks")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return Results(Registry(str(SAMPLES)), tmp_path_factory.mktemp("kept"))


@pytest.mark.parametrize("at", ["", "end", "peak"])
def test_every_page_of_one_rank_shows_the_worst(results: Results, at: str) -> None:
    state = UNEVEN.with_(at=at)
    listing = compare_rows.listing_of(results.report(state), state)
    assert listing is not None
    assert listing.ranks[0].rank == 1
    assert rank_of(results, state) == 1
    assert rank_options(results, state)[0] == ("", "largest difference: 1")
    assert sides_of(state.with_(page="timeline"), results).rank == 1
    assert Looks(results).of(state.with_(page="live")).sides.rank == 1
    assert [Spaces(results).side(state, side).space.facts.rank for side in ("base", "head")] == [1, 1]
    assert rank_of(results, state.with_(rank=0)) == 0
    assert rank_options(results, State(head="ddp")) == [("", "highest peak: 0"), ("0", "0"), ("1", "1")]


@pytest.mark.parametrize("side", ["base", "head"])
@pytest.mark.parametrize("measure", MEASURES)
def test_of_one_run_alone_every_page_shows_the_rank_that_peaks_highest(
    results: Results, side: Literal["base", "head"], measure: MeasureName
) -> None:
    state = State(measure=measure).with_(**{side: "uneven_ranks"})
    run = load_run(SAMPLES / "uneven_ranks")
    peaks = {one.rank: one.facts().replay.peak(measure, 0, len(one.facts().replay))[0] for one in run.ranks}
    assert max(peaks, key=lambda rank: peaks[rank]) == 1
    assert rank_of(results, state) == 1
    assert rank_options(results, state)[0] == ("", "highest peak: 1")
    assert sides_of(state.with_(page="timeline"), results).rank == 1
    assert Spaces(results).side(state, side).space.facts.rank == 1
    look = Looks(results).of(state.with_(page="live"))
    assert look.sides.rank == 1
    assert [when.total_bytes for when in look.when if when] == [peaks[1]]
    assert rank_of(results, state.with_(rank=0)) == 0


def test_of_equal_peaks_the_lowest_number(results: Results) -> None:
    run = load_run(SAMPLES / "ddp")
    assert len({one.facts().replay.peak("allocated", 0, len(one.facts().replay))[0] for one in run.ranks}) == 1
    assert rank_of(results, State(base="ddp")) == 0
    assert peak(load_run(SAMPLES / "uneven_ranks"), Ask()).worst_rank == rank_of(results, State(head="uneven_ranks"))


def test_an_event_has_one_number_which_is_that_of_the_address(results: Results) -> None:
    state = State(base="thunder_478/main", head="thunder_478/pr", bt=11, ht=9)
    timeline = text(cursor_panel(sides_of(state, results), state, "/"))
    live = text(above(Looks(results).of(state), state, "/"))
    assert "event 11 of 20, 1.91 s" in timeline
    assert "event 11 of 20, 1.91 s" in live
    assert "event 9 of 20" in timeline
    assert "event 9 of 20" in live
    for side, event in (("base", 11), ("head", 9)):
        assert f"event {event}, " in text(summary(Spaces(results).side(state, side)))


def test_a_phase_leads_to_its_window_and_its_shape_comes_from_disk(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(base="thunder_478/main", head="thunder_478/pr", by="stack", view="each", row="x", name="shard")
    report = results.report(state)
    first = compare._sparks(results, report, state, ["", "shard", "train/step0"])
    monkeypatch.setattr(results, "facts", None)
    drawn = compare._sparks(results, report, state, ["", "shard", "train/step0"])
    assert drawn.data() == first.data()
    assert drawn.base.keys() == drawn.head.keys() == {"", "shard", "train/step0"}
    assert (drawn.base[""].high_bytes, drawn.head[""].high_bytes) == (10_486_272, 14_680_576)
    monkeypatch.undo()
    href = compare_top.href_of(state, "/")({"page": "timeline", **drawn.window("train/step0")})
    there = State.from_url(*href.split("?", 1))
    # what Compare alone shows stays there
    assert there == State("timeline", state.base, state.head, align="train/step0", x0=there.x0, x1=there.x1)
    assert there.x0 is not None
    assert there.x1 is not None
    seen = sides_of(there, results)
    for facts, axis in zip(seen.facts, seen.axes, strict=True):
        assert facts is not None
        assert axis is not None
        starts, stops = phase_ends(facts, axis)
        at = facts.phases.names.index("train/step0")
        assert there.x0 < starts[at] == 0
        assert stops[at] < there.x1
    assert href.startswith("/timeline?")


def test_events_of_one_rank_do_not_go_along_to_another() -> None:
    state = State(head="ddp", rank=1, bt=3, ht=4, q="a", at="end")
    assert state.to("live") == State("live", head="ddp", rank=1, bt=3, ht=4, at="end")
    assert state.to("live", rank=0) == State("live", head="ddp", rank=0, at="end")
