"""The rows of a listing as ag-grid asks for them, filtered, sorted and written out, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from snapviz.app.pages.compare_rows import Item, Listing, picked
from snapviz.app.state import State
from snapviz.report.layout import clean, cut, cut_left
from snapviz.report.reasons import category_in_words
from snapviz.report.words import ratio, signed
from snapviz.schema import DiffReport
from snapviz.units import format_bytes, format_exact

__all__ = ["as_csv", "filtered", "grid_row", "in_order", "shown_items"]

_LONGEST = 160
"""Characters of a name in a cell."""

_NUMBERS: dict[str, Callable[[Item], Any]] = {
    "delta": lambda item: item.delta,
    "base": lambda item: item.sizes[0],
    "head": lambda item: item.sizes[1],
    "ratio": lambda item: item.factor,
    "blocks": lambda item: item.counts[1] - item.counts[0],
}
_TEXTS: dict[str, Callable[[Item], str]] = {
    "what": lambda item: category_in_words(item.step),
    "name": lambda item: item.label,
    "birth": lambda item: item.birth,
    "made": lambda item: item.made_in,
    "besides": lambda item: item.besides,
}
_MIB = 1 << 20


def shown_items(report: DiffReport, listing: Listing, state: State, model: object = None) -> list[Item]:
    """The items that the state, and ``model``, the filters of the grid, leave."""
    steps = picked(report, listing, state.name)
    return filtered(listing.items, steps, state.q, model if isinstance(model, dict) else {})


def in_order(items: Sequence[Item], model: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Items by the columns of ag-grid's ``sortModel``, the first of them deciding; in their own order without one."""
    found = list(items)
    for column in reversed(model):
        read = _NUMBERS.get(str(column.get("colId"))) or _TEXTS.get(str(column.get("colId")))
        if read is not None:
            found.sort(key=read, reverse=column.get("sort") == "desc")
    return found


def filtered(items: Sequence[Item], steps: Collection[str], q: str, model: Mapping[str, Any]) -> list[Item]:
    """Items of some steps of the waterfall (all where there are none), with ``q`` in any of their texts, and that fit
    ag-grid's ``filterModel``. Texts are looked for as they stand, in either case."""
    tests = [_test(column, one) for column, one in model.items() if isinstance(one, Mapping)]
    wanted = q.casefold()
    return [
        item
        for item in items
        if (not steps or item.step in steps)
        and (not wanted or any(wanted in text.casefold() for text in _texts(item)))
        and all(test(item) for test in tests)
    ]


def _texts(item: Item) -> Iterator[str]:
    yield from (read(item) for read in _TEXTS.values())
    for row in item.rows:
        yield row.owner
        yield row.module
        yield from row.stack


def _test(column: str, model: Mapping[str, Any]) -> Callable[[Item], bool]:
    """One column's filter: a condition, or two joined by AND or OR."""
    conditions = model.get("conditions")
    if isinstance(conditions, list) and conditions:
        tests = [_test(column, one) for one in conditions if isinstance(one, Mapping)]
        joined = any if model.get("operator") == "OR" else all
        return lambda item: joined(test(item) for test in tests)
    if column in _NUMBERS:
        return _number_test(column, model)
    if column in _TEXTS:
        wanted, read = str(model.get("filter") or "").casefold(), _TEXTS[column]
        without = model.get("type") == "notContains"
        return lambda item: (wanted in read(item).casefold()) != without
    return lambda item: True


def _number_test(column: str, model: Mapping[str, Any]) -> Callable[[Item], bool]:
    """Bytes are filtered in MiB, as the column's filter says; a bound between two bytes stays one."""
    read = _NUMBERS[column]
    scale = _MIB if column in ("delta", "base", "head") else 1
    low, high = (_scaled(model.get(key), scale) for key in ("filter", "filterTo"))
    if low is None:
        return lambda item: True
    kind = str(model.get("type"))
    if kind == "inRange" and high is not None:
        return lambda item: low <= read(item) <= high
    tests: dict[str, Callable[[Item], bool]] = {
        "greaterThan": lambda item: read(item) > low,
        "greaterThanOrEqual": lambda item: read(item) >= low,
        "lessThan": lambda item: read(item) < low,
        "lessThanOrEqual": lambda item: read(item) <= low,
        "notEqual": lambda item: read(item) != low,
    }
    return tests.get(kind, lambda item: read(item) == low)


def _scaled(value: object, scale: int) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e15:
        return None
    return Fraction(str(value)) * scale


# ------------------------------------------------------------------ shown


def grid_row(item: Item) -> dict[str, Any]:
    """A row of the grid: texts as they are shown, exact bytes for their tooltips, and which way it went."""
    base, head = item.sizes
    arrow = "▲ " if item.delta > 0 else "▼ " if item.delta < 0 else ""
    return {
        "key": item.key,
        "delta": f"{arrow}{signed(item.delta)}",
        "delta_exact": format_exact(item.delta, signed=True),
        "way": (item.delta > 0) - (item.delta < 0),
        "base": format_bytes(base) if item.counts[0] or base else "–",
        "base_exact": format_exact(base),
        "head": format_bytes(head) if item.counts[1] or head else "–",
        "head_exact": format_exact(head),
        "ratio": ratio(base, head).text,
        "what": category_in_words(item.step) or "several",
        "name": cut_left(clean(item.label), _LONGEST),
        "blocks": f"{item.counts[0]:,} → {item.counts[1]:,}"
        if item.counts[0] != item.counts[1]
        else f"{item.counts[1]:,}",
        "birth": cut(clean(item.birth), _LONGEST),
        "made": item.made_in,
        "besides": cut(clean(item.besides), _LONGEST),
        "dangling": item.dangling,
    }


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet takes for a formula (OWASP, CSV injection)."""

_CSV = (
    "delta_bytes", "base_bytes", "head_bytes", "base_count", "head_count", "base_requested_bytes",
    "head_requested_bytes", "base_dangling_bytes", "head_dangling_bytes", "owner", "category", "birth_phase", "module",
    "dangling", "evidence", "found_in",
)  # fmt: skip


def as_csv(listing: Listing, items: Sequence[Item]) -> str:
    """Every row of some items with exact bytes (RFC 4180), then what is not listed and the total, which it all adds
    up to."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["at", "rank", *_CSV, "stack"])
    number = listing.ranks[0].rank
    for item in items:
        where = [listing.point.at, item.rank if item.rank is not None else number]
        for row in item.rows:
            stack = " < ".join(row.stack)
            writer.writerow([*where, *(_cell(getattr(row, name)) for name in _CSV), _cell(stack)])
    for one in listing.sums(items)[1 if listing.items else 0 :]:
        told: dict[str, object] = {"owner": f"({one.what})"}
        told |= zip(_CSV, (one.delta, one.base_bytes, one.head_bytes), strict=False)
        writer.writerow([listing.point.at, "", *(told.get(name, "") for name in _CSV), ""])
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
