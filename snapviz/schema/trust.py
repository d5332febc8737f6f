"""How far the figures of a report can be trusted."""

from __future__ import annotations

from typing import Literal

from snapviz.schema.base import Model

__all__ = ["FindingReport", "RankTrust", "Trust"]


class Trust(Model):
    """How far the figures of one side can be trusted at one phase or moment."""

    exact: bool
    # nothing is estimated or assumed, to the byte
    whole: bool
    # false: the recording begins later, and a peak is only that of what is left of it
    counted: bool
    # peak and end are torch's own counters from the record: right even where the history is cut
    at_least: tuple[Literal["requested", "allocated", "active", "reserved"], ...] = ()
    # measures whose peak may have been higher: not whole, and not counted


class FindingReport(Model):
    """One thing about the replay of a rank."""

    kind: str
    # a stable name, lower case with hyphens
    severity: Literal["inconsistent", "estimate", "assumption", "information"]
    # inconsistent: the file contradicts itself; estimate: a number is a guess; assumption: rules were
    # chosen for the file; information: true and certain
    count: int
    # how often
    message: str
    # a sentence for people
    bytes: int | None
    # none where they mean nothing
    event: int | None
    # index into the trace, -1 the state before it; none where it means nothing


class RankTrust(Model):
    """One side of one rank: how far all of its figures can be trusted."""

    exact: bool
    # every number is certain to the byte
    consistent: bool
    # the file agrees with itself
    truncated: bool
    # the recording begins after memory was in use: the oldest events are gone
    estimated: bool
    # a size or a total is a guess
    dangling_known: bool
    # whether an original parameter that dangled would be among ``dangling``
    dangling_why: str
    # why not; "" where it is known
    findings: tuple[FindingReport, ...]
    # of the replay
