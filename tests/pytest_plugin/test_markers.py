"""Markers: checked at collection, enforced without an option, on runs that a test reads."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.analyze.builders import SAMPLES
from tests.pytest_plugin.conftest import Inner

HEAD = f"""
import pytest
from pathlib import Path
SAMPLES = Path({str(SAMPLES)!r})
"""


def test_limits_that_are_kept(inner: Inner) -> None:
    source = """
@pytest.mark.limit_phase_peak("train", "14 MiB")
@pytest.mark.limit_phase_peak("shard", 4_194_304 * 2 + 1024, rank=1)
@pytest.mark.limit_phase_peak(phase="train/step0", limit="15 MiB", rank="all")
@pytest.mark.limit_dangling("4 MiB")
def test_pr(snapviz):
    run = snapviz.load_run(SAMPLES / "pr")
    assert run.name == "pr"
"""
    result = inner(HEAD + source)
    result.assert_outcomes(failed=1)
    # 14 MiB are 14,680,064 bytes, and it has 512 more
    result.stdout.fnmatch_lines(["Phase 'train' peaked at 14.0 MiB on rank 0, limit 14.0 MiB (+512 B)"])
    inner(HEAD + source.replace('"14 MiB"', '"14.1 MiB"')).assert_outcomes(passed=1)


def failure(result: pytest.RunResult) -> str:
    """What is said of the one failure."""
    text = result.stdout.str()
    begin = text.index("\n", text.index("____ test_it")) if "____ test_it" in text else text.index("____\n") + 5
    return text[begin : text.index("= device memory")]


def test_a_failure_names_the_rank_and_the_owners(inner: Inner, snapshot: SnapshotAssertion) -> None:
    result = inner(
        HEAD
        + """
@pytest.mark.limit_phase_peak("train", "18 GiB")
@pytest.mark.limit_dangling("0 B")
def test_it(snapviz):
    snapviz.load_run(SAMPLES / "litgpt_eager_2" / "pr")
"""
    )
    result.assert_outcomes(failed=1)
    assert failure(result) == snapshot
    assert "Traceback" not in result.stdout.str()


def test_all_ranks_or_one(inner: Inner) -> None:
    source = """
@pytest.mark.limit_phase_peak("train", "12 MiB", rank={rank})
def test_it(snapviz):
    snapviz.load_run(SAMPLES / "pr")
"""
    told = failure(inner(HEAD + source.format(rank="'all'")))
    assert told.count("Phase 'train' peaked at 14.0 MiB on rank ") == 2
    told = inner(HEAD + source.format(rank="1")).stdout.str()
    assert "on rank 1, limit 12.0 MiB" in told
    assert "rank 0" not in failure(inner(HEAD + source.format(rank="1")))
    result = inner(HEAD + source.format(rank="7"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["limit_phase_peak('train', '12 MiB', rank=7): pr: no rank 7 could be read (there is: 0, 1)"]
    )


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ('limit_phase_peak("train", "12 GB")', "limit_phase_peak: '12 GB' can be read in two ways: write '12 GiB'"),
        ('limit_phase_peak("train", "-1 GiB")', "negative"),
        ('limit_phase_peak("train", 1.5)', "1.5 is not a number of bytes"),
        ('limit_phase_peak("train", True)', "True is not a number of bytes"),
        ('limit_phase_peak("train")', "missing a required argument: 'limit'"),
        ('limit_phase_peak("train", "1 GiB", "max", 3)', "too many positional arguments"),
        ('limit_phase_peak("train", "1 GiB", ranks=3)', "unexpected keyword argument 'ranks'"),
        ('limit_phase_peak("train", "1 GiB", rank="min")', "rank='min': use 'max', 'all' or a rank's number"),
        ('limit_phase_peak("", "1 GiB")', "'' is no phase's name"),
        ('limit_phase_peak(3, "1 GiB")', "3 is no phase's name"),
        ("limit_dangling()", "limit_dangling: missing a required argument: 'limit'"),
        ('limit_dangling("0 b")', "bits"),
    ],
)
def test_a_marker_that_means_nothing_fails_the_collection(inner: Inner, marker: str, words: str) -> None:
    result = inner(f"{HEAD}\n@pytest.mark.{marker}\ndef test_bad(snapviz):\n    print('it ran')\n")
    result.assert_outcomes(errors=1)
    text = result.stdout.str()
    assert "test_it.py::test_bad: limit_" in text
    assert words in text
    assert "it ran" not in text
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_every_bad_marker_is_told_with_its_test(inner: Inner) -> None:
    result = inner(
        HEAD
        + """
