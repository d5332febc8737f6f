"""What takes no part in matching: frames and parts of names that a user masks.

A pull request that puts a wrapper around a call puts a frame into every stack below it, and a wrapper
around a module a part into every name below that. Either would make all of its memory look new.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from snapviz.errors import UsageError

__all__ = ["Masks"]


@dataclass(frozen=True)
class Masks:
    """Regular expressions, found anywhere in a frame's ``function (file)``, or all of a part of a name."""

    expressions: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def of(cls, patterns: tuple[str, ...]) -> Masks:
        """The masks of these texts. Raises ``UsageError`` for one that is no regular expression, or matches all."""
        return cls(tuple(_compiled(pattern) for pattern in dict.fromkeys(patterns)))

    @property
    def patterns(self) -> tuple[str, ...]:
        """Their texts."""
        return tuple(one.pattern for one in self.expressions)

    def frame(self, *texts: str) -> bool:
        """Whether a frame is masked by any of the texts it has: on each side, and as it is shown."""
        return any(one.search(text) for one in self.expressions for text in texts)

    def name(self, name: str) -> str:
        """A name without its masked parts; one that is nothing else keeps them."""
        if not self.expressions:
            return name
        left = [part for part in name.split(".") if not any(one.fullmatch(part) for one in self.expressions)]
        return ".".join(left) or name


def _compiled(pattern: object) -> re.Pattern[str]:
    if not isinstance(pattern, str):
        raise UsageError(f"--mask takes a regular expression as text, not a {type(pattern).__name__}")
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"--mask '{pattern}' is no regular expression: {error}") from None
    if compiled.search(""):
        raise UsageError(
            f"--mask '{pattern}' matches everything, for it matches an empty text: name what it is to match"
        )
    return compiled
