"""What the server says of itself."""

import contextlib
from pathlib import Path

_SEVERE = ("FATAL:", "PANIC:", "ERROR:", "initdb: error:", "cannot ")


class PostgresLog:
    """The log of one start; that of the start before is kept beside it as ``NAME.1``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self) -> None:
        """A new start, a new log."""
        with contextlib.suppress(FileNotFoundError):
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))

    def complaint(self) -> str:
        """The last line that says what went wrong."""
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        severe = [line for line in lines if any(word in line for word in _SEVERE)]
        return (severe or lines or ["it says nothing"])[-1].strip() + f" (see {self.path})"
