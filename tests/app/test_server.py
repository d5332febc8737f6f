"""What the server adds, refuses and says: headers, hosts, other sites, long requests, errors, and runs that are not."""

from __future__ import annotations

import io
import json
import logging
import os
import pickle
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from dash import Dash
from flask.testing import FlaskClient

from snapviz.app import create_app
from snapviz.app.state import State
from snapviz.app.uploads import UploadLimits
from tests.app.test_uploads import MAIN, SAMPLES, a_snapshot, left, packed


@pytest.fixture
def app(tmp_path: Path) -> Dash:
    return made(tmp_path)


@pytest.fixture
def client(app: Dash) -> FlaskClient:
    return app.server.test_client()


def made(tmp: Path, root: Path = SAMPLES, **more: Any) -> Dash:
    more.setdefault("upload_limits", UploadLimits(file_bytes=1 << 20, run_bytes=4 << 20, quota_bytes=8 << 20))
    return create_app(root, cache_dir=tmp / "cache", **more)


def uploads_of(app: Dash) -> Any:
    return app.server.extensions["snapviz_uploads"]


def call(client: FlaskClient, app: Dash, pathname: str, search: str) -> dict[str, Any]:
    """Dash's answer to a URL: what the shell shows."""
    client.get("/_dash-dependencies")
    key, found = next((k, c) for k, c in app.callback_map.items() if k.startswith("..page.children"))
    outputs = [
        {"id": json.loads(i) if i.startswith("{") else i, "property": p}
        for i, _, p in (each.rpartition(".") for each in key.strip(".").split("..."))
    ]
    values = {"url.pathname": pathname, "url.search": search}
    given = {
        part: [each | {"value": values.get(f"{each['id']}.{each['property']}")} for each in found[part]]
        for part in ("inputs", "state")
    }
    asked = {"output": key, "outputs": outputs, "changedPropIds": ["url.search"], **given}
    answer = client.post("/_dash-update-component", json=asked)
    assert answer.status_code == 200, answer.text
    return dict(answer.get_json()["response"])


# ------------------------------------------------------------------ headers


