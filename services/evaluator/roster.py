"""Which pairs of a match begin when: in their order, so many at once, none far ahead."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from typing import TypeAlias

# A game's place in its match, which its row is keyed by: the opening, and the candidate's colour
# (0: the candidate is the first player, 1: the second).
Place: TypeAlias = tuple[int, int]

_REFILL_SHARE = 8  # of the seats must be free before more pairs begin: they share their requests


class Roster:
    """The pairs of a match that lack games.

    Both games of a pair begin together, also where one of them is stored already: the engine plays
    no half pairs.

    Args:
        missing: the places that hold no game.
        at_once: pairs in play together, at most.
        ahead: a pair begins only when fewer than this many openings lie between it and the first
            incomplete one. A verdict counts complete prefixes, so this bounds what is played in
            vain; None: no pair is ever in vain.
    """

    def __init__(self, missing: Collection[Place], at_once: int, ahead: int | None = None) -> None:
        self.missing = set(missing)
        """Places that hold no game as yet."""
        self.over = asyncio.Event()
        """Set when no more games are wanted, finished or not."""
        self._at_once = max(1, at_once)
        self._ahead = ahead
        self._waiting = deque(sorted({opening for opening, _ in self.missing}))
        self._games_in_play = 0

    @property
    def in_play(self) -> bool:
        """Whether games have begun that are not handed in."""
        return self._games_in_play > 0

    def begin(self) -> list[int]:
        """The openings of the pairs that begin now; none while too few seats are free."""
        free = self._at_once - (self._games_in_play + 1) // 2
        due = [opening for opening in self._waiting if self._is_near(opening)][: max(0, free)]
        few = min(len(self._waiting), max(1, self._at_once // _REFILL_SHARE))
        if self.in_play and len(due) < few:
            return []
        for _ in due:
            self._waiting.popleft()
        self._games_in_play += 2 * len(due)
        return due

    def hand_in(self, places: Collection[Place]) -> None:
        """These games are over, and stored if they were missing."""
        self.missing.difference_update(places)
        self._games_in_play -= len(places)

    def _is_near(self, opening: int) -> bool:
        return self._ahead is None or opening < min(self.missing)[0] + self._ahead
