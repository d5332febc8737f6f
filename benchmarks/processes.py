"""Runs one thing in a process of its own, and says how long it took and what memory it held."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import snapviz

ROOT = Path(snapviz.__file__).resolve().parents[1]
CONTENDERS = Path(__file__).with_name("contenders.py")

_EVERY_S = 0.005
"""s between two looks at a process: far shorter than any allocation that counts here lives."""

_COUNTER = re.compile(rb"^(RssAnon|RssShmem|VmHWM):\s+(\d+) kB$", re.MULTILINE)


@dataclass
class Measured:
    """One thing, run several times."""

    seconds: list[float] = field(default_factory=list)  # as the process itself took it, or its wall time
    cpu_seconds: list[float] = field(default_factory=list)  # of the processor, in the same time
    wall_seconds: list[float] = field(default_factory=list)  # from before it started until it was gone
    private_bytes: list[int] = field(default_factory=list)  # peak of anonymous and shared memory
    resident_bytes: list[int] = field(default_factory=list)  # peak with the pages of mapped files
    found: list[dict[str, Any]] = field(default_factory=list)

    @property
    def median_s(self) -> float:
        return median(self.seconds)

    @property
    def peak_bytes(self) -> int:
        """The largest of all runs."""
        return max(self.private_bytes)

    def add(self, other: Measured) -> None:
        """Takes over what another one measured."""
        for name, values in vars(self).items():
            values.extend(getattr(other, name))


def contend(name: str, path: Path | None, environment: dict[str, str]) -> Measured:
    """One run of a contender, looked at while it runs. Raises ``RuntimeError`` where it fails."""
    command = [sys.executable, str(CONTENDERS), name, *([str(path)] if path else [])]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_with(environment)) as process:
        private, resident = _watch(process)
        output = process.communicate()[0]
    wall = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    found = json.loads(output)
    return Measured([found["seconds"]], [found["cpu_seconds"]], [wall], [private], [resident], [found])


def command(arguments: list[str], environment: dict[str, str]) -> Measured:
    """One run of the command line, by its wall time. Raises ``CalledProcessError`` where it fails."""
    started, cpu = time.perf_counter(), _cpu_of_children()
    subprocess.run(
        [sys.executable, "-m", "snapviz", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
        env=_with(environment),
    )
    seconds = time.perf_counter() - started
    return Measured([seconds], [_cpu_of_children() - cpu], [seconds])


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _with(environment: dict[str, str]) -> dict[str, str]:
    """Our environment with those changes; bytecode is kept, as it is where a package was installed."""
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return ours | {"PYTHONPATH": str(ROOT)} | environment


def _watch(process: subprocess.Popen[str]) -> tuple[int, int]:
    """Peak bytes while a process runs: private, and resident with mapped files.

    From outside, for ``pickle.load`` never lets another thread of its process run.
    """
    private = resident = 0
    while process.poll() is None:
        now = _status(process.pid)
        private = max(private, now.get("RssAnon", 0) + now.get("RssShmem", 0))
        resident = max(resident, now.get("VmHWM", 0))
        time.sleep(_EVERY_S)
    return private, resident


def _status(pid: int) -> dict[str, int]:
    """The memory counters of a process, in bytes; none once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name.decode(): int(kib) << 10 for name, kib in _COUNTER.findall(status)}


def machine() -> dict[str, str | int]:
    """What it all ran on."""
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next((line.partition(": ")[2] for line in cpu.splitlines() if line.startswith("model name")), "unknown")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
        "snapviz": snapviz.__version__,
    }
