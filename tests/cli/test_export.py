from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from snapviz.cli.export import FORMATS
from snapviz.cli.main import main
from tests.analyze.builders import ROOT, SAMPLES, Trace, frame
from tests.snapshot.oracle import unpickle

PR, SINGLE = str(SAMPLES / "thunder_478" / "pr"), str(SAMPLES / "single")
END = 10_486_272  # bytes allocated at the end on either rank of PR, as torch counted them


def export(*argv: str | Path) -> int:
    return main(["export", *map(str, argv), "-q"])


def test_every_format_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    for name in FORMATS:
        assert export(SINGLE, "--to", name, "-o", tmp_path / name) == 0
        assert (tmp_path / name).stat().st_size > 0
    assert capsys.readouterr() == ("", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FORMATS)


def test_text_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    for asked in ([], ["-o", "-"]):
        assert export(PR, "--to", "collapsed", "--at", "end", *asked) == 0
        lines = capsys.readouterr().out.splitlines()
        for rank in (0, 1):
            mine = [line for line in lines if line.startswith(f"rank {rank};")]
            assert sum(int(line.rpartition(" ")[2]) for line in mine) == END
    assert export(PR, "--to", "csv", "--rank", "1", "--at", "end", "--frames", "0") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert sum(int(row["block_bytes"]) for row in rows) == END
    assert {row["rank"] for row in rows} == {"1"}
    assert export(PR, "--to", "perfetto") == 0
    assert {e["pid"] for e in json.loads(capsys.readouterr().out)["traceEvents"]} == {1, 2}
    # of one rank alone no root says which it is
    assert export(PR, "--to", "collapsed", "--rank", "0") == 0
    assert "rank 0" not in capsys.readouterr().out


def test_speedscope_has_a_profile_for_each_rank_and_moment(capsys: pytest.CaptureFixture[str]) -> None:
    assert export(PR, "--to", "speedscope") == 0
    document = json.loads(capsys.readouterr().out)
    names = [one["name"] for one in document["profiles"]]
    assert names == [f"rank {rank} at the {what} of the run" for rank in (0, 1) for what in ("peak", "end")]
    assert [one["endValue"] for one in document["profiles"] if "end" in one["name"]] == [END, END]
    assert export(PR, "--to", "speedscope", "--at", "phase:train/step0:end", "--by", "category") == 0
    (one, _) = json.loads(capsys.readouterr().out)["profiles"]
    assert one["name"] == "rank 0 at the end of train/step0"


def test_the_viewer_takes_a_snapshot_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(PR, "--to", "viewer", "-o", tmp_path / "x.pickle") == 2
    assert "pr has 2 snapshots" in capsys.readouterr().err
    assert export(PR, "--to", "viewer", "-o", tmp_path / "x.pickle", "--rank", "1") == 0
    assert export(PR, "--to", "viewer", "-o", tmp_path / "r{rank}.pickle") == 0
    (tmp_path / "folder").mkdir()
    assert export(PR, "--to", "viewer", "-o", tmp_path / "folder") == 0
    names = sorted(path.name for path in (tmp_path / "folder").iterdir())
    assert names == ["rank00000.pickle", "rank00001.pickle"]
    for rank, name in enumerate(names):
        written = (tmp_path / "folder" / name).read_bytes()
        assert written == (tmp_path / f"r{rank}.pickle").read_bytes()
        root = unpickle(written)
        assert sum(segment["total_size"] for segment in root["segments"]) == 23_068_672
    assert (tmp_path / "x.pickle").read_bytes() == (tmp_path / "r1.pickle").read_bytes()
    # what was written is a folder of snapshots to us too
    assert main(["info", str(tmp_path / "folder"), "-q"]) == 0
    assert export(PR, "--to", "viewer", "-o", tmp_path / "folder") == 2
    assert "rank00000.pickle: exists already (-f overwrites it)" in capsys.readouterr().err


def test_one_file_of_several_devices_is_one_for_the_viewer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = Trace(device=0), Trace(device=1)
    first.alloc(20, frame("f"))
    second.alloc(40, frame("g"))
    both = second.objects()
    both["segments"] += first.objects()["segments"]
    both["device_traces"][0] = first.events
    (tmp_path / "both.pickle").write_bytes(pickle.dumps(both))
    assert export(tmp_path / "both.pickle", "--to", "viewer", "-o", tmp_path / "out.pickle") == 0
    assert [len(trace) for trace in unpickle((tmp_path / "out.pickle").read_bytes())["device_traces"]] == [2, 2]
    assert export(tmp_path / "both.pickle", "--to", "collapsed", "-o", tmp_path / "{rank}.txt") == 0
    assert (tmp_path / "1.txt").read_text() == "g (/repo/model.py:1) 41943040\n"
    assert capsys.readouterr().err == ""


