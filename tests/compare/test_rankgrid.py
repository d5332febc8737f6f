"""Ranks and phases as a grid: every cell is a peak of its report, and what is left out is said."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.run import RankFailure
from snapviz.compare.rankgrid import MISSING, WHOLE, RankGrid, beside, drawn, from_median, grid_of
from snapviz.compare.ranks import ranks
from tests.analyze.builders import Trace, record, run_of, sample

MIB = 1 << 20


def phased(*steps: int):
    one, windows = Trace(), []
    for number, mib in enumerate(steps):
        start = one.tick()
        one.free(one.alloc(mib))
        windows.append((f"s{number}", start, one.tick()))
    return one, record(windows)


def run(*ranks_of: tuple[int, ...], **rest):
    made = [phased(*steps) for steps in ranks_of]
    return run_of(*(one for one, _ in made), records=[its for _, its in made], **rest)


def test_cells_are_the_peaks_of_the_report():
    found = grid_of(ranks(run((20, 40), (20, 60, 30))))
    assert found.phases == (WHOLE, "s0", "s1", "s2")
    assert found.ranks == (0, 1)
    assert found.value_bytes[:, 1].tolist() == [60 * MIB, 20 * MIB, 60 * MIB, 30 * MIB]
    assert found.value_bytes[:, 0].tolist() == [40 * MIB, 20 * MIB, 40 * MIB, MISSING]
    assert not found.at_least.any()


def test_every_measure_is_its_own():
    report = ranks(sample("thunder_478/pr"), measure="reserved")
    found = grid_of(report)
    for one in report.ranks:
        column = found.ranks.index(one.rank)
        assert found.value_bytes[0, column] == one.peak.reserved_bytes
        for phase in one.phases:
            assert found.value_bytes[found.phases.index(phase.phase), column] == phase.peak.reserved_bytes


def test_a_rank_that_could_not_be_read_is_a_column():
    broken = run((20,), (30,), failures=(RankFailure(7, "rank7", "it is cut"),))
    found = grid_of(ranks(broken))
    assert found.ranks == (0, 1, 7)
    assert found.unread == {7: "it is cut"}
    assert (found.value_bytes[:, 2] == MISSING).all()
    assert drawn(found).unread == (2,)


def test_a_difference_is_head_minus_base_where_both_are():
    base, head = (grid_of(ranks(one)) for one in (run((20, 40), (30, 50)), run((24, 40, 60))))
    one, two, delta = beside(base, head)
    assert delta.phases == one.phases == two.phases == (WHOLE, "s0", "s1", "s2")
    assert delta.value_bytes[:, 0].tolist() == [20 * MIB, 4 * MIB, 0, MISSING]
    assert (delta.value_bytes[:, 1] == MISSING).all()
    _, _, back = beside(head, base)
    assert back.value_bytes[:, 0].tolist() == [-20 * MIB, -4 * MIB, 0, MISSING]


def grid(values: np.ndarray, names: tuple[str, ...] | None = None) -> RankGrid:
    phases = names or (WHOLE, *(f"p{i}" for i in range(1, len(values))))
    return RankGrid(phases, tuple(range(values.shape[1])), values, np.zeros(values.shape, bool), {})


def test_phases_of_base_alone_stand_where_they_were():
    base = grid(np.arange(4)[:, None], (WHOLE, "a", "x", "b"))
    head = grid(np.arange(4)[:, None], (WHOLE, "b", "c", "a"))
    assert beside(base, head)[2].phases == (WHOLE, "b", "c", "a", "x")


CELLS = st.integers(-(1 << 50), 1 << 50)


@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 12), st.integers(1, 60), st.data())
def test_what_is_drawn_is_in_the_grid_and_the_furthest_of_each_column_is_kept(rows, columns, most, cells, data):
    values = np.array(
        data.draw(st.lists(st.one_of(CELLS, st.just(MISSING)), min_size=rows * columns, max_size=rows * columns)),
        np.int64,
    ).reshape(rows, columns)
    found = drawn(grid(values), most, cells)
    assert len(found.phases) == min(rows, most)
    assert found.phases[0] == WHOLE
    assert found.more == rows - len(found.phases)
    assert len(found.phases) * len(found.columns) <= max(cells, len(found.phases))
    assert [rank for first, last in found.columns for rank in range(first, last + 1)] == list(range(columns))
    for row, phase in enumerate(found.phases):
        of = values[0 if phase == WHOLE else int(phase[1:])]
        for column, (first, last) in enumerate(found.columns):
            value, rank = int(found.value_bytes[row, column]), int(found.rank[row, column])
            assert first <= rank <= last
            assert value == of[rank]
            known = [abs(int(v)) for v in of[first : last + 1] if v != MISSING]
            assert (abs(value) == max(known)) if known else value == MISSING


@given(st.lists(CELLS, min_size=1, max_size=20))
def test_the_median_of_what_is_left_is_nothing(values):
    found = from_median(grid(np.array([values], np.int64))).value_bytes[0]
    assert sorted(found.tolist())[(len(values) - 1) // 2] == 0
    assert (found - found.min()).tolist() == (np.array(values) - min(values)).tolist()
