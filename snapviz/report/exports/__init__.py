"""What other tools open: a run in their formats. Each module is one format, a pure function from facts to a stream."""

from __future__ import annotations

__all__: list[str] = []
