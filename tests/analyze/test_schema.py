from __future__ import annotations

import json

import pytest

from snapviz import schema
from snapviz.errors import RunError
from snapviz.schema import RankRecord, RunManifest, read_manifest, read_rank_record
from tests.analyze.builders import SAMPLES, record

MANIFEST = {"schema_version": 1, "name": "main"}


def test_manifest_keeps_what_it_knows_and_lets_the_rest_be() -> None:
    manifest = read_manifest(json.dumps(MANIFEST | {"world_size": 8, "from_the_future": {"a": 1}}), "run.json")
    assert manifest == RunManifest(schema_version=1, name="main", world_size=8)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"schema_version": 2, "name": 3}, "schema version 2, but this snapviz reads versions 1 to 1; a newer snapviz"),
        ({"schema_version": 0, "name": "x"}, "it is not a snapviz document"),
        ({"name": "x"}, "schema_version: Field required"),
        (MANIFEST | {"world_size": "8"}, "world_size: Input should be a valid integer"),
        (MANIFEST | {"world_size": 0}, "world_size: Input should be greater than or equal to 1"),
        (MANIFEST | {"git": {"commit": 7}}, "git.commit: Input should be a valid string"),
        ([], "Input should be an object"),
    ],
)
def test_what_is_wrong_with_a_manifest_is_said_in_words(document: object, words: str) -> None:
    with pytest.raises(RunError, match=r"^run\.json: ") as caught:
        read_manifest(json.dumps(document), "run.json")
    assert words in str(caught.value)
    assert "pydantic" not in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"null", b"[" * 5000])
def test_what_is_no_json_is_a_run_error(text: bytes) -> None:
    with pytest.raises(RunError):
        read_rank_record(text, "rank00000.json")


def test_a_record_survives_a_round_trip() -> None:
    one = record([("shard", 1, 2)], [(2, [("shard", "w", 4096, 12)])], holders=({"parameter": "w", "path": "m.w"},))
    assert read_rank_record(one.model_dump_json(), "x") == one
    assert one.holders[0].path == "m.w"


def test_bytes_are_never_negative_or_fractional() -> None:
    for nbytes in (-1, 1.5, True):
        text = json.dumps(
            {
                "schema_version": 1,
                "rank": 0,
                "boundaries": [
                    {"time_us": 1, "names": [{"kind": "shard", "name": "w", "address": 0, "nbytes": nbytes}]}
                ],
            }
        )
        with pytest.raises(RunError, match=r"nbytes"):
            read_rank_record(text, "x")


def test_exported_names_are_all_there() -> None:
    assert sorted(schema.__all__) == sorted(name for name in schema.__all__ if hasattr(schema, name))
    assert {"RunManifest", "RankRecord", "DiffReport", "InfoReport"} <= set(schema.__all__)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*/*.json")), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_sample_documents_hold_nothing_that_the_schema_does_not_know(path: object) -> None:
    text = path.read_text()  # type: ignore[attr-defined]
    model = RunManifest if path.name == "run.json" else RankRecord  # type: ignore[attr-defined]
    again = model.model_validate_json(text).model_dump(mode="json", exclude_none=True)
    assert _without_empty(json.loads(text)) == _without_empty(again)


def _without_empty(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_empty(v) for k, v in value.items() if v not in ([], {}, None)}
    return [_without_empty(v) for v in value] if isinstance(value, list) else value