def test_compressed_where_the_name_says_so(tmp_path: Path) -> None:
    assert export(PR, "--to", "perfetto", "-o", tmp_path / "a.json") == 0
    for _ in range(2):
        assert export(PR, "--to", "perfetto", "-o", tmp_path / "a.json.gz", "-f") == 0
        packed = (tmp_path / "a.json.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "a.json").read_bytes()
    # neither a name nor a time in it
    assert packed[3:8] == bytes(5)


def test_nothing_is_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.txt"
    target.write_text("mine")
    assert export(PR, "--to", "collapsed", "-o", target) == 2
    assert target.read_text() == "mine"
    assert "exists already (-f overwrites it)" in capsys.readouterr().err
    assert export(PR, "--to", "collapsed", "-o", target, "-f") == 0
    assert target.read_text() != "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([PR], "--to"),
        ([PR, "--to", "svg"], "invalid choice: 'svg'"),
        ([PR, "--to", "viewer"], "name it with -o FILE"),
        ([PR, "--to", "viewer", "-o", "x.pickle.gz"], "leave .gz away"),
        ([PR, "--to", "parquet", "-o", "-"], "name it with -o FILE"),
        ([PR, "--to", "perfetto", "--at", "peak"], "--at says nothing of perfetto"),
        ([PR, "--to", "viewer", "--by", "owner", "-o", "x"], "--by says nothing of viewer"),
        ([PR, "--to", "collapsed", "--frames", "3"], "--frames says nothing of collapsed"),
        ([PR, "--to", "csv", "--points", "3"], "--points says nothing of csv"),
        ([PR, "--to", "collapsed", "--at", "peak", "--at", "end"], "collapsed holds one moment"),
        ([PR, "--to", "collapsed", "--at", "middle"], "use peak, end, phase:NAME"),
        ([PR, "--to", "collapsed", "--at", "phase:nope"], "there is: materialize, "),
        ([PR, "--to", "csv", "--at", "phase:nope", "-o", "x"], "--at phase:nope:peak: no such phase"),
        ([PR, "--to", "csv", "--rank", "7"], "no rank 7"),
        ([PR, "--to", "csv", "-o", "no/such/folder/x"], "there is no folder"),
        (["/does/not/exist", "--to", "csv"], "/does/not/exist"),
        ([str(ROOT / "pyproject.toml"), "--to", "csv"], "pyproject.toml"),
    ],
)
def test_what_cannot_be_meant_is_one_message_and_2(
    argv: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", *argv, "-q"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_nothing_else_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert export(SINGLE, "--to", "parquet", "-o", tmp_path / "x") == 2
    assert "pip install pyarrow" in capsys.readouterr().err
    assert export(SINGLE, "--to", "csv", "-o", tmp_path / "x") == 0


def test_a_broken_rank_is_2_and_the_others_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(PR, tmp_path / "pr")
    (tmp_path / "pr" / "rank00001.pickle.zst").write_bytes(b"")
    assert export(tmp_path / "pr", "--to", "collapsed", "--at", "end", "-o", tmp_path / "out") == 2
    assert "snapviz: rank 1 is not in it, for it could not be read: " in capsys.readouterr().err
    assert sum(int(line.rpartition(" ")[2]) for line in (tmp_path / "out").read_text().splitlines()) == END
    assert export(tmp_path / "pr", "--to", "collapsed", "--rank", "0") == 0
    assert export(tmp_path / "pr", "--to", "collapsed", "--rank", "1") == 2
    (tmp_path / "pr" / "rank00000.pickle.zst").write_bytes(b"")
    assert export(tmp_path / "pr", "--to", "collapsed") == 2
    assert "no rank could be read" in capsys.readouterr().err


def test_a_recording_that_begins_in_the_middle_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = Trace()
    trace.alloc(20, frame("f"))
    del trace.events[:]
    trace.alloc(40, frame("g"))
    (tmp_path / "one.pickle").write_bytes(pickle.dumps(trace.objects()))
    for name in FORMATS[:-1]:
        assert export(tmp_path / "one.pickle", "--to", name, "-o", tmp_path / name) == 0
        assert "rank 0: the recording begins in the middle" in capsys.readouterr().err
    rows = list(csv.DictReader((tmp_path / "csv").read_text().splitlines()))
    assert [row["alloc_event"] for row in rows] == ["-1", "1"]


def test_a_phase_that_one_rank_lacks_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(PR, tmp_path / "pr")
    path = tmp_path / "pr" / "rank00001.json"
    record: dict[str, Any] = json.loads(path.read_text())
    record["phases"] = [phase for phase in record["phases"] if phase["name"] != "shard"]
    path.write_text(json.dumps(record))
    assert export(tmp_path / "pr", "--to", "collapsed", "--at", "phase:shard") == 0
    out, err = capsys.readouterr()
    assert "rank 1 has no phase shard: it is not in it" in err
    assert all(line.startswith("rank 0;") for line in out.splitlines())


def test_the_viewer_through_a_pipe() -> None:
    command = [sys.executable, "-m", "snapviz", "export", SINGLE, "--to", "viewer", "-o", "-", "-q"]
    done = subprocess.run(command, capture_output=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    assert len(unpickle(done.stdout)["device_traces"][0]) == 1_369
    assert done.stderr == b""
