"""What is around the pages, without a browser."""

from __future__ import annotations

import shutil
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from dash import get_app

from snapviz.app import create_app, private, routing, serving, shell, wsgi
from snapviz.app.results import Results
from snapviz.app.runs import Registry
from snapviz.app.state import PAGES, State
from snapviz.cli.main import main
from snapviz.errors import RunError, UsageError

SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"


def runs(root: Path, *names: str) -> Results:
    for name in names:
        shutil.copytree(SAMPLES / "thunder_478" / "main", root / "runs" / name)
    (root / "runs").mkdir(exist_ok=True)
    return Results(Registry(str(root / "runs")), root / "kept")


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        (("a/main", "a/pr", "b"), ("a/main", "a/pr")),
        (("deep/er/main", "deep/er/pr", "z/before", "z/after"), ("z/before", "z/after")),
        (("main", "other/pr"), None),
        ((), None),
    ],
)
def test_a_pair_is_what_lies_side_by_side(tmp_path: Path, names: tuple[str, ...], pair: tuple[str, str] | None) -> None:
    assert routing._pair(runs(tmp_path, *names)) == pair


def test_a_pair_that_says_when_it_was_recorded_comes_first_and_the_smaller_one(tmp_path: Path) -> None:
    found = runs(tmp_path, "main", "pr", "b/main", "b/pr", "c/main", "c/pr")
    for name in ("main", "pr"):
        manifest = tmp_path / "runs" / name / "run.json"
        manifest.write_text(manifest.read_text(encoding="utf-8").replace('"created"', '"made"'), encoding="utf-8")
    with (tmp_path / "runs/b/pr/rank00000.json").open("a", encoding="utf-8") as record:
        record.write(" " * 100)
    assert routing._pair(Results(Registry(str(tmp_path / "runs")), tmp_path / "kept")) == ("c/main", "c/pr")
    assert found


def test_a_picker_lists_what_can_be_searched_for(tmp_path: Path) -> None:
    option, gone = shell.options(runs(tmp_path, "a/main"), State(base="gone"))
    # without it the picker would clear what the address says
    assert (gone["value"], gone["about"]) == ("gone", "not here (any more)")
    assert (option["value"], option["label"]) == ("a/main", "a/main")
    for word in ("NVIDIA H200", "world size 2", "torch 2.11.0", "KiB"):
        assert word in option["about"]


def test_a_meter_never_goes_back_and_is_not_full_before_the_end() -> None:
    shown: list[tuple[str, str]] = []
    meter = routing._Meter(shown.append, lambda text: text.replace("/secret", ""))
    for told in [("reading /secret/a",), (5, 10), (10, 10), ("replaying",), *[("more",)] * 500, (1, 0), ()]:
        meter(*told)
    values = [int(value) for value, _ in shown]
    assert values == sorted(values)
    assert values[0] > 0
    assert values[-1] < 100
    assert shown[0][1] == "reading /a"


def test_results_lie_where_only_their_owner_writes(tmp_path: Path) -> None:
    open_to_all = tmp_path / "kept"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    found = private(open_to_all)
    assert found == open_to_all
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


def test_results_of_a_place_that_is_no_folder_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    found = private(tmp_path / "file" / "kept")
    assert found.is_dir()
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    assert private(None) != found


def test_two_dashboards_in_one_process(tmp_path: Path) -> None:
    for name in ("one", "other"):
        shutil.copytree(SAMPLES / "thunder_478", tmp_path / name)
    apps = [create_app(tmp_path / name, cache_dir=tmp_path / f"{name}-kept") for name in ("one", "other")]
    for app in apps:
        client = app.server.test_client()
        assert client.get("/", base_url="http://localhost").status_code == 200
        layout = client.get("/_dash-layout", base_url="http://localhost")
        assert b"progress-panel" in layout.data
        listed = client.get("/_dash-dependencies", base_url="http://localhost").get_json()
        assert any("page.children" in one["output"] for one in listed)
    assert len(apps[0].callback_map) == len(apps[1].callback_map) > 8