@pytest.mark.limit_dangling("1 MB")
class TestIt:
    def test_one(self, snapviz): pass
    @pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.limit_dangling("2 MB"))])
    def test_two(self, snapviz, size): pass
"""
    )
    result.assert_outcomes(errors=1)
    text = result.stdout.str()
    assert "test_it.py::TestIt::test_one: limit_dangling: '1 MB'" in text
    assert "test_it.py::TestIt::test_two[1]: limit_dangling: '1 MB'" in text
    assert "test_it.py::TestIt::test_two[1]: limit_dangling: '2 MB'" in text


def test_a_marker_without_the_fixture_fails_the_collection(inner: Inner) -> None:
    result = inner(HEAD + "\n@pytest.mark.limit_dangling('0 B')\ndef test_it():\n    pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*test_it: limit_dangling('0 B') judges what the fixture snapviz recorded*"])
    source = "\n@pytest.fixture(autouse=True)\ndef use(snapviz):\n    snapviz.load_run(SAMPLES / 'main')\n"
    inner(HEAD + source + "\n@pytest.mark.limit_dangling('0 B')\ndef test_it():\n    pass\n").assert_outcomes(passed=1)


def test_a_limit_with_nothing_to_judge_is_not_kept(inner: Inner) -> None:
    result = inner(HEAD + "\n@pytest.mark.limit_dangling('0 B')\ndef test_it(snapviz):\n    pass\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["limit_dangling('0 B'): nothing was recorded or loaded by the fixture snapviz"])


def test_a_marker_that_is_added_while_the_test_runs_counts(inner: Inner) -> None:
    source = """
def test_{name}(request, snapviz):
    request.node.add_marker(pytest.mark.limit_dangling({limit!r}))
    snapviz.load_run(SAMPLES / "pr")
"""
    both = source.format(name="hit", limit="0 B") + source.format(name="bad", limit="0 GB")
    result = inner(HEAD + both)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["Dangling parameters hold 4.0 MiB on rank 0*", "*'0 GB' can be read in two ways*"])
    assert "INTERNALERROR" not in result.stdout.str()


def test_what_cannot_be_judged_is_not_kept(inner: Inner) -> None:
    result = inner(
        HEAD
        + """
@pytest.mark.limit_dangling("1 TiB")
def test_unknown(snapviz):
    snapviz.load_run(SAMPLES / "leak")

@pytest.mark.limit_phase_peak("trian", "1 TiB")
def test_misspelt(snapviz):
    snapviz.load_run(SAMPLES / "leak")

@pytest.mark.limit_phase_peak("train", "1 TiB")
def test_broken(snapviz, tmp_path):
    import shutil
    shutil.copytree(SAMPLES / "pr", tmp_path / "pr")
    (tmp_path / "pr" / "rank00001.pickle.zst").write_bytes(b"")
    snapviz.load_run(tmp_path / "pr")
"""
    )
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "dangling:1TiB cannot be judged: rank 0: what dangles cannot be told: the record has no phase shard*",
            "*no rank has a phase trian (there is: materialize, optimizer, train*",
            "phase.train.peak:1TiB cannot be judged: rank 1: pr: rank00001.pickle.zst could not be read*",
        ]
    )


def test_a_test_that_fails_or_is_skipped_by_itself_stays_what_it_is(inner: Inner) -> None:
    result = inner(
        HEAD
        + """
pytestmark = pytest.mark.limit_dangling("0 B")

def test_fails(snapviz):
    snapviz.load_run(SAMPLES / "pr")
    assert 1 == 2

def test_skips(snapviz):
    snapviz.load_run(SAMPLES / "pr")
    pytest.skip("for a reason of its own")

@pytest.mark.xfail(strict=True)
def test_is_expected_to_fail(snapviz):
    snapviz.load_run(SAMPLES / "pr")
"""
    )
    result.assert_outcomes(failed=1, skipped=1, xfailed=1)
    assert "Dangling parameters" not in result.stdout.str()


def test_two_runs_are_both_judged(inner: Inner) -> None:
    result = inner(
        HEAD
        + """
@pytest.mark.limit_dangling("0 B")
def test_it(snapviz):
    snapviz.load_run(SAMPLES / "main")
    snapviz.load_run(SAMPLES / "pr")
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*device memory (snapviz)*", "  main, 2 ranks", "  pr, 2 ranks"])
