"""What is found below a root, and what is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from snapviz.app.runs import Registry
from snapviz.errors import RunError, UsageError

SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "runs"
    shutil.copytree(SAMPLES / "thunder_478", found / "pair")
    return found


def ids(root: Path | str) -> list[str]:
    return [entry.id for entry in Registry(str(root)).all()]


def test_runs_by_their_names_within_the_root(root: Path) -> None:
    registry = Registry(str(root))
    main, pr = registry.all()
    assert (main.id, pr.id) == ("pair/main", "pair/pr")
    assert (main.kind, main.snapshots, main.manifest is not None, main.problem) == ("run", 2, True, "")
    assert main.size_bytes == sum(path.stat().st_size for path in (root / "pair" / "main").iterdir())
    assert registry.get("pair/pr") == pr


def test_the_root_itself_can_be_the_run(root: Path) -> None:
    assert ids(root / "pair" / "main") == ["main"]
    assert Registry(str(root / "pair" / "main")).get("main").path == str(root / "pair" / "main")


def test_a_url_of_the_same(root: Path) -> None:
    registry = Registry(f"file://{root}")
    assert [entry.id for entry in registry.all()] == ["pair/main", "pair/pr"]
    assert registry.get("pair/main").manifest == Registry(str(root)).get("pair/main").manifest


def test_bare_snapshots_alone_and_as_ranks(tmp_path: Path) -> None:
    source = SAMPLES / "thunder_478" / "main" / "rank00000.pickle.zst"
    for name in (
        "lone.pickle.zst",
        "ranks/rank0.pickle.zst",
        "ranks/rank1.pickle.zst",
        "any/a.pkl.zst",
        "any/b.pkl.zst",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(source, tmp_path / name)
    found = {entry.id: (entry.kind, entry.snapshots) for entry in Registry(str(tmp_path)).all()}
    assert found == {
        "any": ("folder", 2),
        "any/a.pkl.zst": ("snapshot", 1),
        "any/b.pkl.zst": ("snapshot", 1),
        "lone.pickle.zst": ("snapshot", 1),
        "ranks": ("folder", 2),
    }


@pytest.mark.parametrize(
    "asked",
    ["../pair/main", "/etc/passwd", "pair/../pair/main", "pair", "", "pair/main/", "pair%2Fmain", "pair/main\0"],
)
def test_only_what_was_found_can_be_asked_for(root: Path, asked: str) -> None:
    with pytest.raises(UsageError, match="no run"):
        Registry(str(root)).get(asked)


def test_a_link_that_leads_out_is_not_followed(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(root / "pair" / "main", outside)
    (root / "linked").symlink_to(outside)
    (root / "lone.pickle").symlink_to(outside / "rank00000.pickle.zst")
    assert ids(root) == ["pair/main", "pair/pr"]


def test_a_run_with_a_file_from_outside_is_named_and_not_read(root: Path, tmp_path: Path) -> None:
    inside = root / "pair" / "main" / "rank00001.pickle.zst"
    inside.rename(tmp_path / "elsewhere")
    inside.symlink_to(tmp_path / "elsewhere")
    entry = Registry(str(root)).get("pair/main")
    assert entry.refused
    assert entry.problem == "rank00001.pickle.zst is a link that leads out of the served directory"


def test_links_within_the_root_are_followed_and_circles_end(root: Path) -> None:
    (root / "again").symlink_to(root / "pair")
    (root / "pair" / "up").symlink_to(root)
    (root / "self").symlink_to(root / "self")
    assert {"again/main", "pair/main"} & set(ids(root))
    assert len(ids(root)) <= 4


def test_what_comes_and_changes_is_seen_after_a_while(root: Path) -> None:
    clock = Clock()
    registry = Registry(str(root), clock)
    before = registry.get("pair/main")
    shutil.copytree(root / "pair", root / "later")
    (root / "pair" / "main" / "run.json").write_text("{", encoding="utf-8")
    assert len(registry.all()) == 2
    clock.now += 10
    assert [entry.id for entry in registry.all()] == ["later/main", "later/pr", "pair/main", "pair/pr"]
    after = registry.get("pair/main")
    assert after.stamp != before.stamp
    assert "run.json" in after.problem
    assert str(root) not in after.problem


def test_a_scan_that_takes_long_rests_for_longer(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    registry = Registry(str(root), clock)
    scan, scans = registry._scan, []

    def slow() -> None:
        scans.append(clock.now)
        clock.now += 3
        scan()

    monkeypatch.setattr(registry, "_scan", slow)
    for _ in range(20):
        clock.now += 10
        registry.all()
    assert scans == [110.0, 183.0, 256.0]
    registry.all(again=True)
    assert len(scans) == 4


def test_a_root_that_goes_away_leaves_what_was_known(root: Path) -> None:
    clock = Clock()
    registry = Registry(str(root), clock)
    root.rename(root.parent / "gone")
    clock.now += 10
    assert len(registry.all()) == 2
    assert registry.problem
    (root.parent / "gone").rename(root)
    clock.now += 10
    registry.all()
    assert not registry.problem


@pytest.mark.parametrize(("name", "said"), [("nothing", "no such directory"), ("file", "is a file")])
def test_no_root(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match=said):
        Registry(str(tmp_path / name))


def test_messages_do_not_say_where_the_root_lies(root: Path) -> None:
    registry = Registry(str(root))
    assert registry.public(f"{root}/pair/main/run.json: broken") == "pair/main/run.json: broken"
    assert registry.public(f"reading {root.resolve()}") == "reading runs"


def test_a_markup_name_is_an_id_like_any(root: Path) -> None:
    (root / "pair" / "main").rename(root / "<img src=x onerror=alert(1)>")
    assert "<img src=x onerror=alert(1)>" in ids(root)


def test_hidden_folders_are_left_out(root: Path) -> None:
    (root / "pair").rename(root / ".pair")
    assert ids(root) == []