def test_the_policy_allows_no_eval_and_no_other_host(client: FlaskClient) -> None:
    answer = client.get("/")
    policy = dict(each.strip().partition(" ")[::2] for each in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert re.fullmatch(r"'self' 'sha256-[A-Za-z0-9+/]+='", policy["script-src"]), "one inline script: the renderer"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert not {"*", "http:", "https:", "'unsafe-eval'"} & set(" ".join(policy.values()).split())
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_the_inline_script_is_the_one_that_is_allowed(client: FlaskClient) -> None:
    import base64
    import hashlib

    answer = client.get("/")
    page = re.sub(r"<!--.*?-->", "", answer.text, flags=re.S)
    inline = re.findall(r'<script(?![^>]*src=)(?![^>]*type="application/json")[^>]*>(.*?)</script>', page, re.S)
    assert len(inline) == 1
    digest = base64.b64encode(hashlib.sha256(inline[0].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in answer.headers["Content-Security-Policy"]


def test_nothing_is_asked_of_another_host(client: FlaskClient) -> None:
    found = re.findall(r'(?:src|href)="([^"]+)"', client.get("/").text)
    assert found
    assert all(place.startswith("/") and not place.startswith("//") for place in found)


@pytest.mark.parametrize("path", ["/", "/_dash-layout", "/_dash-dependencies", "/runs", "/upload?id=x", "/nonsense"])
def test_data_is_not_cached(client: FlaskClient, path: str) -> None:
    answer = client.delete(path) if path.startswith("/upload") else client.get(path)
    assert answer.headers["Cache-Control"] == "no-store"


def test_scripts_may_be_cached(client: FlaskClient) -> None:
    script = re.search(r'src="(/_dash-component-suites/[^"]+)"', client.get("/").text)
    assert script is not None
    assert "max-age" in client.get(script[1]).headers["Cache-Control"]
    with client.get("/assets/url.js") as answer:
        assert "no-store" not in answer.headers.get("Cache-Control", "")


# ------------------------------------------------------------------ hosts and other sites


@pytest.mark.parametrize("host", ["localhost", "localhost:8050", "127.0.0.1:1", "[::1]:8050", "LOCALHOST"])
def test_this_machine_is_served(client: FlaskClient, host: str) -> None:
    assert client.get("/_dash-layout", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8050", "[", "a b", ""]
)
def test_a_name_that_was_made_to_point_here_is_not(client: FlaskClient, host: str) -> None:
    for path in ("/", "/_dash-layout", "/assets/url.js", "/nonsense"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code in (400, 403)
        assert answer.mimetype == "text/plain"


def test_other_names_where_they_are_allowed(tmp_path: Path) -> None:
    named = made(tmp_path, allowed_hosts=["Runs.example", "[fe80::1]"]).server.test_client()
    assert named.get("/", headers={"Host": "runs.example:80"}).status_code == 200
    assert named.get("/", headers={"Host": "[fe80::1]:80"}).status_code == 200
    assert named.get("/", headers={"Host": "localhost"}).status_code == 403
    any_name = made(tmp_path, allowed_hosts=None).server.test_client()
    assert any_name.get("/", headers={"Host": "anything.example"}).status_code == 200


OTHER_SITES = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "https://evil.example"},
    {"Origin": "http://localhost:3000"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
]


@pytest.mark.parametrize("headers", OTHER_SITES, ids=str)
def test_other_sites_change_nothing(app: Dash, headers: dict[str, str]) -> None:
    client = app.server.test_client()
    assert client.post("/upload?name=x", data=a_snapshot().read_bytes(), headers=headers).status_code == 403
    assert client.delete("/upload?id=x", headers=headers).status_code == 403
    assert client.post("/_dash-update-component", json={}, headers=headers).status_code == 403
    assert left(uploads_of(app)) == []


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}, {"Origin": "http://localhost"}, {}]
)
def test_our_own_pages_do(client: FlaskClient, headers: dict[str, str]) -> None:
    assert client.post("/upload?name=x", data=a_snapshot().read_bytes(), headers=headers).status_code == 201


# ------------------------------------------------------------------ long requests


def stream_to(client: FlaskClient, path: str, stream: Any, length: int | None) -> Any:
    """A request whose body is the stream: of that length, or in chunks that say nothing."""
    said = {"CONTENT_LENGTH": str(length)} if length is not None else {"HTTP_TRANSFER_ENCODING": "chunked"}
    return client.post(path, environ_overrides={"wsgi.input": stream, "wsgi.input_terminated": length is None, **said})


class Endless(io.RawIOBase):
    """A gigabyte that nobody holds."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self.left)
        buffer[:count] = bytes(count)
        self.left -= count
        self.given += count
        return count


def test_a_gigabyte_is_refused_by_what_it_says(app: Dash) -> None:
    stream = Endless(1 << 30)
    answer = stream_to(app.server.test_client(), "/upload?name=x", stream, 1 << 30)
    assert answer.status_code == 413
    assert "larger than 1.00 MiB" in answer.get_json()["error"]
    assert stream.given == 0
    assert left(uploads_of(app)) == []


def test_a_gigabyte_that_does_not_say_so_is_refused_while_it_is_read(app: Dash) -> None:
    stream = Endless(1 << 30)
    answer = stream_to(app.server.test_client(), "/upload?name=x", stream, None)
    assert answer.status_code == 413
    assert 1 << 20 < stream.given <= 2 << 20
    assert left(uploads_of(app)) == []


def test_a_body_that_ends_early_is_no_upload(app: Dash) -> None:
    whole = a_snapshot().read_bytes()
    answer = stream_to(app.server.test_client(), "/upload?name=x", io.BytesIO(whole[:-9]), len(whole))
    assert answer.status_code in (400, 422)
    assert "try again" in answer.get_json()["error"]
    assert left(uploads_of(app)) == []


def test_callbacks_are_short(client: FlaskClient) -> None:
    stream = Endless(1 << 30)
    answer = stream_to(client, "/_dash-update-component", stream, 1 << 30)
    assert (answer.status_code, stream.given) == (413, 0)
    answer = stream_to(client, "/_dash-update-component", stream, None)
    assert (answer.status_code, stream.given) == (411, 0)


# ------------------------------------------------------------------ uploads


def test_an_upload_is_shown_to_who_has_its_id(app: Dash, client: FlaskClient) -> None:
    answer = client.post("/upload?name=thunder.tar.gz", data=packed(MAIN))
    assert answer.status_code == 201
    told = answer.get_json()
    assert told["snapshots"] == 2
    assert uploads_of(app).path.name not in answer.text
    shown = call(client, app, "/", f"?head={told['id']}")
    assert shown["shown"]["data"] == "compare", "it is read, and the page is shown"
    assert told["id"] not in json.dumps(call(client, app, "/", "?head=thunder_478/main")), "it is in no list"
    assert client.delete(f"/upload?id={told['id']}").status_code == 200
    assert client.delete(f"/upload?id={told['id']}").status_code == 404
    gone = json.dumps(call(client, app, "/", f"?head={told['id']}"))
    assert "there is no run" in gone
    assert left(uploads_of(app)) == []


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/snapviz-was-here",)


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("evil.pickle", pickle.dumps({"segments": [Evil()]}), 422),
        ("cut.pickle.zst", a_snapshot().read_bytes()[:-100], 422),
        ("<img src=x onerror=alert(1)>.zip", b"PK\x03\x04 no", 422),
        ("empty", b"", 422),
    ],
)
def test_what_is_no_run_is_refused_in_words(app: Dash, name: str, content: bytes, code: int) -> None:
    answer = app.server.test_client().post("/upload", query_string={"name": name}, data=content)
    assert answer.status_code == code
    assert answer.mimetype == "application/json"
    said = answer.get_json()["error"]
    assert said
    assert "/" not in said
    assert "Traceback" not in said
    assert left(uploads_of(app)) == []
    assert not Path("/tmp/snapviz-was-here").exists()


def test_two_uploads_at_once(app: Dash) -> None:
    whole = packed(MAIN)
    gate = threading.Barrier(2)
    found: list[str] = []

    class Slow(io.RawIOBase):
        def __init__(self) -> None:
            self.inner = io.BytesIO(whole)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            if self.inner.tell() == 0:
                gate.wait(timeout=30)
            piece = self.inner.read(min(len(buffer), 500))
            buffer[: len(piece)] = piece
            return len(piece)

    def send() -> None:
        answer = stream_to(app.server.test_client(), "/upload?name=x.tgz", Slow(), len(whole))
        found.append(answer.get_json()["id"])

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 2
    assert all(uploads_of(app).entry(run_id) for run_id in found)


def test_two_apps_in_one_process_both_work_and_share_nothing(tmp_path: Path) -> None:
    one, other = made(tmp_path / "a"), made(tmp_path / "b", SAMPLES / "thunder_478")
    clients = one.server.test_client(), other.server.test_client()
    told = clients[0].post("/upload?name=x", data=a_snapshot().read_bytes()).get_json()
    assert "there is no run" not in json.dumps(call(clients[0], one, "/", f"?head={told['id']}"))
    assert "there is no run" in json.dumps(call(clients[1], other, "/", f"?head={told['id']}"))
    assert clients[1].delete(f"/upload?id={told['id']}").status_code == 404
    for client, app, base in ((clients[0], one, "thunder_478/main"), (clients[1], other, "main")):
        assert call(client, app, "/", f"?base={base}&head={base}")["shown"]["data"] == "compare"


def test_everything_goes_with_the_app(tmp_path: Path) -> None:
    app = made(tmp_path)
    uploads = uploads_of(app)
    app.server.test_client().post("/upload?name=x", data=a_snapshot().read_bytes())
    assert len(left(uploads)) == 1
    uploads.close()
    assert not uploads.path.exists()


# ------------------------------------------------------------------ runs that are none


@pytest.fixture
def outside(tmp_path: Path) -> tuple[Dash, Path]:
    """A root with a run, a secret beside it, and links that lead to it."""
    root, secret = tmp_path / "root", tmp_path / "secret"
    root.mkdir()
    secret.mkdir()
    (secret / "rank00000.pickle.zst").write_bytes(a_snapshot().read_bytes())
    (root / "mine").mkdir()
    (root / "mine" / "rank00000.pickle.zst").write_bytes(a_snapshot().read_bytes())
    (root / "link").symlink_to(secret)
    (root / "linked").mkdir()
    (root / "linked" / "rank00000.pickle.zst").symlink_to(secret / "rank00000.pickle.zst")
    (root / "<b>bold<b>").mkdir()
    (root / "<b>bold<b>" / "rank00000.pickle.zst").write_bytes(a_snapshot().read_bytes())
    return made(tmp_path, root), secret


NO_RUNS = [
    "../secret",
    "/etc",
    "link",
    "link/rank00000.pickle.zst",
    "mine/../../secret",
    "%2e%2e/secret",
    "mine\0",
    ".",
]


@pytest.mark.parametrize("run_id", [*NO_RUNS, "{secret}"])
def test_what_lies_outside_is_no_run(run_id: str, outside: tuple[Dash, Path]) -> None:
    app, secret = outside
    run_id = run_id.replace("{secret}", str(secret))
    for search in (f"?head={run_id}", "?" + State().with_(head=run_id).query()):
        shown = call(app.server.test_client(), app, "/", search)
        assert "shown" not in shown or shown["shown"]["data"] is None
        assert str(secret.parent) not in json.dumps(shown).replace(run_id, "")


def test_a_file_that_leads_outside_is_not_read(outside: tuple[Dash, Path]) -> None:
    app, secret = outside
    shown = json.dumps(call(app.server.test_client(), app, "/", "?head=linked/rank00000.pickle.zst"))
    assert '"shown": {"data": "compare"}' not in shown
    assert str(secret) not in shown


def test_markup_in_a_name_is_text(outside: tuple[Dash, Path]) -> None:
    app, _ = outside
    shown = call(app.server.test_client(), app, "/", "?" + State(head="<b>bold<b>/rank00000.pickle.zst").query())
    assert shown["shown"]["data"] == "compare"
    assert "dangerously_allow_html" not in json.dumps(shown)


# ------------------------------------------------------------------ errors


def test_what_nobody_foresaw_has_a_number_and_no_traceback(
    app: Dash, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = app.server.test_client()
    client.get("/")

    def fail(*_: object) -> None:
        raise RuntimeError(f"secret at {MAIN}")

    monkeypatch.setattr(type(uploads_of(app)), "receive", fail)
    app.server.view_functions["/_dash-layout"] = fail
    with caplog.at_level(logging.ERROR, "snapviz"):
        answers = client.post("/upload?name=x", data=b"x"), client.get("/_dash-layout")
    for answer, logged in zip(answers, caplog.records, strict=True):
        assert answer.status_code == 500
        assert "secret" not in answer.text
        assert str(MAIN) not in answer.text
        number = re.search(r"number ([0-9a-f]{8})", answer.text)
        assert number is not None
        assert number[1] in logged.getMessage()
        assert logged.exc_info is not None
