"""The budgets of ``--fail-on``: a figure of a run, and the most that it may be.

``FIGURE:LIMIT``, such as ``phase.train.peak:5%``; ``snapviz check --help`` (``snapviz/cli/check.py``) and
docs/budgets.md have the table of both. A budget read from its own text (``str``) is the same budget.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, cast

from snapviz.errors import UsageError
from snapviz.units import parse_bytes

__all__ = ["FIGURES", "Bound", "BudgetSpec", "Figure", "Measure", "Ranks", "parse_budget", "rank_number"]

Figure = Literal["peak", "end", "dangling", "growth"]
Measure = Literal["requested", "allocated", "active", "reserved"]

Ranks = int | Literal["max", "all"]
"""Which ranks a limit is for: every one and the worst is told, every one and each is told, or one by number."""

_MEASURES = ("requested", "allocated", "active", "reserved")

FIGURES = ("peak", "end", "phase.NAME.peak", "phase.NAME.end", "category.NAME", "dangling", "growth")
"""What stands before the colon. After peak and end may stand another measure (``.reserved``), or ``.category.NAME``."""

_PLACE = re.compile(
    r"(?:phase\.(?P<phase>.+)\.)?(?P<figure>peak|end)"
    r"(?:\.(?P<measure>requested|allocated|active|reserved)|\.category\.(?P<category>[a-z _-]+))?",
    re.DOTALL,
)
_PERCENT = re.compile(r"\+?(?P<number>[0-9]{1,30}(?:\.[0-9]{1,30})?)\s*%")
_LONGEST = 1_200
"""Characters of a budget: a phase's name has at most 1,000."""


@dataclass(frozen=True)
class Bound:
    """The most that a figure may be: ``count`` bytes, so many more than base, or ``percent`` of base more."""

    kind: Literal["absolute", "more", "percent"]
    count: int = 0  # bytes; of a percentage none
    percent: Fraction = Fraction(0)

    @property
    def relative(self) -> bool:
        """Whether it needs a base."""
        return self.kind != "absolute"

    def limit(self, base: int | None) -> int | None:
        """Bytes that head may have, rounded down; none where it needs a base that is none."""
        if not self.relative:
            return self.count
        if base is None:
            return None
        return base + self.count + base * self.percent.numerator // (100 * self.percent.denominator)

    def __str__(self) -> str:
        if self.kind == "percent":
            return f"{_decimal(self.percent)}%"
        return f"{'+' * self.relative}{_bytes(self.count)}"


@dataclass(frozen=True)
class BudgetSpec:
    """A figure and its bound. ``measure`` and ``category`` are of peaks and ends alone."""

    figure: Figure
    bound: Bound
    phase: str | None = None
    measure: Measure = "allocated"
    category: str | None = None

    @property
    def subject(self) -> str:
        """What stands before the colon."""
        if self.category is not None and self.phase is None and self.figure == "peak":
            return f"category.{self.category}"
        place = self.figure if self.phase is None else f"phase.{self.phase}.{self.figure}"
        if self.category is not None:
            return f"{place}.category.{self.category}"
        return place if self.measure == "allocated" else f"{place}.{self.measure}"

    def __str__(self) -> str:
        return f"{self.subject}:{self.bound}"


def parse_budget(text: str) -> BudgetSpec:
    """A budget from ``FIGURE:LIMIT``. Raises ``UsageError`` that says what was wrong and what there is."""
    if not isinstance(text, str):
        raise UsageError(f"a budget is a text such as phase.train.peak:5%, not a {type(text).__name__}")
    if len(text) > _LONGEST:
        raise UsageError(f"a budget of {len(text):,} characters: at most {_LONGEST:,}")
    subject, colon, limit = text.strip().rpartition(":")
    if not colon or not subject or not limit.strip():
        raise UsageError(f"{text!r} is no budget: write FIGURE:LIMIT, such as phase.train.peak:5% or dangling:0B")
    subject, bound = subject.strip(), _bound(text, limit.strip())
    if subject in ("dangling", "growth"):
        return BudgetSpec(cast("Figure", subject), bound)
    if subject.startswith("category."):
        return BudgetSpec("peak", bound, category=_category(text, subject.removeprefix("category.")))
    found = _PLACE.fullmatch(subject)
    if found is None:
        raise UsageError(f"{text!r}: {_no_figure(subject)}")
    return BudgetSpec(
        cast("Figure", found["figure"]),
        bound,
        phase=found["phase"],
        measure=cast("Measure", found["measure"] or "allocated"),
        category=_category(text, found["category"]) if found["category"] else None,
    )


def rank_number(rank: Ranks) -> int | None:
    """The one rank that is judged; none for every one. Raises ``UsageError``."""
    if isinstance(rank, str) and rank in ("max", "all"):
        return None
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
        raise UsageError(f"rank={rank!r}: use 'max', 'all' or a rank's number")
    return rank


def _bound(text: str, limit: str) -> Bound:
    if percent := _PERCENT.fullmatch(limit):
        return Bound("percent", percent=Fraction(percent["number"]))
    if "%" in limit:
        raise UsageError(f"{text!r}: {limit!r} is no percentage: write it like 5% or 0.5%")
    more = limit.startswith("+")
    number = limit.removeprefix("+").lstrip()
    if more and not number[:1].isdigit():
        raise UsageError(f"{text!r}: {limit!r} is no limit: write 12GiB, +512MiB or 5%")
    try:
        count = parse_bytes(number)
    except UsageError as error:
        raise UsageError(f"{text!r}: {error}") from None
    return Bound("more" if more else "absolute", count)


def _category(text: str, name: str) -> str:
    from snapviz.analyze.facts import CATEGORIES

    # a shell and a file of settings like words without blanks better
    known = re.sub("[_-]", " ", name)
    if known not in CATEGORIES:
        raise UsageError(f"{text!r}: no such category {name!r} (there is: {', '.join(CATEGORIES)})")
    return known


def _no_figure(subject: str) -> str:
    """Why what stands before the colon is none, and what was likely meant."""
    if subject.startswith("phase."):
        return f"say which figure of the phase, as {subject}.peak or {subject}.end"
    name, _, last = subject.rpartition(".")
    if name and last in ("peak", "end", *_MEASURES):
        return f"{subject!r} is no figure: of a phase it is phase.{subject}"
    return f"{subject!r} is no figure: use {', '.join(FIGURES)}"


def _decimal(value: Fraction) -> str:
    """A fraction that was read from a decimal number, as the shortest one."""
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    digits = str((value * 10**places).numerator).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}" if places else digits


def _bytes(count: int) -> str:
    """A number of bytes in the largest unit of which it is a whole number."""
    for exponent, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count and count % (1 << exponent) == 0:
            return f"{count >> exponent}{unit}"
    return f"{count}B"
