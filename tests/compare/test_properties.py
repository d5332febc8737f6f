"""What must hold of any two runs."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from snapviz.compare.diff import diff
from snapviz.schema import DiffReport
from tests.analyze.builders import Trace, frame, run_of

TORCH = "/v/lib/python3.11/site-packages/torch"
FRAMES = [
    ("forward", "/repo/pkg/model.py"),
    ("forward", "/repo/model.py"),
    ("<module>", "/repo/train.py"),
    ("_init_group", f"{TORCH}/optim/adam.py"),
    ("foreach_all_gather", f"{TORCH}/distributed/fsdp/_c.py"),
    ("__init__", "/repo/pkg/__init__.py"),
]
POINTS = ["end", "peak", "phase:train/step0", "phase:train/step0:end"]

STACK = st.lists(st.tuples(st.sampled_from(FRAMES), st.integers(1, 99)), max_size=3)
ACTION = st.one_of(
    st.tuples(st.just("alloc"), st.integers(10, 20), STACK),
    st.tuples(st.just("free"), st.integers(0, 30), st.just([])),
    st.tuples(st.just("step"), st.just(0), st.just([])),
)
PROGRAM = st.lists(ACTION, max_size=30)


def play(program: list, root: str = "/work", shift: int = 0) -> Trace:
    trace = Trace()
    trace.mark("START", "ProfilerStep#0")
    live: list[int] = []
    step = 0
    for action, number, stack in program:
        if action == "alloc":
            frames = [frame(name, file.replace("/work", root), line + shift) for (name, file), line in stack]
            live.append(trace.alloc(2 * number, *frames))
        elif action == "free" and live:
            trace.free(live.pop(number % len(live)))
        elif action == "step":
            trace.mark("END", f"ProfilerStep#{step}")
            step += 1
            trace.mark("START", f"ProfilerStep#{step}")
    return trace


def ring(trace: Trace, lost: int) -> Trace | dict:
    """The recording without its first events; those that are left begin somewhere in the middle."""
    objects = trace.objects()
    objects["device_traces"][0] = trace.events[min(lost, len(trace.events)) :]
    return objects if lost and trace.events else trace


def told(report: DiffReport, sign: int = 1) -> list[object]:
    """Points and rows as comparable values; with ``sign`` −1 those of the swapped diff."""
    out: list[object] = []
    for point in report.points:
        (rank,) = point.ranks
        rows = Counter(
            (
                row.owner,
                row.category,
                row.birth_phase,
                row.dangling,
                row.stack,
                sign * row.delta_bytes,
                *((row.base_count, row.head_count)[::sign]),
                *((row.base_bytes, row.head_bytes)[::sign]),
                *((row.base_lines, row.head_lines)[::sign]),
            )
            for row in rank.rows
        )
        delta = None if rank.delta_bytes is None else sign * rank.delta_bytes
        out.append((point.at, delta, rows, rank.unchanged.rows, rank.unchanged.total_bytes))
    return out


@given(base=PROGRAM, head=PROGRAM, lost=st.tuples(*[st.integers(0, 25)] * 2))
@settings(max_examples=80)
def test_rows_sum_exactly_and_swapping_negates(base: list, head: list, lost: tuple[int, int]) -> None:
    one, other = ring(play(base), lost[0]), ring(play(head), lost[1])
    # the first step may be lost on both sides, and is no phase then
    points = [point for point in POINTS if not any(lost) or not point.startswith("phase")]
    report = diff(run_of(one, name="a"), run_of(other, name="b"), points)
    for point in report.points:
        (rank,) = point.ranks
        if rank.delta_bytes is None:
            assert rank.rows == ()
            assert None in (rank.base_total_bytes, rank.head_total_bytes)
            continue
        assert rank.base_total_bytes + sum(row.delta_bytes for row in rank.rows) == rank.head_total_bytes
        assert rank.unchanged.total_bytes + sum(row.base_bytes for row in rank.rows) == rank.base_total_bytes
        assert rank.unchanged.total_bytes + sum(row.head_bytes for row in rank.rows) == rank.head_total_bytes
        assert all(row.delta_bytes == row.head_bytes - row.base_bytes for row in rank.rows)
        assert all((row.base_bytes, row.base_count) != (row.head_bytes, row.head_count) for row in rank.rows)
        assert len({(r.owner, r.category, r.birth_phase, r.dangling, r.stack) for r in rank.rows}) == len(rank.rows)
    swapped = diff(run_of(other, name="b"), run_of(one, name="a"), points)
    assert told(report) == told(swapped, sign=-1)


@given(program=PROGRAM, lost=st.integers(1, 40))
@settings(max_examples=40)
def test_a_recording_that_began_later_ends_in_the_same_allocations(program: list, lost: int) -> None:
    trace = play(program)
    for pair in ((trace, ring(trace, lost)), (ring(trace, lost), trace)):
        ((rank,),) = (point.ranks for point in diff(*map(run_of, pair), ["end"]).points)
        assert rank.rows == ()


@given(program=PROGRAM, shift=st.integers(0, 500))
@settings(max_examples=40)
def test_a_run_differs_from_itself_in_nothing_wherever_it_ran(program: list, shift: int) -> None:
    here, there = play(program), play(program, root="/home/someone/else/checkout", shift=shift)
    report = diff(run_of(here), run_of(there), POINTS)
    assert all(point.ranks[0].rows == () and point.ranks[0].delta_bytes == 0 for point in report.points)
