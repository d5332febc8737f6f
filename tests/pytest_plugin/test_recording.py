"""What the fixture records, over a stand-in for the device; and no device."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from snapviz.analyze.run import load_run
from snapviz.pytest_plugin.memory import place_of
from tests.pytest_plugin.conftest import CONFTEST, Inner

pytest.importorskip("torch")

HEAD = """
import pytest
from tests.record.builders import MIB
"""

TRAIN = """
@pytest.mark.limit_phase_peak("train", "12 MiB")
def test_train(snapviz, device):
    with snapviz.phase("setup"):
        weights = device.alloc(4 * MIB)
    with snapviz.phase("train"):
        device.free(device.alloc({size} * MIB))
"""


def test_what_a_test_records_is_judged(inner: Inner) -> None:
    inner(HEAD + TRAIN.format(size=8), conftest=CONFTEST).assert_outcomes(passed=1)
    result = inner(HEAD + TRAIN.format(size=10), conftest=CONFTEST)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "Phase 'train' peaked at 14.0 MiB on rank 0, limit 12.0 MiB (+2.0 MiB)",
            "  14,680,064 bytes, limit 12,582,912 bytes",
            "live at that peak, rank 0: 14,680,064 bytes",
            "   10.00 MiB  *1 block · born train",
            "    4.00 MiB  *1 block · born setup",
            "recorded in *",
            "*device memory (snapviz)*",
            "test_it.py::test_train",
            "  phase * peak * rank * limit",
            "  train * 14.00 MiB * 0 * 12.00 MiB",
        ]
    )


def test_each_test_has_a_recording_of_its_own_in_one_process(inner: Inner) -> None:
    source = """
@pytest.fixture(scope="module")
def kept():
    return []

@pytest.mark.parametrize("size", [2, 6, 4])
@pytest.mark.limit_phase_peak("train", "6 MiB")
def test_it(snapviz, device, size):
    with snapviz.phase("train"):
        with snapviz.phase("step0"):
            device.free(device.alloc(size * MIB))
    run = snapviz.finish()
    assert [phase.name for phase in run.ranks[0].record.phases] == ["train", "train/step0"]
    assert snapviz.finish() is None
    assert snapviz.runs == [run]
"""
    inner(HEAD + source, conftest=CONFTEST).assert_outcomes(passed=3)


def test_a_device_that_is_in_use_already_is_judged_by_its_counters(inner: Inner) -> None:
    source = """
@pytest.mark.limit_phase_peak("train", "{limit} MiB")
def test_it(snapviz, device):
    device.alloc(20 * MIB)
    with snapviz.phase("train"):
        device.free(device.alloc(4 * MIB))
"""
    inner(HEAD + source.format(limit=24), conftest=CONFTEST).assert_outcomes(passed=1)
    result = inner(HEAD + source.format(limit=23), conftest=CONFTEST)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["Phase 'train' peaked at 24.0 MiB on rank 0, limit 23.0 MiB (+1.0 MiB)"])


def test_several_recordings_in_one_test(inner: Inner, pytester: pytest.Pytester) -> None:
    source = """
import snapviz as package

def test_it(snapviz, device):
    for name, size in (("before", 8), ("after", 6)):
        with snapviz.record(name, settings={"size": size}) as recorder:
            with recorder.phase("train"), package.phase("inner"):
                device.free(device.alloc(size * MIB))
    assert [run.name for run in snapviz.runs] == ["before", "after"]
    assert snapviz.runs[1].manifest.settings == {"size": 6}
"""
    inner(HEAD + source, "--snapviz-save=kept", conftest=CONFTEST).assert_outcomes(passed=1)
    first, second = place_of("test_it.py::test_it"), place_of("test_it.py::test_it", 1)
    assert sorted(path.name for path in (pytester.path / "kept").iterdir()) == [first, second]
    assert load_run(pytester.path / "kept" / second).name == "after"


def test_a_recording_in_a_recording_is_an_error(inner: Inner) -> None:
    source = """
def test_it(snapviz, device):
    with snapviz.phase("train"):
        with snapviz.record():
            pass
"""
    result = inner(HEAD + source, conftest=CONFTEST)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*RecordError: a recording is running already*"])


def test_metrics_and_modules(inner: Inner) -> None:
    source = """
import torch

