"""Where a report goes: stdout, or a file that takes its place in one step."""

from __future__ import annotations

import contextlib
import io
import os
import stat as modes
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from snapviz.errors import OutputError

__all__ = ["check_file", "let_go", "stdout", "write_bytes", "write_file", "write_stream"]

_KINDS = {
    modes.S_IFDIR: "is a folder",
    modes.S_IFIFO: "is a pipe and not a file",
    modes.S_IFSOCK: "is a socket and not a file",
    modes.S_IFCHR: "is a device and not a file",
    modes.S_IFBLK: "is a device and not a file",
}


@contextlib.contextmanager
def stdout() -> Iterator[IO[str]]:
    """Standard output, and all that was written to it out of the door. Raises ``OutputError`` where it is
    closed or takes no more; ``BrokenPipeError`` where whoever reads it has enough."""
    stream: Any = sys.stdout
    if stream is None or stream.closed:
        raise OutputError("cannot write the report: standard output is closed")
    try:
        yield stream
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        let_go(stream)
        raise OutputError(f"cannot write the report: {error.strerror or error}") from None


def let_go(stream: Any) -> None:
    """Sends what a stream still holds nowhere: the interpreter must not fail over it when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, stream.fileno())
        os.close(devnull)
        stream.flush()


def check_file(path: Path, force: bool) -> None:
    """Raises ``OutputError`` where a report could not be written to a path."""
    target, mode = _look(path)
    if mode is not None and not force:
        raise OutputError(f"{path}: exists already (-f overwrites it)")
    if not target.parent.is_dir():
        raise OutputError(f"{path}: there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: no permission to write in {target.parent}")
    if mode is not None and not os.access(target, os.W_OK):
        raise OutputError(f"{path}: no permission to overwrite it")


def write_file(path: Path, force: bool, write: Callable[[IO[str]], object]) -> None:
    """Writes a file with ``write``, or the one that a link leads to. Raises ``OutputError``."""

    def encoded(stream: IO[bytes]) -> None:
        text = io.TextIOWrapper(stream, encoding="utf-8")
        write(text)
        # its end must not close the file under it
        text.detach()

    write_stream(path, force, encoded)


def write_bytes(path: Path, force: bool, content: bytes) -> None:
    """The same with bytes."""
    write_stream(path, force, lambda stream: stream.write(content))


def write_stream(path: Path, force: bool, write: Callable[[IO[bytes]], object]) -> None:
    """The same with whatever ``write`` writes, as it comes."""
    target, mode = _look(path)
    try:
        # beside the target and renamed: a reader never sees half a report, and a failure leaves the old
        with tempfile.NamedTemporaryFile("wb", dir=target.parent, delete=False) as stream:
            try:
                write(stream)
                stream.flush()
                _take_place(Path(stream.name), target, mode, force)
            except BaseException:
                Path(stream.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None


def _look(path: Path) -> tuple[Path, int | None]:
    """The file that a path leads to and its permissions; none where there is no file yet.

    Raises ``OutputError`` for what is no regular file: a device or a pipe would be replaced by one.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise OutputError(f"{path}: is a link to {path.readlink()}, which does not exist") from None
        return path, None
    except (OSError, ValueError) as error:
        raise OutputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    kind = modes.S_IFMT(status.st_mode)
    if kind != modes.S_IFREG:
        raise OutputError(f"{path}: {_KINDS.get(kind, 'is not a regular file')}")
    return path.resolve(), modes.S_IMODE(status.st_mode)


def _take_place(written: Path, target: Path, mode: int | None, force: bool) -> None:
    if mode is None:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    written.chmod(mode)
    if force:
        written.replace(target)
        return
    # a link fails where the name exists, also where someone made it since it was checked
    try:
        os.link(written, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        written.replace(target)
    else:
        written.unlink()
