"""Every page for every file: alone, against itself, against another; and for addresses that nobody would write."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapviz.app.runs import Registry
from snapviz.app.state import PAGES, State
from tests.app.callbacks import Pages

SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"
SHOWN = [page for page in PAGES if page != "runs"]


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(SAMPLES, tmp_path_factory.mktemp("kept"))


def states(root: Path) -> list[State]:
    ids = [entry.id for entry in Registry(str(root)).all()]
    alone = [State(head=one) for one in ids]
    same = [State(base=one, head=one) for one in ids]
    return [*alone, *same, *(State(base=one, head=other) for one, other in zip(ids, [*ids[1:], ids[0]], strict=True))]


@pytest.mark.parametrize("page", SHOWN)
def test_snapshots_from_the_wild(page: str, shared: Path, tmp_path: Path) -> None:
    pages = Pages(shared / "corpus", tmp_path / "kept")
    assert len(pages.of(page)) >= 1
    problems = [problem for state in states(shared / "corpus") for problem in pages.problems(state.with_(page=page))]
    assert problems == []


@pytest.mark.parametrize("page", SHOWN)
def test_bundled_runs(page: str, bundled: Pages) -> None:
    assert [problem for state in states(SAMPLES) for problem in bundled.problems(state.with_(page=page))] == []


ODD = ["(a+)+$" * 9, "<img src=x onerror=alert(1)>", "\u202e", "phase:", "%{y}"]
TEXT = st.text(max_size=20) | st.sampled_from(ODD)
EVENT = st.none() | st.sampled_from([-(1 << 61), -2, -1, 0, 1, 7, 20, 10**6, 1 << 61])
ADDRESSES = st.fixed_dictionaries(
    {
        "page": st.sampled_from(SHOWN),
        "base": st.sampled_from(["", "thunder_478/main", "leak", "thunder_478/main"]),
        "head": st.sampled_from(["", "thunder_478/pr", "uneven_ranks"]),
        "rank": st.none() | st.sampled_from([0, 1, 2, 1 << 40]),
        "at": st.sampled_from(["", "end", "peak", "phase:train", "phase:train/step0:end", "phase:materialize"]),
        "by": st.sampled_from(["", "stack", "module", "category", "rank"]),
        "mode": st.sampled_from(["delta", "ratio", "absolute"]),
        "measure": st.sampled_from(["allocated", "reserved", "requested", "active"]),
        "threshold": st.sampled_from(["", "", "1%", "1MiB"]),
        "axis": st.sampled_from(["time", "event"]),
        "align": st.sampled_from(["", "train", "shard"]) | TEXT,
        **dict.fromkeys(("row", "q", "name", "zoom"), TEXT),
        "show": st.sampled_from(["", "each", "apart", "curves", "head", "base"]) | TEXT,
        "view": st.sampled_from(["", "each", "category", "owner", "phase", "stack", "curves", "address"]) | TEXT,
        **dict.fromkeys(("x0", "x1", "y0", "y1", "bt", "ht"), EVENT),
    }
)


@settings(max_examples=200, deadline=None)
@given(ADDRESSES.filter(lambda address: address["base"] or address["head"]))
def test_addresses_that_nobody_would_write(bundled: Pages, address: dict[str, object]) -> None:
    assert bundled.problems(State.of(address)) == []
