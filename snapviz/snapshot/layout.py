"""The vocabulary's tables as arrays for numba: what a key of a kind of dict means, by string id.

Legend: K row kinds (vocabulary.ROW_KINDS), W known strings. Keys beyond W are unknown to every kind.
"""

from __future__ import annotations

import numpy as np

from snapviz.snapshot import vocabulary as v
from snapviz.snapshot.rules import ACTION_CODES, BLOCK_STATE_CODES, STAGE_CODES

__all__ = ["CODES", "COLUMN", "FORMAT", "RANK"]

COLUMN = np.full((v.ROW_KINDS, v.N_KNOWN), -1, np.int64)
"""[K, W] column of a key's value; -1 where it has none."""
FORMAT = np.full((v.ROW_KINDS, v.N_KNOWN), -1, np.int64)
"""[K, W] how the value is read (vocabulary.F_*); -1 where the key is unknown."""
RANK = np.full(v.N_KNOWN, len(v.TELLING), np.int64)
"""[W] place of a key among those that tell a dict's kind; the lowest in a dict decides."""
CODES = np.full((3, v.N_KNOWN), -1, np.int64)
"""[3, W] code of a string as an action, a block state, an annotation stage; -1 where it is none."""

for _kind, _columns in v.COLUMNS.items():
    for _at, (_key, _, _format) in enumerate(_columns):
        COLUMN[_kind, v.KNOWN_STRINGS[_key]] = _at
        FORMAT[_kind, v.KNOWN_STRINGS[_key]] = _format
for _kind, _beside in v.BESIDE.items():
    for _key, _format in _beside.items():
        FORMAT[_kind, v.KNOWN_STRINGS[_key]] = _format
for _at, _key in enumerate(v.TELLING):
    RANK[v.KNOWN_STRINGS[_key]] = _at
for _at, _codes in enumerate((ACTION_CODES, BLOCK_STATE_CODES, STAGE_CODES)):
    for _string, _code in _codes.items():
        CODES[_at, v.KNOWN_STRINGS[_string]] = _code
