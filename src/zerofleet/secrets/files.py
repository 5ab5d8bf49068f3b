"""Secret files, and values that follow their files when these change."""

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
    """Return the first line of a file.

    Raises:
        ConfigError: it cannot be read or is empty; its content is never in the message.
    """
    lines = read_lines(path)
    if not lines:
        raise ConfigError(f"the file {path} is empty: its first line must be the secret")
    return lines[0]


def read_lines(path: Path) -> list[str]:
    """Return the non-empty lines of a small file, stripped.

    Raises:
        ConfigError: it cannot be read, or is not text.
    """
    text = _decoded(read_bytes(path))
    if text is None:
        raise ConfigError(f"the file {path} is not UTF-8 text")
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_bytes(path: Path) -> bytes:
    """Return the content of a small file.

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
    # No error leaves this function: a UnicodeDecodeError contains the bytes of the secret.
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


class Followed(Generic[_Value]):
    """A value made from files, made again when one of them is replaced.

    If the new files are invalid, the log says so once and the value stays: a failed rotation must
    not stop a running service.

    Args:
        paths: the files; one may be missing.
        make: reads them.

    Raises:
        ConfigError: raised by ``make`` on the first read.
    """

    def __init__(self, paths: Sequence[Path], make: Callable[[], _Value]) -> None:
        self._paths = tuple(paths)
        self._make = make
        self._seen = _marks(self._paths)
        self._value = make()

    def get(self) -> _Value:
        """Return the current value; this costs one stat of each file."""
        # Read the marks before the files: a change in between is noticed the next time.
        marks = _marks(self._paths)
        if marks != self._seen:
            self._seen = marks
            import structlog  # here: it is as slow to import as everything else that clients need

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
    """Return values that differ after a file was written or replaced; links are followed."""
    return tuple(_mark(path) for path in paths)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def with_password_file(url: str, path: Path | None) -> str:
    """Return the URL with this password file instead of its own; unchanged without a file."""
    if path is None:
        return url
    bare, _ = split_password_file(url)
    return f"{bare}{'&' if '?' in bare else '?'}{_KEY}={quote(os.fsencode(path), safe='/')}"


def split_password_file(url: str) -> tuple[str, Path | None]:
    """Return the URL without our password file option, and the file, if there is one."""
    # Without urllib, whose URLs can differ after splitting and joining.
    bare, mark, query = url.partition("?")
    options = query.split("&") if mark else []
    given = (each.partition("=")[2] for each in options if each.startswith(f"{_KEY}="))
    paths = [os.fsdecode(unquote_to_bytes(each)) for each in given]
    rest = "&".join(each for each in options if not each.startswith(f"{_KEY}="))
    return (f"{bare}?{rest}" if rest else bare), (Path(paths[-1]) if paths else None)
