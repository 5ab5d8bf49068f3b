"""At most one server over one folder, in files that other users cannot open."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from pathlib import Path

from zerofleet.errors import ConfigError


def narrow(path: Path, *, passing: bool = True) -> None:
    """Take away the rights of other users to a file or folder of ours.

    Args:
        path: nothing happens if it does not exist or is a link.
        passing: root leaves others the right to pass through a folder, because the user that
            Postgres runs as has to.
    """
    with contextlib.suppress(OSError):  # it is not there, or not ours
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return
        is_way = passing and os.geteuid() == 0 and stat.S_ISDIR(mode)
        taken = mode & (0o066 if is_way else 0o077)
        if taken:
            path.chmod(stat.S_IMODE(mode) & ~taken)


def lock_holder(path: Path) -> int | None:
    """Return the process that holds a file's lock; None: the system does not say."""
    with contextlib.suppress(OSError, ValueError):
        status = path.stat()
        device, inode = (os.major(status.st_dev), os.minor(status.st_dev)), status.st_ino
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            _, kind, _, _, pid, place, *_ = line.split()
            major, minor, number = place.split(":")
            if kind == "FLOCK" and ((int(major, 16), int(minor, 16)), int(number)) == (
                device,
                inode,
            ):
                return int(pid) if int(pid) > 0 else None  # a process out of our sight
    return None


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
            path = folder / "lock"
            path.touch(0o600)
            self._file = path.open("a+", encoding="utf-8")
            for each in (folder, path):
                narrow(each)
        except OSError as error:
            raise ConfigError(f"cannot use the folder {folder}: {error.strerror}") from error
        deadline = time.monotonic() + patience
        while not self._taken():
            if time.monotonic() > deadline:
                self._file.close()
                pid = lock_holder(folder / "lock")
                process = "" if pid is None else f" (process {pid})"
                raise ConfigError(
                    f"a server is already running in {folder}{process}: stop it first"
                )
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