def test_it(snapviz, device):
    model = torch.nn.Linear(2, 2)
    snapviz.watch(model)
    device.alloc(MIB)
    snapviz.metric("tokens_per_s", 7)
    assert snapviz.finish().manifest.metrics == {"tokens_per_s": 7}
"""
    inner(HEAD + source, conftest=CONFTEST).assert_outcomes(passed=1)


def test_a_test_that_fails_leaves_no_recording_on(inner: Inner) -> None:
    source = """
from snapviz.record import active

def test_fails(snapviz, device):
    with snapviz.phase("train"):
        device.alloc(MIB)
        raise ValueError("its own")

def test_next():
    assert active() is None
"""
    result = inner(HEAD + source, conftest=CONFTEST)
    result.assert_outcomes(failed=1, passed=1)
    # what it had until then is told all the same
    result.stdout.fnmatch_lines(["*ValueError: its own", "*device memory (snapviz)*", "  train * 1.00 MiB *"])


def test_a_fixture_that_fails_leaves_no_recording_on(inner: Inner) -> None:
    source = """
from snapviz.record import active

@pytest.fixture
def broken(snapviz, device):
    with snapviz.phase("setup"):
        raise ValueError("its own")

def test_fails(broken): pass

def test_next():
    assert active() is None
"""
    inner(HEAD + source, conftest=CONFTEST).assert_outcomes(errors=1, passed=1)


def test_a_device_that_is_never_used_leaves_nothing_to_judge(inner: Inner) -> None:
    source = """
@pytest.mark.limit_phase_peak("train", "1 GiB")
def test_it(snapviz, device):
    device.ready = False
    with snapviz.phase("train"):
        pass
"""
    result = inner(HEAD + source, "-W", "ignore::RuntimeWarning", conftest=CONFTEST)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["limit_phase_peak('train', '1 GiB'): the recording wrote no file*"])


# ------------------------------------------------------------------ no device


SKIPPED = """
@pytest.mark.limit_phase_peak("train", "1 GiB")
def test_phase(snapviz):
    with snapviz.phase("train"):
        pass

def test_record(snapviz):
    with snapviz.record():
        pass

def test_watch(snapviz):
    snapviz.watch()

def test_metric(snapviz):
    try:
        snapviz.metric("x", 1)
    except Exception:
        pass
