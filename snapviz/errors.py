"""Every error snapviz raises for something a person can cause.

The whole tree, each with the exit code the command line ends with::

    SnapvizError                   2
    ├── UsageError                 2   an argument that cannot be meant
    ├── InputError                 2   something that cannot be read
    │   ├── SnapshotError          2   a snapshot's bytes: where, and what was expected
    │   └── RunError               2   a run directory, its manifest or a rank record
    ├── RecordError                2   a recording that cannot begin as it was asked for
    └── OutputError                2   a result that cannot be written where it was asked for

Exit codes of the command line: 0 within the rules, 1 a rule was hit, 2 usage or unreadable
input, 3 an error inside snapviz itself. A broken rank is never 0.
"""

from __future__ import annotations

__all__ = ["InputError", "OutputError", "RecordError", "RunError", "SnapshotError", "SnapvizError", "UsageError"]


class SnapvizError(Exception):
    """Root of the tree. ``exit_code`` is what the command line ends with."""

    exit_code = 2


class UsageError(SnapvizError):
    """An argument, option or call that cannot be meant."""


class InputError(SnapvizError):
    """Something given to read cannot be read."""


class SnapshotError(InputError):
    """The bytes of a snapshot are not one.

    ``offset`` is the byte offset (``None`` where none applies), ``within`` what it counts in where
    that is not the file itself, ``path`` the file; both are filled in by whoever knows them.
    """

    def __init__(self, message: str, *, offset: int | None = None, path: str | None = None, within: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.path = path
        self.within = within

    def at(self, path: str, within: str = "") -> SnapshotError:
        """The same error, naming the file it was found in, and what the offset counts in."""
        return SnapshotError(self.message, offset=self.offset, path=self.path or path, within=self.within or within)

    def __str__(self) -> str:
        within = f" {self.within}" if self.within else ""
        place = f" (at byte {self.offset:,}{within})" if self.offset is not None else ""
        return f"{self.path}: {self.message}{place}" if self.path else f"{self.message}{place}"


class RunError(InputError):
    """A run directory, its manifest or a rank record cannot be used."""


class RecordError(SnapvizError):
    """A recording cannot begin as it was asked for."""


class OutputError(SnapvizError):
    """A result cannot be written where it was asked for."""
