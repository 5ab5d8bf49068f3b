"""Which rating games are due: a function of the chain of promotions and of the games stored."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from services.evaluator.openings import draw_openings
from services.evaluator.pairings import Pairing, pairings
from services.evaluator.roster import Place
from zerofleet.config import RunConfig
from zerofleet.database import RatingPlace

_PLACES_AT_ONCE = 24  # of one pairing: after these the newest model's games are looked for again


@dataclass(frozen=True, slots=True)
class DueBout:
    """Games of one pairing."""

    pairing: Pairing
    openings: list[list[int]]
    places: list[Place]

    def first_part(self) -> DueBout:
        """The games that are played before it is asked again who lacks some."""
        return DueBout(self.pairing, self.openings, self.places[:_PLACES_AT_ONCE])


@dataclass(frozen=True, slots=True)
class Due:
    """Games that one model lacks."""

    player: str
    bouts: list[DueBout]
    stored: int  # games against all its opponents
    games: int  # when it lacks none


class Programme:
    """Finds the newest model that lacks games.

    Args:
        run: the run.
    """

    def __init__(self, run: RunConfig) -> None:
        self._run = run
        self._left_out: set[Pairing] = set()
        self._complete: dict[Pairing, int] = {}  # with their games
        self._all_complete: tuple[Sequence[int], Sequence[str]] | None = None

    def leave_out(self, pairing: Pairing) -> None:
        """Never ask for this pairing's games again."""
        self._left_out.add(pairing)

    def may_lack(self, promoted: Sequence[int], anchors: Sequence[str]) -> bool:
        """False when all games of these players were stored when ``next`` last looked."""
        return self._all_complete != (promoted, anchors)

    def next(
        self, promoted: Sequence[int], anchors: Sequence[str], stored: Collection[RatingPlace]
    ) -> Due | None:
        """What the newest model that lacks games lacks, or the first part of it.

        Args:
            promoted: versions in the order of their promotions.
            anchors: those that can play here.
            stored: the places that hold a game.
        """
        wanted = pairings(promoted, self._run.rating.opponents, anchors)
        for player, group in groupby(wanted, key=lambda pairing: pairing.player):
            present = [pairing for pairing in group if pairing not in self._left_out]
            found = [
                self._missing(pairing, stored)
                for pairing in present
                if pairing not in self._complete
            ]
            for bout in found:
                if not bout.places:
                    self._complete[bout.pairing] = 2 * len(bout.openings)
            lacking = [bout for bout in found if bout.places]
            if lacking:
                held = sum(self._complete.get(pairing, 0) for pairing in present)
                games = held + sum(2 * len(bout.openings) for bout in lacking)
                held = games - sum(len(bout.places) for bout in lacking)
                return Due(player, [bout.first_part() for bout in lacking], held, games)
        self._all_complete = (promoted, anchors)
        return None

    def _missing(self, pairing: Pairing, stored: Collection[RatingPlace]) -> DueBout:
        """All that a pairing lacks."""
        openings = draw_openings(
            self._run.game.name,
            self._run.evaluator.opening_plies,
            (self._run.rating.games + 1) // 2,
            pairing.seed(self._run.seed),
        )
        places = [
            (opening, color)
            for opening in range(len(openings))
            for color in (0, 1)
            if (*pairing.sides(color), opening) not in stored
        ]
        return DueBout(pairing, openings, places)