"""


def test_without_a_device_a_test_that_records_is_skipped_with_the_reason(inner: Inner) -> None:
    conftest = CONFTEST.replace("FakeBackend()", "FakeBackend('torch 0.0 sees no CUDA device')").replace(
        "@pytest.fixture", "@pytest.fixture(autouse=True)"
    )
    result = inner(HEAD + SKIPPED, "-rs", conftest=conftest)
    result.assert_outcomes(skipped=4)
    result.stdout.fnmatch_lines(["SKIPPED [[]4[]] *: nothing can be recorded: torch 0.0 sees no CUDA device"])


# ------------------------------------------------------------------ save, baseline, budgets


def test_saved_runs_are_the_baseline_of_the_next_session(inner: Inner, pytester: pytest.Pytester) -> None:
    base = HEAD + TRAIN.format(size=6)
    inner(base, "--snapviz-save", "runs/main", conftest=CONFTEST).assert_outcomes(passed=1)
    place = pytester.path / "runs" / "main" / place_of("test_it.py::test_train")
    assert sorted(path.name for path in place.iterdir()) == ["rank00000.json", "rank00000.pickle.zst", "run.json"]
    assert load_run(place).name == "test_train"
    options = ("--snapviz-baseline", "runs/main", "--snapviz-save", "runs/pr", "--snapviz-fail-on")
    head = HEAD + TRAIN.format(size=7)
    result = inner(head, *options, "phase.train.peak:5%", "--snapviz-fail-on", "phase.setup.peak:0%", conftest=CONFTEST)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "Phase 'train' peaked at 11.0 MiB on rank 0, limit 10.5 MiB (+512.0 KiB)",
            "  11,534,336 bytes, limit 11,010,048 bytes: 10,485,760 bytes in the baseline, and 5% more",
            f"  recorded in *runs/pr/{place_of('test_it.py::test_train')}",
            "  train * 11.00 MiB * 0 * 10.00 MiB * +1.00 MiB * 12.00 MiB",
        ]
    )
    inner(head, *options, "phase.train.peak:10%", conftest=CONFTEST).assert_outcomes(passed=1)
    # a second session takes the place of the first
    again = load_run(pytester.path / "runs" / "pr" / place_of("test_it.py::test_train"))
    assert again.ranks[0].facts().replay.peak("allocated", 0, len(again.ranks[0].facts().replay))[0] == 11 << 20
    assert [path.name for path in (pytester.path / "runs" / "pr").iterdir()] == [place_of("test_it.py::test_train")]


def test_a_test_without_a_baseline_is_told_and_passes(inner: Inner, pytester: pytest.Pytester) -> None:
    (pytester.path / "empty").mkdir()
    options = ("--snapviz-baseline=empty", "--snapviz-fail-on=peak:0%")
    result = inner(HEAD + TRAIN.format(size=6), *options, conftest=CONFTEST)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "  ~ test_train: the baseline has no run of this test: nothing is compared",
            "--snapviz-fail-on peak:0%: no test had anything that it could judge",
        ]
    )


def test_a_baseline_that_cannot_be_read_fails_the_budget(inner: Inner, pytester: pytest.Pytester) -> None:
    place = pytester.path / "runs" / place_of("test_it.py::test_train")
    place.mkdir(parents=True)
    options = ("--snapviz-baseline=runs", "--snapviz-fail-on=phase.train.peak:0%")
    result = inner(HEAD + TRAIN.format(size=6), *options, conftest=CONFTEST)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["phase.train.peak:0%: the baseline cannot be read: *"])


def test_junit_has_the_figures(inner: Inner, pytester: pytest.Pytester) -> None:
    inner(HEAD + TRAIN.format(size=8), "--junitxml=out.xml", conftest=CONFTEST).assert_outcomes(passed=1)
    found = {one.get("name"): one.get("value") for one in ET.parse(pytester.path / "out.xml").iter("property")}
    assert found["snapviz.train.peak_bytes"] == str(12 << 20)
    assert found["snapviz.train.rank"] == "0"
    assert Path(str(found["snapviz.run"])).is_dir()


def test_under_xdist_workers_send_their_figures(inner: Inner, pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    source = """
@pytest.mark.parametrize("size", [2, 4, 6, 8])
@pytest.mark.limit_phase_peak("train", "6 MiB")
def test_it(snapviz, device, size):
    with snapviz.phase("train"):
        device.free(device.alloc(size * MIB))
"""
    options = ("-n2", "--snapviz-save=runs", "--snapviz-fail-on=phase.nope.peak:1B", "--junitxml=out.xml")
    result = inner(HEAD + source, *options, conftest=CONFTEST, subprocess=True)
    result.assert_outcomes(passed=3, failed=1)
    text = result.stdout.str()
    assert "Phase 'train' peaked at 8.0 MiB on rank 0, limit 6.0 MiB (+2.0 MiB)" in text
    section = text[text.index("device memory (snapviz)") :]
    assert re.findall(r"test_it\[(\d)\]", section)[0] == "8"  # the one that failed comes first
    assert sorted(re.findall(r"train +(\d\.\d\d) MiB", section)) == ["2.00", "4.00", "6.00", "8.00"]
    assert "--snapviz-fail-on phase.nope.peak:1B: no test had anything that it could judge" in section
    names = sorted(path.name for path in (pytester.path / "runs").iterdir())
    assert names == sorted(place_of(f"test_it.py::test_it[{size}]") for size in (2, 4, 6, 8))
    values = [one.get("value") for one in ET.parse(pytester.path / "out.xml").iter("property")]
    assert str(8 << 20) in values


def test_a_rank_of_several_judges_what_it_recorded(inner: Inner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    source = TRAIN.format(size=10)
    result = inner(
        HEAD + "import os\nos.environ.update(RANK='1', WORLD_SIZE='2')\n" + source,
        "--snapviz-save=runs",
        conftest=CONFTEST,
    )
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert "Phase 'train' peaked at 14.0 MiB on rank 1, limit 12.0 MiB" in text
    assert "missing" not in text


def test_places_are_stable_and_apart() -> None:
    names = ["a/b.py::test[x/y]", "a/b.py::test[x-y]", "a-b.py::test[x/y]", "x" * 4000, "é::\ud800", "..", "::"]
    places = [place_of(name, number) for name in names for number in (0, 1)]
    assert len(set(places)) == len(places)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,130}", place) and not place.startswith(".") for place in places)
    assert re.fullmatch("tests-test_a.py-test_b-1-[0-9a-f]{8}", place_of("tests/test_a.py::test_b[1]"))
