"""The dangling page without a browser: its rows, what is picked, and that nothing known is not nothing there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from plotly.utils import PlotlyJSONEncoder

from snapviz.app.pages.dangling_look import Look, Looks
from snapviz.app.pages.dangling_parts import above, below
from snapviz.app.results import Results
from snapviz.app.runs import Registry
from snapviz.app.state import State
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
    assert "cannot be told: the record has no phase shard" in said
    assert "Every whole parameter was gone" not in said
    # neither how many nor what the peak would be without them
    assert said.count("not known") == 2


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
