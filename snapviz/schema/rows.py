"""The rows of a diff, what they are grouped and sorted by, and those that are folded into one."""

from __future__ import annotations

from typing import Literal

from snapviz.schema.base import Model

__all__ = ["UNUSED", "By", "DiffOptions", "DiffRow", "FoldedRows", "MeasureName", "Mode", "Unchanged"]

By = Literal["stack", "phase", "category", "owner", "module", "rank"]
"""What rows can be grouped by, beside all at once."""

Mode = Literal["absolute", "delta", "ratio"]
"""What rows are shown and sorted by."""

MeasureName = Literal["requested", "allocated", "active", "reserved"]
"""Whose bytes the points, totals and rows are."""

UNUSED = "unused"
"""Category of what is reserved and in no active block: one row, with the measure ``reserved`` only."""


class DiffOptions(Model):
    """How the rows of a report were made."""

    by: By | None = None
    # none: owner, category, birth phase, dangling and stack together
    mode: Mode = "delta"
    # absolute lists every row by its size; delta and ratio only those that changed
    measure: MeasureName = "allocated"
    # requested and active count what is freed and may still be read by another stream; reserved has a
    # row UNUSED for what no active block holds
    threshold: str | None = None
    # as it was given: rows below it are in RankPoint.folded
    masks: tuple[str, ...] = ()
    # regular expressions: what they match takes no part in matching


class DiffRow(Model):
    """Allocations of one owner, category, birth phase and stack, or of what ``options.by`` says, at a point."""

    owner: str
    # "" where not known, and where a row has several
    category: str
    # one of analyze.facts.CATEGORIES, or UNUSED; "" where a row has several
    birth_phase: str
    # folded; "before the recording" and "outside phases" are names too; "" where the sides cannot be
    # told apart by it, and where a row has several
    module: str
    # module path; "" where not known, and where a row has several
    dangling: bool
    # a whole parameter past the phase that should have released it: all of the row
    evidence: Literal["recorded", "annotated", "inferred"]
    # the weakest of what owner and category rest on
    found_in: Literal["base", "head", "both"]
    # which run has allocations of this row
    stack: tuple[str, ...]
    # "function (file)", innermost first, normalised: what was matched across the runs; under a name that
    # of the largest allocation, and () where a row by phase, category, owner, module or rank has several
    base_lines: tuple[int, ...] | None
    # a line for each entry of stack, of base's largest allocation in the row; none without one
    head_lines: tuple[int, ...] | None
    # as base_lines
    base_bytes: int
    # sum of the bytes of options.measure: of blocks, with requested of what was asked for
    base_count: int
    # allocations
    head_bytes: int
    # as base_bytes
    head_count: int
    # allocations
    delta_bytes: int
    # head_bytes − base_bytes
    base_requested_bytes: int
    # what the program asked for in the same allocations: less than their blocks by rounding and remainders
    head_requested_bytes: int
    # as base_requested_bytes
    base_dangling_bytes: int
    # part of base_bytes that dangles
    head_dangling_bytes: int
    # as base_dangling_bytes


class FoldedRows(Model):
    """Rows below the threshold, in one sum. A row in which something dangles is never among them."""

    rows: int
    # how many
    limit_bytes: int
    # a row with less is below the threshold, by its difference, or in mode absolute by its larger side
    base_bytes: int
    # sum over the rows, as all below
    base_count: int
    # allocations
    head_bytes: int
    # as base_bytes
    head_count: int
    # allocations
    delta_bytes: int
    # head_bytes − base_bytes
    more_bytes: int
    # of the rows that grew, 0 or more
    less_bytes: int
    # of the rows that shrank, 0 or less: delta_bytes = more_bytes + less_bytes
    base_requested_bytes: int
    # as in DiffRow
    head_requested_bytes: int
    # as in DiffRow


class Unchanged(Model):
    """Rows that are the same in both, bytes and count: counted, not listed."""

    rows: int
    # how many
    total_bytes: int
    # their bytes, on either side
