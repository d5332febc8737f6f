"""Pictures of memory over time: whatever they are reduced to, the peak is in them and every byte is counted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze import bands as module
from snapviz.analyze.bands import bands, columns_of, extremes, stacked
from snapviz.analyze.facts import CATEGORIES, Facts
from tests.test_sample_runs import sample

RUNS = ["fsdp2_before_notfixed", "leak", "uneven_ranks", "thunder_478/pr"]


def facts_of(name: str) -> Facts:
    return sample(name).ranks[0].facts()


@given(st.sampled_from(RUNS), st.data())
def test_no_stretch_loses_its_peak(name: str, data: st.DataObject) -> None:
    replay = facts_of(name).replay
    first = data.draw(st.integers(0, len(replay) - 1))
    stop = data.draw(st.integers(first + 1, len(replay)))
    columns = columns_of(replay, first, stop, data.draw(st.integers(1, 300)))
    assert columns.first[0] == first
    assert columns.stop[-1] == stop
    assert (columns.stop[:-1] == columns.first[1:]).all()
    assert ((columns.first <= columns.shown) & (columns.shown < columns.stop)).all()
    part = replay.allocated_bytes[first:stop]
    assert replay.allocated_bytes[columns.shown].max() == part.max()
    for curve in (replay.allocated_bytes, replay.reserved_bytes):
        shown = curve[extremes(curve, columns)]
        assert (shown.max(), shown.min()) == (curve[first:stop].max(), curve[first:stop].min())
        assert len(shown) <= 2 * len(columns)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("most", [1, 7, 400])
def test_groups_sum_to_what_is_allocated(name: str, most: int) -> None:
    facts = facts_of(name)
    columns = columns_of(facts.replay, 0, len(facts.replay), most)
    found = stacked(facts, columns, facts.category.astype(np.int64), len(CATEGORIES))
    assert (found >= 0).all()
    assert (found.sum(axis=0) == facts.replay.allocated_bytes[columns.shown]).all()
    event = int(columns.shown[len(columns) // 2])
    live = facts.replay.allocations.allocated_after(event)
    for code in range(len(CATEGORIES)):
        of_kind = live & (facts.category == code)
        assert found[code, len(columns) // 2] == facts.replay.allocations.block_bytes[of_kind].sum()


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("cells", [1, 500, module._CELLS])
def test_bands_are_the_live_allocations_in_order_of_age(name: str, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CELLS", cells)
    facts = facts_of(name)
    table = facts.replay.allocations
    columns = columns_of(facts.replay, 0, len(facts.replay), 23)
    found = bands(facts, columns, rows=150)
    for column, event in enumerate(columns.shown.tolist()):
        live = np.flatnonzero(table.allocated_after(event))
        edges = np.cumsum(table.block_bytes[live])
        for row in range(0, 150, 7):
            middle = row * found.row_bytes + found.row_bytes // 2
            above = np.flatnonzero(edges > middle)
            assert found.allocation[row, column] == (live[above[0]] if len(above) else -1)
    highest = int(np.argmax(facts.replay.allocated_bytes[columns.shown]))
    assert (
        found.allocation[:, highest] >= 0
    ).sum() * found.row_bytes >= facts.replay.allocated_bytes.max() - found.row_bytes


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("most", [1, 9, 300])
def test_what_crosses_is_what_some_column_shows(name: str, most: int) -> None:
    facts = facts_of(name)
    columns = columns_of(facts.replay, 0, len(facts.replay), most)
    found = columns.crossing
    live = np.array([facts.replay.allocations.allocated_after(event) for event in columns.shown.tolist()])
    assert found.allocation.tolist() == np.flatnonzero(live.any(axis=0)).tolist()
    assert found.born.tolist() == live[:, found.allocation].argmax(axis=0).tolist()
    assert (found.gone - found.born).tolist() == live[:, found.allocation].sum(axis=0).tolist()


def test_a_window_of_heights_is_that_part_of_the_picture() -> None:
    facts = facts_of("fsdp2_before_notfixed")
    columns = columns_of(facts.replay, 0, len(facts.replay), 11)
    whole = bands(facts, columns, 200, 0, 1_000_000_000)
    part = bands(facts, columns, 100, 500_000_000, 1_000_000_000)
    assert part.row_bytes == whole.row_bytes
    assert (part.allocation == whole.allocation[100:]).all()


def test_nothing_has_no_columns() -> None:
    facts = facts_of("leak")
    columns = columns_of(facts.replay, 5, 5, 10)
    assert len(columns) == 0
    assert bands(facts, columns, 4).allocation.shape == (4, 0)
    assert len(extremes(facts.replay.allocated_bytes, columns)) == 0


@given(st.data())
def test_long_and_short_stretches_find_the_same_event(data: st.DataObject) -> None:
    curve = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=1, max_size=60)), np.int64)
    cuts = data.draw(st.sets(st.integers(0, len(curve) - 1), max_size=8))
    first = np.array(sorted(cuts or {0}), np.int64)
    edges = [*first.tolist(), len(curve)]
    for better, pick in ((np.maximum, max), (np.minimum, min)):
        wanted = [low + curve[low:high].tolist().index(pick(curve[low:high])) for low, high in pairwise(edges)]
        for long in (0, 10**9):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(module, "_LONG", long)
                assert module._first_of(curve, first, len(curve), better).tolist() == wanted
