"""Disk usage of a run: its database, the files of its data folder, and the disk limit."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from zerofleet.config.renamed import MARKER
from zerofleet.database import Kept

FULL_SHARE = 0.95
"""Share of the disk limit at which the trainer begins to drop searches."""
LOG_BYTES = 256 << 20
"""Approximate size of the write-ahead log of the embedded Postgres, in bytes."""
_FULL_BYTES = 16 << 20  # Postgres' log grows in steps of this size


@dataclass(frozen=True, slots=True)
class FolderSizes:
    """Sizes of the files of a data folder in bytes; tables are not included."""

    log: int
    """Write-ahead log of the embedded Postgres."""
    models: int
    checkpoints: int
    logs: int
    """Logs of the services."""
    other: int
    """The rest: caches, settings, and files of Postgres outside of the run's database."""

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return self.log + self.models + self.checkpoints + self.logs + self.other

    @classmethod
    def of(cls, root: Path, database_bytes: int) -> Self:
        """Measure a data folder.

        Args:
            database_bytes: size of the run's database, which is subtracted if it is in the folder.
        """
        cluster = root / "postgres" / "cluster"
        parts = [cluster / "pg_wal", root / "models", root / "checkpoints", root / "logs"]
        log, models, checkpoints, logs = map(_size, parts)
        everything = _size(root) + (_size(cluster.resolve()) if cluster.is_symlink() else 0)
        other = everything - (log + models + checkpoints + logs)
        if cluster.exists():
            other -= database_bytes
        return cls(log, models, checkpoints, logs, max(0, other))


def data_folder_of(run_file: Path) -> Path | None:
    """Return the data folder that this run file belongs to; None if there is none."""
    return run_file.parent if (run_file.parent / MARKER).exists() else None


def _size(folder: Path) -> int:
    """Return the bytes of all files below a folder; hard links are counted once."""
    sizes: dict[tuple[int, int], int] = {}
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it has been removed in the meantime
                status = os.lstat(Path(path) / name)
                sizes[status.st_dev, status.st_ino] = status.st_size
    return sum(sizes.values())


def full_disk(folder: Path) -> str | None:
    """Return a message for a person if the disk of a folder is full, else None."""
    free = shutil.disk_usage(folder).free
    if free >= _FULL_BYTES:
        return None
    return (
        f"full: {free / 1e6:.1f} MB left on the disk of {folder}; make room there, and the run "
        "continues"
    )


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Disk usage of a run in bytes; for a fleet, only its database."""

    kept: Kept
    folder: FolderSizes | None
    """Files of the data folder; None: there is none on this machine."""
    limit: float | None
    """The disk limit; None: no limit."""

    @property
    def total(self) -> int:
        """The whole database, and the files of the data folder."""
        return self.kept.database_bytes + (0 if self.folder is None else self.folder.total)

    @property
    def fixed(self) -> int:
        """Bytes that the limit cannot free: everything but searches, with a full write-ahead log.

        The log of the embedded Postgres is smaller only in a run that has stored little.
        """
        log = 0 if self.folder is None else self.folder.log
        return self.total - self.kept.bytes + (max(0, LOG_BYTES - log) if log else 0)

    @property
    def limit_fault(self) -> str | None:
        """Why the limit can never be kept, and what to do; None if it can."""
        if self.limit is None or self.limit >= self.fixed:
            return None
        parts = "tables" if self.folder is None else "tables, models and other files"
        if self.folder is not None and self.folder.log:
            parts = f"the write-ahead log (up to {LOG_BYTES >> 20} MB), {parts}"
        enough = math.ceil(1.25 * self.fixed / 1e8) / 10
        return (
            f"retention.max_disk_gb = {self.limit / 1e9:g} cannot be kept: {parts} need "
            f"{self.fixed / 1e9:.2f} GB without any searches. Set it to {enough:g} or more, or to "
            "0 for no limit."
        )

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the trainer drops searches for the limit, at the rate of the last hour.

        0: it does so now. None: there is no limit, or no rate.
        """
        if self.limit is None or not self.kept.bytes_per_day:
            return None
        return max(0.0, FULL_SHARE * self.limit - self.total) / self.kept.bytes_per_day * 86400
