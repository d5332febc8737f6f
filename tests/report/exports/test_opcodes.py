from __future__ import annotations

import pickle
import pickletools
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from snapviz.report.exports.opcodes import START, STOP, Shared, batches, integer, long_integer, plain, text

int64 = st.integers(-(1 << 63), (1 << 63) - 1)
jsonlike = st.recursive(
    st.none() | st.booleans() | int64 | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def loaded(*pieces: bytes) -> object:
    return pickle.loads(START + b"".join(pieces) + STOP)


@given(int64)
def test_an_integer_is_what_pickle_reads(value: int) -> None:
    assert loaded(integer(value)) == loaded(long_integer(value)) == value


@given(jsonlike)
def test_a_plain_value_comes_back_with_its_types(value: object) -> None:
    assert repr(loaded(plain(value))) == repr(value)


@given(st.binary(max_size=0) | st.text(max_size=300).map(str.encode))
def test_text(raw: bytes) -> None:
    assert loaded(text(raw)) == raw.decode()


def test_long_text_and_long_lists() -> None:
    assert loaded(text(b"x" * 70_000)) == "x" * 70_000
    assert loaded(b"]", *batches(integer(i) for i in range(2_500))) == list(range(2_500))
    assert loaded(b"]", *batches([])) == []
    # the web viewer passes the items of one APPENDS as arguments of one call
    ops = list(pickletools.genops(START + b"]" + b"".join(batches(b"N" for _ in range(2_500))) + STOP))
    assert [op.name for op, _, _ in ops].count("APPENDS") == 3


def test_what_is_shared_is_defined_once_and_its_parts_before_it() -> None:
    number = count()
    words = Shared[str](number, lambda word: text(word.encode()))
    pairs = Shared[int](number, lambda i: b"](" + words[f"w{i % 7}"] + words[f"v{i}"] + b"e")
    wanted = [i % 300 for i in range(1_000)]
    found = loaded(b"]", *batches(pairs[i] for i in wanted))
    assert found == [[f"w{i % 7}", f"v{i}"] for i in wanted]
    assert isinstance(found, list)
    assert found[0] is found[300]
    assert found[0][0] is found[7][0]
