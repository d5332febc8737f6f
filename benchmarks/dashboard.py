#!/usr/bin/env python3
"""Measures the dashboard in a browser: what each page, zoom and click costs the server and how long somebody waits.

    python benchmarks/dashboard.py [--events 2000000] [--repeat 3] [--json FILE] [--check] [--scratch DIR]

Prints tables in markdown. Two runs of that many events are compared, by a server in a process of its own; a chromium
(SNAPVIZ_CHROMIUM, or the system's) looks at every page. benchmarks/README.md says what each column means. Needs Linux,
chromium, playwright and 4 GiB of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from processes import ROOT, _status, _with, machine
from speed import _made, _say, made_run
from tables import Target, _table, _targets, _time

from snapviz.app.state import PAGES, State
from snapviz.units import format_bytes

SERVER = Path(__file__).with_name("dashboard_server.py")
RUNS = ("main", "pr")

_CHROMIUM = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")
_WATCH = """
(() => {
  const ask = window.fetch.bind(window);
  const seen = window.seen = { open: 0, last: 0 };
  const note = () => { seen.last = performance.now(); };
  window.fetch = (...given) => {
    seen.open += 1;
    const answer = ask(...given);
    const done = () => { seen.open -= 1; note(); };
    answer.then(done, done);
    return answer;
  };
  new MutationObserver(note).observe(document, { subtree: true, childList: true });
})();
"""
_STILL = """
() => window.seen.last > 0 && window.seen.open === 0 && performance.now() - window.seen.last > 600
  && document.querySelector("#page h1") && !document.querySelector(".dash-graph--pending")
"""
_MIDDLE = """
selector => {
  const plot = document.querySelector(selector);
  plot.scrollIntoView({ block: "center" });
  const box = plot.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height * 0.4];
}
"""


@dataclass
class Step:
    """What was done, and what it took."""

    page: str
    what: str
    shown_s: float  # until nothing was drawn any more, in the browser
    requests: list[dict[str, Any]]

    @property
    def longest_s(self) -> float:
        return max((one["seconds"] for one in self.requests), default=0.0)

    @property
    def whole_s(self) -> float:
        return sum(one["seconds"] for one in self.requests)

    @property
    def answered_bytes(self) -> int:
        return sum(one["bytes"] for one in self.requests)


@dataclass
class Visit:
    """A page of a browser, and the log of the server that it asks."""

    page: Any
    url: str
    log: Path
    steps: list[Step]

    def do(self, name: str, what: str, act: Callable[[], None], fresh: bool = False) -> None:
        """Does something, waits until all is drawn, and notes it. ``fresh``: the page's clock begins with it."""
        read = self.log.stat().st_size
        before = 0.0 if fresh else float(self.page.evaluate("() => window.seen.last = performance.now()"))
        act()
        self.page.wait_for_function(_STILL, timeout=300_000)
        shown = (float(self.page.evaluate("() => window.seen.last")) - before) / 1e3
        with self.log.open(encoding="utf-8") as lines:
            lines.seek(read)
            found = [json.loads(line) for line in lines]
        asked = [one for one in found if not one["what"].startswith("/")]
        self.steps.append(Step(name, what, shown, asked))

    def open(self, name: str, words: str) -> None:
        state = State(page=name, base=RUNS[0], head=RUNS[1])
        self.do(name, words, lambda: self.page.goto(self.url + state.url()), fresh=True)

    def press(self, name: str, key: str, words: str, chart: str) -> None:
        self.page.mouse.move(*self.page.evaluate(_MIDDLE, f"{chart} .js-plotly-plot"))
        self.do(name, words, lambda: self.page.keyboard.press(key))

    def click(self, name: str, selector: str, words: str) -> None:
        if self.page.locator(selector).count():
            place = self.page.evaluate(_MIDDLE, selector)
            self.page.mouse.move(*place)
            self.do(name, words, lambda: self.page.mouse.click(*place))


def everything(visit: Visit, words: str) -> None:
    """Every page, and what is done most on it."""
    for name in PAGES:
        visit.open(name, words)
        if name == "compare":
            visit.click(name, ".ag-row", "a row")
        if name == "timeline":
            for key, what in (("w", "zoom in"), ("w", "zoom in again"), ("d", "pan"), ("f", "fit")):
                visit.press(name, key, what, "#timeline-chart")
            visit.click(name, "#timeline-chart .nsewdrag", "a band")
        if name == "live":
            visit.click(name, "#live-icicle .slice:nth-child(2)", "a node")  # the first is all of it, which is shown
        if name == "ranks":
            visit.click(name, "#ranks-grid .nsewdrag", "a rank")
        if name == "segments":
            visit.press(name, "w", "zoom in", "#seg-curve-head")
            visit.click(name, "#seg-curve-head .nsewdrag", "a moment")
            visit.click(name, "#seg-map-head .bars .point path", "a block")


