"""A game in play between two players who are asked for one action at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from services.evaluator.record import Ending, Ply
from services.evaluator.roster import Place
from zerofleet.games import State


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A player's answer that ends the game: it has lost."""

    remark: str | None = None  # why, if it did not simply resign


Answer: TypeAlias = Ply | GaveUp


@dataclass(slots=True)
class Board:
    """One game of a pairing: its position, and how it came there."""

    place: Place
    state: State
    plies: list[Ply] = field(default_factory=list[Ply])
    ending: Ending | None = None
    remark: str | None = None

    @classmethod
    def after(cls, game: str, opening: Sequence[int], place: Place) -> Board:
        """A game that begins with an opening."""
        return cls(place, State(game, opening), [Ply(action, None) for action in opening])

    @property
    def actions(self) -> list[int]:
        """All actions so far."""
        return [ply.action for ply in self.plies]

    @property
    def side(self) -> int:
        """Which of the pairing's two players moves: 0 or 1."""
        return self.state.to_play ^ self.place[1]

    def take(self, answer: Answer) -> None:
        """Play the answer of the player to move."""
        if isinstance(answer, GaveUp):
            lost = -1 if self.state.to_play == 0 else 1
            self.ending, self.remark = Ending(lost, "resign"), answer.remark
            return
        self.state.apply(answer.action)
        self.plies.append(answer)
        if self.state.is_terminal:
            self.ending = Ending(self.state.result, "rules")


class Player(Protocol):
    """Whoever can be asked for actions in many games at once."""

    async def choose(self, boards: Sequence[Board]) -> list[Answer]:
        """One answer for each board, legal there."""
        ...
