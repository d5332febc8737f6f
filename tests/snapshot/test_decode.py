"""The pickle machine against its oracle, and against files that mean it harm."""

from __future__ import annotations

import copy
import io
import lzma
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapviz.errors import SnapshotError
from snapviz.snapshot.columns import ABSENT, ACTIONS, HOST_DEVICE, Columns
from snapviz.snapshot.objects import columns_from_objects
from snapviz.snapshot.pickled import decode_pickle
from tests.snapshot import builders as b
from tests.snapshot.oracle import assert_same, oracle_columns, resolved


def decode(data: bytes) -> Columns:
    return decode_pickle(np.frombuffer(data, np.uint8))


def python_dump(value: Any, protocol: int) -> bytes:
    """The pickler written in Python batches and memoises as the C one, but frames differently."""
    out = io.BytesIO()
    pickle._Pickler(out, protocol).dump(value)  # type: ignore[attr-defined]
    return out.getvalue()


WRITERS = {
    **{f"protocol {p}": lambda value, p=p: pickle.dumps(value, p) for p in (2, 3, 4, 5)},
    "no memo": lambda value: pickletools.optimize(pickle.dumps(value, 4)),
    "python": lambda value: python_dump(value, 4),
    "C++": lambda value: b.CppWriter().dump(value),
}


@pytest.mark.parametrize("folder", ["corpus", "groundtruth"])
def test_real_files_equal_the_oracle(shared: Path, folder: str) -> None:
    files = sorted((shared / folder).glob("*.pickle.xz"))
    assert len(files) > 15
    for file in files:
        data = lzma.decompress(file.read_bytes())
        assert_same(decode(data), oracle_columns(data))


@settings(max_examples=300)
@given(b.snapshots, st.sampled_from([name for name in WRITERS if name != "C++"]))
def test_any_snapshot_equals_the_oracle(value: Any, writer: str) -> None:
    data = WRITERS[writer](value)
    assert_same(decode(data), oracle_columns(data))


@settings(max_examples=100)
@given(b.snapshots)
def test_torchs_cpp_form_equals_the_oracle(value: Any) -> None:
    try:
        data = WRITERS["C++"](value)
    except (KeyError, TypeError, OverflowError, ValueError):  # bytes and huge integers: C++ has neither
        return
    except Exception as error:
        assert "out of range" in str(error) or "required argument" in str(error), error
        return
    assert_same(decode(data), oracle_columns(data))


@pytest.mark.parametrize("writer", WRITERS)
def test_shared_stacks_stay_shared(writer: str) -> None:
    stack = [b.frame("g"), b.frame("f", line=2)]
    value = b.snapshot(
        b.event(frames=stack),
        b.event("free_requested", frames=stack),
        b.event("free_completed", frames=copy.deepcopy(stack)),
        b.event(frames=[]),
        {"action": "alloc", "addr": 1, "size": 2},
        segments=[b.segment(b.block(frames=stack))],
    )
    columns = decode(WRITERS[writer](value))
    used = columns.events.stack.tolist()
    assert used[0] == used[1] == used[2] == columns.blocks.stack[0]
    assert columns.stacks.of(used[0]).tolist() != []
    assert len(columns.stacks.of(used[3])) == 0
    assert used[4] == ABSENT
    assert len(columns.stacks) == 2
    assert len(columns.frames.name) == 2


@pytest.mark.parametrize("writer", WRITERS)
def test_more_items_than_one_batch(writer: str) -> None:
    deep = [b.frame(line=i) for i in range(2_345)]
    value = b.snapshot(*[b.event(addr=i, frames=deep if i % 7 == 0 else deep[:1_000]) for i in range(3_100)])
    data = WRITERS[writer](value)
    columns = decode(data)
    assert_same(columns, oracle_columns(data))
    assert columns.events.addr.tolist() == list(range(3_100))
    assert len(columns.stacks.of(int(columns.events.stack[0]))) == 2_345


def test_every_known_action_has_its_code() -> None:
    columns = decode(pickle.dumps(b.snapshot(*[b.event(name) for name in ACTIONS[1:]], b.event("segment_teleport"))))
    assert columns.events.action.tolist() == [*range(1, len(ACTIONS)), 0]
    assert columns.ignored == {"action 'segment_teleport'": 1}


def test_unknown_keys_are_counted_and_left_out() -> None:
    value = b.snapshot(
        b.event(colour="red", frames=[b.frame() | {"column": 3}]),
        b.event(colour="red"),
        segments=[b.segment(b.block(weight=1), mood=2)],
        gossip=[],
    )
    assert decode(pickle.dumps(value)).ignored == {
        "event key 'colour'": 2,
        "frame key 'column'": 1,
        "block key 'weight'": 1,
        "segment key 'mood'": 1,
        "snapshot key 'gossip'": 1,
    }


