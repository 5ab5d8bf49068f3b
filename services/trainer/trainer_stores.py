"""The stores and folders of the trainer, and how it waits for them until it must leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

from services.trainer.checkpoints import CheckpointFolder
from zerofleet.database import Database
from zerofleet.models.store import ModelStore
from zerofleet.waiting import Waits

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

    def ask(self, call: Callable[[], _Answer], store: str = "Postgres") -> _Answer:
        """Make a store's call until the store answers.

        Every write goes through here and may therefore be sent twice: it must be one that can be
        repeated, or one whose repetition the caller can recognise.

        Raises:
            StoppedError: the process was told to leave before the store answered.
        """
        return self.waits.insist(self.stop, call, store)

    def on_disk(self, place: str, write: Callable[[], None]) -> None:
        """Write until the disk takes it; training waits meanwhile, games do not.

        Raises:
            StoppedError: the process was told to leave before.
        """
        self.waits.insist(self.stop, write, f"the {place}", OSError)
