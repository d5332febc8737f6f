"""What a record says beside names and phases, in the reports."""

from __future__ import annotations

import json
import re

import pytest
from syrupy.assertion import SnapshotAssertion

from snapviz.analyze.info import info
from snapviz.compare.diff import diff
from snapviz.report.difftext import diff_lines
from snapviz.report.infotext import info_lines
from snapviz.report.jsonout import to_json
from snapviz.report.layout import Line, width_of
from snapviz.schema import DiffReport
from tests.report.enriched import enriched, module_holds, nobody, optimizer_holds

METRICS = {"tokens_per_s": 85765.16, "loss": 2.5}
SLOWER = {"tokens_per_s": 85695.95, "loss": 2.5}


def text_of(lines: list[Line]) -> str:
    return "\n".join("".join(span.text for span in spans).rstrip() for spans in lines) + "\n"


def words_of(lines: list[Line]) -> str:
    return " ".join(text_of(lines).split())


def thunder(**head: object) -> DiffReport:
    base = enriched("main", outside=700, metrics=METRICS, world_size=8)
    return diff(base, enriched("pr", module_holds, outside=764, metrics=SLOWER, world_size=8, **head))  # type: ignore[arg-type]


def fsdp2() -> DiffReport:
    base = enriched("fsdp2_after", outside=700, metrics=METRICS, fake_process_group=True)
    head = enriched(
        "fsdp2_before_notfixed", optimizer_holds, outside=710, retries=3, metrics=SLOWER, fake_process_group=True
    )
    return diff(base, head)


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("make", [thunder, fsdp2], ids=lambda make: make.__name__)
def test_diffs(make, width: int, snapshot: SnapshotAssertion) -> None:
    lines = diff_lines(make(), width)
    assert text_of(lines) == snapshot
    assert max(sum(width_of(span.text) for span in spans) for spans in lines) <= width


@pytest.mark.parametrize("width", [80, 200])
def test_infos(width: int, snapshot: SnapshotAssertion) -> None:
    run = enriched(
        "fsdp2_before_notfixed", optimizer_holds, outside=700, retries=3, metrics=METRICS, fake_process_group=True
    )
    lines = info_lines(info(run), width)
    assert text_of(lines) == snapshot
    assert max(sum(width_of(span.text) for span in spans) for spans in lines) <= width


# ------------------------------------------------------------------ the fake process group

FAKE = "recorded with torch's fake process group (rank 0 of 8 on one GPU): communication did nothing"


def test_a_fake_process_group_stands_above_the_numbers() -> None:
    for one, begin in [(fsdp2(), "both runs were "), (thunder(fake_process_group=True), "pr was ")]:
        shown = words_of(diff_lines(one, 100))
        said = (
            FAKE if begin.startswith("both") else FAKE.replace("rank 0 of 8 on one GPU", "2 ranks of 8, each by itself")
        )
        assert 0 < shown.index(f"~ {begin}{said}") < shown.index("phase ")
        assert one.caveats[0].startswith(f"{begin}recorded with torch's fake process group")
    told = info(enriched("fsdp2_after", fake_process_group=True, metrics={"tokens_per_s": 7.5, "peak_mem_gib": 2.5}))
    shown = words_of(info_lines(told, 100))
    assert 0 < shown.index(f"~ {FAKE}") < shown.index("exact to the byte")
    assert "tokens_per_s 7.5 (not real) · peak_mem_gib 2.5" in shown
    assert "peak_mem_gib 2.5 (not real)" not in shown
    assert json.loads(to_json(told))["run"]["fake_process_group"] is True
    assert json.loads(to_json(fsdp2()))["head"]["fake_process_group"] is True


def test_a_real_process_group_and_an_unknown_one_are_not_told_of() -> None:
    for known in ({}, {"fake_process_group": False}):
        report = diff(enriched("main", **known), enriched("pr", **known))
        assert "process group" not in text_of(diff_lines(report))
        assert "process group" not in text_of(info_lines(info(enriched("pr", **known))))


