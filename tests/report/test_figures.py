"""Figures: files of the right kind, the same each time, whatever the runs are called; and their table."""

from __future__ import annotations

import re
import struct
import sys
from dataclasses import replace

import pytest

from snapviz.analyze.passes import analyze
from snapviz.analyze.timeline import Timeline, timeline
from snapviz.errors import UsageError
from snapviz.report import figures
from snapviz.report.layout import Line, width_of
from snapviz.report.timelinetext import labels_of, mib, timeline_lines
from tests.analyze.builders import MIB, Trace, record, sample

pytest.importorskip("matplotlib")


def text_of(lines: list[Line]) -> str:
    return "\n".join("".join(span.text for span in spans).rstrip() for spans in lines) + "\n"


def of_sample(name: str) -> Timeline:
    return timeline(name, sample(name).ranks[0].facts())


def small(name: str = "run", mib: int = 20) -> Timeline:
    trace = Trace()
    start = trace.now
    trace.free(trace.alloc(mib))
    made = trace.tick()
    trace.free(trace.alloc(30))
    snap = trace.snap()
    known = record([("materialize", start, made), ("train/step0", made + 1, trace.now)])
    return timeline(name, analyze(0, snap.columns, snap.replay(0), known))


def test_a_png_has_the_size_of_a_page_and_is_the_same_each_time() -> None:
    both = [of_sample("fsdp2_after"), of_sample("fsdp2_before_notfixed")]
    once, again = (figures.draw(both, "allocated") for _ in range(2))
    assert once == again
    assert once.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", once[16:24]) == (1650, 720)
    assert once != figures.draw(both, "reserved")
    assert once != figures.draw(both[:1], "allocated")


def words_in(svg: bytes) -> str:
    """What an SVG file's comments say: matplotlib writes each text beside its outlines."""
    return "\n".join(re.findall(r"<!-- (.*?) -->", svg.decode()))


def test_an_svg_names_runs_axes_and_phases() -> None:
    both = [of_sample("fsdp2_after"), of_sample("fsdp2_before_notfixed")]
    svg = figures.draw(both, "reserved", form="svg")
    assert svg == figures.draw(both, "reserved", form="svg")
    told = words_in(svg)
    for words in (
        "reserved (MiB)",
        "Reserved memory over time",
        "seconds since the first event · bands: phases of fsdp2_after",
        "fsdp2_before_notfixed",
        "train/step0",
        "rank 0",
    ):
        assert words in told
    assert "1,200" in told
    assert b"dc:date" not in svg
    assert "GB" not in told
    one = words_in(figures.draw(both[:1], "allocated", "A title", "train/step1", "svg"))
    assert "A title" in one
    assert "seconds since the start of train/step1" in one
    assert "bands" not in one


def test_the_axis_is_in_mib_as_it_says() -> None:
    # 76 MiB are 79.7 MB, and an axis in them would go beyond 80
    told = words_in(figures.draw([small("x", 76)], "allocated", form="svg")).splitlines()
    assert "70" in told
    assert "80" not in told


def test_what_is_not_certain_is_in_the_legend() -> None:
    one = small()
    unsure = [replace(one, whole=False), replace(one, exact=False), replace(one, times_are_real=False)]
    told = words_in(figures.draw([one, *unsure], "allocated", form="svg"))
    for words in ("(begins in the middle)", "(not exact)", "(fake process group)"):
        assert told.count(words) == 1


@pytest.mark.parametrize("name", ["_hidden", "$x^$", "$\\frac{", "漢字", "\x1b]0;x\x07", "a\nb", "x" * 600, "", "%s"])
def test_any_name_can_be_drawn(name: str) -> None:
    one = replace(small(name), bands=tuple(replace(band, name=name) for band in small().bands))
    told = words_in(figures.draw([one, small("other")], "allocated", name, name or None, "svg"))
    assert "other" in told
    if name.startswith(("_", "$")):
        assert name in told


def test_more_runs_than_colours_and_nothing_at_all_can_be_drawn() -> None:
    assert figures.draw([small(f"run{i}", 20 + 2 * i) for i in range(9)], "allocated")
    empty = Trace()
    empty.alloc(20)
    empty.events = empty.events[:1]
    snap = empty.snap()
    assert figures.draw([timeline("x", analyze(0, snap.columns, snap.replay(0)))], "allocated")


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="pip install matplotlib"):
        figures.check_matplotlib()


# ------------------------------------------------------------------ the table


def test_the_table_is_in_mib() -> None:
    shown = text_of(timeline_lines([of_sample("fsdp2_after"), of_sample("fsdp2_before_notfixed")], None, 80))
    assert re.search(r"^allocated, MiB +rank +peak +trough +end$", shown, re.MULTILINE)
    assert re.search(r"^fsdp2_before_notfixed +0 +1,000.79 +472.68 +472.68$", shown, re.MULTILINE)
    assert re.search(r"^fsdp2_after +0 +1,088.00 +1,034.00 +1,088.00$", shown, re.MULTILINE)
    assert max(map(width_of, shown.splitlines())) <= 80
    assert [mib(count) for count in (0, 1, 5242, 5243, MIB, 1024 * MIB)] == [
        "0.00",
        "0.00",
        "0.00",
        "0.01",
        "1.00",
        "1,024.00",
    ]


def test_runs_of_one_name_are_numbered() -> None:
    assert labels_of([small("a"), small("b"), small("a")]) == ["a (1)", "b", "a (3)"]


def test_notes_stand_above_the_table_and_a_cut_peak_is_marked() -> None:
    one = replace(small("pr"), whole=False, notes=("the recording begins in the middle", "b", "c", "d"))
    shown = text_of(timeline_lines([small("main"), one], "train", 80))
    assert shown.index("~ pr: the recording begins in the middle") < shown.index("allocated, MiB")
    assert "~ pr: d" not in shown
    assert re.search(r"^pr +0 +≥ 30.00", shown, re.MULTILINE)
    broken = replace(one, broken=tuple(f"rank {i} could not be read: cut" for i in range(9)))
    told = text_of(timeline_lines([small("main"), broken], None, 80))
    assert told.count("! pr: rank ") == 9
    assert (
        "from train on; trough: the lowest from the first training step on; ≥ the recording begins in the middle"
        in " ".join(shown.split())
    )
    mixed = text_of(timeline_lines([small("main"), replace(one, trough_since="of all that is drawn")], None, 200))
    assert "trough: the lowest from the first training step on in main, of all that is drawn in pr" in mixed
