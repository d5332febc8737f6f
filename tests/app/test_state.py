"""The state of a page and its URL."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.app.state import PAGES, State

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
NUMBER = st.none() | st.integers(-(1 << 61), 1 << 61)


@given(
    st.builds(
        State,
        page=st.sampled_from(list(PAGES)),
        base=TEXT,
        head=TEXT,
        rank=st.none() | st.integers(0, 1 << 18),
        at=TEXT,
        by=st.sampled_from(["", "stack", "module"]),
        mode=st.sampled_from(["delta", "ratio"]),
        measure=st.sampled_from(["allocated", "reserved"]),
        row=TEXT,
        q=TEXT,
        axis=st.sampled_from(["time", "event"]),
        x0=NUMBER,
        bt=NUMBER,
    )
)
def test_there_and_back(state: State) -> None:
    parts = urlsplit(state.url())
    assert State.from_url(parts.path, parts.query) == state
    assert State.of(state.data()) == state


def test_defaults_are_left_out() -> None:
    assert State().url() == "/"
    assert State(page="live", base="a/main", at="phase:train/step:peak").url("/x/") == (
        "/x/live?base=a/main&at=phase:train/step:peak"
    )


@given(TEXT, TEXT)
def test_any_url_gives_a_state(path: str, query: str) -> None:
    state = State.from_url(path, query)
    assert state.page in PAGES


def test_what_cannot_be_meant_is_not_there() -> None:
    query = "rank=-1&by=everything&mode=x&x0=1e99&x1=5&axis=time&bt=99999999999999999999999&base=" + "x" * 3000
    assert State.from_url("/nowhere", query) == State(x1=5)
    assert State.of({"rank": True, "q": 7, "nonsense": 1, "x0": None}) == State()


def test_none_gives_the_default() -> None:
    assert State(row="a", rank=3).with_(row=None, rank=None) == State()


@pytest.mark.parametrize("values", [[], 7, "base", True, {"q": "\ud800", "base": "\udfff", "name": "a\0b"}, {7: "a"}])
def test_what_a_browser_would_not_send_is_not_there(values: Any) -> None:
    state = State.of(values)
    assert state == State()
    assert state.url() == "/"
