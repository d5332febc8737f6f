"""How much of what is live at the peak is explained: ``python benchmarks/explained.py PATH...`` prints a table.

Each path is a run, or a folder of runs or of snapshots. A share is of the allocated bytes at the peak of training,
where phases tell of one, else at the peak of the recording.
"""

from __future__ import annotations

import sys
from pathlib import Path

from snapviz.analyze.peak import Ask, peak
from snapviz.analyze.run import load_run
from snapviz.errors import InputError, UsageError
from snapviz.schema import RankPeak


def found(path: Path) -> list[Path]:
    """The runs and the snapshot files at a path."""
    if path.is_file() or (path / "run.json").is_file():
        return [path]
    inside = sorted(one for one in path.iterdir() if one.suffix not in (".md", ".json", ".py"))
    return [run for one in inside for run in found(one)] if inside else []


def at_the_peak(path: Path) -> list[RankPeak]:
    run = load_run(path, cache=False)
    try:
        return list(peak(run, Ask(at="phase:train", by="category")).ranks)
    except UsageError:
        return list(peak(run, Ask(by="category")).ranks)


def row(name: str, rank: RankPeak) -> str:
    total, known = rank.measures.allocated_bytes, rank.known
    parts = (total - known.unknown_bytes, known.recorded_bytes, known.annotated_bytes, known.inferred_bytes)
    shares = [f"{100 * part / total:.2f}" if total else "–" for part in (*parts, known.owned_bytes)]
    cut = "" if rank.moment.trust.whole else " (cut)"
    return f"| {name}{cut} | {rank.rank} | {total:,} | {' | '.join(shares)} |"


def main() -> int:
    print("| run | rank | allocated bytes | category, % | recorded | annotated | inferred | owner or module, % |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for root in map(Path, sys.argv[1:]):
        for path in found(root):
            name = str(path.relative_to(root)) if path != root else root.name
            try:
                for rank in at_the_peak(path):
                    print(row(name, rank))
            except InputError as error:
                print(f"{path}: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
