"""Short names of rows: the same row has the same name at every point, under every threshold, in every process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from snapviz.schema import DiffRow

__all__ = ["group_key", "row_keys"]


def row_keys(rows: Sequence[DiffRow]) -> list[str]:
    """A key for each row; of rows that read alike, which cut names can make, the second ends in ``-2``."""
    seen: dict[str, int] = {}
    keys = []
    for row in rows:
        parts = (row.owner, row.category, row.birth_phase, row.module, row.dangling, row.stack)
        key = _digest(parts)
        seen[key] = seen.get(key, 0) + 1
        keys.append(key if seen[key] == 1 else f"{key}-{seen[key]}")
    return keys


def group_key(category: str, label: str, birth: str, grows: bool) -> str:
    """The key of rows that are told as one, by what they have in common."""
    return f"g{_digest((category, label, birth, grows))}"


def _digest(parts: object) -> str:
    text = json.dumps(parts)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