def test_host_memory_and_empty_slots() -> None:
    value = {
        "segments": [b.segment(b.block(), device=2)],
        "device_traces": [[], [], [b.event(addr=7)]],
        "host_segments": [b.segment(b.block())],
        "host_traces": [b.event(addr=1), b.event(addr=2)],
    }
    columns = decode(pickle.dumps(value))
    assert columns.devices == (HOST_DEVICE, 2)
    assert columns.trace(2).addr.tolist() == [7]
    assert columns.trace(HOST_DEVICE).addr.tolist() == [1, 2]
    assert columns.trace(0).addr.tolist() == []
    assert columns.segments.device.tolist() == [2, HOST_DEVICE]


def test_torch_2_0_has_history_and_no_addresses() -> None:
    history = [{"addr": 1, "real_size": 300, "frames": [b.frame("new")]}, {"addr": 1, "real_size": 9}]
    first = {"size": 512, "state": "active_allocated", "history": history}
    second = {"size": 1024, "state": "inactive"}
    columns = decode(pickle.dumps([b.segment(first, second, address=4096)]))
    assert columns.blocks.address.tolist() == [4096, 4608]
    assert columns.blocks.requested_size.tolist() == [300, ABSENT]
    assert columns.frame_text(int(columns.stacks.of(int(columns.blocks.stack[0]))[0])) == "new (a.py:1)"
    assert columns.facts["shape"] == "segment list"


def test_trailing_bytes_are_counted_not_read() -> None:
    columns = decode(pickle.dumps(b.snapshot(b.event())) + b"\0\0\0")
    assert columns.facts["trailing_bytes"] == 3
    assert len(columns.events) == 1


def test_sparse_keys_follow_their_events() -> None:
    value = {
        "segments": [],
        "device_traces": [[b.event(), b.event("oom", device_free=77)], [b.event(forward_frames=[b.frame("fwd")])]],
    }
    columns = decode(pickle.dumps(value))
    assert columns.sparse.oom_event.tolist() == [1]
    assert columns.sparse.oom_device_free.tolist() == [77]
    assert columns.sparse.forward_event.tolist() == [2]


def test_integers_at_the_edges() -> None:
    edges = [0, 255, 256, 65_535, 65_536, (1 << 31) - 1, 1 << 31, -1, -(1 << 31), (1 << 63) - 1, -(1 << 61)]
    for protocol in (2, 4):
        columns = decode(pickle.dumps(b.snapshot(*[b.event(addr=n) for n in edges]), protocol))
        assert columns.events.addr.tolist() == edges


def test_an_integer_beyond_64_bits_is_an_error_only_where_it_matters() -> None:
    assert decode(pickle.dumps(b.snapshot(b.event(other=1 << 70)))).ignored == {"event key 'other'": 1}
    with pytest.raises(SnapshotError, match="'addr' of an event is an int over 64 bits where an integer of 64 bits"):
        decode(pickle.dumps(b.snapshot(b.event(addr=1 << 70))))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b.snapshot(b.event(size="big")), "'size' of an event is a str where an integer of 64 bits was expected"),
        (b.snapshot(b.event(frames=3)), "'frames' of an event is an int where a list of frames was expected"),
        (b.snapshot(b.event(frames=[1, "x"])), "'frames' of an event is a container where a list of frames"),
        (b.snapshot(b.event(action=None)), "'action' of an event is None where a string was expected"),
        ([b.segment(blocks=4)], "'blocks' of a segment is an int where a list was expected"),
        ([b.segment(b.block(state=1))], "'state' of a block is an int where a string was expected"),
        ({"segments": 4}, "segments: a int where a list was expected"),
        ({"device_traces": [4]}, r"device_traces\[0\]: a int where a list was expected"),
        ({"weights": {}}, "a dict without 'segments' or 'device_traces'"),
        ({}, "not a memory snapshot"),
        (17, "the pickle holds a int, not a memory snapshot"),
        (b.event(), "the pickle holds one event, not a memory snapshot"),
    ],
)
def test_what_is_no_snapshot_is_said(value: Any, words: str) -> None:
    with pytest.raises(SnapshotError, match=words):
        decode(pickle.dumps(value))
    with pytest.raises(SnapshotError):
        columns_from_objects(value)


# Files that mean harm


class Exploit:
    def __reduce__(self) -> Any:
        import os

        return os.mkdir, (self.target,)

    def __init__(self, target: str) -> None:
        self.target = target


