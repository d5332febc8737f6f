"""``python -m snapviz``: the same as ``snapviz``."""

from __future__ import annotations

import sys

from snapviz.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
