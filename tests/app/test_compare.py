"""The page Compare without a browser: its rows and sums, its parts, its states, its file."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from dash._utils import to_json
from hypothesis import given
from hypothesis import strategies as st

from snapviz.app import create_app
from snapviz.app.pages import (
    compare,
    compare_drawer,
    compare_grid,
    compare_rows,
    compare_single,
    compare_steps,
    compare_top,
    compare_why,
)
from snapviz.app.results import Results
from snapviz.app.runs import Registry
from snapviz.app.sides import shown_point
from snapviz.app.state import State
from snapviz.compare.diff import diff
from snapviz.compare.rowkeys import row_keys
from snapviz.schema import DANGLING, DiffReport
from tests.analyze.builders import MIB, SAMPLES, run_of, sample
from tests.compare.jobs import job
from tests.compare.recorded import sharded, steps
from tests.report.hostile import TEXTS, hostile

HERE = State(base="a", head="b")
THUNDER = State(base="thunder_478/main", head="thunder_478/pr")
FSDP = State(
    base="accelerate_fsdp2_2/torch_optimizer_after_fsdp",
    head="accelerate_fsdp2_2/torch_optimizer_before_fsdp_not_fixed",
)


def listing(report: DiffReport, state: State = HERE) -> compare_rows.Listing:
    found = compare_rows.listing_of(report, state)
    assert found is not None
    return found


def words(*parts: Any) -> str:
    """All text of some components, and of their tooltips."""
    if len(parts) != 1:
        return " ".join(map(words, parts))
    (part,) = parts
    if isinstance(part, (list, tuple)):
        return " ".join(map(words, part))
    if hasattr(part, "to_plotly_json"):
        props = part.to_plotly_json()["props"]
        return " ".join(words(props[key]) for key in ("children", "title", "alt") if props.get(key) is not None)
    return "" if part is None else str(part)


def links(part: Any) -> list[str]:
    if isinstance(part, (list, tuple)):
        return [one for each in part for one in links(each)]
    if not hasattr(part, "to_plotly_json"):
        return []
    props = part.to_plotly_json()["props"]
    return [*([props["href"]] if "href" in props else []), *links(props.get("children"))]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return Results(Registry(str(SAMPLES)), tmp_path_factory.mktemp("kept"))


# ------------------------------------------------------------------ rows and their sums


@pytest.mark.parametrize("by", [None, "stack", "phase", "category", "owner", "module", "rank"])
@pytest.mark.parametrize("mode", ["delta", "absolute", "ratio"])
@pytest.mark.parametrize("threshold", [None, "40%"])
@pytest.mark.parametrize("view", ["", "each"])
def test_what_is_listed_and_what_is_not_is_the_total(by: Any, mode: str, threshold: str | None, view: str) -> None:
    base = run_of(job(), job(), name="a")
    head = run_of(job(leak=2), job(leak=1, scale=2), name="b")
    report = diff(base, head, by=by, mode=mode, threshold=threshold)
    for at in ("", "end", "peak"):
        found = listing(report, HERE.with_(at=at, view=view))
        for q in ("", "linear", "nothing like that"):
            shown = compare_grid.filtered(found.items, (), q, {})
            *parts, total = found.sums(shown)
            assert sum(one.base_bytes for one in parts) == total.base_bytes
            assert sum(one.head_bytes for one in parts) == total.head_bytes
            assert total.delta == sum(rank.delta_bytes or 0 for rank in found.ranks)
        assert len({item.key for item in found.items}) == len(found.items)


def test_names_that_differ_in_a_number_are_one_line(results: Results) -> None:
    report = results.report(FSDP)
    each, by_name = listing(report, FSDP.with_(view="each")), listing(report, FSDP)
    assert len(by_name.items) < len(each.items) / 4
    assert by_name.total == each.total
    item = next(item for item in by_name.items if item.label == "model.layers.0-7.mlp.down_proj.weight")
    assert (item.delta, item.counts, item.dangling, len(item.rows)) == (420 * MIB, (0, 8), True, 8)
    assert by_name.find(item.key) == item
    # one of them by its own key, as the verdict's link has it
    key = row_keys(item.rows)[3]
    assert by_name.find(key).label == "model.layers.3.mlp.down_proj.weight"  # type: ignore[union-attr]
    assert by_name.find("nonsense") is None


def test_the_point_is_the_peak_or_the_end_where_that_alone_changed() -> None:
    leak = diff(steps((60, 60), late=20), steps((60, 60), late=20, name="b"))
    assert shown_point(leak, "").at == "peak"  # type: ignore[union-attr]
    report = diff(run_of(job(scale=4)), run_of(job(scale=4, leak=1)))
    changed = {point.at for point in report.points if point.ranks[0].rows}
    assert shown_point(report, "").at == ("peak" if "peak" in changed else "end")  # type: ignore[union-attr]
    assert shown_point(report, "phase:nowhere") is None


def test_a_rank_is_the_worst_or_the_one_asked_for() -> None:
    base, head = run_of(job(), job(), name="a"), run_of(job(), job(leak=1), name="b")
    report = diff(base, head)
    assert listing(report, HERE.with_(at="end")).ranks[0].rank == 1
    assert listing(report, HERE.with_(at="end", rank=0)).ranks[0].rank == 0
    assert compare_rows.listing_of(report, HERE.with_(rank=7)) is None


def test_a_row_is_found_at_whichever_point_has_it(results: Results) -> None:
    report = results.report(FSDP)
    for point in report.points:
        for key in row_keys(point.ranks[0].rows)[:5]:
            found = compare_rows.found_row(report, FSDP.with_(row=key))
            assert found is not None
            assert row_keys(found[1].rows) == [key]
    assert compare_rows.found_row(report, FSDP.with_(row="gone")) is None


# ------------------------------------------------------------------ as the grid asks


@pytest.fixture(scope="module")
def items(results: Results) -> tuple[compare_rows.Item, ...]:
    return listing(results.report(FSDP), FSDP).items


def test_the_largest_difference_comes_first(items: tuple[compare_rows.Item, ...]) -> None:
    sizes = [abs(item.delta) for item in items]
    assert sizes == sorted(sizes, reverse=True)
    ordered = compare_grid.in_order(items, [{"colId": "delta", "sort": "asc"}])
    assert [item.delta for item in ordered] == sorted(item.delta for item in items)
    both = compare_grid.in_order(items, [{"colId": "what", "sort": "asc"}, {"colId": "delta", "sort": "desc"}])
    assert [(i.step, -i.delta) for i in both] == sorted((i.step, -i.delta) for i in items)
    assert compare_grid.in_order(items, [{"colId": "nonsense", "sort": "asc"}]) == list(items)


@pytest.mark.parametrize(
    ("column", "model", "test"),
    [
        ("delta", {"type": "greaterThan", "filter": 100}, lambda i: i.delta > 100 * MIB),
        ("delta", {"type": "lessThan", "filter": -0.5}, lambda i: i.delta < -MIB // 2),
        ("head", {"type": "inRange", "filter": 1, "filterTo": 50}, lambda i: MIB <= i.sizes[1] <= 50 * MIB),
        ("blocks", {"type": "equals", "filter": 8}, lambda i: i.counts[1] - i.counts[0] == 8),
        ("name", {"type": "contains", "filter": "MLP.up"}, lambda i: "mlp.up" in i.label),
        ("name", {"type": "notContains", "filter": "mlp"}, lambda i: "mlp" not in i.label),
        ("name", {"type": "contains", "filter": ".*"}, lambda i: False),
        (
            "what",
            {"operator": "OR", "conditions": [{"type": "contains", "filter": "grad"}, {"filter": "dangling"}]},
            lambda i: i.step in ("gradient", DANGLING),
        ),
        ("delta", {"type": "greaterThan", "filter": "nonsense"}, lambda i: True),
        ("delta", {"type": "nonsense", "filter": None}, lambda i: True),
        ("nonsense", {"type": "contains", "filter": "x"}, lambda i: True),
    ],
)
def test_filters(items: tuple[compare_rows.Item, ...], column: str, model: dict[str, Any], test: Any) -> None:
    found = compare_grid.filtered(items, (), "", {column: model})
    assert found == [item for item in items if test(item)]


@given(st.dictionaries(st.sampled_from(["delta", "name", "x"]), st.none() | st.integers() | st.text() | st.dictionaries(
    st.sampled_from(["type", "filter", "filterTo", "conditions", "operator"]),
    st.none() | st.floats() | st.text() | st.lists(st.integers()) | st.booleans()))
)  # fmt: skip
def test_any_filter_gives_rows(model: dict[str, Any]) -> None:
    kept = compare_grid.filtered(_ITEMS, (), "", model)
    # rows of the table, each once, in its order: whatever a browser sends
    assert kept == [item for item in _ITEMS if item in kept]


_ITEMS = listing(diff(sharded(name="a"), sharded(leak=True, activation=130, name="b"))).items


def test_a_step_and_a_search_leave_their_rows(items: tuple[compare_rows.Item, ...], results: Results) -> None:
    assert {item.step for item in compare_grid.filtered(items, {DANGLING}, "", {})} == {DANGLING}
    for q in ("down_proj", "DOWN_PROJ", "layers.3.mlp.down", "_fsdp_init.py"):
        assert compare_grid.filtered(items, (), q, {})
    assert compare_grid.filtered(items, (), "down.proj", {}) == []


def test_other_stands_for_the_categories_it_sums(results: Results) -> None:
    report = results.report(FSDP)
    found = listing(report, FSDP)
    wanted = next(one for one in report.waterfall if (one.at, one.rank) == (found.point.at, 0))
    other = wanted.steps[-1].model_copy(update={"what": "other", "categories": ("gradient", "shard")})
    changed = wanted.model_copy(update={"steps": (other,)})
    report = report.model_copy(update={"waterfall": (changed,)})
    assert compare_rows.picked(report, found, "other") == {"gradient", "shard"}
    assert compare_rows.picked(report, found, "activation") == {"activation"}
    assert compare_rows.picked(report, found, "") == frozenset()


# ------------------------------------------------------------------ the file


def test_the_file_has_every_row_and_adds_up(results: Results) -> None:
    found = listing(results.report(FSDP), FSDP)
    told = list(csv.DictReader(io.StringIO(compare_grid.as_csv(found, found.items))))
    rows = [one for one in told if one["rank"]]
    assert len(rows) == sum(len(item.rows) for item in found.items)
    *rest, total = [one for one in told if not one["rank"]]
    for field in ("delta_bytes", "base_bytes", "head_bytes"):
        assert sum(int(one[field]) for one in [*rows, *rest]) == int(total[field])
    assert total["owner"] == "(total)"


@pytest.mark.parametrize("text", ["=1+1", "+x", "-x", "@x", "\tx", 'a"b,c\nd'])
def test_no_cell_is_a_formula(text: str) -> None:
    (item, *_) = _ITEMS
    row = item.rows[0].model_copy(update={"owner": text, "stack": (text,)})
    found = listing(diff(sharded(name="a"), sharded(leak=True, name="b")))
    changed = compare_rows.Item("k", text, "x", (row,))
    told = list(csv.DictReader(io.StringIO(compare_grid.as_csv(found, [changed]))))
    assert told[0]["owner"] == (text if text.startswith("a") else f"'{text}")
    assert not told[0]["stack"].startswith(("=", "+", "-", "@", "\t"))


def test_the_file_is_served(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "thunder_478", tmp_path / "runs")
    app = create_app(tmp_path / "runs", cache_dir=tmp_path / "kept", prefix="/x/")
    client = app.server.test_client()
    answer = client.get("/x/export/rows.csv?base=main&head=pr&at=end", base_url="http://localhost")
    assert answer.status_code == 200
    assert answer.mimetype == "text/csv"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert (rows[0]["owner"], rows[0]["delta_bytes"], rows[0]["at"]) == ("p1", "4194304", "end")
    gone = client.get("/x/export/rows.csv?base=main&head=nowhere", base_url="http://localhost")
    assert (gone.status_code, gone.mimetype) == (400, "text/plain")
    assert str(tmp_path) not in gone.text
    assert client.get("/x/export/rows.csv?base=main&head=pr&rank=9", base_url="http://localhost").status_code == 404


# ------------------------------------------------------------------ the parts of the page


def page_of(results: Results, state: State) -> str:
    report, href = results.report(state), compare_top.href_of(state, "/")
    found = listing(report, state)
    names = compare_top.named(report, state)
    parts = [
        compare_top.top(report, href),
        compare_top.phases(report, state, href, compare._sparks(results, report, state, names), found.point.at),
        compare_why.why(report, found, state, href, compare_why.sums(found, found.items, ("base", "head"))),
        compare_why.besides(report),
        compare_why.at_options(report, state),
        compare_why.rank_options(report, state),
    ]
    to_json(parts)  # what dash sends
    return " ".join(words(parts).split())


def test_the_first_screen_says_it_in_words(results: Results) -> None:
    told = page_of(results, THUNDER)
    assert "pr ends and peaks 4.00 MiB" in told
    assert "higher on both ranks" in told
    assert "parameter p1" in told
    assert "stays whole after shard" in told
    assert "+4,194,304 bytes" in told
    assert "pr would peak at 10.00 MiB: the same as main." in told
    assert "setting release_original_parameters" in told
    assert "4 rows, not listed" in told
    assert "lowest 0 bytes, highest 14,680,576 bytes" in told


def test_one_click_shows_who_holds_it(results: Results) -> None:
    report = results.report(THUNDER)
    (_, row, _) = links(compare_top.top(report, compare_top.href_of(THUNDER, "/p/"))[0])
    state = State.from_url("/", row.partition("?")[2])
    found = compare_rows.found_row(report, state)
    assert found is not None
    sides = compare._sides(results, report, state, *found)
    parts = compare_drawer.drawer(report, *found, sides, state, "/p/")
    to_json(parts)
    told = " ".join(words(parts).split())
    assert compare_drawer.title_of(found[1]) == "dangling parameter p1"
    assert "Kept by" in told
    assert "Model._parameters['p1'] ThunderModule._model model (thunder_478.py:47)" in told
    assert "1 allocation in pr" in told
    assert "shard 14.00 MiB" not in told
    assert "the run 14.00 MiB 14,680,576 bytes 10.00 MiB 10,486,272 bytes -4.00 MiB -4,194,304 bytes" in told
    pages = {
        State.from_url(url.partition("?")[0].removeprefix("/p"), url.partition("?")[2]).page for url in links(parts)
    }
    assert {"timeline", "live", "dangling"} <= pages


@pytest.mark.parametrize("by", ["", "stack", "phase", "category", "owner", "module", "rank"])
@pytest.mark.parametrize("mode", ["delta", "absolute", "ratio"])
def test_every_way_of_looking_at_it_is_a_page(results: Results, by: str, mode: str) -> None:
    state = FSDP.with_(by=by, mode=mode, at="phase:train/step:peak", threshold="5%")
    page_of(results, state)
    report = results.report(state)
    found = listing(report, state)
    grid = compare_why.grid("x", report, len(found.items))
    fields = [column["field"] for column in grid.columnDefs]
    assert len(set(fields)) == len(fields)
    for item in found.items[:3]:
        assert set(fields) <= compare_grid.grid_row(item).keys()
        sides = compare._sides(results, report, state, found, item)
        assert [int(s.facts.replay.allocations.block_bytes[s.chosen].sum()) for s in sides] == list(item.sizes)
        to_json(compare_drawer.drawer(report, found, item, sides, state, "/"))


@pytest.mark.parametrize("measure", ["requested", "active", "reserved"])
def test_every_measure_is_a_page(results: Results, measure: str) -> None:
    told = page_of(results, THUNDER.with_(measure=measure, at="end"))
    assert f"{measure} peak" in told or measure == "reserved"


def test_nothing_changed_is_said_with_what_is_the_same() -> None:
    report = diff(run_of(job(), name="a"), run_of(job(), name="b"))
    found = listing(report)
    href = compare_top.href_of(HERE, "/")
    assert "Nothing changed at the peak of the run" in words(compare_why.same(found, href))
    assert "mode=absolute" in links(compare_why.same(found, href))[0]
    assert "No phase changed" in words(compare_top.phases(report, HERE, href, compare_top.Drawings(), "peak"))


def test_recordings_that_begin_late_say_so() -> None:
    report = diff(steps((200, 100, 60), cut=2, name="a"), steps((200, 100, 80), cut=2, name="b"))
    told = words(
        compare_top.top(report, compare_top.href_of(HERE, "/")),
        compare_top.phases(report, HERE, compare_top.href_of(HERE, "/"), compare_top.Drawings(), "peak"),
    )
    assert "oldest events are gone" in told
    assert "≥ " in told


def test_a_rank_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for name in ("main", "pr"):
        shutil.copytree(SAMPLES / "thunder_478" / name, tmp_path / "runs" / name)
    (tmp_path / "runs" / "pr" / "rank00001.pickle.zst").write_bytes(b"nonsense")
    results = Results(Registry(str(tmp_path / "runs")), tmp_path / "kept")
    state = State(base="main", head="pr")
    told = page_of(results, state)
    assert "rank 1 is not in these numbers" in told
    assert compare_why.rank_options(results.report(state), state)[1:] == [{"value": "0", "label": "rank 0  +4.00 MiB"}]
    alone = compare._single(results, State(head="pr"), "/")
    assert "rank 1 is not in these numbers" in words(alone[0])


def test_runs_without_a_rank_in_common() -> None:
    base, head = run_of(job(device=0), job(device=1), name="a"), run_of(job(device=0), job(device=1), name="b")
    head.ranks[0].rank, head.ranks[1].rank = 5, 6
    report = diff(base, head)
    assert compare_rows.listing_of(report, HERE) is None
    told = words(
        compare_top.top(report, compare_top.href_of(HERE, "/")),
        compare_top.phases(report, HERE, compare_top.href_of(HERE, "/"), compare_top.Drawings(), ""),
    )
    assert "nothing was compared" in told
    assert "only in a: rank 0, 1" in told
    assert "No rank could be read in both runs" in told


def test_one_run_is_shown_by_itself(results: Results) -> None:
    for state in (State(head="thunder_478/pr"), State(base="leak", at="phase:train/step:peak", by="owner")):
        above, at, ranks, hidden, below = compare._single(results, state, "/")
        to_json((above, below))
        told = words(above, below)
        assert hidden is True
        assert "Choose a second run" in told
        assert {"value": "end", "label": "the run's end"} in at
        assert ranks[0]["value"] == ""
    assert "584,425,984 bytes allocated" not in words(compare._single(results, State(head="thunder_478/pr"), "/")[0])
    assert "dangling parameter p1" in " ".join(
        words(compare._single(results, State(head="thunder_478/pr"), "/")[4]).split()
    )


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_hostile_text_is_text(text: str) -> None:
    report, href = hostile(text), compare_top.href_of(HERE, "/")
    found = listing(report)
    parts = [
        compare_top.top(report, href),
        compare_top.phases(report, HERE, href, compare_top.Drawings(), "peak"),
        compare_why.why(
            report, found, HERE.with_(name=text[:500]), href, compare_why.sums(found, found.items, ("a", "b"))
        ),
        compare_why.besides(report),
        [compare_grid.grid_row(item) for item in found.items],
        [compare_drawer.title_of(item) for item in found.items],
        [compare_drawer._keepers(report, item, 0) for item in found.items],
        [compare_drawer._stack(report, item) for item in found.items],
    ]
    sent = to_json(parts)
    assert "dangerously_allow_html" not in sent
    assert "Markdown" not in {one.get("type") for one in _components(json.loads(sent))}
    assert len(sent) < 600_000
    for url in links(parts):
        assert url.startswith("/")
        assert not set(url) & set(" <>\"'`")


def _components(sent: Any) -> list[dict[str, Any]]:
    if isinstance(sent, list):
        return [one for each in sent for one in _components(each)]
    if isinstance(sent, dict):
        return [*([sent] if "namespace" in sent else []), *(one for each in sent.values() for one in _components(each))]
    return []


def test_no_moment_that_any_rank_has_is_said() -> None:
    from snapviz.analyze.peak import Ask, peak
    from snapviz.errors import UsageError

    report = peak(sample("leak"), Ask())
    with pytest.raises(UsageError, match="no rank"):
        compare_single.usage_of(report.model_copy(update={"ranks": ()}))


def test_a_folded_phase_says_which_steps_it_stands_for(results: Results) -> None:
    facts = results.facts("leak", 0)
    told = compare_steps.steps_in_words([facts], ["", "train/step", "train/step/forward", "train/step0", "train"])
    assert told == {"train/step": "steps 1–5", "train/step/forward": "steps 1–5"}
    assert compare_steps._words(["a/step1/iter2", "a/step2/iter2"]) == ""
    assert compare_steps._words(["batch1", "batch9"]) == "batches 1–9, 2 of them"


def test_what_grows_is_a_line_and_nothing_is_none(results: Results) -> None:
    assert "It grows by 2.00 MiB a step over 6 steps" in words(compare_steps.growth_line(results.facts("leak", 0)))
    assert compare_steps.growth_line(results.facts("thunder_478/pr", 0)) == []
    assert "It grows by 2.00 MiB a step" in words(compare._single(results, State(head="leak"), "/")[0])


def test_all_who_hold_it_are_one_click_away(results: Results) -> None:
    state = State(base="thunder_478/main", head="thunder_478/pr")
    told = words(compare_top.top(results.report(state), compare_top.href_of(state, "/")))
    assert "1 more holder" in told
    assert "update_call_statistics" in told