@pytest.mark.parametrize(
    ("protocol", "opcode"), [(2, "GLOBAL"), (3, "GLOBAL"), (4, "STACK_GLOBAL"), (5, "STACK_GLOBAL")]
)
def test_code_in_a_pickle_is_refused_and_does_not_run(tmp_path: Path, protocol: int, opcode: str) -> None:
    target = tmp_path / "owned"
    data = pickle.dumps({"segments": [], "device_traces": [[b.event(frames=Exploit(str(target)))]]}, protocol)
    offset = next(at for op, _, at in pickletools.genops(data) if op.name == opcode)
    with pytest.raises(SnapshotError, match=f"refused: {opcode} would import") as caught:
        decode(data)
    assert caught.value.offset == offset
    assert not target.exists()
    pickle.loads(data)
    assert target.exists(), "the exploit itself is broken, so the test above proves nothing"


@pytest.mark.parametrize(
    "opcode",
    ["REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4",
     "NEXT_BUFFER", "READONLY_BUFFER", "GLOBAL", "STACK_GLOBAL"],
)  # fmt: skip
def test_every_opcode_that_could_run_something_is_refused(opcode: str) -> None:
    code = next(op.code for op in pickletools.opcodes if op.name == opcode).encode("latin-1")
    with pytest.raises(SnapshotError, match=f"refused: {opcode} ") as caught:
        decode(b"\x80\x04}" + code + b"aaaaaaaaaa.")
    assert caught.value.offset == 3


@pytest.mark.parametrize(
    ("data", "words", "offset"),
    [
        (b"", "cut short: another opcode or STOP was expected, but the data end at 0 bytes", 0),
        (b"\x80\x04", "cut short: another opcode or STOP", 2),
        (b"\x80\x04X\xff\0\0\0ab", "cut short: BINUNICODE wants 255 bytes more, but the data end at 9 bytes", 2),
        (b"\x80\x04\x8d" + b"\xff" * 8 + b"ab", "cut short: BINUNICODE8 wants more bytes than can be", 2),
        (b"\x80\x04\x8b\xff\xff\xff\x7f", "cut short: LONG4 wants 2,147,483,647 bytes more", 2),
        (b"\x80\x04\x95" + b"\xff" * 8 + b".", "cut short: FRAME wants", 2),
        (b"\x80\x07.", "pickle protocol 7 is not known; 2 to 5 are read", 0),
        (b"\x80\x04\xfe.", "garbled: byte 0xfe is no pickle opcode", 2),
        (b"\x80\x04h\x09.", "garbled: BINGET refers to memo entry 9, which was never stored", 2),
        (b"\x80\x04}r\xff\xff\xff\xff.", "garbled: LONG_BINPUT stores memo entry 4,294,967,295, more than", 3),
        (b"\x80\x04\x8a\x05\0\0\0\0\x01\x94.", "MEMOIZE stores a number in the memo; no pickler does that", 9),
        (b"\x80\x04u.", "SETITEMS: garbled: a MARK was expected before it", 2),
        (b"\x80\x04.", "STOP: garbled: nothing is on the pickle stack", 2),
        (b"\x80\x04K\x01K\x02a.", "APPEND: garbled: a list was expected below the items", 6),
        (b"\x80\x04](K\x01u.", "SETITEMS: garbled: pairs of key and value were expected", 6),
        (b"\x80\x04](K\x01K\x02u.", "SETITEMS: garbled: a dict was expected below the items", 8),
        (b"\x80\x04}(X\x01\0\0\0\xffK\x01u.", "a string that is not UTF-8", 9),
        (b"I1\n.", "INT belongs to pickle protocol 0", 0),
        (b"hello world", "^not a memory snapshot: no pickle begins like this .garbled: BINGET refers to memo", 0),
    ],
)
def test_faults_say_where_and_what_was_expected(data: bytes, words: str, offset: int) -> None:
    with pytest.raises(SnapshotError, match=words) as caught:
        decode(data)
    assert caught.value.offset == offset


def test_a_stack_grown_one_frame_at_a_time_cannot_grow_without_bound() -> None:
    """Two bytes an append would make stacks of 1, 2, 3 … frames: the square of the file."""
    frame_bytes = pickle.dumps(b.frame(), 2)[2:-1]
    data = b"\x80\x02" + frame_bytes + b"q\xf0]q\xf1" + b"h\xf0a" * 100_000 + b"."
    with pytest.raises(SnapshotError, match="a list of frames goes on"):
        decode(data)


def test_lists_used_over_and_over_are_refused() -> None:
    blocks = [b.block(address=i) for i in range(2_000)]
    with pytest.raises(SnapshotError, match="lists are used over and over"):
        decode(pickle.dumps([b.segment() | {"blocks": blocks} for _ in range(2_000)]))


def test_settings_that_unfold_without_end_are_refused() -> None:
    bomb: Any = 1
    for _ in range(15):
        bomb = [bomb] * 10
    with pytest.raises(SnapshotError, match=r"used over and over|more than 10,000 values"):
        decode(pickle.dumps(b.snapshot(allocator_settings={"a": bomb})))
    loop: dict[str, Any] = {}
    loop["again"] = loop
    with pytest.raises(SnapshotError):
        decode(pickle.dumps(b.snapshot(allocator_settings=loop)))


