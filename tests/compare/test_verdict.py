"""The verdict blames what explains the difference, and nothing for what it does not."""

from __future__ import annotations

import pytest

from snapviz.analyze.owners import normal_owner
from snapviz.compare.diff import diff
from tests.analyze.builders import frame
from tests.compare.recorded import sharded


def test_a_small_dangling_parameter_is_not_blamed_for_a_large_growth() -> None:
    report = diff(sharded(name="main"), sharded(leak=True, activation=8100, name="pr"))
    assert report.verdict == (
        "pr ends and peaks 7.83 GiB higher: mostly 7.81 GiB more activations (inferred); also, "
        "parameter norm.bias (20.00 MiB, born in materialize) stays whole after shard."
    )


@pytest.mark.parametrize(("base", "head", "words"), [(False, True, "stays"), (True, False, "no longer stays")])
def test_a_dangling_parameter_that_is_the_cause_is_named_with_its_bytes(base: bool, head: bool, words: str) -> None:
    report = diff(sharded(leak=base, name="main"), sharded(leak=head, name="pr"), ["end"])
    assert report.verdict.endswith(f": parameter norm.bias (20.00 MiB, born in materialize) {words} whole after shard.")


def test_half_of_the_difference_is_a_cause() -> None:
    report = diff(sharded(name="main"), sharded(leak=True, activation=118, name="pr"), ["end"])
    assert "38.00 MiB higher: parameter norm.bias (20.00 MiB" in report.verdict
    # also where one cause is larger, and another takes it back
    report = diff(sharded(name="main"), sharded(leak=True, activation=130, state=40, name="pr"), ["end"])
    assert "30.00 MiB higher: parameter norm.bias (20.00 MiB" in report.verdict
    # and where it is the largest that way
    report = diff(sharded(name="main"), sharded(leak=True, activation=90, name="pr"), ["end"])
    assert "10.00 MiB higher: parameter norm.bias (20.00 MiB" in report.verdict


def test_one_that_dangles_in_both_is_not_blamed_where_its_constructor_was_renamed() -> None:
    base = sharded(leak=True, made_by=frame("make"), name="main")
    head = sharded(leak=True, made_by=frame("build"), activation=500, name="pr")
    assert diff(base, head).verdict == "pr ends and peaks 400.00 MiB higher: 400.00 MiB more activations (inferred)."


def test_less_memory_does_not_hide_a_new_dangling_parameter() -> None:
    report = diff(sharded(activation=500, name="main"), sharded(leak=True, name="pr"), ["end"])
    assert (
        "380.00 MiB lower: mostly 400.00 MiB less activations (inferred); also, parameter norm.bias (20.00 MiB"
        in report.verdict
    )


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("layers.0.w", "layers.0.w"),
        ("_orig_mod.layers.0.w", "layers.0.w"),
        ("module.layers.0.w", "layers.0.w"),
        ("module._orig_mod.module.w", "w"),
        ("layers.0._checkpoint_wrapped_module.w.exp_avg", "layers.0.w.exp_avg"),
        ("_fsdp_wrapped_module.layers.0 (9 tensors)", "layers.0 (9 tensors)"),
        ("_forward_module.w", "w"),
        ("encoder.module.w", "encoder.module.w"),
        ("module", "module"),
        ("_orig_mod", "_orig_mod"),
        ("", ""),
    ],
)
def test_owners_lose_what_wrapped_them(name: str, normal: str) -> None:
    assert normal_owner(name) == normal


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "_forward_module."])
def test_a_wrapped_model_has_the_same_parameters(prefix: str) -> None:
    report = diff(sharded(), sharded(prefix=prefix))
    assert [point.ranks[0].rows for point in report.points] == [(), ()]
    leak = diff(sharded(), sharded(leak=True, prefix=prefix), ["end"])
    assert "parameter norm.bias (20.00 MiB" in leak.verdict
    assert [row.owner for row in leak.points[0].ranks[0].rows] == ["norm.bias"]


def test_a_record_without_names_is_no_record_of_names() -> None:
    base, head = sharded(name="main"), sharded(name="pr")
    record = head.ranks[0].record
    assert record is not None
    head.ranks[0].record = record.model_copy(update={"boundaries": ()})
    report = diff(base, head)
    assert [point.ranks[0].rows for point in report.points] == [(), ()]
    assert any("pr has no record of names: both are compared by what their stacks say" in note for note in report.notes)
    assert any("what dangles in pr cannot be told" in caveat for caveat in report.caveats)


def test_what_one_side_cannot_tell_does_not_split_a_row() -> None:
    """The shards are named in both, the originals in one: there they dangle, here nobody knows."""
    base, head = sharded(leak=True, name="main"), sharded(leak=True, name="pr")
    record = head.ranks[0].record
    assert record is not None
    made, end = record.boundaries
    late = made.model_copy(update={"time_us": end.time_us - 1})
    head.ranks[0].record = record.model_copy(update={"boundaries": (late, end)})
    report = diff(base, head, ["end"])
    assert (report.ranks[0].base.dangling_known, report.ranks[0].head.dangling_known) == (True, False)
    assert report.points[0].ranks[0].rows == ()
