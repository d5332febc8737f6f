"""The dashboard over the runs that come with snapviz: ``python app.py`` is ``snapviz serve sample_snapshots``."""

import sys
from pathlib import Path

from snapviz.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main(["serve", str(Path(__file__).parent / "sample_snapshots"), *sys.argv[1:]]))
