#!/usr/bin/env python3
"""Measures snapviz against ``pickle.load``, and the time that its commands take.

    python benchmarks/speed.py [--repeat 5] [--json FILE] [--check] [--synthetic PICKLE] [--scratch DIR]

Prints a table in markdown. Everything is run in a process of its own, the contenders in turn, so that a
slow moment of the machine meets all of them. benchmarks/README.md says what each row means. Needs Linux
(/proc) and, for the run of 10 million events, 8 GiB of memory and 1.2 GB of disk; ``--large 0`` leaves
it out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from processes import Measured, command, contend, machine
from tables import Row, Section, Target, report

MULTIPLY = Path(__file__).with_name("multiply.py")
RANK = "rank00000.pickle"


_CACHED_AFTER_S = 2.2
"""A file younger than 2 s is not cached: it could still change without a trace."""


@dataclass(frozen=True)
class Bench:
    """Where things lie and how often they run."""

    scratch: Path
    repeat: int

    @property
    def environment(self) -> dict[str, str]:
        """Caches of our own, so that what earlier runs left behind does not count."""
        return {"NUMBA_CACHE_DIR": str(self.scratch / "kernels"), "SNAPVIZ_CACHE_DIR": str(self.scratch / "cache")}

    def in_turn(self, names: list[str], path: Path) -> dict[str, Measured]:
        """Contenders by name, each run as often, one after another.

        Each turn begins with the next of them: in a virtual machine the first touch of a page waits for
        the host, and whoever follows a process that freed a gigabyte has more or less of that to wait for.
        """
        results = {name: Measured() for name in names}
        for turn in range(self.repeat):
            first = turn % len(names)
            for name in [*names[first:], *names[:first]]:
                _say(f"{path.parent.name} {turn + 1}/{self.repeat}: {name}")
                results[name].add(contend(name, path, self.environment))
        return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000, help="of the run that is compared")
    parser.add_argument("--large", type=int, default=10_000_000, help="events of the large run (0: none)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--synthetic", type=Path, metavar="PICKLE", help="a file to compare on as well")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured here too")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="keep the runs here, and use those that are there")
    args = parser.parse_args()
    if args.scratch:
        return measure(args, args.scratch.absolute())
    with tempfile.TemporaryDirectory(prefix="snapviz-speed-") as folder:
        return measure(args, Path(folder))


def measure(args: argparse.Namespace, scratch: Path) -> int:
    """The whole run; 1 where ``--check`` is given and a target is missed."""
    with tempfile.TemporaryDirectory(prefix="caches-", dir=_made(scratch)) as caches:
        bench = Bench(Path(caches), args.repeat)
        sections = [start(bench)]
        sections.append(compare(bench, made_run(scratch, args.events), own=True))
        if args.synthetic:
            sections.append(compare(bench, args.synthetic, own=False))
        if args.large:
            sections.append(large(bench, made_run(scratch, args.large)))
    on = machine()
    print(report(on, args.repeat, sections))
    targets = [target for section in sections for target in section.targets]
    if args.json:
        args.json.write_text(json.dumps(_document(on, sections), indent=1) + "\n", encoding="utf-8")
    missed = [target.words for target in targets if not target.met]
    if missed:
        _say(f"missed: {'; '.join(missed)}")
    return int(args.check and bool(missed))


def start(bench: Bench) -> Section:
    """What it takes to begin: compiling once, loading kernels, help, and a small diff."""
    _say("compiling")
    environment = bench.environment
    rows = {name: Measured() for name in ("compiled", "loaded", "help", "diff", "diff again")}
    rows["compiled"].add(contend("kernels", None, environment))
    pair = ["diff", "sample_snapshots/main", "sample_snapshots/pr"]
    command(pair, environment)  # bytecode and the system's file cache
    for turn in range(bench.repeat):
        _say(f"starting {turn + 1}/{bench.repeat}")
        rows["loaded"].add(contend("kernels", None, environment))
        rows["help"].add(command(["--help"], environment))
        with tempfile.TemporaryDirectory(dir=bench.scratch) as empty:
            rows["diff"].add(command(pair, environment | {"SNAPVIZ_CACHE_DIR": empty}))
            rows["diff again"].add(command(pair, environment | {"SNAPVIZ_CACHE_DIR": empty}))
    targets = [
        Target("`snapviz --help`, s", rows["help"].median_s, 0.2),
        Target("diff of the small pair with kernels cached, s", rows["diff"].median_s, 1.0),
    ]
    return Section("Starting", _starting_rows(rows), targets)


def _starting_rows(rows: dict[str, Measured]) -> list[Row]:
    parts = [
        Row(f"{part}: {words}", _part(rows[name], part))
        for name, words in (("compiled", "compiled, once per installation"), ("loaded", "loaded, in each process"))
        for part in ("decoder", "replay")
    ]
    return [
        *parts,
        Row("`snapviz --help`, whole process", rows["help"]),
        Row("`snapviz diff` of the small pair, whole process, nothing cached but kernels", rows["diff"]),
        Row("the same again", rows["diff again"]),
    ]


def _part(measured: Measured, part: str) -> Measured:
    found = [each[part] for each in measured.found]
    return Measured([each["seconds"] for each in found], [each["cpu_seconds"] for each in found])


def compare(bench: Bench, path: Path, own: bool) -> Section:
    """snapviz against ``pickle.load`` on one file; targets are for the multiplied recording, ``own``."""
    path.read_bytes()  # into the system's cache, for all alike
    names = ["pickle", "pickle-gc-off", "open", "peaks", "bare", "kernels"]
    found = bench.in_turn(names, path)
    _require_same_work(found)
    found["reopen"] = reopened(bench, path)
    base = found["pickle"]
    rows = [
        Row("`pickle.load`", base, base),
        Row("`pickle.load`, garbage collector off", found["pickle-gc-off"], base),
        Row("open to columns", found["open"], base),
        Row("open, replay, peak table", found["peaks"], base),
        Row("reopen from cache, columns and replay", found["reopen"], base),
        Row("the same, whole process", Measured(found["reopen"].wall_seconds), base),
        Row("an idle process for `pickle.load`", Measured(private_bytes=found["bare"].private_bytes), base),
        Row("an idle process of snapviz, kernels loaded", Measured(private_bytes=found["kernels"].private_bytes), base),
    ]
    return Section(_title(path, found["peaks"]), rows, _targets(found) if own else [])


def _targets(found: dict[str, Measured]) -> list[Target]:
    base, peaks = found["pickle"], found["peaks"]
    return [
        Target("open, times faster than `pickle.load`", base.median_s / found["open"].median_s, 10, at_least=True),
        Target(
            "open, replay, peak table, times faster than `pickle.load`",
            base.median_s / peaks.median_s,
            5,
            at_least=True,
        ),
        Target("the same, its peak memory as a share of `pickle.load`'s", peaks.peak_bytes / base.peak_bytes, 1 / 3),
        Target("reopen from cache, s", found["reopen"].median_s, 0.2),
    ]


def reopened(bench: Bench, path: Path) -> Measured:
    """Opening a file again that is in the cache."""
    stat = path.stat()
    time.sleep(max(0.0, max(stat.st_mtime, stat.st_ctime) + _CACHED_AFTER_S - time.time()))
    contend("reopen", path, bench.environment)
    again = bench.in_turn(["reopen"], path)["reopen"]
    if not all(found["from_cache"] for found in again.found):
        raise RuntimeError(f"{path} was decoded again, and not taken from the cache")
    return again


def large(bench: Bench, path: Path) -> Section:
    """The large run: what is asked is whether it fits."""
    measured = bench.in_turn(["peaks"], path)["peaks"]
    target = Target("10M events: open, replay, peak table, GiB", measured.peak_bytes / 2**30, 4)
    return Section(_title(path, measured), [Row("open, replay, peak table", measured)], [target])


def made_run(scratch: Path, events: int) -> Path:
    """The sample's steady step multiplied, by a process whose memory is gone afterwards."""
    folder = scratch / f"multiplied-{events}"
    if not (folder / "run.json").exists():
        _say(f"making {events:,} events")
        done = subprocess.run(
            [sys.executable, str(MULTIPLY), str(folder), "--events", str(events)],
            check=True,
            capture_output=True,
            text=True,
        )
        _say(done.stdout.strip())
    return folder / RANK


def _require_same_work(found: dict[str, Measured]) -> None:
    counts = {one["events"] for measured in found.values() for one in measured.found if "events" in one}
    assert len(counts) == 1, f"contenders disagree on the number of events: {counts}"


def _title(path: Path, peaks: Measured) -> str:
    found = peaks.found[0]
    phases = f", {found['phases']:,} phases" if found["phases"] else ""
    exact = "exact" if found["exact"] else "not exact"
    where = "multiplied recording" if path.name == RANK else path.name
    size = f"{path.stat().st_size / 1e6:,.0f} MB"
    return f"{found['events']:,} events, {size} ({where}{phases}; its replay is {exact})"


def _document(on: dict[str, str | int], sections: list[Section]) -> dict[str, Any]:
    return {"machine": on, "sections": [_section(section) for section in sections]}


def _section(section: Section) -> dict[str, Any]:
    rows = [{"what": row.what} | asdict(row.measured) for row in section.rows]
    targets = [asdict(target) | {"met": target.met} for target in section.targets]
    return {"title": section.title, "rows": rows, "targets": targets}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