def test_containers_that_contain_themselves_end() -> None:
    trace: list[Any] = []
    trace.append(trace)
    data = pickle.dumps({"segments": [], "device_traces": trace})
    columns = decode(data)
    assert columns.ignored == {"trace entry without an action": 1}
    assert_same(columns, oracle_columns(data))


def test_a_container_that_changes_after_it_was_used_is_refused() -> None:
    """A list of frames is read when its event closes; CPython could still add to it afterwards."""
    event = b"}(X\x06\0\0\0actionX\x05\0\0\0allocX\x06\0\0\0framesh\0u0"
    data = b"\x80\x02]q\0" + event + b"h\0}X\x08\0\0\0filenameX\x01\0\0\0asa."
    with pytest.raises(SnapshotError, match="changes after it was used") as caught:
        decode(data)
    assert caught.value.offset == len(data) - 2


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_random_bytes_give_a_result_or_an_error(noise: bytes) -> None:
    try:
        decode(b"\x80\x04" + noise)
    except SnapshotError as error:
        assert error.message


@settings(max_examples=200)
@given(b.snapshots, st.data())
def test_flipped_bytes_give_a_result_or_an_error(value: Any, data: st.DataObject) -> None:
    raw = bytearray(pickle.dumps(value, 4))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        columns = decode(bytes(raw))
    except SnapshotError as error:
        assert error.message
        return
    assert columns.trace_offsets[-1] == len(columns.events)
    assert columns.events.stack.max(initial=ABSENT) < len(columns.stacks)
    assert columns.stacks.frames.max(initial=ABSENT) < len(columns.frames.name)


def test_what_torchs_own_cpp_writer_wrote() -> None:
    """The same moment dumped twice by torch 2.11: by its C++ writer (protocol 2), and from Python.

    The second dump sees one event more, which is the first one's ``snapshot``.
    """
    place = Path(__file__).resolve().parents[1] / "data" / "allocator"
    cpp, python = (lzma.decompress((place / f"written_by_{w}.pickle.xz").read_bytes()) for w in ("cpp", "python"))
    assert cpp[:2] == b"\x80\x02"
    assert_same(decode(cpp), oracle_columns(cpp))
    assert_same(decode(python), oracle_columns(python))
    a, b = resolved(decode(cpp)), resolved(decode(python))
    assert b["events.action"][-1] == ACTIONS.index("snapshot")
    for key in a:
        if key.startswith(("events.", "blocks.", "segments.")) and key != "events.compile_context":
            assert a[key] == b[key][: len(a[key])], key
    assert len(a["events.addr"]) == 294
    assert len(b["blocks.size"]) == len(a["blocks.size"]) > 10


@pytest.mark.parametrize(
    "value",
    [
        [b.segment(b.block(), device=1 << 32)],
        [b.segment(b.block(), device=-7)],
        b.snapshot(external_annotations=[{"name": "a", "stage": "START", "device": 1 << 31, "time_us": 1}]),
        {"segments": [], "device_traces": [[]] * 1_025},
    ],
)
def test_devices_that_no_machine_has_are_refused(value: Any) -> None:
    """Narrowed to 32 bits, device 1 << 32 would be counted as device 0."""
    with pytest.raises(SnapshotError, match="where a number below 1,024 was expected"):
        decode(pickle.dumps(value))
    with pytest.raises(SnapshotError, match="where a number below 1,024 was expected"):
        columns_from_objects(value)


def test_a_long_name_is_cut_where_it_becomes_text() -> None:
    columns = decode(pickle.dumps(b.snapshot(b.event(frames=[b.frame("n" * 1_000_000, "f" * 600, 7)]))))
    text = columns.frame_text(0)
    assert text == f"{'n' * 500}… ({'f' * 500}…:7)"
    assert columns.strings.text(int(columns.frames.name[0])) == "n" * 1_000_000


@pytest.mark.parametrize("size", [1 << 20, 1 << 32])
def test_a_memo_of_either_width_gives_the_same(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of 4 GiB and more have a memo of 64 bits."""
    from snapviz.snapshot import buffers, pickled

    monkeypatch.setattr(pickled, "allocate", lambda _: buffers.allocate(0)._replace(**_memo(buffers, size)))
    data = pickle.dumps(b.snapshot(*[b.event(addr=i, frames=[b.frame(f"f{i}")]) for i in range(50)]), 4)
    assert_same(decode(data), oracle_columns(data))


def _memo(buffers: Any, size: int) -> dict[str, Any]:
    layout = dict(buffers._layout(size))["memo_value"]
    assert layout.dtype == (np.int64 if size >= 1 << 32 else np.uint32)
    return {"memo_value": np.empty(4, layout.dtype), "memo_tag": np.zeros(4, np.int8)}
