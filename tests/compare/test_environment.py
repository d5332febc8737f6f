"""What differs around two runs."""

from __future__ import annotations

from typing import Any

from snapviz.analyze.run import Run
from snapviz.compare.diff import diff
from snapviz.report.environment import environment_lines
from snapviz.schema import DiffReport, GitState, HistoryRecord, RunManifest
from tests.analyze.builders import record, run_of
from tests.compare.jobs import job


def run(name: str, history: dict[str, Any] | None = None, **manifest: Any) -> Run:
    trace = job()
    known = record([("train/step0", 1000, trace.now)])
    if history is not None:
        known = known.model_copy(update={"history": HistoryRecord(first_allocation=True, **history)})
    one = run_of(trace, records=[known], name=name)
    one.manifest = RunManifest(schema_version=1, name=name, **manifest)
    return one


def differences(base: Run, head: Run) -> dict[str, tuple[Any, Any]]:
    return {change.what: (change.base, change.head) for change in diff(base, head).environment}


def text(report: DiffReport) -> str:
    return " ".join("".join(span.text for span in spans).strip() for spans in environment_lines(report, 100))


def test_the_program_its_checkout_and_its_recording() -> None:
    base = run(
        "main",
        {"context": "all", "stacks": "python", "max_entries": 100_000},
        git=GitState(commit="a" * 40, branch="main", dirty=False),
        command=("python", "train.py", "--bs", "4", "--out", "runs/a b"),
        world_size=8,
        torch="2.11.0",
        packages={"lightning-thunder": "0.2.6"},
        settings={"seq": 4096},
        allocator_settings={"expandable_segments": False},
    )
    head = run(
        "pr",
        {"context": "state", "stacks": "all", "max_entries": 1_000_000},
        git=GitState(commit="b" * 40, branch="fix", dirty=True),
        command=("python", "train.py", "--bs", "8", "--out", "runs/a b"),
        world_size=4,
        torch="2.12.0",
        packages={"lightning-thunder": "0.2.7"},
        settings={"seq": 2048},
        allocator_settings={"expandable_segments": True},
    )
    assert differences(base, head) == {
        "torch": ("2.11.0", "2.12.0"),
        "world size": (8, 4),
        "allocator expandable_segments": (False, True),
        "package lightning-thunder": ("0.2.6", "0.2.7"),
        "setting seq": (4096, 2048),
        "git commit": ("a" * 40, "b" * 40),
        "git branch": ("main", "fix"),
        "git dirty": (False, True),
        "command": ("python train.py --bs 4 --out 'runs/a b'", "python train.py --bs 8 --out 'runs/a b'"),
        "history context": ("all", "state"),
        "history stacks": ("python", "all"),
        "history max_entries": (100_000, 1_000_000),
    }
    told = text(diff(base, head))
    # of a command what differs; commits stand beside the runs' names
    assert "command: … 4 --out … → … 8 --out …" not in told
    assert "command: … 4 … → … 8 …; history context: all → state" in told
    assert "git branch: main → fix; command" in told
    assert "git commit" not in told


def test_what_only_one_side_knows_is_no_difference() -> None:
    base = run("main", {"context": "all"}, git=GitState(commit="a"), command=("python", "a.py"))
    assert differences(base, run("pr")) == {}
    assert differences(base, run("pr", {"stacks": "all"}, git=GitState(commit="a", dirty=True))) == {}


def test_commands_of_any_shape_are_told_apart() -> None:
    def told(base: str, head: str) -> str:
        return text(diff(run("a", command=tuple(base.split())), run("b", command=tuple(head.split()))))

    assert told("python t.py", "python t.py --fast") == "different: command: – → … --fast"
    assert told("python t.py --fast", "python t.py") == "different: command: … --fast → –"
    assert told("a x x b", "a x b") == "different: command: … x … → –"
    assert told("a", "b") == "different: command: a → b"
