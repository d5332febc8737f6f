"""The live page without a browser: moments, branches in the address, what it says first, and how large it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from plotly.utils import PlotlyJSONEncoder

from snapviz.app.pages.live_columns import Columns, columns_of
from snapviz.app.pages.live_look import Look, Looks
from snapviz.app.pages.live_parts import above, at_options, below, trail
from snapviz.app.results import Results
from snapviz.app.runs import Registry
from snapviz.app.sides import rank_options
from snapviz.app.state import State
from snapviz.compare.keys import CATEGORY_NAMES
from snapviz.compare.livetree import DANGLES
from snapviz.errors import RunError, UsageError
from snapviz.report.plots.icicle import icicle
from snapviz.units import format_bytes
from tests.app.callbacks import Pages

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
    assert (look.drawn, look.alone) == ("head", 1)
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
    look = looks.of(State(page="live", base="fsdp1", head="ddp"))
    alike = "_alloc_storage utils.py → _resize_ storage.py"
    told = sorted(cell.label for cell in look.cells if cell.label.endswith(alike))
    assert told == [f"_prefetch_handle _runtime_utils.py → {alike}", f"_unshard _runtime_utils.py → {alike}"]
    assert len({(cell.parent, cell.label) for cell in look.cells}) == len(look.cells)


def test_moments_and_ranks_can_be_picked(looks: Looks) -> None:
    look = looks.of(THUNDER)
    assert {"", "end", "phase:shard:peak", "phase:train/step0:end"} <= {value for value, _ in at_options(look)}
    assert rank_options(looks._results, THUNDER) == [("", "largest difference: 0"), ("0", "0"), ("1", "1")]


@pytest.mark.parametrize("by", ["", "module", "category"])
@pytest.mark.parametrize("side", ["base", "head"])
def test_one_run_alone_is_not_drawn_as_a_difference(looks: Looks, side: str, by: str) -> None:
    state = State(page="live", by=by, q="a").with_(**{side: "litgpt_eager_2/pr"})
    look = looks.of(state)
    said = page(look, state)
    assert not [sign for sign in ("▲", "▼", "Δ", "±") if sign in said]
    assert "share" in said
    columns = columns_of(look)
    assert columns.heads == ["bytes", "share", "allocations"]
    whole = look.live.paths.sums(look.way[0])
    assert texts(columns.of(whole)).startswith(f"{format_bytes(int(whole[look.alone or 0]))}100.0%")
    groups = {cell.group for cell in look.cells if cell.group}
    assert groups <= {*CATEGORY_NAMES, DANGLES}
    assert len(groups) > 2
    assert "▲" not in json.dumps(icicle(look.cells, look.drawn, alone=True), ensure_ascii=False)


def test_shares_are_cut_and_never_nothing() -> None:
    columns = Columns(1, 3_000, ("", ""))
    assert [columns.share(size) for size in (0, 1, 3, 2_999, 3_000)] == ["0.0%", "<0.1%", "0.1%", "99.9%", "100.0%"]


def test_a_recording_that_begins_late_is_said_to_in_the_headline_and_the_tables(shared: Path, tmp_path: Path) -> None:
    for name in ("inductor-frames", "pair-grad"):
        shutil.copy(shared / "corpus" / f"{name}.pickle.xz", tmp_path)
    looks = Looks(Results(Registry(str(tmp_path)), tmp_path / "kept"))
    ids = [entry.id for entry in looks._results.runs.all()]
    alone = State(page="live", head=next(one for one in ids if "inductor" in one))
    look = looks.of(alone)
    assert look.sides.facts[1] is not None
    assert look.sides.facts[1].truncated
    said = page(look, alone)
    held = format_bytes(look.when[1].total_bytes) if look.when[1] else ""
    heading, _, rest = said.partition("\n")
    assert f"holds ≥ {held} at the peak of the run, as far as it is recorded, on rank 0." in heading
    assert "allocated bytes, as far as it is recorded" in heading
    assert f"together≥ {held}" in rest
    assert "all of rank 0, as far as it is recorded" in rest
    # the end is whole however late a recording begins
    end = alone.with_(at="end")
    assert "≥" not in page(looks.of(end), end)
    assert "as far as" not in page(looks.of(end), end)
    both = State(page="live", base=ids[0], head=ids[1])
    assert "at the peak of the run, as far as it is recorded, on rank 0: " in page(looks.of(both), both)
    assert " against ≥ " in page(looks.of(both), both)


def test_rows_that_are_not_shown_are_counted_in_the_caption(looks: Looks) -> None:
    state = State(page="live", head="litgpt_eager_2/pr")
    _, more = looks.of(state).live.parts(looks.of(state).way[0], 20)
    assert more
    assert f"all of rank 0: 20 of {20 + more} rows" in page(looks.of(state), state)


def test_what_was_made_on_another_way_has_both_ways(looks: Looks) -> None:
    look = looks.of(THUNDER)
    said = page(look, THUNDER)
    assert "The same by its name, and made on another way. In head:" in said
    assert "fsdp (/tmp/site/thunder/distributed/__init__.py:" in said
    changed = [cell for cell in look.cells if cell.base_bytes != cell.head_bytes]
    assert all(cell.delta_bytes == 4 << 20 for cell in changed)


def test_the_difference_is_offered_where_there_is_one_and_hits_are_counted(tmp_path: Path) -> None:
    pages = Pages(SAMPLES, tmp_path)
    show = next(one for one in pages.of("live") if "live-hits" in str(one))
    for state, hidden, hits in (
        (THUNDER, False, ""),
        (THUNDER.with_(q="no such name"), False, "0 found"),
        (State(page="live", head="ddp", q="forward"), True, None),
    ):
        answer = pages._asked(show, state).get_json()["response"]
        assert answer["live-draw"]["hidden"] is hidden
        if hits is not None:
            assert answer["live-hits"]["children"] == hits
