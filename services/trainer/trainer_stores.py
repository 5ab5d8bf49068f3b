"""The stores and folders of the trainer, and how it waits for them until it must leave."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TypeVar

import structlog

from zerofleet.database import Database
from zerofleet.models.model_store import ModelStore
from zerofleet.services.trainer.checkpoints import CheckpointFolder
from zerofleet.waiting import Backoff, Waits

_log = structlog.get_logger()

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class TrainerStores:
    """What the thread that trains reads and writes."""

    database: Database
    models: ModelStore
    checkpoints: CheckpointFolder
    waits: Waits  # told what is waited for
    stop: Event  # set when the process must leave
    turned: Callable[[], None]  # called at each round of the loop: it is not stuck
    data_folder: Path | None = None  # of `zerofleet up`; its files count toward the disk limit

    def ask(self, call: Callable[[], _Answer], store: str = "Postgres") -> _Answer:
        """Make a store's call until the store answers.

        Every write goes through here and may therefore be sent twice: it must be one that can be
        repeated, or one whose repetition the caller can recognise.

        Raises:
            StoppedError: the process was told to leave before the store answered.
        """
        return self.waits.insist(self.stop, call, store)

    def on_disk(self, place: str, folder: Path, write: Callable[[], None]) -> None:
        """Write until the disk takes it; training waits meanwhile, games do not.

        Args:
            place: what the folder is, in words.
            folder: which is written; it need not be there yet.
            write: safe to repeat.

        Raises:
            StoppedError: the process was told to leave before.
        """

        def tried() -> None:
            try:
                write()
            except OSError as error:
                where = {"folder": str(folder), "free_bytes": _free_bytes(folder)}
                _log.error("disk_refuses", **where, reason=str(error))
                raise

        # A person has to make room: trying often would only fill the log.
        self.waits.insist(self.stop, tried, f"the {place} {folder}", OSError, Backoff(5.0, 60.0))


def _free_bytes(folder: Path) -> int | None:
    """Room where a folder is or will be; None where even that cannot be read."""
    try:
        return shutil.disk_usage(next(p for p in (folder, *folder.parents) if p.exists())).free
    except OSError:
        return None
