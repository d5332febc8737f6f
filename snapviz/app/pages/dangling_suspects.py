"""What may dangle in a run of which no record says what does: inferred, and none of it is certain."""

from __future__ import annotations

from typing import Any

from dash import html

from snapviz.app import controls
from snapviz.app.amounts import exactly, frames
from snapviz.app.pages.dangling_look import Side
from snapviz.report.layout import clean
from snapviz.report.words import frames_in_words
from snapviz.schema import Suspect

__all__ = ["suspects"]

_SUSPECTS = 20


def suspects(side: Side) -> Any:
    """The largest of them, each with its evidence."""
    found = sorted(side.suspects, key=lambda one: -one.block_bytes)
    rows = [_suspect(one) for one in found[:_SUSPECTS]]
    more = f", the largest {_SUSPECTS} of {len(found):,}" if len(found) > _SUSPECTS else ""
    return html.Section(
        [
            html.H2(f"What may dangle in {clean(side.name)}"),
            controls.notice("Inferred, and none of it is certain: no record says what these are."),
            controls.table(
                f"suspects{more}", ["rank", "bytes", "blocks", "born in", "evidence", "made in"], rows, (0, 1, 2)
            ),
        ]
    )


def _suspect(one: Suspect) -> list[Any]:
    made = html.Details([html.Summary(html.Code(frames_in_words(one.stack, None, 90))), frames(one.stack)])
    evidence = html.Ul([html.Li(clean(text)) for text in one.evidence])
    return [str(one.rank), exactly(one.block_bytes), f"{one.count:,}", clean(one.birth_phase), evidence, made]
