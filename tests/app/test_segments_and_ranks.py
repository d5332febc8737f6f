"""The pages of segments and of ranks, by their callbacks: numbers, states and what cannot be shown."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plotly.utils import PlotlyJSONEncoder

from snapviz.analyze.phases import fold
from snapviz.app.pages import ranks as ranks_page
from snapviz.app.pages import segments as segments_page
from snapviz.app.rankviews import Shown, drawn_grid, grid_table, rank_table, spread_figure, words
from snapviz.app.results import Results
from snapviz.app.runs import Registry
from snapviz.app.segmentpicked import lies
from snapviz.app.segmentviews import (
    Name,
    compared,
    curve,
    map_of,
    phase_table,
    shared_row_bytes,
    summary,
    table_of,
)
from snapviz.app.spaces import Spaces, moments_of, number_of
from snapviz.app.state import State
from snapviz.compare.rankgrid import WHOLE, Drawn
from snapviz.errors import RunError, UsageError
from tests.app.callbacks import Pages

SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"
PAIR = State(page="segments", base="thunder_478/main", head="thunder_478/pr")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return Results(Registry(str(SAMPLES)), tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def spaces(results: Results) -> Spaces:
    return Spaces(results)


def said(components: Any) -> str:
    return json.dumps(components, cls=PlotlyJSONEncoder, ensure_ascii=False)


# ------------------------------------------------------------------ segments


def test_the_first_line_says_what_is_more_and_the_parts_sum(spaces: Spaces) -> None:
    base, head = (spaces.side(PAIR.with_(at="end"), side) for side in ("base", "head"))
    text = compared(base, head)
    assert text.startswith("pr reserves")
    assert "+4.00 MiB allocated (+4.00 MiB of it dangling)" in text
    assert compared(base, base).endswith("every part of it is the same.")


def test_a_moment_is_the_peak_an_end_or_what_was_picked(spaces: Spaces) -> None:
    head = spaces.side(PAIR, "head")
    replay = head.space.facts.replay
    assert head.moment is not None
    assert replay.allocated_bytes[head.moment.event] == replay.peak("allocated", 0, len(replay))[0]
    reserved = spaces.side(PAIR.with_(measure="reserved"), "head")
    assert reserved.moment is not None
    assert replay.reserved_bytes[reserved.moment.event] == replay.peak("reserved", 0, len(replay))[0]
    assert (head.wanted.title, reserved.wanted.title) == (
        "at the allocated peak of the run",
        "at the reserved peak of the run",
    )
    picked = spaces.side(PAIR.with_(ht=5, at="end"), "head").moment
    assert picked is not None
    assert picked.event == 5
    assert spaces.side(PAIR.with_(bt=5), "head").moment == head.moment
    assert spaces.side(PAIR.with_(at="oom"), "head").moment is None
    with pytest.raises(UsageError, match="has no event"):
        spaces.side(PAIR.with_(ht=10**9), "head")
    with pytest.raises(UsageError, match="--at nonsense"):
        spaces.side(PAIR.with_(at="nonsense"), "head")
    names = dict(moments_of(head.space, 100))
    assert names["phase:shard:end"] == "end of shard"


def test_a_summary_of_a_moment_that_is_not_there_says_so(spaces: Spaces) -> None:
    assert "has no moment oom" in said(summary(spaces.side(PAIR.with_(at="oom"), "head")))
    text = said(summary(spaces.side(PAIR, "head")))
    assert "the parts sum to" in text


def test_every_control_of_a_map_draws_the_same_bytes(spaces: Spaces) -> None:
    head = spaces.side(PAIR, "head")
    for by in ("", "owner", "phase", "module", "stack"):
        for view in ("", "free", "address", "nonsense"):
            figure, told = map_of(head, PAIR.with_(by=by, view=view), shared_row_bytes([head]), None)
            assert figure["data"]
            assert told.startswith(f"{len(head.space.pieces(head.moment.event).table)} segments")  # type: ignore[union-attr]


def test_what_is_picked_is_shown_and_what_is_gone_is_said(spaces: Spaces) -> None:
    state = PAIR.with_(at="end")
    head = spaces.side(state, "head")
    assert head.moment is not None
    pieces = head.space.pieces(head.moment.event)
    everything = [said(lies(head, Name("head", at, at, False), state, "/")) for at in range(len(pieces.start))]
    (dangling,) = [text for text in everything if "dangling parameter p1" in text and "asked for" in text]
    assert "4.00 MiB (4,194,304 bytes)" in dangling
    assert "_parameters['p1']" in dangling
    assert "/dangling?base=thunder_478/main" in dangling
    assert any("could be given back" in text or "busy segment" in text for text in everything)
    assert "is not there" in said(lies(head, Name("head", 10**6, 10**6, False), state, "/"))
    whole = said(lies(head, Name("head", 0, 0, True), state, "/"))
    assert "segment #0" in whole


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("head:12", Name("head", 12, 12, False)),
        ("base:12-40", Name("base", 12, 40, False)),
        ("head:s3", Name("head", 3, 3, True)),
        ("head:40-12", Name("head", 40, 40, False)),
        ("", None),
        ("elsewhere:3", None),
        ("head:3<script>", None),
        ("head:9999999999", None),
    ],
)
def test_what_is_picked_in_an_address(text: str, name: Name | None) -> None:
    assert Name.of(text) == name


def test_tables_have_their_links(spaces: Spaces) -> None:
    head = spaces.side(PAIR, "head")
    assert "name=head:s0" in said(table_of(head, PAIR, "/"))
    assert "ht=" in said(phase_table(head, PAIR, "/"))


def test_a_curve_is_drawn_by_time_and_by_event_and_in_a_window(spaces: Spaces) -> None:
    head = spaces.side(PAIR, "head")
    whole = curve(head, "event", 1 << 30)
    part = curve(head, "event", 1 << 30, (5.0, 9.0))
    events = [one["customdata"] for one in (whole, part) for one in one["data"] if one["name"] == "reserved"]
    assert events[0][0] == -1
    assert events[1][0] == 4
    assert events[1][-1] == 8
    timed = curve(head, "time", 1 << 30, (0.0, 1e9))
    assert timed["layout"]["xaxis"]["ticksuffix"] == " s"
    assert curve(head, "time", 1 << 30, (1e9, 2e9))["data"]


def test_phases_of_a_curve_are_where_the_recording_has_them(spaces: Spaces) -> None:
    for run_id in ("thunder_478/pr", "leak"):
        side = spaces.side(State(page="segments", head=run_id), "head")
        phases, replay = side.space.facts.phases, side.space.facts.replay
        (trace,) = [one for one in curve(side, "time", 1 << 30)["data"] if one["name"] == "phases"]
        zero, last = int(replay.rising_us[0]), int(replay.rising_us[-1])
        known = {
            name: (max(0, int(first) - zero) / 1e6, min(int(stop), last) / 1e6 - zero / 1e6)
            for name, first, stop in zip(phases.names, phases.start_us, phases.stop_us, strict=True)
        }
        drawn = zip(trace["hovertext"], trace["x"], trace["width"], strict=True)
        whole = [(name, low, low + width) for name, low, width in drawn if name in known]
        assert whole
        for name, low, high in whole:
            assert (low, high) == pytest.approx(known[name], abs=1e-6)


def test_a_rank_is_that_of_the_other_pages(results: Results) -> None:
    assert number_of(results, PAIR, "head") == 0
    assert number_of(results, PAIR.with_(rank=1), "head") == 1
    with pytest.raises(RunError, match="no rank 7"):
        number_of(results, PAIR.with_(rank=7), "head")


# ------------------------------------------------------------------ ranks


def test_what_is_shown_of_ranks(results: Results) -> None:
    reports = ranks_page._Reports(results)
    pair = reports.pair(PAIR.with_(page="ranks"))
    delta = drawn_grid(pair, "")
    assert delta.delta
    assert delta.cells.value_bytes[0].tolist() == [4 << 20, 4 << 20]
    assert drawn_grid(pair, "base").cells.value_bytes[0].max() < drawn_grid(pair, "head").cells.value_bytes[0].max()
    assert not drawn_grid(pair, "spread").cells.value_bytes.any()
    assert "both ranks have the same peak" in said(words(pair, PAIR, "/"))
    assert "+4.00 MiB" in said(rank_table(pair, PAIR, "/"))
    same = drawn_grid(reports.pair(PAIR.with_(base=PAIR.head)), "")
    assert "no cell differs by a byte" in same.title
    alone = reports.pair(State(page="ranks", head="single"))
    assert not drawn_grid(alone, "").delta
    assert spread_figure(alone)[0] is None
    # from disk the second time
    again = ranks_page._Reports(results)
    assert again.of(PAIR.head, "allocated") == pair.head


def test_a_broken_rank_is_named_without_where_it_lies(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "thunder_478" / "pr", tmp_path / "runs" / "pr")
    (tmp_path / "runs" / "pr" / "rank00001.pickle.zst").write_bytes(b"nothing")
    found = Results(Registry(str(tmp_path / "runs")), tmp_path / "kept")
    pair = ranks_page._Reports(found).pair(State(page="ranks", head="pr"))
    text = said([words(pair, PAIR, "/"), rank_table(pair, State(page="ranks"), "/")])
    assert "rank 1 is not in these numbers" in text
    assert "unread" in text
    assert str(tmp_path) not in text
    assert drawn_grid(pair, "").cells.unread == (1,)


def test_peaks_that_may_have_been_higher_say_so_in_the_table_too() -> None:
    cells = Drawn(("", "a"), ((0, 0),), np.array([[4], [2]]), np.array([[0], [0]]), np.array([[True], [False]]), (), 0)
    whole, part = (said(grid_table(Shown(cells, delta, (), ""))) for delta in (False, True))
    assert '"\u2265 4 B"' in whole or '"≥ 4 B"' in whole
    assert '"2 B"' in whole
    assert "~ ▲ +4 B" in part
    assert "~ ▲ +2 B" not in part


def test_the_lone_rank_of_each_run_is_found_by_either_number(tmp_path: Path) -> None:
    for name, rank in (("a", 3), ("b", 5)):
        (tmp_path / "runs" / name).mkdir(parents=True)
        one = SAMPLES / "single" / "rank00000.pickle.zst"
        shutil.copy(one, tmp_path / "runs" / name / f"rank{rank:05}.pickle.zst")
    found = Results(Registry(str(tmp_path / "runs")), tmp_path / "kept")
    a, b = "a/rank00003.pickle.zst", "b/rank00005.pickle.zst"
    both = State(page="segments", base=a, head=b, rank=5)
    assert [number_of(found, both, side) for side in ("base", "head")] == [3, 5]
    swapped = both.with_(base=b, head=a)
    assert [number_of(found, swapped, side) for side in ("base", "head")] == [5, 3]


def test_curves_beside_each_other_have_one_scale(spaces: Spaces) -> None:
    sides = [spaces.side(State(page="segments", base="cuda_graph", head="single"), side) for side in ("base", "head")]
    drawn = [curve(side, axis, 1 << 30)["layout"] for side in sides for axis in ("time", "event")]
    assert len({one["margin"]["b"] for one in drawn}) == 1
    assert drawn[0]["uirevision"] == drawn[2]["uirevision"] != drawn[1]["uirevision"]


def test_a_cell_leads_to_the_phase_on_that_ranks_timeline(results: Results) -> None:
    state = State(page="ranks", head="uneven_ranks")
    facts = results.facts("uneven_ranks", 1)
    peaks: dict[str, dict[str, int]] = {}
    for name, peak in zip(facts.phases.names, facts.phases.peak.tolist(), strict=True):
        peaks.setdefault(fold(name), {})[name] = peak[1]
    for folded, values in peaks.items():
        to = ranks_page._timeline(results, state, folded, 1)
        assert (to["page"], to["rank"]) == ("timeline", 1)
        assert values[to["align"]] == max(values.values())
        at = facts.phases.names.index(to["align"])
        length = int(facts.phases.stop_us[at] - facts.phases.start_us[at])
        assert to["axis"] == "time"
        assert to["x0"] < 0 < length < to["x1"] < 1.1 * length + 2
    whole = ranks_page._timeline(results, state.with_(bt=5), WHOLE, 0)
    assert (whole["align"], whole["x0"], whole["bt"]) == ("", None, None)


@pytest.mark.parametrize("page", [segments_page, ranks_page])
def test_a_page_is_a_skeleton_with_names(page: Any, results: Results) -> None:
    text = said(page.layout(PAIR, results))
    assert "as a table" in text
    assert "aria-label" in text


def test_tables_of_segments_are_asked_for_when_they_are_opened(results: Results, tmp_path: Path) -> None:
    pages = Pages(SAMPLES, tmp_path / "kept")
    (tables,) = [one for one in pages.callbacks if "seg-table-base" in one["output"]]
    assert {one["id"] for one in tables["inputs"]} == {"state", "seg-opened"}
    assert "later" in said(segments_page.layout(PAIR, results))


def test_of_one_run_there_is_no_difference_to_show(results: Results) -> None:
    alone = said(ranks_page.layout(State(page="ranks", head="single"), results))
    assert "head \u2212 base" not in alone
    assert "head − base" not in alone
    assert "head − base" in said(ranks_page.layout(PAIR, results))


def test_why_a_rank_is_the_worst_has_its_lines_and_a_way_to_it(results: Results) -> None:
    pair = ranks_page._Reports(results).pair(State(page="ranks", head="uneven_ranks"))
    assert pair.head is not None
    assert pair.head.why is not None
    text = said(words(pair, State(page="ranks", head="uneven_ranks"), "/"))
    assert re.search(r"\.py:[0-9]+", text)
    assert f"/live?head=uneven_ranks&rank={pair.head.why.rank}" in text
