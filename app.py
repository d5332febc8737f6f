"""The dashboard over the runs that come with snapviz: ``python app.py``."""

from pathlib import Path

from snapviz.app.serving import serve

if __name__ == "__main__":
    serve(str(Path(__file__).parent / "sample_snapshots"))