def test_one_fake_and_one_real_are_different_runs() -> None:
    report = diff(enriched("main", fake_process_group=False), enriched("pr", fake_process_group=True))
    assert [(one.base, one.head) for one in report.environment if one.what == "process group"] == [("real", "fake")]
    assert "different: process group: real → fake; " in words_of(diff_lines(report))


def test_times_of_a_fake_process_group_are_not_compared() -> None:
    shown = text_of(diff_lines(fsdp2(), 100))
    assert re.search(r"^tokens/s +85,765.2 +85,696.0 +–$", shown, re.MULTILINE)
    assert re.search(r"^loss +2.5 +2.5 +–$", shown, re.MULTILINE)
    assert "– not compared: with a fake process group values are wrong and times say nothing" in shown
    assert re.search(r"^Memory \(GB\) +0.75 +1.05 +\+40.6%$", shown, re.MULTILINE)
    real = text_of(diff_lines(thunder(), 100))
    assert "not compared" not in real
    assert re.search(r"^tokens/s +85,765.2 +85,696.0 +-0.1%$", real, re.MULTILINE)


def test_a_metric_of_memory_holds_with_a_fake_process_group() -> None:
    runs = [
        enriched(name, fake_process_group=True, metrics={"peak_bytes": value})
        for name, value in [("main", 100), ("pr", 200)]
    ]
    shown = text_of(diff_lines(diff(*runs)))
    assert re.search(r"^peak_bytes +100 +200 +\+100.0%$", shown, re.MULTILINE)
    assert "not compared" not in shown


# ------------------------------------------------------------------ holders


def test_the_verdict_ends_with_who_keeps_it() -> None:
    assert thunder().verdict.endswith(
        " stays whole after shard, kept by Model._parameters['p1'] ← ThunderModule._model ← m (train.py:31)."
    )
    kept, stateless = fsdp2().verdict.split("(75 of 75). ")
    assert kept.endswith(" and 73 more, kept by optimizer.param_groups[0]['params'][…] ")
    assert stateless == (
        "The optimizer of fsdp2_before_notfixed has made no state: "
        "it may hold parameters that the model does not run with."
    )
    # who kept what is gone is no cause of anything
    back = diff(enriched("pr", module_holds), enriched("main")).verdict
    assert back.endswith("no longer stays whole after shard.")


def test_a_dangling_row_has_its_holder_on_its_second_line() -> None:
    lines = text_of(diff_lines(thunder(), 80)).splitlines()
    row = next(i for i, line in enumerate(lines) if "dangling parameter p1" in line)
    assert lines[row + 1].strip() == "kept by Model._parameters['p1'] ← … ← m (train.py:31)"
    assert lines[row + 2].strip().startswith("__init__ thunder_seed.py:18")
    wide = text_of(diff_lines(thunder(), 200))
    assert "                kept by Model._parameters['p1'] ← ThunderModule._model ← m (train.py:31)\n" in wide
    assert "kept by" not in text_of(diff_lines(diff(enriched("main"), enriched("pr", nobody))))


def test_holders_of_several_kinds_are_told_row_by_row() -> None:
    def holds(position: int, name: str):
        if "mlp" in name:
            return optimizer_holds(position, name)
        path = f"ema.shadow['{name}'] ← main: ema (train.py:9)"
        return [{"parameter": name, "path": path, "kind": "frame"}] if "norm" not in name else []

    report = diff(enriched("fsdp2_after"), enriched("fsdp2_before_notfixed", holds))
    shown = text_of(diff_lines(report, 100))
    assert re.search(
        r"lm_head.weight +0 → 1 block\n +kept by ema.shadow\['lm_head.weight'\] ← main: ema \(train.py:9\)\n", shown
    )
    assert re.search(
        r"up_proj.weight +0 → 8 blocks\n +kept by optimizer.param_groups\[0\]\['params'\]\[…\] \(8 of 8\)", shown
    )
    assert re.search(r"layernorm.weight +0 → 8 blocks\n +kept", shown) is None
    told = text_of(info_lines(info(enriched("fsdp2_before_notfixed", holds)), 100))
    assert re.search(r"lm_head.weight  1 block · born materialize\n +kept by ema.shadow\['lm_head.weight'\]", told)


