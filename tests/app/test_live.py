"""The live page without a browser: moments, branches in the address, what it says first, and how large it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plotly.utils import PlotlyJSONEncoder

from snapviz.app.pages.live_look import Look, Looks
from snapviz.app.pages.live_parts import above, at_options, below, trail
from snapviz.app.results import Results
from snapviz.app.runs import Registry
from snapviz.app.sides import rank_options
from snapviz.app.state import State
from snapviz.errors import RunError, UsageError
from snapviz.report.plots.icicle import icicle

SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"
THUNDER = State(page="live", base="thunder_478/main", head="thunder_478/pr")


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Looks:
    return Looks(Results(Registry(str(SAMPLES)), tmp_path_factory.mktemp("kept")))


def texts(component: Any) -> str:
    """All text of components, in order."""
    if isinstance(component, (list, tuple)):
        return "".join(map(texts, component))
    if hasattr(component, "children"):
        return texts(component.children)
    return "" if component is None else str(component)


def page(look: Look, state: State) -> str:
    return "\n".join(texts(part(look, state, "/")) for part in (above, trail, below))


def test_the_first_line_says_how_much_more_is_held_and_the_rest_what_it_is(looks: Looks) -> None:
    state = THUNDER.with_(at="end")
    look = looks.of(state)
    said = page(look, state)
    assert said.startswith(
        "pr holds 4.00 MiB more than main at the end of the run, on rank 0: 10.00 MiB against 6.00 MiB."
    )
    assert "10,486,272 bytes" in said
    assert "dangling parameterp1materialize" in said
    assert "thunder_478.py:22" in said


def test_a_cell_leads_to_its_branch_and_the_address_back_to_it(looks: Looks) -> None:
    state = THUNDER.with_(at="end", by="category")
    look = looks.of(state)
    at = next(i for i, cell in enumerate(look.cells) if "dangling" in cell.label)
    there = State.from_url("/live", state.with_(zoom=look.place(at)).query())
    found = looks.of(there)
    # nothing is below it: the picture is that of its parent, and it is marked
    assert (found.label(found.chosen), found.shown, found.at_chosen) == ("dangling parameter: p1", 0, at)
    assert found.place(0) == ""
    assert "not there" in page(looks.of(state.with_(zoom="0123.nonsense")), state)


@pytest.mark.parametrize("view", ["", "changes", "base", "head"])
@pytest.mark.parametrize("by", ["", "module", "category"])
@pytest.mark.parametrize("show", ["", "each"])
def test_every_picture_is_small_enough_to_send_and_sums_to_what_is_held(
    looks: Looks, view: str, by: str, show: str
) -> None:
    state = State(page="live", base="litgpt_eager_8/main", head="litgpt_eager_8/pr", by=by, view=view, show=show)
    look = looks.of(state)
    assert len(look.cells) <= 2_000
    assert [look.cells[0].base_bytes, look.cells[0].head_bytes] == [one.total_bytes for one in look.when if one]
    figure = icicle(look.cells, look.drawn, look.hits)
    parts = [above(look, state, "/"), trail(look, state, "/"), figure, below(look, state, "/")]
    assert len(json.dumps(parts, cls=PlotlyJSONEncoder)) < 300_000


def test_cursors_go_before_the_moment_and_stay_within_the_recording(looks: Looks) -> None:
    look = looks.of(THUNDER.with_(bt=-5, ht=10**9))
    base, head = look.when
    assert base is not None
    assert head is not None
    assert (base.event, base.total_bytes, head.event) == (-1, 0, head.events - 1)
    assert "leave the cursors" in page(look, THUNDER.with_(bt=-5, ht=10**9))


def test_one_run_alone_and_a_moment_that_one_side_lacks(looks: Looks) -> None:
    alone = State(page="live", head="thunder_478/pr")
    look = looks.of(alone)
    assert look.drawn == "head"
    assert page(look, alone).startswith("pr holds 14.00 MiB at the peak of the run, on rank 0.")
    lacking = State(page="live", base="thunder_478/main", head="litgpt_eager_2/pr", at="phase:jit:peak")
    assert "has no phase jit" in page(looks.of(lacking), lacking)


def test_the_same_run_twice_says_so(looks: Looks) -> None:
    state = State(page="live", base="thunder_478/pr", head="thunder_478/pr", view="changes")
    look = looks.of(state)
    said = page(look, state)
    assert look.same
    assert "hold the same, 14.00 MiB, group by group" in said
    assert "Nothing changed here" in said


def test_a_text_is_searched_for_as_it_stands(looks: Looks) -> None:
    state = THUNDER.with_(at="end", q="__INIT__ (/")
    look = looks.of(state)
    assert sum(look.hits or ()) == 1
    assert "base 0 B (0 bytes), head 4.00 MiB" in page(look, state)
    assert "Nothing here has “.*” in its name" in page(looks.of(THUNDER.with_(q=".*")), THUNDER)


def test_what_cannot_be_shown_is_said_in_words(looks: Looks) -> None:
    with pytest.raises(RunError, match="no rank 7"):
        looks.of(THUNDER.with_(rank=7))
    with pytest.raises(UsageError, match="use peak, end"):
        looks.of(THUNDER.with_(at="nonsense"))
    with pytest.raises(UsageError, match="no run 'no/such'"):
        looks.of(State(page="live", head="no/such"))


def test_cells_beside_each_other_that_read_alike_are_told_apart(looks: Looks) -> None:
    look = looks.of(THUNDER)
    moved = sorted(cell.label for cell in look.cells if abs(cell.delta_bytes) == 2 << 20)
    assert moved == [
        "add_transform transforms.py → jit __init__.py → transform_module fsdp_v2.py",
        "fsdp __init__.py → jit __init__.py → transform_module fsdp_v2.py",
    ]
    assert len({(cell.parent, cell.label) for cell in look.cells}) == len(look.cells)


def test_moments_and_ranks_can_be_picked(looks: Looks) -> None:
    look = looks.of(THUNDER)
    assert {"", "end", "phase:shard:peak", "phase:train/step0:end"} <= {value for value, _ in at_options(look)}
    assert rank_options(looks._results, THUNDER) == [("", "largest difference: 0"), ("0", "0"), ("1", "1")]
