"""Timelines as figures: allocated, or reserved, memory over time, a line for each run.

The only importer of matplotlib, which is an extra: nothing here draws before ``check_matplotlib``.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from snapviz.analyze.timeline import Timeline
from snapviz.errors import UsageError
from snapviz.report.layout import clean, cut
from snapviz.report.timelinetext import labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["check_matplotlib", "draw"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's, which every kind of eye tells apart; without yellow, which white paper swallows."""

_DASHES = ("-", "--", "-.", ":")
"""One for each round of the colours."""

_INCHES = (11.0, 4.8)
_DPI = 150
_LABEL = 40
"""Characters of a run's name in the legend."""

_NARROWEST = 0.02
"""Part of the axis that a phase has to take up to be named."""

_MIB = 1 << 20


def check_matplotlib() -> None:
    """Raises ``UsageError`` with what to install where there is no matplotlib."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        raise UsageError("figures are drawn with matplotlib, which is not installed: pip install matplotlib") from None


def draw(
    found: Sequence[Timeline],
    measure: Literal["allocated", "reserved"],
    title: str | None = None,
    since: str | None = None,
    form: Literal["png", "svg"] = "png",
) -> bytes:
    """One figure as the bytes of a PNG or SVG file. Phases are those of the first run."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # the same data gives the same file: no date in it, and no random names
    with rc_context({"svg.hashsalt": "snapviz", "text.parse_math": False}), warnings.catch_warnings():
        # a name in letters that the font lacks is drawn as boxes, and is no reason for a warning of ours
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=_INCHES, layout="constrained")
        axes = figure.add_subplot()
        _curves(axes, found, measure)
        _bands(axes, found[0])
        figure.suptitle(cut(clean(title), 100) if title else f"{measure.capitalize()} memory over time")
        axes.set_xlabel(_below(found, since))
        _dress(axes, measure)
        _legend(figure, axes, found)
        out = io.BytesIO()
        figure.savefig(out, format=form, dpi=_DPI, metadata={"Date": None} if form == "svg" else {"Software": None})
    return out.getvalue()


def _curves(axes: Axes, found: Sequence[Timeline], measure: str) -> None:
    for index, one in enumerate(found):
        curve = getattr(one, measure)
        axes.plot(
            curve.seconds,
            curve.value_bytes / _MIB,
            drawstyle="steps-post",
            color=_COLOURS[index % len(_COLOURS)],
            linestyle=_DASHES[index // len(_COLOURS) % len(_DASHES)],
            linewidth=1.3,
            # where two are equal both are seen
            alpha=0.85,
        )
    axes.set_ylim(bottom=0)
    last = max(float(getattr(one, measure).seconds[-1]) for one in found)
    axes.set_xlim(0, 1.01 * last if last else 1)


def _bands(axes: Axes, first: Timeline) -> None:
    span = axes.get_xlim()[1]
    for index, band in enumerate(first.bands):
        stop = min(band.stop_s, span)
        if stop <= band.start_s:
            continue
        axes.axvspan(band.start_s, stop, color="#000000", alpha=0.07 if index % 2 else 0.03, linewidth=0)
        if stop - band.start_s >= _NARROWEST * span:
            wide = (stop - band.start_s) / span * 90 > len(band.name)
            axes.text(
                (band.start_s + stop) / 2,
                1.01,
                cut(clean(band.name), _LABEL),
                transform=axes.get_xaxis_transform(),
                ha="center" if wide else "left",
                va="bottom",
                rotation=0 if wide else 35,
                fontsize=8,
                color="#555555",
            )


def _below(found: Sequence[Timeline], since: str | None) -> str:
    told = f"seconds since the start of {cut(clean(since), _LABEL)}" if since else "seconds since the first event"
    # other runs have their phases elsewhere
    of = f" · bands: phases of {cut(labels_of(found)[0], _LABEL)}" if len(found) > 1 and found[0].bands else ""
    return told + of


def _dress(axes: Axes, measure: str) -> None:
    axes.set_ylabel(f"{measure} (MiB)")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", color="#000000", alpha=0.12, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, axes: Axes, found: Sequence[Timeline]) -> None:
    # texts are set afterwards: matplotlib leaves out a label that begins with an underscore
    legend = figure.legend(
        axes.get_lines(), [str(i) for i in range(len(found))], loc="outside right upper", frameon=False
    )
    for text, label, one in zip(legend.get_texts(), labels_of(found), found, strict=True):
        unsure = [] if one.exact else ["not exact"]
        unsure += [] if one.whole else ["begins in the middle"]
        unsure += [] if one.times_are_real else ["fake process group"]
        said = "".join(f"\n({words})" for words in unsure)
        text.set_text(f"{cut(label, _LABEL)}\nrank {one.rank}{said}")
