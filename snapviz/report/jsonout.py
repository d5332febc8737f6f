"""Reports as JSON: every byte an integer, ``schema_version`` first."""

from __future__ import annotations

import re

from snapviz.schema import Model

__all__ = ["to_json"]

_NOT_PLAIN = re.compile(r"[^\n -~]")


def to_json(report: Model) -> str:
    """The report as a JSON document, ended by a line end, in ASCII: it is the same whatever encoding it is
    written in, and nothing in it moves a terminal's cursor or turns its text round."""
    return _NOT_PLAIN.sub(_escaped, report.model_dump_json(indent=2)) + "\n"


def _escaped(found: re.Match[str]) -> str:
    # what is not plain can only be inside a string; beyond U+FFFF JSON has a pair of surrogates
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
