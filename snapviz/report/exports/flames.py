"""What is allocated at a moment as a flame graph: for speedscope.app, and as collapsed stacks.

Speedscope: https://www.speedscope.app/file-format-schema.json, a "sampled" profile whose weights are bytes.
Collapsed: a line ``outermost;…;innermost bytes`` for each stack, as flamegraph.pl and most viewers read it.
Weights sum to the allocated bytes, exactly: in blocks, as torch counts them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from snapviz.analyze.facts import Facts
from snapviz.analyze.livestacks import LiveStacks
from snapviz.report.layout import clean
from snapviz.snapshot.columns import ABSENT

__all__ = ["Profile", "write_collapsed", "write_speedscope"]

_INNERMOST, _OUTERMOST = 150, 50
"""Frames of a stack that are shown, as in the reports: a recursion can have made it as long as the file."""

_NO_STACK = "(no stack)"


@dataclass(frozen=True)
class Profile:
    """One rank at one moment."""

    facts: Facts
    moment: str  # in words: at the peak of the run
    live: LiveStacks

    @property
    def title(self) -> str:
        """``rank 0 at the peak of the run``, with what its figures cannot say."""
        trust = self.live.when.trust
        unsure = [] if trust.exact else ["not exact"]
        unsure += [] if trust.whole else ["at least"]
        told = f" ({', '.join(unsure)})" if unsure else ""
        return f"rank {self.facts.rank} {clean(self.moment)}{told}"


def write_collapsed(profiles: Iterable[Profile], several: bool, stream: IO[str]) -> None:
    """Writes collapsed stacks. ``several``: each begins with its rank, for there is more than one."""
    for profile in profiles:
        facts, live = profile.facts, profile.live
        texts: dict[int, str] = {}
        for stack, root, size in zip(live.stack.tolist(), live.root.tolist(), live.block_bytes.tolist(), strict=True):
            if stack not in texts:
                lines = facts.stack_lines(stack)[::-1] or (_NO_STACK,)
                texts[stack] = ";".join(map(_frame_text, lines))
            roots = [f"rank {facts.rank}"] * several + [_frame_text(live.roots[root])] * bool(live.roots[root])
            stream.write(f"{';'.join((*roots, texts[stack]))} {size}\n")


def _frame_text(text: str) -> str:
    """A frame that can stand between two semicolons, and is not taken for more of them."""
    return clean(text).replace(";", ":")


def write_speedscope(profiles: Iterable[Profile], name: str, exporter: str, stream: IO[str]) -> None:
    """Writes a file of speedscope's own format: a profile for each of these, and one table of frames."""
    frames = _FrameTable()
    head = {"$schema": "https://www.speedscope.app/file-format-schema.json", "exporter": exporter}
    stream.write(json.dumps(head | {"name": clean(name), "activeProfileIndex": 0})[:-1] + ', "profiles": [')
    for number, profile in enumerate(profiles):
        stream.write(",\n" if number else "\n")
        _write_profile(profile, frames, stream)
    stream.write('],\n"shared": {"frames": [')
    for number, frame in enumerate(frames.table):
        stream.write(f"{',' if number else ''}\n{frame}")
    stream.write("]}}\n")


def _write_profile(profile: Profile, frames: _FrameTable, stream: IO[str]) -> None:
    live = profile.live
    rows = zip(live.stack.tolist(), live.root.tolist(), live.block_bytes.tolist(), strict=True)
    # neighbours share what they can, so that the first view, in the order of the file, is a flame graph already
    samples = sorted((frames.sample(profile.facts, stack, live.roots[root]), size) for stack, root, size in rows)
    head: dict[str, Any] = {"type": "sampled", "name": profile.title, "unit": "bytes", "startValue": 0}
    stream.write(json.dumps(head | {"endValue": live.total_bytes, "weights": [size for _, size in samples]})[:-1])
    stream.write(', "samples": [' + ",".join(str(sample) for sample, _ in samples) + "]}")


class _FrameTable:
    """Frames of all ranks as JSON, each once, in the order in which they are met."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}

    @property
    def table(self) -> Iterable[str]:
        return self._index

    def sample(self, facts: Facts, stack: int, root: str) -> list[int]:
        """A stack as speedscope has it: from its root to its innermost frame."""
        roots = [self._of({"name": clean(root)})] if root else []
        return roots + [self._of(frame) for frame in _frames(facts, stack)]

    def _of(self, frame: dict[str, Any]) -> int:
        return self._index.setdefault(json.dumps(frame), len(self._index))


def _frames(facts: Facts, stack: int) -> Iterator[dict[str, Any]]:
    """The frames of a stack, outermost first, without the middle of one that is very deep."""
    frames = facts.frames.of(stack)[::-1].tolist()
    if not frames:
        yield {"name": _NO_STACK}
        return
    left_out = max(0, len(frames) - _INNERMOST - _OUTERMOST)
    for frame in frames[:_OUTERMOST] if left_out else frames:
        yield _frame(facts, frame)
    if left_out:
        yield {"name": f"… {left_out:,} frames …"}
        for frame in frames[-_INNERMOST:]:
            yield _frame(facts, frame)


def _frame(facts: Facts, frame: int) -> dict[str, Any]:
    table, strings = facts.columns.frames, facts.columns.strings
    line = int(table.line[frame])
    named = {"name": clean(strings.text(int(table.name[frame]), 500)) or "(unnamed)"}
    file = clean(strings.text(int(table.filename[frame]), 500))
    return named | ({"file": file} if file else {}) | ({"line": line} if line != ABSENT else {})
