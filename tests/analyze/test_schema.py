from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest

from snapviz import schema
from snapviz.analyze.describe import allocator_settings
from snapviz.errors import RunError
from snapviz.schema import MOST_WINDOWS, RECOMPUTED, RankRecord, RunManifest, read_manifest, read_rank_record
from tests.analyze.builders import SAMPLES, Trace, record, run_of

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


RANK = {"schema_version": 1, "rank": 0}
COUNTERS = {f"{what}_{measure}_bytes": 1 for what in ("peak", "end") for measure in ("allocated", "reserved")}
PHASE = {"name": "a", "start_us": 1, "stop_us": 2}
NAME = {"kind": "shard", "name": "w", "address": 0, "nbytes": 1}
OPTIONAL = [f"{what}_{measure}_bytes" for what in ("peak", "end") for measure in ("active", "requested")]


def with_name(**changed: object) -> dict[str, object]:
    return RANK | {"boundaries": [{"time_us": 1, "names": [NAME | changed]}]}


def with_window(place: int, number: int) -> dict[str, object]:
    window = [0, 1, 2, 0]
    window[place] = number
    return RANK | {"modules": {"names": [""], "windows": [window]}}


@pytest.mark.parametrize("number", [1 << 63, (1 << 64) + 1, 10**400, -1])
@pytest.mark.parametrize(
    ("field", "document"),
    [
        ("rank", lambda n: RANK | {"rank": n}),
        ("world_size", lambda n: RANK | {"world_size": n}),
        ("device", lambda n: RANK | {"device": n}),
        ("start_us", lambda n: RANK | {"phases": [PHASE | {"start_us": n}]}),
        ("stop_us", lambda n: RANK | {"phases": [PHASE | {"stop_us": n}]}),
        *(
            (field, lambda n, field=field: RANK | {"phases": [PHASE | {"counters": COUNTERS | {field: n}}]})
            for field in (*COUNTERS, *OPTIONAL)
        ),
        ("time_us", lambda n: RANK | {"boundaries": [{"time_us": n}]}),
        ("time_us", lambda n: RANK | {"holders": [{"parameter": "w", "path": "m", "time_us": n}]}),
        ("address", lambda n: with_name(address=n)),
        ("nbytes", lambda n: with_name(nbytes=n)),
        ("shape.0", lambda n: with_name(shape=[n])),
        *((f"windows.0.{place}", lambda n, place=place: with_window(place, n)) for place in range(4)),
    ],
)
def test_no_number_of_a_record_leaves_int64(field: str, document: Callable[[int], object], number: int) -> None:
    with pytest.raises(RunError, match=rf"^x: (.*\.)?{field}: Input should be (less|greater) than"):
        read_rank_record(json.dumps(document(number)), "x")


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        ({"names": ["a"], "windows": [[1, 1, 2, 0]]}, "modules: Value error, a window is of name 1, and there are 1"),
        ({"windows": [[0, 1, 2, 0]]}, "modules: Value error, a window is of name 0, and there are 0"),
        ({"names": ["a" * 1_001]}, "modules.names.0: String should have at most 1000 characters"),
        ({"names": ["a"], "windows": [[0, 1, 2]]}, "modules.windows.0.3: Field required"),
        ({"names": ["a"], "windows": [[0, 1, 2, 0, 0]]}, "modules.windows.0: Tuple should have at most 4 items"),
        ({"names": ["a"], "windows": [["0", 1, 2, 0]]}, "modules.windows.0.0: Input should be a valid integer"),
        ({"names": ["a"], "windows": [[0, 1, 2, 0]] * (MOST_WINDOWS + 1)}, "modules.windows: Tuple should have at mos"),
        ({"names": ["a"] * (MOST_WINDOWS + 1)}, "modules.names: Tuple should have at most 100000 items"),
    ],
)
def test_windows_of_modules_are_bounded_and_have_names(modules: object, words: str) -> None:
    with pytest.raises(RunError) as caught:
        read_rank_record(json.dumps(RANK | {"modules": modules}), "x")
    assert words in str(caught.value)


def test_a_record_with_windows_survives_a_round_trip() -> None:
    modules = {"names": ["", "layers.0"], "windows": [[0, 1, 9, 0], [1, 2, 3, RECOMPUTED]], "complete": False}
    one = read_rank_record(json.dumps(RANK | {"modules": modules}), "x")
    assert one.modules is not None
    assert one.modules.windows == ((0, 1, 9, 0), (1, 2, 3, 1))
    assert read_rank_record(one.model_dump_json(), "x") == one
    assert read_rank_record(json.dumps(RANK), "x").modules is None


def test_a_ring_of_torchs_largest_size_is_a_ring() -> None:
    for entries in ((1 << 63) - 1, (1 << 64) - 1):
        history = {"first_allocation": True, "max_entries": entries}
        assert read_rank_record(json.dumps(RANK | {"history": history}), "x").history is not None
    with pytest.raises(RunError, match=r"max_entries"):
        read_rank_record(json.dumps(RANK | {"history": history | {"max_entries": 1 << 64}}), "x")


@pytest.mark.parametrize(
    ("field", "value"), [("world_size", 10**12), ("recorded_ranks", [10**12]), ("recorded_ranks", [-1])]
)
def test_a_manifest_names_no_more_ranks_than_a_report_can_list(field: str, value: object) -> None:
    with pytest.raises(RunError, match=field):
        read_manifest(json.dumps(MANIFEST | {field: value}), "run.json")


@pytest.mark.parametrize("name", ["x" * 1_001, "/" * 32])
def test_names_of_phases_are_bounded(name: str) -> None:
    with pytest.raises(RunError, match=r"^x: boundaries\.0\.phase: "):
        read_rank_record(json.dumps(RANK | {"boundaries": [{"time_us": 1, "phase": name}]}), "x")
    with pytest.raises(RunError, match=r"^x: phases\.0\.name: "):
        read_rank_record(json.dumps(RANK | {"phases": [PHASE | {"name": name}]}), "x")


def test_shapes_have_no_more_sizes_than_torchs() -> None:
    with pytest.raises(RunError, match=r"shape: Tuple should have at most 64 items"):
        read_rank_record(json.dumps(with_name(shape=[1] * 65)), "x")


def test_a_metric_that_is_no_number_is_not_known() -> None:
    metrics = {"loss": math.nan, "a": math.inf, "b": -math.inf, "huge": 10**400, "steps": 3, "rate": 0.5}
    for read, document in ((read_manifest, MANIFEST), (read_rank_record, RANK)):
        one = read(json.dumps(document | {"metrics": metrics}), "x")
        assert one.metrics == {"steps": 3, "rate": 0.5}
        assert type(one.metrics["steps"]) is int


def test_settings_are_equal_to_themselves() -> None:
    text = json.dumps(MANIFEST | {"settings": {"lr": math.nan, "of": [{"x": -math.inf}], "n": 1.5, "b": True}})
    one, other = (read_manifest(text, "run.json") for _ in range(2))
    assert one == other
    assert one.settings == {"lr": "nan", "of": [{"x": "-inf"}], "n": 1.5, "b": True}


def test_a_summary_of_a_run_holds_no_nan_either() -> None:
    run = schema.RunSummary(name="x", ranks=(), settings={"a": math.nan}, metrics={"b": math.nan})
    assert (run.settings, run.metrics) == ({"a": "nan"}, {})
    trace = Trace()
    trace.alloc(20)
    settings = allocator_settings(run_of(trace.objects() | {"allocator_settings": {"gc": math.nan}}))
    assert settings == {"gc": "nan"}
