"""Which players meet in the rating pool, and which games are missing: from stored rows alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from services.evaluator.match import Place
from services.evaluator.openings import draw_openings
from zerofleet.config import RunConfig
from zerofleet.database import RatingPlace, match_seed

_PLACES_AT_ONCE = 24  # of one pairing: after these the newest model's games are looked for again


@dataclass(frozen=True, slots=True)
class Pairing:
    """A promoted model and an opponent of it, both by name."""

    player: str
    opponent: str


def pairings(
    promoted: Iterable[int], back: Iterable[int], anchors: Sequence[str], every: int = 1
) -> list[Pairing]:
    """All pairings of a run, those of the newest model first.

    Opponents further back and fixed anchors keep the scale from drifting: with the model before
    alone, errors add up along the chain.

    Args:
        promoted: versions in the order of their promotions; going back to one adds nothing.
        back: opponents are the models so many places earlier among those that are rated.
        anchors: fixed opponents.
        every: the first model and every so many-th after it are rated.
    """
    chain = list(dict.fromkeys(promoted))[::every]
    found: list[Pairing] = []
    for place in reversed(range(len(chain))):
        earlier = [chain[place - step] for step in sorted(set(back)) if 0 < step <= place]
        opponents = [*map(str, earlier), *dict.fromkeys(anchors)]
        found += [Pairing(str(chain[place]), opponent) for opponent in opponents]
    return found


@dataclass(frozen=True, slots=True)
class MissingGames:
    """What one pairing lacks, or the first part of it."""

    pairing: Pairing
    seed: int
    openings: list[list[int]]
    places: list[Place]

    def first_part(self) -> MissingGames:
        """The games that are played before it is asked again who lacks some."""
        return MissingGames(self.pairing, self.seed, self.openings, self.places[:_PLACES_AT_ONCE])


@dataclass(frozen=True, slots=True)
class DueGames:
    """Games that one model lacks."""

    player: str
    pairings: list[MissingGames]
    stored: int  # games against all its opponents
    games: int  # when it lacks none


class PairingQueue:
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
    ) -> DueGames | None:
        """What the newest model that lacks games lacks, or the first part of it.

        Args:
            promoted: versions in the order of their promotions.
            anchors: those that can play here.
            stored: the places that hold a game.
        """
        rating = self._run.rating
        wanted = pairings(promoted, rating.opponents, anchors, rating.every)
        for player, group in groupby(wanted, key=lambda pairing: pairing.player):
            present = [pairing for pairing in group if pairing not in self._left_out]
            found = [
                self._missing(pairing, stored)
                for pairing in present
                if pairing not in self._complete
            ]
            for each in found:
                if not each.places:
                    self._complete[each.pairing] = 2 * len(each.openings)
            lacking = [each for each in found if each.places]
            if lacking:
                held = sum(self._complete.get(pairing, 0) for pairing in present)
                games = held + sum(2 * len(each.openings) for each in lacking)
                held = games - sum(len(each.places) for each in lacking)
                return DueGames(player, [each.first_part() for each in lacking], held, games)
        self._all_complete = (promoted, anchors)
        return None

    def _missing(self, pairing: Pairing, stored: Collection[RatingPlace]) -> MissingGames:
        """All that a pairing lacks."""
        seed = match_seed(self._run.seed, "rating", pairing.player, pairing.opponent)
        openings = draw_openings(
            self._run.game.name,
            self._run.evaluator.opening_plies,
            (self._run.rating.games + 1) // 2,
            seed,
        )
        places = [
            (opening, color)
            for opening in range(len(openings))
            for color in (0, 1)
            if (pairing.player, pairing.opponent, opening, color) not in stored
        ]
        return MissingGames(pairing, seed, openings, places)
