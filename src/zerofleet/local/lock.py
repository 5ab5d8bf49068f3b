"""At most one server over one folder."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path

from zerofleet.errors import ConfigError


class FolderLock:
    """A lock on a folder, held by us and by the children that we hand ``fileno()`` to.

    A server that outlives its parent for a moment, to leave cleanly, still holds it.
    """

    def __init__(self, folder: Path, patience: float) -> None:
        """Take the lock.

        Args:
            folder: made if absent.
            patience: seconds that a server which is leaving may take.

        Raises:
            ConfigError: another process holds it, or the folder cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / "lock").open("a+", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot use the folder {folder}: {error.strerror}") from error
        deadline = time.monotonic() + patience
        while not self._taken():
            if time.monotonic() > deadline:
                self._file.close()
                raise ConfigError(f"a server is already running in {folder}: stop it first")
            time.sleep(0.02)

    def fileno(self) -> int:
        """The open file that carries the lock."""
        return self._file.fileno()

    def release(self) -> None:
        """Let go of it here; children that hold it keep it until they end."""
        self._file.close()

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