def test_every_page_has_its_path_and_link(tmp_path: Path) -> None:
    from snapviz.app.pages import every

    found = every()
    assert {page.NAME: page.PATH for page in found} == {name: PAGES[name] for name in (page.NAME for page in found)}
    links = shell.nav(found, State(base="a/main", rank=3, x0=5, row="x"), "/prefix/")
    assert next(link.href for link in links) == "/prefix/?base=a/main&rank=3"
    assert [getattr(link, "aria-current", None) for link in links].count("page") == 1


def test_serve_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path / "nowhere")]) == 2
    assert "no such directory" in capsys.readouterr().err
    assert main(["serve", str(tmp_path), "--port", "70000"]) == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["serve", str(tmp_path), "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen" in capsys.readouterr().err


def test_serve_without_dash_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("snapviz.app")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dash", None)
    assert main(["serve", "."]) == 2
    assert "pip install 'snapviz[app]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "more", "allowed"),
    [
        ("127.0.0.1", (), {"localhost", "127.0.0.1", "::1"}),
        ("localhost", ("Box.lan",), {"localhost", "127.0.0.1", "::1", "box.lan"}),
        ("0.0.0.0", (), None),
        ("0.0.0.0", ("box.lan",), {"localhost", "127.0.0.1", "::1", "0.0.0.0", "box.lan"}),
    ],
)
def test_hosts_that_are_answered(host: str, more: tuple[str, ...], allowed: set[str] | None) -> None:
    found = serving._hosts(host, more)
    assert (None if found is None else set(found)) == allowed


def test_a_root_that_is_none_is_no_app(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such directory"):
        create_app(tmp_path / "nowhere", cache_dir=tmp_path / "kept")
    with pytest.raises(UsageError, match="cannot listen"):
        serving._bound("256.256.256.256", 0)


def test_a_wsgi_server_is_given_the_application(tmp_path: Path) -> None:
    server = wsgi(tmp_path, cache_dir=tmp_path / "kept", allowed_hosts=["box.lan"], prefix="/snapviz/")
    client = server.test_client()
    assert client.get("/snapviz/", base_url="http://box.lan").status_code == 200
    assert client.get("/snapviz/", base_url="http://other.lan").status_code == 403


def test_dashboards_of_one_process_run_their_own_jobs(tmp_path: Path) -> None:
    """Dash registers the background callbacks of every app with the manager of every app."""
    roots = [tmp_path / "first", tmp_path / "second"]
    found = []
    for root in roots:
        root.mkdir()
        manager = create_app(root, cache_dir=tmp_path / f"cache-{root.name}")._background_manager
        found.append(manager)
    functions = [{id(job) for job in manager.func_registry.values()} for manager in found]
    assert all(functions)
    assert not functions[0] & functions[1]


def test_a_request_is_answered_for_its_own_dashboard(tmp_path: Path) -> None:
    """What Dash takes for the current app is the one that was asked, not the newest."""
    apps = [create_app(tmp_path, cache_dir=tmp_path / name) for name in ("one", "two")]
    for app in apps:
        app.server.add_url_rule("/which", view_func=lambda: str(id(get_app())))
    for app in (*apps, apps[0]):
        answer = app.server.test_client().get("/which", headers={"Host": "localhost"})
        assert answer.text == str(id(app))


def test_as_many_files_may_be_open_as_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    given: list[tuple[int, int]] = []

    def limit(_: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > 20_000:
            raise ValueError("the kernel has a limit of its own")
        given.append(wanted)

    monkeypatch.setattr(resource, "setrlimit", limit)
    for known in ((256, resource.RLIM_INFINITY), (1024, 4096), (30_000, 1 << 20), (4096, 4096)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, known=known: known)
        serving._allow_files()
    assert given == [(10_240, resource.RLIM_INFINITY), (4096, 4096)]
