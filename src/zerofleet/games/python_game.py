"""What a game written in Python is: one class, derived from ``Game``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray


class Game(ABC):
    """A position of a board game for two players, with perfect information and without chance.

    One class is one game, called ``python:MODULE:CLASS`` in a run file. Without arguments it makes
    the start, where the first player, 0, is to play. One player may play twice in a row.

    A class sets ``num_actions``, ``observation_shape`` and ``max_length``; a position has
    ``to_play``, ``is_terminal`` and ``result``, as attributes or properties. What has a default
    here need not be written.

    Symmetries are permutations of the board under which the rules stay the same. They multiply the
    training data by their number. They are numbered from 0, the identity.
    """

    num_actions: ClassVar[int]
    """Actions are the numbers 0 to this, exclusive; at most 32,767."""
    observation_shape: ClassVar[tuple[int, int, int]]
    """(planes, rows, columns) of what the network sees."""
    max_length: ClassVar[int]
    """Plies of the longest game, at most 30,000: by then it must be over."""
    num_symmetries: ClassVar[int] = 1
    """Symmetries of the board, the identity included."""
    num_final_planes: ClassVar[int] = 0
    """Planes of ``final_planes``; 0: the game tells none."""

    to_play: int
    """0 the first player, 1 the second; in a terminal position, who would be next."""
    is_terminal: bool
    """Whether the game is over."""
    result: int
    """+1 the first player won, -1 the second, 0 a draw; read from terminal positions only."""

    @abstractmethod
    def legal_actions(self) -> list[int]:
        """In ascending order, at least one; asked of positions that are not terminal."""

    @abstractmethod
    def apply(self, action: int) -> None:
        """Play a legal action: the core has checked that it is one."""

    @abstractmethod
    def copy(self) -> Self:
        """An independent copy; the search makes one for each action that it tries."""

    @abstractmethod
    def observation(self) -> NDArray[Any]:
        """The planes, ``observation_shape``, bool or uint8 of zeros and ones.

        They must tell positions apart that the players play differently, the player to move
        included: the network sees nothing else.
        """

    def final_planes(self) -> NDArray[Any]:
        """What the end made of each point, for networks to learn beside the result.

        +1 where the first player has it, -1 where the second has, 0 where neither has: discs,
        territory, whatever decides. Asked of terminal positions only, and only where
        ``num_final_planes`` is above 0; any integer dtype, (num_final_planes, rows, columns).
        """
        raise NotImplementedError

    def final_score(self) -> float:
        """The first player's lead in the end, in points that the game counts.

        A class that defines it has a score; it is asked of terminal positions only.
        """
        raise NotImplementedError

    @classmethod
    def symmetric_point(cls, point: int, symmetry: int) -> int:
        """Where a symmetry puts a point; points are ``columns * row + column``."""
        del symmetry
        return point

    @classmethod
    def symmetric_action(cls, action: int, symmetry: int) -> int:
        """Where a symmetry puts an action."""
        del symmetry
        return action

    @classmethod
    def action_to_string(cls, action: int) -> str:
        """How people write an action, without spaces."""
        return str(action)

    @classmethod
    def string_to_action(cls, text: str) -> int | None:
        """Return the action that people write like that; None if there is none.

        Case is ignored if only one action matches.
        """
        words = [cls.action_to_string(action) for action in range(cls.num_actions)]
        if text in words:
            return words.index(text)
        folded = [word.casefold() for word in words]
        return folded.index(text.casefold()) if folded.count(text.casefold()) == 1 else None

    def __str__(self) -> str:
        """The picture of the position; by default the planes, one below the other.

        A picture with a line for each row and a mark for each point, "." where nothing stands, is
        the game's board on the page too.
        """
        planes = np.asarray(self.observation(), np.bool_)
        return "\n\n".join(
            "\n".join("".join("#" if point else "." for point in row) for row in plane)
            for plane in planes
        )
