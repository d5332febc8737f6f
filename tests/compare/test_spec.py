"""The grammar of ``--fail-on``."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.facts import CATEGORIES
from snapviz.cli import check
from snapviz.compare.spec import FIGURES, Bound, BudgetSpec, parse_budget, rank_number
from snapviz.errors import UsageError

ABSOLUTE = Bound("absolute", 12 << 30)
NOTHING = Bound("absolute", 0)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("phase.train.peak:5%", BudgetSpec("peak", Bound("percent", percent=Fraction(5)), phase="train")),
        ("phase.train.peak:+5%", BudgetSpec("peak", Bound("percent", percent=Fraction(5)), phase="train")),
        ("phase.train.peak:+512MiB", BudgetSpec("peak", Bound("more", 512 << 20), phase="train")),
        ("phase.train.peak: + 0.5 GiB ", BudgetSpec("peak", Bound("more", 512 << 20), phase="train")),
        ("phase.train.peak:12GiB", BudgetSpec("peak", ABSOLUTE, phase="train")),
        (" phase.train/step3/forward.end:12 GiB", BudgetSpec("end", ABSOLUTE, phase="train/step3/forward")),
        ("phase.train.peak.reserved:12GiB", BudgetSpec("peak", ABSOLUTE, phase="train", measure="reserved")),
        ("phase.a.peak.end.active:12GiB", BudgetSpec("end", ABSOLUTE, phase="a.peak", measure="active")),
        ("phase.x: y.peak:12GiB", BudgetSpec("peak", ABSOLUTE, phase="x: y")),
        ("peak:12GiB", BudgetSpec("peak", ABSOLUTE)),
        ("peak.allocated:12GiB", BudgetSpec("peak", ABSOLUTE)),
        ("end.requested:0.25%", BudgetSpec("end", Bound("percent", percent=Fraction(1, 4)), measure="requested")),
        ("category.activation:5%", BudgetSpec("peak", Bound("percent", percent=Fraction(5)), category="activation")),
        ("category.optimizer-state:12GiB", BudgetSpec("peak", ABSOLUTE, category="optimizer state")),
        ("category.optimizer_state:12GiB", BudgetSpec("peak", ABSOLUTE, category="optimizer state")),
        ("peak.category.gradient:12GiB", BudgetSpec("peak", ABSOLUTE, category="gradient")),
        ("end.category.gradient:12GiB", BudgetSpec("end", ABSOLUTE, category="gradient")),
        (
            "phase.shard.end.category.parameter:0",
            BudgetSpec("end", Bound("absolute", 0), "shard", category="parameter"),
        ),
        ("dangling:0B", BudgetSpec("dangling", NOTHING)),
        ("dangling:+0B", BudgetSpec("dangling", Bound("more", 0))),
        ("growth:4096", BudgetSpec("growth", Bound("absolute", 4096))),
    ],
)
def test_every_form(text: str, spec: BudgetSpec) -> None:
    assert parse_budget(text) == spec
    assert parse_budget(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "write FIGURE:LIMIT"),
        ("peak", "write FIGURE:LIMIT"),
        ("peak:", "write FIGURE:LIMIT"),
        (":5%", "write FIGURE:LIMIT"),
        ("peak:12GB", "write '12 GiB', or '11.18 GiB' if powers of 1000 were meant"),
        ("peak:+12GB", "write '12 GiB'"),
        ("peak:5", None),
        ("peak:-5%", "'-5%' is no percentage"),
        ("peak:5%%", "no percentage"),
        ("peak:NaN%", "no percentage"),
        ("peak:1e3%", "no percentage"),
        ("peak:-1MiB", "negative"),
        ("peak:++1MiB", "'++1MiB' is no limit"),
        ("peak:+-1MiB", "'+-1MiB' is no limit"),
        ("peak:much", "not a number of bytes"),
        ("peak:9999999TiB", "more than"),
        ("phase.train:5%", "say which figure of the phase, as phase.train.peak or phase.train.end"),
        ("phase.train.reserved:5%", "say which figure"),
        ("train.peak:5%", "of a phase it is phase.train.peak"),
        ("train.reserved:5%", "of a phase it is phase.train.reserved"),
        ("memory:5%", "use peak, end, phase.NAME.peak, phase.NAME.end, category.NAME, dangling, growth"),
        ("category.activations:5%", "no such category 'activations' (there is: unknown, parameter, shard"),
        ("peak.category.x:5%", "no such category 'x'"),
        ("dangling.reserved:5%", "no figure"),
        ("phase." + "x" * 1300 + ".peak:5%", "at most 1,200"),
    ],
)
def test_what_cannot_be_meant_says_what_can(text: str, words: str | None) -> None:
    if words is None:
        assert parse_budget(text).bound == Bound("absolute", 5)
        return
    with pytest.raises(UsageError) as caught:
        parse_budget(text)
    assert words in str(caught.value)


def test_a_budget_is_a_text() -> None:
    with pytest.raises(UsageError, match=r"a budget is a text such as phase\.train\.peak:5%, not a int"):
        parse_budget(5)  # type: ignore[arg-type]


COUNTS = st.integers(0, (1 << 63) - 1)
BOUNDS = st.one_of(
    st.builds(lambda count: Bound("absolute", count), COUNTS),
    st.builds(lambda count: Bound("more", count), COUNTS),
    st.builds(lambda n, k: Bound("percent", percent=Fraction(n, 10**k)), st.integers(0, 10**9), st.integers(0, 9)),
)
SPECS = st.one_of(
    st.builds(BudgetSpec, st.sampled_from(["dangling", "growth"]), BOUNDS),
    st.builds(
        BudgetSpec,
        st.sampled_from(["peak", "end"]),
        BOUNDS,
        phase=st.none() | st.text(min_size=1, max_size=1000),
        measure=st.sampled_from(["requested", "allocated", "active", "reserved"]),
    ),
    st.builds(
        BudgetSpec,
        st.sampled_from(["peak", "end"]),
        BOUNDS,
        phase=st.none() | st.text(min_size=1, max_size=1000),
        category=st.sampled_from(CATEGORIES),
    ),
)


@given(SPECS)
def test_a_budget_reads_as_it_is_written(spec: BudgetSpec) -> None:
    assert parse_budget(str(spec)) == spec


@given(
    st.text(max_size=60) | st.from_regex(r"(phase\.)?[a-z./]{0,12}(peak|end)?[a-z.]{0,9}:[+-]?[0-9.]{0,5}[KMGiB%]{0,4}")
)
def test_any_text_is_a_budget_or_a_usage_error(text: str) -> None:
    try:
        spec = parse_budget(text)
    except UsageError:
        return
    assert parse_budget(str(spec)) == spec


@given(BOUNDS, st.integers(0, 1 << 50))
def test_a_limit_is_never_looser_than_it_was_written(bound: Bound, base: int) -> None:
    limit = bound.limit(base)
    assert limit is not None
    exact = {"absolute": Fraction(0), "more": Fraction(base), "percent": base * (1 + bound.percent / 100)}[bound.kind]
    exact += bound.count
    assert limit <= exact < limit + 1


def test_a_limit_to_nothing() -> None:
    assert Bound("percent", percent=Fraction(10**9)).limit(0) == 0
    assert Bound("percent", percent=Fraction(5)).limit(None) is None
    assert Bound("absolute", 5).limit(None) == 5


@pytest.mark.parametrize(("rank", "number"), [("max", None), ("all", None), (0, 0), (7, 7)])
def test_ranks(rank: object, number: int | None) -> None:
    assert rank_number(rank) == number  # type: ignore[arg-type]


@pytest.mark.parametrize("rank", [-1, True, 1.0, "min", None, "0"])
def test_what_is_no_rank(rank: object) -> None:
    with pytest.raises(UsageError, match="use 'max', 'all' or a rank's number"):
        rank_number(rank)  # type: ignore[arg-type]


def test_help_has_every_figure() -> None:
    for figure in FIGURES:
        assert f"\n  {figure} " in (check.__doc__ or "")
