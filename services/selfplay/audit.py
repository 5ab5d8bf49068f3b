"""A file beside the database: what Postgres has answered for, to compare afterwards."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID


class AuditFile:
    """Appends ``uid answer`` lines; several workers may share one file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def __call__(self, game_uid: UUID, answer: str) -> None:
        """Note an answer; it outlives this process, whatever ends it."""
        os.write(self._file, f"{game_uid} {answer}\n".encode())
