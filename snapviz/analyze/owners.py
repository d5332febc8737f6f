"""Owners under names that are the same whatever a module was wrapped in."""

from __future__ import annotations

__all__ = ["normal_owner"]

_WRAPPERS = frozenset(
    {"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_forward_module"},
)
"""What torch.compile, activation checkpointing, FSDP1 and Lightning put into a parameter's name."""

_DDP = "module"
"""What DDP puts before it: only there, since a model may well have a module of that name."""


def normal_owner(name: str) -> str:
    """``_orig_mod.layers.0.w`` → ``layers.0.w``; a name that is nothing else keeps it."""
    parts = [part for part in name.split(".") if part not in _WRAPPERS]
    while len(parts) > 1 and parts[0] == _DDP:
        parts = parts[1:]
    return ".".join(parts) or name
