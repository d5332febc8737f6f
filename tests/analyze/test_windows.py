from __future__ import annotations

import numpy as np
import pytest

from snapviz.analyze.windows import highest, painted


@pytest.mark.parametrize("seed", range(40))
def test_windows_are_what_a_loop_over_them_says(seed: int) -> None:
    random = np.random.default_rng(seed)
    events, windows = int(random.integers(0, 40)), int(random.integers(0, 30))
    curve = random.integers(-100, 100, events)
    first, stop = np.sort(random.integers(0, events + 1, (windows, 2)), axis=1).T
    lowest = np.iinfo(np.int64).min
    assert highest(curve, first, stop).tolist() == [
        max(curve[a:b].tolist(), default=lowest) for a, b in zip(first, stop, strict=True)
    ]
    expected = np.full(events, -7)
    for index, (a, b) in enumerate(zip(first, stop, strict=True)):
        expected[a:b] = index
    assert painted(first, stop, np.arange(windows), events, -7).tolist() == expected.tolist()


def test_windows_that_all_overlap_cost_no_more_than_those_that_do_not() -> None:
    # a loop over them would touch 2 * 10**11 events
    count = 1_000_000
    first = np.arange(0, count // 2, 2)
    stop = first + count // 2
    curve = np.arange(count)
    assert highest(curve, first, stop).tolist()[::100_000] == (stop - 1).tolist()[::100_000]
    assert painted(first, stop, first, count, -1)[[0, 1, 2, count // 2]].tolist() == [0, 0, 2, count // 2 - 2]
