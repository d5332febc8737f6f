"""Whether a difference was there before the first training step."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from snapviz.analyze.run import Run
from snapviz.compare.diff import diff
from snapviz.compare.training import before_training, first_training_event
from snapviz.replay.model import START
from snapviz.schema import DiffReport
from tests.analyze.builders import MIB, Trace, record, run_of
from tests.compare.jobs import job
from tests.compare.recorded import steps

EVEN = st.integers(10, 40).map(lambda half: 2 * half)


def run(made: list[int], trained: list[list[int]], after: list[int] = [], name: str = "run") -> Run:  # noqa: B006
    """Allocations before training, in each step, and after the last; every other one of a step is freed in it."""
    trace = Trace()
    start = trace.now
    for mib in made:
        trace.alloc(mib)
    phases = [("materialize", start, trace.tick())]
    # between the phases: older than the first step all the same
    trace.tick()
    trace.alloc(22)
    for step, sizes in enumerate(trained):
        begin = trace.tick()
        for index, mib in enumerate(sizes):
            address = trace.alloc(mib)
            if index % 2:
                trace.free(address)
        phases.append((f"train/step{step}", begin, trace.tick()))
        trace.tick()
    for mib in after:
        trace.alloc(mib)
    return run_of(trace, records=[record(phases)], name=name)


def parts(report: DiffReport) -> list[tuple[int | None, int | None]]:
    return [(r.before_training_bytes, r.training_bytes) for point in report.points for r in point.ranks]


def test_what_is_older_than_the_first_step_is_told_from_the_rest() -> None:
    base = run([20], [[30, 40]])
    assert parts(diff(base, run([20, 50], [[30, 40]]))) == [(50 * MIB, 0)] * 2
    assert parts(diff(base, run([20], [[30, 90]]))) == [(0, 0), (0, 50 * MIB)]
    assert parts(diff(base, run([26], [[24, 40]], [44]), ["end"])) == [(6 * MIB, 38 * MIB)]
    # a peak before any step is made of what is older than it
    early = run([400], [[30]])
    facts = early.ranks[0].facts()
    assert before_training(facts, 1) == 400 * MIB
    assert before_training(facts, START) == 0


def test_what_is_freed_is_no_part() -> None:
    trace = Trace()
    start = trace.now
    address = trace.alloc(20)
    made = trace.tick()
    trace.tick()
    trace.free(address)
    trace.alloc(30)
    known = record([("materialize", start, made), ("train", made + 1, trace.now)])
    facts = run_of(trace, records=[known]).ranks[0].facts()
    assert first_training_event(facts) == 2
    assert [before_training(facts, event) for event in (1, len(facts.replay) - 1)] == [20 * MIB, 0]


@given(
    runs=st.tuples(
        *[st.tuples(st.lists(EVEN, max_size=3), st.lists(st.lists(EVEN, max_size=4), min_size=1, max_size=3))] * 2
    )
)
@settings(max_examples=30)
def test_the_parts_sum_to_the_difference_and_swapping_negates(runs) -> None:
    one, other = (run(*program) for program in runs)
    there, back = diff(one, other), diff(other, one)
    for point in there.points:
        (rank,) = point.ranks
        assert rank.before_training_bytes is not None
        assert rank.training_bytes is not None
        assert rank.before_training_bytes + rank.training_bytes == rank.delta_bytes
    ends = [[pair for pair, point in zip(parts(d), d.points, strict=True) if point.at == "end"] for d in (there, back)]
    assert ends[0] == [(-before, -training) for before, training in ends[1]]  # type: ignore[operator]


def test_without_a_record_of_training_nothing_is_said() -> None:
    recorded = run([20], [[30]])
    assert parts(diff(run_of(job()), run_of(job(leak=1)))) == [(None, None)] * 2
    assert parts(diff(recorded, run_of(job()))) == [(None, None)] * 2
    untrained = run([20], [])
    assert first_training_event(untrained.ranks[0].facts()) is None
    named = run_of(Trace(), records=[record([("training", 1, 2), ("eval/train", 3, 4)])])
    assert first_training_event(named.ranks[0].facts()) is None


def test_a_recording_that_begins_in_training_cannot_say_it() -> None:
    whole = steps((100, 60, 40))
    assert first_training_event(whole.ranks[0].facts()) is not None
    # the first step is lost, or only a part of it is left: what is older may be a step's
    for cut in (0, 1, 2):
        facts = steps((100, 60, 40), cut=cut).ranks[0].facts()
        assert facts.truncated
        assert first_training_event(facts) is None
    assert parts(diff(whole, steps((100, 60, 40), cut=2), ["end"])) == [(None, None)]
