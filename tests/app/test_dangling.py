"""The dangling page without a browser: its rows, what is picked, and that nothing known is not nothing there."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from plotly.utils import PlotlyJSONEncoder

from snapviz.app.pages.dangling_look import Look, Looks, peak_moves_to
from snapviz.app.pages.dangling_parts import above, below
from snapviz.app.results import Results
from snapviz.app.runs import Registry
from snapviz.app.state import State
from snapviz.schema import DanglingPhase, Without
from tests.app.test_live import SAMPLES, texts

THUNDER = State(page="dangling", base="thunder_478/main", head="thunder_478/pr")
MANY = State(page="dangling", head="accelerate_fsdp2_8/torch_optimizer_before_fsdp_not_fixed")


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Looks:
    return Looks(Results(Registry(str(SAMPLES)), tmp_path_factory.mktemp("kept")))


def page(look: Look, state: State) -> str:
    return texts(above(look, state, "/")) + "\n" + texts(below(look, state, "/"))


def test_the_parameter_that_stays_whole_its_holders_and_the_peak_without_it(looks: Looks) -> None:
    state = THUNDER.with_(name="p1")
    look = looks.of(state)
    (row,) = look.rows
    assert (row.side, row.label, row.where, row.block_bytes, row.total_bytes) == ("head", "p1", "0-1", 1 << 22, 1 << 23)
    assert look.picked is not None
    assert (look.picked.peak_bytes, look.picked.without.peak_bytes) == (14_680_576, 10_486_272)
    said = page(look, state)
    assert said.startswith("pr: 1 parameter (4.00 MiB) dangles to the end on both ranks.")
    for told in (
        "1024×1024 float32",
        "ThunderModule",
        "._parameters['p1']",
        "thunder_478.py:22",
        "shard that very module",
    ):
        assert told in said


@pytest.mark.parametrize(("show", "rows"), [("", 15), ("each", 338)])
def test_hundreds_read_as_a_handful_or_each_by_itself(looks: Looks, show: str, rows: int) -> None:
    state = MANY.with_(show=show)
    look = looks.of(state)
    assert len(look.rows) == rows
    assert sum(len(row.each) for row in look.rows) == 338
    assert sum(row.total_bytes for row in look.rows) == look.sides[0].total_bytes == 6_187_964_416
    sent = json.dumps([above(look, state, "/"), below(look, state, "/")], cls=PlotlyJSONEncoder)
    assert len(sent) < 300_000
    assert "Make the optimizer after sharding" in page(look, state)


def test_one_of_many_can_be_picked_by_its_own_name(looks: Looks) -> None:
    name = "model.layers.3.mlp.up_proj.weight"
    look = looks.of(MANY.with_(name=name))
    assert look.picked is not None
    assert [one.name for one in look.picked.row.each] == [name]
    assert 0 <= look.picked.without.saved_bytes <= look.picked.row.block_bytes
    assert looks.of(MANY.with_(name="nobody")).missing == "nobody"


def test_a_text_finds_names_and_holders(looks: Looks) -> None:
    assert {"up_proj" in row.label for row in looks.of(MANY.with_(q="UP_PROJ")).rows} == {True}
    assert len(looks.of(MANY.with_(q="param_groups")).rows) == 15
    assert looks.of(MANY.with_(q=".*")).rows == []


def test_nothing_dangles_and_nobody_can_tell_are_two_pages(looks: Looks) -> None:
    clean = State(page="dangling", head="thunder_478/main")
    assert "Every whole parameter was gone" in page(looks.of(clean), clean)
    single = State(page="dangling", head="single")
    said = page(looks.of(single), single)
    assert said.startswith("single: nothing was sharded, so nothing can dangle.")
    assert "Nothing was sharded, so nothing can dangle" in said.partition("\n")[2]
    assert "Record with snapviz" not in said
    assert "Every whole parameter was gone" not in said
    # of a run without a shard none dangles: that is known
    assert "not known" not in said


def test_of_a_bare_file_it_is_said_how_to_record(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "single" / "rank00000.pickle.zst", tmp_path / "bare.pickle.zst")
    looks = Looks(Results(Registry(str(tmp_path)), tmp_path / "kept"))
    state = State(page="dangling", head=looks._results.runs.all()[0].id)
    said = page(looks.of(state), state)
    assert "cannot be told: no record says" in said
    # neither how many nor what the peak would be without them
    assert said.count("not known") == 2
    assert "snapviz record -o" in said
    assert "nothing can dangle" not in said


def test_suspects_of_a_bare_file_are_called_inferred(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "pr" / "rank00000.pickle.zst", tmp_path / "bare.pickle.zst")
    looks = Looks(Results(Registry(str(tmp_path)), tmp_path / "kept"))
    (entry,) = looks._results.runs.all()
    state = State(page="dangling", head=entry.id)
    said = page(looks.of(state), state)
    assert "Inferred, and none of it is certain" in said
    assert "4,194,304 bytes" in said


def test_a_rank_can_be_picked(looks: Looks) -> None:
    look = looks.of(THUNDER.with_(rank=1))
    assert [row.where for row in look.rows] == ["1"]
    assert look.ranks == (0, 1)


def test_where_the_peak_is_without_what_dangles(looks: Looks) -> None:
    look = looks.of(MANY)
    said = page(look, MANY)
    assert "Without them the peak would be 6.51 GiB, then in shard, instead of 9.20 GiB." in said
    worst = look.sides[0].worst
    assert worst is not None
    assert worst.without is not None
    shard = next(one for one in worst.phases if one.phase == "shard")
    assert shard.without_bytes == worst.without.peak_bytes
    assert "the run, then in shard9.20 GiB6.51 GiB▼ -2.68 GiB" in said
    # where it stays in its phase there is nothing to say
    thunder = page(looks.of(THUNDER), THUNDER)
    assert "then in" not in thunder
    assert "the run14.00 MiB10.00 MiB▼ -4.00 MiB" in thunder


def test_the_peak_moves_to_the_innermost_phase() -> None:
    def phase(name: str, peak: int, without: int | None) -> DanglingPhase:
        saved = None if without is None else peak - without
        return DanglingPhase(phase=name, peak_bytes=peak, without_bytes=without, saved_bytes=saved, exact=True)

    phases = [phase("shard", 7, 7), phase("train", 9, 8), phase("train/step", 9, 8), phase("lost", 6, None)]
    assert peak_moves_to(9, Without(peak_bytes=8, saved_bytes=1), phases) == ""
    assert peak_moves_to(9, Without(peak_bytes=7, saved_bytes=2), phases) == "shard"
    assert peak_moves_to(9, Without(peak_bytes=9, saved_bytes=0), phases) == ""
    assert peak_moves_to(7, Without(peak_bytes=8, saved_bytes=1), phases) == "train/step"
    assert peak_moves_to(9, Without(peak_bytes=5, saved_bytes=4), phases) == ""


def test_holders_that_are_not_told_are_counted(looks: Looks) -> None:
    (row,) = looks.of(THUNDER).rows
    one = row.each[0]
    for more in range(3):
        holders = (*one.holders[:1], *(f"registry_{name}" for name in "abc"[:more]))
        kinds = (*one.holder_kinds[:1], *["global"] * more)
        held = replace(row, each=(one.model_copy(update={"holders": holders, "holder_kinds": kinds}),))
        assert held.more_holders == more
    assert replace(row, each=(one.model_copy(update={"holders": (), "holder_kinds": ()}),)).more_holders == 0
    said = page(looks.of(THUNDER), THUNDER)
    assert (f"and {row.more_holders} more holder" in said) == bool(row.more_holders)