@contextmanager
def served(root: Path, cache: Path, log: Path) -> Iterator[tuple[str, int]]:
    """A server; its URL and its process."""
    command = [sys.executable, str(SERVER), str(root), str(cache), str(log)]
    environment = _with({"SNAPVIZ_CACHE_DIR": str(cache / "decoded")})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
        finally:
            process.kill()


def measure(scratch: Path, events: int, repeat: int) -> dict[str, Any]:
    """Everything: cold first, then again and again in the worker that knows it all."""
    from playwright.sync_api import sync_playwright

    found: dict[str, Any] = {"steps": []}
    place = os.environ.get("SNAPVIZ_CHROMIUM") or shutil.which("chromium") or "chromium"
    with (
        tempfile.TemporaryDirectory(prefix="dashboard-", dir=_made(scratch)) as folder,
        sync_playwright() as playwright,
    ):
        root, cache, log = _pair(made_run(scratch, events).parent, Path(folder))
        chromium = playwright.chromium.launch(executable_path=place, args=list(_CHROMIUM))
        for turn in range(2):
            with served(root, cache, log) as (url, process):
                words = ("nothing known", "cold worker")[turn]
                visit = Visit(_tab(chromium), url, log, [])
                _say(words)
                if turn == 0:
                    visit.open("compare", "nothing known")
                else:
                    everything(visit, "cold")
                    for again in range(repeat):
                        _say(f"warm {again + 1}/{repeat}")
                        everything(visit, "warm")
                    found["worker_bytes"] = _status(process)["VmHWM"]
                    found["private_bytes"] = _status(process)["RssAnon"]
                found["steps"] += visit.steps
        chromium.close()
    return found


def _tab(chromium: Any) -> Any:
    page = chromium.new_context(viewport={"width": 1400, "height": 900}).new_page()
    page.add_init_script(_WATCH)
    return page


def _pair(run: Path, folder: Path) -> tuple[Path, Path, Path]:
    """A root with the run twice, under two names; a cache; a log."""
    for run_id in RUNS:
        _made(folder / "runs" / run_id)
        for path in run.iterdir():
            shutil.copy2(path, folder / "runs" / run_id / path.name)
    log = folder / "log"
    log.touch()
    return folder / "runs", _made(folder / "cache"), log


def report(on: dict[str, Any], found: dict[str, Any], events: int, repeat: int) -> tuple[str, list[Target]]:
    """The tables, and the targets."""
    rows: dict[tuple[str, str], list[Step]] = {}
    for step in found["steps"]:
        rows.setdefault((step.page, step.what), []).append(step)
    lines = [
        [
            page,
            what,
            _time(median(step.longest_s for step in steps)),
            _time(median(step.whole_s for step in steps)),
            format_bytes(int(median(step.answered_bytes for step in steps))),
            _time(median(step.shown_s for step in steps)),
        ]
        for (page, what), steps in rows.items()
    ]
    acted = {key: steps for key, steps in rows.items() if key[1] not in ("warm", "cold", "nothing known")}
    targets = [
        Target("first screen, warm, slowest page, s", _most(rows, "warm", lambda step: step.shown_s), 2),
        Target("zoom or click, slowest answer, ms", _most(acted, None, lambda step: step.longest_s) * 1e3, 300),
        Target("zoom or click, longest answers, KB", _most(acted, None, lambda step: step.answered_bytes) / 1e3, 300),
        Target("worker after all of it, GiB", found["worker_bytes"] / 2**30, 1.5),
    ]
    head = (
        f"snapviz {on['snapviz']} on {on['cpu']}, {on['cores']} cores, {format_bytes(int(on['memory_bytes']))} memory, "
        f"{on['system']}, Python {on['python']}. Two runs of {events:,} events; medians of {repeat}."
    )
    table = _table(["page", "", "slowest answer", "all answers", "bytes", "until drawn"], lines)
    return f"{head}\n\n{table}\n\n{_targets(targets)}", targets


def _most(rows: dict[tuple[str, str], list[Step]], what: str | None, value: Callable[[Step], float]) -> float:
    chosen = [steps for key, steps in rows.items() if what is None or key[1] == what]
    return max((median(map(value, steps)) for steps in chosen), default=0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000, help="of both runs")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every request that was measured here too")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="keep the run here, and use the one that is there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="snapviz-dashboard-") as folder:
        found = measure((args.scratch or Path(folder)).absolute(), args.events, args.repeat)
    text, targets = report(machine(), found, args.events, args.repeat)
    print(text)
    if args.json:
        args.json.write_text(json.dumps(found, default=vars, indent=1) + "\n", encoding="utf-8")
    return int(args.check and not all(target.met for target in targets))


if __name__ == "__main__":
    sys.exit(main())
