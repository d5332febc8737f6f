"""Tables as Dash is given them."""

from __future__ import annotations

from dash import html

from snapviz.app.controls import table


def test_a_cell_is_the_span_that_would_stand_alone_in_it() -> None:
    cells = [html.Span("4.00 MiB", title="4,194,304 bytes", className="more"), html.Span(["a", "b"]), "c"]
    found = table("bytes", ("x", "y", "z"), [cells], (0,)).children.children[2].children[0].children
    assert [type(one) for one in found] == [html.Td] * 3
    assert (found[0].children, found[0].title, found[0].className) == ("4.00 MiB", "4,194,304 bytes", "number more")
    assert isinstance(found[1].children, html.Span)
    assert (found[2].children, found[2].className) == ("c", "")
