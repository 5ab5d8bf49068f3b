"""When play pauses: no room for finished games, or a trainer that is far behind."""

from __future__ import annotations

import asyncio

from services.selfplay.writer import GameWriter
from zerofleet.figures import TrainerFigures
from zerofleet.waiting import Waits


class Pause:
    """Between two batches each engine loop asks whether play is paused.

    Args:
        writer: play pauses while its spool is full.
        max_ahead_positions: play pauses while the trainer has more before it; 0: never.
        waits: told when the trainer is waited for.
    """

    def __init__(self, writer: GameWriter, max_ahead_positions: int, waits: Waits) -> None:
        self._writer = writer
        self._max_ahead = max_ahead_positions
        self._waits = waits
        self._trainer_keeps_up = asyncio.Event()
        self._trainer_keeps_up.set()

    @property
    def watches_trainer(self) -> bool:
        """Whether ``hear`` wants the trainer's heartbeats at all."""
        return self._max_ahead > 0

    @property
    def goes_on(self) -> bool:
        """Whether play is paused for the trainer's sake."""
        return not self._trainer_keeps_up.is_set()

    def hear(self, trainer: TrainerFigures | None) -> None:
        """Learn from the trainer's figures how many positions it has not trained on yet."""
        if trainer is None or trainer.unspent_positions is None:
            # It must catch up with what there is before it can say how much that is.
            self._begin("the trainer to start")
        elif trainer.unspent_positions > self._max_ahead:
            self._begin(f"the trainer, {self._max_ahead} positions behind")
        else:
            self.hear_nothing()

    def hear_nothing(self) -> None:
        """Play on: the trainer keeps up, or Redis is away and its figures are unknown."""
        self._trainer_keeps_up.set()
        self._waits.end("pause")

    def _begin(self, thing: str) -> None:
        self._trainer_keeps_up.clear()
        self._waits.begin("pause", thing, "idle")

    async def over(self) -> None:
        """Return when play is not paused; at once, normally."""
        await self._writer.room()
        await self._trainer_keeps_up.wait()
