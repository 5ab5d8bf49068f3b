"""A file beside the database: what was played and what was answered, to compare afterwards."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID


class AuditFile:
    """Appends lines ``uid finished LENGTH`` and ``uid ANSWER``; workers may share a file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def finished(self, game_uid: UUID, length: int) -> None:
        """Note a finished game, before Postgres knows of it."""
        self._note(f"{game_uid} finished {length}")

    def answered(self, game_uid: UUID, answer: str) -> None:
        """Note what Postgres has answered."""
        self._note(f"{game_uid} {answer}")

    def _note(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())  # it outlives this process, whatever ends it
