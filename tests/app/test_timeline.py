"""What a state of the timeline means, and what it says beside its picture, without a browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from snapviz.analyze.overtime import over_time, peak_groups, side_window
from snapviz.analyze.run import RankFailure
from snapviz.app.pages import timeline as page
from snapviz.app.results import Results
from snapviz.app.runs import Registry
from snapviz.app.state import State
from snapviz.app.timelinemoment import allocation_panel, cursor_panel, under_words
from snapviz.app.timelinesides import clicked, named, picked, pointed, sides_of, stepped
from snapviz.app.timelinewords import groups_panel, notices, phases_table, said, titles
from snapviz.errors import UsageError
from snapviz.report.plots.timeline import timeline
from tests.app.test_shell import SAMPLES

PAIR = State(page="timeline", base="thunder_478/main", head="thunder_478/pr", axis="event")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    root = tmp_path_factory.mktemp("timeline")
    for name in ("thunder_478/main", "thunder_478/pr", "leak"):
        shutil.copytree(SAMPLES / name, root / "runs" / name)
    (root / "runs" / "no-times").mkdir()
    found = Results(Registry(str(root / "runs")), root / "kept")
    yield found
    found.close()


def text(component: Any) -> str:
    """Everything that a component says, without its markup."""
    found: list[str] = []

    def walk(one: Any) -> None:
        if isinstance(one, (list, tuple)):
            for part in one:
                walk(part)
        elif hasattr(one, "children"):
            walk(one.children)
        elif one is not None:
            found.append(str(one))

    walk(component)
    return re.sub(r"\s+", " ", " ".join(found))


def test_the_layout_is_json_and_begins_with_the_state(results: Results) -> None:
    made = page.layout(PAIR.with_(view="stack", q="p1", align="shard"), results)
    told = json.dumps(made.to_plotly_json(), default=lambda one: one.to_plotly_json())
    for value in ('"stack"', '"p1"', '"shard"', "timeline-chart", "zoomable"):
        assert value in told


def test_cursors_are_at_the_peak_where_nobody_put_them(results: Results) -> None:
    sides = sides_of(PAIR, results)
    assert (sides.events, sides.chosen, sides.places) == ((11, 9), (False, False), (None, None))
    assert "At the peak of each run" in text(cursor_panel(sides, PAIR, "/"))
    put = sides_of(PAIR.with_(bt=3, ht=10**9), results)
    assert (put.events, put.places) == ((3, 19), (3.0, 19.0))
    end = sides_of(PAIR.with_(at="end"), results)
    assert end.events[0] != 11
    assert "At the end of each run" in text(cursor_panel(end, PAIR, "/"))
    lost = sides_of(PAIR.with_(at="phase:no such"), results)
    assert "At the peak of no such base has no such phase: this is its peak." in text(cursor_panel(lost, PAIR, "/"))
    reserved = sides_of(PAIR.with_(measure="reserved"), results)
    assert reserved.events[0] == reserved.facts[0].replay.peak("reserved", 0, 20)[1]  # type: ignore[union-attr]
    assert "At the reserved peak of each run" in text(cursor_panel(reserved, PAIR, "/"))
    assert sides_of(PAIR.with_(at="phase:no such"), results).events == (11, 9)


def test_a_click_moves_both_cursors_and_picks_what_is_drawn_there(results: Results) -> None:
    sides = sides_of(PAIR, results)
    (dangling,) = sides.facts[1].dangling  # type: ignore[union-attr]
    changes = clicked(sides, PAIR, 1, 10.4, 1 << 20)
    assert changes == {"bt": 10, "ht": 10, "name": named(1, 0, dangling.allocation)}
    assert clicked(sides, PAIR, 1, 10.4, 1 << 40)["name"] is None
    assert clicked(sides, PAIR.with_(show="apart"), 0, 2.0, 1.0).keys() == {"bt", "name"}
    assert clicked(sides, PAIR, 2, 1.0, 1.0) == {}
    assert clicked(sides, PAIR, -1, 1.0, 1.0) == {}
    assert clicked(sides_of(PAIR.with_(view="curves"), results), PAIR, 1, 10.4, 1.0)["name"] is None
    state = PAIR.with_(**changes)
    assert picked(sides_of(state, results), state) == (1, dangling.allocation)


def test_what_is_picked_says_who_holds_it(results: Results) -> None:
    sides = sides_of(PAIR, results)
    (dangling,) = sides.facts[1].dangling  # type: ignore[union-attr]
    state = PAIR.with_(name=named(1, 0, dangling.allocation), ht=10)
    sides = sides_of(state, results)
    told = text(allocation_panel(sides, state, picked(sides, state), "/"))
    for words in (
        "p1",
        "in head",
        "Dangling.",
        "should have gone in shard",
        "4,194,304 bytes",
        "materialize",
        *dangling.holders,
    ):
        assert words in told
    table = text(cursor_panel(sides, state, "/"))
    assert "dangling" in table
    assert "4,194,304" in table


def test_what_lies_under_the_pointer(results: Results) -> None:
    sides = sides_of(PAIR, results)
    told = under_words(sides, pointed(sides, 1, 10.4, 1 << 20))
    assert told.startswith("p1: 4.00 MiB, parameter, dangling · head: 10.00 MiB allocated after event 10 of 20, ")
    assert under_words(sides, pointed(sides, 0, 3.0, 1 << 40)).startswith("base: 4.00 MiB allocated after event 3")
    assert under_words(sides, pointed(sides, 5, 3.0, 0)) == ""
    for wrong in (None, {}, {"panel": "x", "x": 1, "y": 1}, {"panel": 0, "x": None, "y": 1}):
        assert page._place(wrong) is None


def test_a_name_that_is_none_picks_nothing(results: Results) -> None:
    for name in ("", "head.0.999999", "head.1.0", "side.0.0", "head.0.-1", "head.0.0x", "<b>"):
        state = PAIR.with_(name=name)
        assert picked(sides_of(state, results), state) is None


def test_cursors_go_on_event_by_event_together_or_apart(results: Results) -> None:
    state = PAIR.with_(bt=5, ht=5)
    sides = sides_of(state, results)
    assert stepped(sides, state, 0, 1) == {"bt": 6, "ht": 6}
    assert stepped(sides, state.with_(show="apart"), 1, -1) == {"ht": 4}
    last = state.with_(bt=19, ht=-1)
    assert stepped(sides_of(last, results), last, 0, 1)["bt"] == 19
    assert stepped(sides_of(last, results), last.with_(show="apart"), 1, -1) == {"ht": -1}
    assert "before the first event" in text(cursor_panel(sides_of(last, results), last, "/"))


def test_linked_cursors_share_the_place_that_phases_are_aligned_at(results: Results) -> None:
    state = PAIR.with_(align="train")
    sides = sides_of(state, results)
    first = [int(one.phases.first[one.phases.names.index("train")]) for one in sides.facts if one is not None]
    assert first[0] != first[1]
    window = side_window(sides.facts, sides.asked, 0)
    assert window is not None
    assert clicked(sides, state, 0, 0.5, -1) == {"bt": first[0], "ht": first[1], "name": None}


def test_groups_at_the_peak_sum_to_it(results: Results) -> None:
    sides = sides_of(PAIR, results)
    seen = over_time(sides.facts, sides.asked)
    told = text(groups_panel(sides, seen, *peak_groups(sides.facts, seen)))
    assert "base after event 11, head after event 9" in told
    assert "parameter 0 B 4.00 MiB ▲ +4.00 MiB" in told
    assert "allocated 10.00 MiB 14.00 MiB ▲ +4.00 MiB" in told
    assert told.endswith("of it dangling 0 B 4.00 MiB ▲ +4.00 MiB")


def test_a_peak_before_the_first_event_has_no_number(results: Results) -> None:
    sides = sides_of(PAIR, results)
    seen = over_time(sides.facts, sides.asked)
    first = seen.sides[0]
    assert first is not None
    early = replace(seen, sides=(replace(first, peak_event=-1), seen.sides[1]))
    told = text(groups_panel(sides, early, *peak_groups(sides.facts, early)))
    assert "base before the first event, head after event 9" in told
    figure = timeline(early, titles(sides), [None, None])
    hover = [one["hovertemplate"] for one in figure["data"] if one.get("name") == "peak"]
    assert "bytes, before the first event<" in hover[0]
    assert "bytes, event 9<" in hover[1]


def test_the_picture_is_a_table_too(results: Results) -> None:
    sides = sides_of(PAIR, results)
    told = text(phases_table(sides, over_time(sides.facts, sides.asked)))
    assert told.startswith(
        "allocated bytes; those of a phase are of all of it phase peak of base peak of head Δ "
        "all that is shown 10.00 MiB · 10,486,272 14.00 MiB · 14,680,576 ▲ +4.00 MiB"
    )
    zoomed = sides_of(PAIR.with_(x0=0, x1=3), results)
    # whatever is in sight, all phases that are compared
    narrow = text(phases_table(zoomed, over_time(zoomed.facts, zoomed.asked)))
    for phase in {one.phase for one in results.report(PAIR).phases}:
        assert f" {phase} " in told
        assert f" {phase} " in narrow
    alone = sides_of(State(page="timeline", head="leak"), results)
    assert text(phases_table(alone, over_time(alone.facts, alone.asked))).startswith(
        "allocated bytes; those of a phase are of all of it phase peak of head all"
    )


def test_ranks_that_cannot_be_read_are_named(results: Results) -> None:
    sides = sides_of(PAIR, results)
    run = sides.runs[1]
    assert run is not None
    broken = replace(run, failures=tuple(RankFailure(n, f"rank{n}", "cut short <b>") for n in range(2, 9)))
    told = text(notices(replace(sides, runs=(sides.runs[0], broken))))
    assert "head: rank 2 could not be read: cut short <b>" in told
    assert "and 4 more" in told


def test_a_search_says_how_much_it_found(results: Results) -> None:
    state = PAIR.with_(q="P1")
    sides = sides_of(state, results)
    told = text(said(sides, over_time(sides.facts, sides.asked)))
    assert re.search(r"“P1” is in \d+ allocations? of base \(\d.*\); \d+ allocations? of head", told)
    missing = PAIR.with_(align="no such phase")
    sides = sides_of(missing, results)
    told = text(said(sides, over_time(sides.facts, sides.asked)))
    assert told.count("has no phase no such phase: it begins at its first event.") == 2


def test_one_run_and_a_rank_that_one_side_lacks(results: Results) -> None:
    alone = State(page="timeline", head="leak")
    sides = sides_of(alone, results)
    assert sides.drawn == [1]
    assert "No base is chosen" in text(notices(sides))
    assert clicked(sides, alone, 0, 0.0, 0.0).keys() == {"ht", "name"}
    mixed = State(page="timeline", base="leak", head="thunder_478/pr", rank=1)
    sides = sides_of(mixed, results)
    assert sides.facts[0] is None
    assert "base: leak: no rank 1 could be read (there is: 0)" in text(notices(sides))
    assert titles(sides).names[1] == "head · pr · rank 1"
    with pytest.raises(UsageError, match="no rank 7"):
        sides_of(PAIR.with_(rank=7), results)


def test_a_lone_rank_needs_no_number(results: Results) -> None:
    sides = sides_of(State(page="timeline", base="leak", head="thunder_478/pr"), results)
    assert sides.drawn == [0, 1]
