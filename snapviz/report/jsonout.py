"""Reports as JSON: every byte an integer, ``schema_version`` first."""

from __future__ import annotations

from snapviz.schema import DiffReport, InfoReport

__all__ = ["to_json"]


def to_json(report: DiffReport | InfoReport) -> str:
    """The report as a JSON document, ended by a line end. Control characters are escaped by JSON
    itself, lone surrogates (which UTF-8 cannot hold) are replaced."""
    return report.model_dump_json(indent=2) + "\n"
