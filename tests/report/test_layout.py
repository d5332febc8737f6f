from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.report.layout import Column, Span, clean, cut, cut_left, line, render_table, width_of, wrapped, write_lines
from snapviz.report.words import block_counts, fold_names, frames_in_words


@given(st.text())
def test_nothing_that_steers_a_terminal_survives(text: str) -> None:
    shown = clean(text)
    assert shown.isprintable() or all(c.isprintable() or c.isspace() for c in shown)
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in shown)
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\r\t\x00", "a\\x0ab\\x0d\\x09\\x00"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("a\u200bb", "a\\u200bb"),
        ("\ud800", "\\ud800"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("größe 漢字", "größe 漢字"),
    ],
)
def test_what_is_shown_of_hostile_text(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_a_long_name_is_cut() -> None:
    assert len(clean("x" * 10_000)) == 500


@given(st.text(alphabet="ab漢é", max_size=30), st.integers(1, 20))
def test_cuts_fit_and_change_only_what_does_not(text: str, width: int) -> None:
    for one in (cut(text, width), cut_left(text, width)):
        assert width_of(one) <= width
        assert (one == text) == (width_of(text) <= width)


def test_tables_fit_and_never_cut_a_number() -> None:
    rows = [[Span("train/step/" + "x" * 60), Span("1,048,576"), Span("7")]]
    lines = [
        "".join(s.text for s in spans)
        for spans in render_table([Column("phase", False), Column("a"), Column("b")], rows, 60)
    ]
    assert all(len(one) <= 60 for one in lines)
    assert "1,048,576" in lines[1]
    assert lines[1].lstrip().startswith("…")


def test_colour_changes_no_text_and_markup_is_text() -> None:
    lines = [line(Span("[red]+1[/red]", "more"), " [link=x]", Span("-1", "less")), *wrapped("a b " * 40, 30)]
    plain, coloured = io.StringIO(), io.StringIO()
    write_lines(lines, plain)
    write_lines(lines, coloured, colour=True)
    assert plain.getvalue().startswith("[red]+1[/red] [link=x]-1\n")
    assert [one.rstrip() for one in coloured.getvalue().splitlines()] == plain.getvalue().splitlines()


def test_names_that_differ_in_a_number_fold() -> None:
    names = ["l.0.w", "head", "l.1.w", "l.2.w", "l.5.w", "l.0.b", "l.1.b"]
    assert fold_names(names) == [("l.0-2,5.w", [0, 2, 3, 4]), ("head", [1]), ("l.0-1.b", [5, 6])]
    assert fold_names(["e.0.l.0", "e.1.l.1"]) == [("e.0-1.l.0-1", [0, 1])]
    assert fold_names(["m.7", "m.7"]) == [("m.7", [0, 1])]


def test_frames_tell_the_operation_and_the_users_own_code() -> None:
    stack = (
        "c10::malloc (??:0)",
        "decorate_context (torch/utils/_contextlib.py:124)",
        "einsum (torch/functional.py:407)",
        "einsum (einops/einops.py:9)",
        "forward (/w/model.py:3)",
        "_call_impl (torch/nn/modules/module.py:1)",
        "deep (torch/x.py:1)",
        "main (/w/model.py:90)",
        "<module> (/w/train.py:5)",
    )
    assert frames_in_words(stack, None, 200) == (
        "einsum functional.py:407 ← forward model.py:3 ← main :90 ← <module> train.py:5"
    )
    assert frames_in_words(stack, None, 50) == "einsum functional.py:407 ← forward model.py:3 ← …"
    assert frames_in_words(("f (a.py)", "g (b.py)"), (3, -1), 99) == "f a.py:3 ← g b.py"
    assert frames_in_words((), None, 99).startswith("no stack")
    assert frames_in_words(("\x1b[2Jf (a.py:1)",), None, 99) == "\\x1b[2Jf a.py:1"


def test_block_counts() -> None:
    assert [block_counts(0, 1), block_counts(2, 2), block_counts(1, 1200)] == [
        "0 → 1 block",
        "2 blocks",
        "1 → 1,200 blocks",
    ]
