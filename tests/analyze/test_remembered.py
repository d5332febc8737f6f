"""What is kept with a rank's facts: made once, for these facts alone, and not for ever."""

from __future__ import annotations

from dataclasses import replace

from snapviz.analyze.facts import Facts
from snapviz.analyze.remembered import remembered
from tests.analyze.builders import Trace
from tests.analyze.test_timeline import facts_of


def made() -> Facts:
    trace = Trace()
    trace.alloc(20)
    return facts_of(trace)


def test_it_is_made_once_and_the_oldest_goes() -> None:
    facts, asked = made(), []

    def get(key: str, what: str = "a") -> int:
        return remembered(facts, what, key, lambda: asked.append(key) or len(asked))  # type: ignore[func-returns-value]

    assert [get("x"), get("x"), get("y"), get("x"), get("z")] == [1, 1, 2, 1, 3]
    # y was used longest ago
    assert [get("x"), get("y"), get("x", "b")] == [1, 4, 5]


def test_a_copy_begins_without_it() -> None:
    facts = made()
    assert remembered(facts, "a", "", lambda: 1) == 1
    other = replace(facts, notes=("another",))
    assert remembered(other, "a", "", lambda: 2) == 2
    assert remembered(facts, "a", "", lambda: 3) == 1
