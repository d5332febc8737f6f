from __future__ import annotations

import json
import pickle
import re
import shutil
from pathlib import Path

import pytest

from snapviz.cli.main import main
from tests.analyze.builders import SAMPLES
from tests.analyze.test_fragmentation import pinned
from tests.replay.test_segments import RECORDED

LEAK = str(SAMPLES / "leak")
OOM = str(next(path for path in RECORDED if path.name.startswith("plain_oom")))


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "SNAPVIZ_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)


def test_it_explains_reserved_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fragmentation", LEAK, "-q"]) == 0
    out, err = capsys.readouterr()
    assert "at the reserved peak of the run (train/step0/optimizer), rank 0: 719,323,136 bytes reserved\n" in out
    assert "at the end of the run (train/step5), rank 0: 719,323,136 bytes reserved\n" in out
    assert err == ""


def test_json_sums(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fragmentation", OOM, "--format", "json", "--at", "oom:2", "-q"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    (point,) = document["ranks"][0]["points"]
    parts = point["parts"]
    rest = [size for name, size in parts.items() if name not in ("reserved_bytes", "allocated_bytes")]
    assert sum(rest) == parts["reserved_bytes"]
    assert point["moment"]["event"] == 432


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--at", "middle"], "--at middle: use peak, end, phase:NAME"),
        (["--at", "phase:nope"], "no such phase (there is: materialize"),
        (["--at", "oom"], "it never ran out of memory"),
        (["--at", "event:999999"], "there are 1,927 events"),
        (["--rank", "4"], "no rank 4"),
        (["--format", "html"], "invalid choice"),
    ],
)
def test_wrong_input_is_one_message_and_2(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fragmentation", LEAK, "-q", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_a_broken_rank_is_2_and_the_others_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(SAMPLES / "uneven_ranks", tmp_path / "run")
    (tmp_path / "run" / "rank00001.pickle.zst").write_bytes(b"")
    assert main(["fragmentation", str(tmp_path / "run"), "-q"]) == 2
    assert "! rank 1 is not in these numbers" in capsys.readouterr().out


def test_a_rank_without_the_moment_is_2_but_for_running_out_of_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(OOM, tmp_path / "rank0.pickle.xz")
    (tmp_path / "rank1.pickle").write_bytes(pickle.dumps(pinned()))
    assert main(["fragmentation", str(tmp_path), "-q", "--at", "event:900"]) == 2
    assert main(["fragmentation", str(tmp_path), "-q", "--at", "oom"]) == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"^rank 1 +– ", out, re.MULTILINE)) == 2
