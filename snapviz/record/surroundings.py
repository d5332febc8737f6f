"""What is true around a recording: which rank this is, the checkout, versions and settings."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import snapviz
from snapviz.schema import GitState

__all__ = ["Place", "git_state", "launched_job", "package_versions", "process_group"]

_PACKAGES = (
    "accelerate",
    "apex",
    "bitsandbytes",
    "deepspeed",
    "flash-attn",
    "lightning",
    "lightning-thunder",
    "litgpt",
    "megatron-core",
    "peft",
    "torchao",
    "torchtitan",
    "transformer-engine",
    "transformers",
    "triton",
)
"""What can change memory from one version to the next."""

_GIT_TIMEOUT_S = 5.0
"""A checkout on a slow disk must not hold up a job."""


@dataclass(frozen=True)
class Place:
    """Where a process stands in its job."""

    rank: int
    world_size: int
    is_fake: bool = False  # whether the other ranks are torch's fake process group


def process_group() -> Place | None:
    """What torch.distributed says while there is a process group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    fake = str(distributed.get_backend()) == "fake"
    return Place(int(distributed.get_rank()), int(distributed.get_world_size()), fake)


_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Where torchrun, Open MPI, MPICH and srun say which process of how many one is. A batch script of Slurm's that
starts no step is alone, whatever the job asked for."""


def launched_job() -> Place:
    """What started the process says; a job of one where nothing does."""
    for rank, size in _LAUNCHERS:
        if os.environ.get(rank, "").isdecimal() and os.environ.get(size, "").isdecimal():
            return Place(_number(rank, 0), max(1, _number(size, 1)))
    return Place(_number("RANK", 0), 1)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else default


def git_state(where: Path) -> GitState | None:
    """The checkout a path lies in; None where it is in none, or git is not there or does not answer."""
    commit = _git(where, "rev-parse", "HEAD")
    if not commit:
        return None
    changed = _git(where, "status", "--porcelain", "--untracked-files=no")
    return GitState(
        commit=commit,
        branch=_git(where, "symbolic-ref", "--short", "--quiet", "HEAD") or None,
        dirty=None if changed is None else bool(changed),
    )


def _git(where: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(where), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def package_versions(torch: Any = None) -> dict[str, str]:
    """Package → version, of those that are installed and matter, and of what torch was built with."""
    found = {"python": platform.python_version(), "snapviz": snapviz.__version__}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    cuda = getattr(getattr(torch, "version", None), "cuda", None)
    if cuda:
        found["cuda"] = str(cuda)
        found |= _nccl(torch)
    return dict(sorted(found.items()))


def _nccl(torch: Any) -> dict[str, str]:
    try:
        return {"nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    except Exception:  # a build without it
        return {}
