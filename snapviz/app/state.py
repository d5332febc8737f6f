"""All that a page shows, to and from the query of its URL: what is not there has its default.

Runs are named by their ids, never by where they lie. What a URL holds may have been typed by anyone: a value that
cannot be meant is as if it were not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_args
from urllib.parse import parse_qs, urlencode

from snapviz.schema import By, MeasureName, Mode

__all__ = ["KEPT", "PAGES", "State"]

PAGES = {
    "compare": "/",
    "timeline": "/timeline",
    "live": "/live",
    "ranks": "/ranks",
    "dangling": "/dangling",
    "segments": "/segments",
    "runs": "/runs",
}
"""Page → its path."""

KEPT = ("base", "head", "rank", "at", "measure", "bt", "ht")
"""Fields that go along from page to page."""

_LONGEST = 2_000
"""Characters of a value: a phase's name has at most 1,000, and the key of a row a few hundred."""

_LARGEST = 1 << 62


@dataclass(frozen=True)
class State:
    """What a page shows. A field is a key of the query; its default is left out there."""

    page: str = "compare"
    # one of PAGES: the path, not the query
    base: str = ""
    # run id, "": none chosen
    head: str = ""
    # run id
    rank: int | None = None
    # none: of two runs the one with the largest difference, of one the one that peaks highest
    at: str = ""
    # the moment, as --at takes it; "": the page's own (the peak, mostly)
    by: str = ""
    # what rows are grouped by, as --by; "": all at once
    mode: str = "delta"
    # as --mode
    measure: str = "allocated"
    # as --measure
    threshold: str = ""
    # as --threshold
    row: str = ""
    # key of the row whose drawer is open
    q: str = ""
    # searched for as it stands: never a pattern
    axis: str = "time"
    # of the timeline: time or event
    align: str = ""
    # phase whose start both runs share; "": their beginnings
    show: str = ""
    # what a page draws, among its own choices
    view: str = ""
    # how, among its own choices
    x0: int | None = None
    # window on the axis: µs or events since the aligned start
    x1: int | None = None
    # as x0
    y0: int | None = None
    # window in bytes
    y1: int | None = None
    # as y0
    bt: int | None = None
    # event of the cursor in base; none: where ``at`` is
    ht: int | None = None
    # the same in head
    name: str = ""
    # what is picked: a parameter, a node, a segment
    zoom: str = ""
    # branch of a tree that fills the picture: the tokens of its steps, with dots between them

    @classmethod
    def from_url(cls, path: str, query: str) -> State:
        """The state of a URL's path and query (with its ``?`` or without)."""
        page = next((page for page, place in PAGES.items() if place == f"/{path.strip('/')}"), "compare")
        found = parse_qs((query or "").removeprefix("?"), max_num_fields=None)
        return cls.of({key: values[-1] for key, values in found.items()} | {"page": page})

    @classmethod
    def of(cls, values: Mapping[str, Any] | None) -> State:
        """From a mapping of texts or of the fields' own types; what cannot be meant keeps its default."""
        known: dict[str, Any] = {}
        for key, value in values.items() if isinstance(values, Mapping) else ():
            read = _READ.get(key)
            meant = None if read is None or value is None else read(value)
            if meant is not None:
                known[key] = meant
        return cls(**known)

    def with_(self, **changes: Any) -> State:
        """The same with some fields changed; none gives a field its default."""
        given: dict[str, Any] = {key: _DEFAULTS[key] if value is None else value for key, value in changes.items()}
        return replace(self, **given)

    def to(self, page: str, **changes: Any) -> State:
        """Another page, with what goes along; events of one rank do not go along to another."""
        kept = {key: getattr(self, key) for key in KEPT}
        if changes.get("rank", self.rank) != self.rank:
            kept |= {"bt": None, "ht": None}
        return State(page=page).with_(**kept | changes)

    def query(self) -> str:
        """The query, without ``?``: what differs from the defaults, in the order of the fields."""
        parts = {key: value for key, value in asdict(self).items() if key != "page" and value != _DEFAULTS[key]}
        return urlencode(parts, safe="/:")

    def url(self, prefix: str = "") -> str:
        """Path and query. ``prefix`` is where the dashboard is served."""
        query = self.query()
        return f"{prefix.rstrip('/')}{PAGES[self.page]}" + (f"?{query}" if query else "")

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or len(value) > _LONGEST or "\0" in value:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None  # half a surrogate pair: no address can hold it
    return value


def _number(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, str)) or len(str(value)) > 20:
        return None
    try:
        number = int(value)
    except ValueError:
        return None
    return number if -_LARGEST < number < _LARGEST else None


def _rank(value: Any) -> int | None:
    number = _number(value)
    return number if number is not None and number >= 0 else None


def _one_of(*allowed: str) -> Callable[[Any], str | None]:
    return lambda value: value if value in allowed else None


_DEFAULTS = {field.name: field.default for field in fields(State)}

_READ: dict[str, Callable[[Any], Any]] = {
    field.name: _number if field.default is None else _text for field in fields(State)
}
_READ |= {
    "page": _one_of(*PAGES),
    "rank": _rank,
    "by": _one_of("", *get_args(By)),
    "mode": _one_of(*get_args(Mode)),
    "measure": _one_of(*get_args(MeasureName)),
    "axis": _one_of("time", "event"),
}