def test_holders_are_in_json_with_their_kinds_the_unexplained_last() -> None:
    for document in (json.loads(to_json(thunder())), json.loads(to_json(info(enriched("pr", module_holds))))):
        found = document["dangling"] if "dangling" in document else document["ranks"][0]["dangling"]
        assert found[0]["holder_kinds"] == ["module", "unexplained"]
        assert found[0]["holders"][1] == "2 references"


# ------------------------------------------------------------------ outside the allocator, and want of memory


def test_memory_outside_the_allocator_is_compared_where_it_differs() -> None:
    shown = text_of(diff_lines(thunder(), 100))
    told = "outside the allocator (both ranks), at the end of train/step0: 828.00 MiB → 892.00 MiB (+64.00 MiB);"
    assert told in " ".join(shown.split())
    assert "other processes count" in shown
    document = json.loads(to_json(thunder()))
    assert document["outside"][0] == {
        "rank": 0,
        "phase": "materialize",
        "base_bytes": 700 << 20,
        "head_bytes": 764 << 20,
        "delta_bytes": 64 << 20,
    }
    # a megabyte is the driver's own business
    small = diff(enriched("main", outside=700), enriched("pr", outside=701))
    assert len(small.outside) == 6
    assert "outside" not in text_of(diff_lines(small))
    assert diff(enriched("main"), enriched("pr", outside=9)).outside == ()


def test_memory_outside_the_allocator_in_info() -> None:
    shown = words_of(info_lines(info(enriched("pr", outside=700, retries=1)), 80))
    assert (
        "outside the allocator: 700.00 MiB at the end of materialize, 828.00 MiB at the end of train/step0 "
        "(+128.00 MiB); of the whole device: contexts, NCCL and other processes count alloc retries: 1 in train/step0 "
        "out of memory: none"
    ) in shown
    assert "outside" not in words_of(info_lines(info(enriched("pr"))))


def test_want_of_memory_is_noted_before_all_other_notes() -> None:
    report = fsdp2()
    assert report.notes[0] == (
        "fsdp2_before_notfixed: the allocator flushed its cache for want of memory: 3 times in shard"
    )
    assert not any("for want of memory" in note for note in thunder().notes)


# ------------------------------------------------------------------ the figures that trainers quote


def test_the_benchmark_has_the_table_of_the_pull_request() -> None:
    shown = text_of(diff_lines(thunder(), 80))
    table = shown[shown.index("tokens/s") :].splitlines()
    assert [re.split(r"  +", row) for row in table[:3]] == [
        ["tokens/s", "85,765.2", "85,696.0", "-0.1%"],
        ["tokens/s/GPU", "10,720.6", "10,712.0", "-0.1%"],
        ["Memory (GB)", "0.01", "0.01", "+40.0%"],
    ]
    assert "decimal GB" in table[3]
    # once is enough
    assert "tokens_per_s" not in shown
    assert "loss" in shown
    lone = diff(enriched("main", metrics=METRICS), enriched("pr"))
    assert lone.benchmark is None
    assert "tokens/s" not in text_of(diff_lines(lone))


def test_whether_it_comes_from_the_training_step() -> None:
    shown = words_of(diff_lines(thunder(), 80))
    assert (
        "at the end and at the peak of the run on both ranks all of the difference was there before the first "
        "step: it does not come from the training step."
    ) in shown
    shown = words_of(diff_lines(fsdp2(), 80))
    assert (
        "at the end of the run: +328.03 MiB was there before the first step, -39.80 MiB was allocated from that "
        "step on. at the peak of the run: +328.03 MiB was there"
    ) in shown
    same = diff(enriched("main"), enriched("main"))
    assert "the first step" not in text_of(diff_lines(same))
