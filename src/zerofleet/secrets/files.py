"""Files that hold secrets, and values that follow them when they change."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import quote, unquote_to_bytes

from zerofleet.errors import ConfigError

_Value = TypeVar("_Value")
_MOST_BYTES = 16 << 20

_KEY = "password_file"


def read_secret(path: Path) -> str:
    """The first line of a file.

    Raises:
        ConfigError: it cannot be read or says nothing; what it says is never in the message.
    """
    lines = read_lines(path)
    if not lines:
        raise ConfigError(f"the file {path} is empty: its first line must be the secret")
    return lines[0]


def read_lines(path: Path) -> list[str]:
    """The lines of a small file that say something.

    Raises:
        ConfigError: it cannot be read, or is no text.
    """
    text = _decoded(read_bytes(path))
    if text is None:
        raise ConfigError(f"the file {path} is not UTF-8 text")
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_bytes(path: Path) -> bytes:
    """The content of a small file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise ConfigError(f"cannot read {str(path)!r}: {error}") from error


def _decoded(content: bytes) -> str | None:
    # No error leaves this function: a UnicodeDecodeError holds what could not be decoded.
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


class Followed(Generic[_Value]):
    """A value made of files, made again when one of them was replaced.

    New files that are no good are said so in the log, once, and the value stays: a rotation that
    went wrong must not end what works.

    Args:
        paths: the files; one may be missing.
        make: reads them.

    Raises:
        ConfigError: from ``make``, the first time.
    """

    def __init__(self, paths: Sequence[Path], make: Callable[[], _Value]) -> None:
        self._paths = tuple(paths)
        self._make = make
        self._seen = _marks(self._paths)
        self._value = make()

    def get(self) -> _Value:
        """The value of this moment; it costs a look at each file's date."""
        # Looked at before they are read: a change in between is seen the next time.
        marks = _marks(self._paths)
        if marks != self._seen:
            self._seen = marks
            import structlog  # here: it takes as long to import as all else that clients need

            log = structlog.get_logger()
            where = str(self._paths[0].parent)
            try:
                self._value = self._make()
            except ConfigError as error:
                log.warning("changed_files_refused", where=where, reason=str(error))
            else:
                log.info("changed_files_taken", where=where)
        return self._value


def _marks(paths: Sequence[Path]) -> tuple[tuple[int, int, int] | None, ...]:
    """What is different after a file was written or replaced, links followed."""
    return tuple(_mark(path) for path in paths)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def with_password_file(url: str, path: Path | None) -> str:
    """The URL with the file's name in it, in place of one named before; unchanged without one."""
    if path is None:
        return url
    bare, _ = split_password_file(url)
    return f"{bare}{'&' if '?' in bare else '?'}{_KEY}={quote(os.fsencode(path), safe='/')}"


def split_password_file(url: str) -> tuple[str, Path | None]:
    """The URL as others understand it, and apart from it the file, if one is named."""
    # Not by urllib: what it puts together again is not always what it took apart.
    bare, mark, query = url.partition("?")
    options = query.split("&") if mark else []
    given = (each.partition("=")[2] for each in options if each.startswith(f"{_KEY}="))
    paths = [os.fsdecode(unquote_to_bytes(each)) for each in given]
    rest = "&".join(each for each in options if not each.startswith(f"{_KEY}="))
    return (f"{bare}?{rest}" if rest else bare), (Path(paths[-1]) if paths else None)
