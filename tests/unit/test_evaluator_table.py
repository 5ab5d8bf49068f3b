"""Games between two predictors: the same however they are seated, both sides asked at once."""

import asyncio

import numpy as np
import pytest
from numpy.typing import NDArray

from services.evaluator.openings import draw_openings
from services.evaluator.players import NoNetwork
from services.evaluator.roster import Place, Roster
from services.evaluator.table import Played, Table
from zerofleet.config import SearchSection
from zerofleet.prediction import Prediction, Predictor
from zerofleet.searches import match_search
from zerofleet.testing import HashPredictor

GAME = "connect_four"
PAIRS = 9
OPENINGS = draw_openings(GAME, 3, PAIRS, seed=1)
PLACES = [(opening, color) for opening in range(PAIRS) for color in (0, 1)]


class Watched:
    """A predictor that notes who is asked while others are."""

    def __init__(self, predictor: Predictor, out: set[int], side: int) -> None:
        self.together: set[frozenset[int]] = set()
        self._predictor = predictor
        self._out = out
        self._side = side

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        assert self._side not in self._out, "two requests of one side"
        self._out.add(self._side)
        for _ in range(3):
            await asyncio.sleep(0)
        self.together.add(frozenset(self._out))
        self._out.remove(self._side)
        return await self._predictor.predict(observations)


async def played(
    roster: Roster, sides: tuple[Predictor, Predictor], *, enough: int | None = None
) -> dict[Place, list[int]]:
    """The actions of each game that was kept; ``enough`` ends it after so many."""
    kept: dict[Place, list[int]] = {}

    async def keep(games: list[Played]) -> None:
        assert not roster.over.is_set()
        assert not kept.keys() & {game.place for game in games}
        await asyncio.sleep(0)
        kept.update({game.place: game.game.action.tolist() for game in games})
        if enough is not None and len(kept) >= enough:
            roster.over.set()

    search = match_search(SearchSection(), 12)
    async with asyncio.timeout(120):
        await Table(GAME, OPENINGS, search, sides, roster, keep).play()
    return kept


def two() -> tuple[Predictor, Predictor]:
    return HashPredictor(GAME, 1), HashPredictor(GAME, 2)


async def test_the_games_do_not_depend_on_who_plays_beside_them() -> None:
    together = await played(Roster(PLACES, PAIRS), two())
    assert together.keys() == set(PLACES)
    for (opening, _), actions in together.items():
        assert actions[:3] == OPENINGS[opening]
    assert len({tuple(actions) for actions in together.values()}) > PAIRS
    for at_once, ahead in ((1, None), (2, 3), (4, 8)):
        assert await played(Roster(PLACES, at_once, ahead), two()) == together


async def test_a_game_that_is_stored_is_not_kept_again() -> None:
    missing = [place for place in PLACES if place[0] != 2 and place != (5, 1)]
    assert (await played(Roster(missing, 3), two())).keys() == set(missing)


async def test_both_sides_are_asked_at_the_same_time() -> None:
    out: set[int] = set()
    sides = [Watched(predictor, out, side) for side, predictor in enumerate(two())]
    await played(Roster(PLACES, 4), (sides[0], sides[1]))
    for side in sides:
        assert frozenset({0, 1}) in side.together


async def test_it_ends_with_games_in_play_when_no_more_are_wanted() -> None:
    roster = Roster(PLACES, 4)
    kept = await played(roster, two(), enough=5)
    assert 5 <= len(kept) < len(PLACES)
    assert roster.in_play


async def test_an_error_of_one_side_ends_both() -> None:
    class Broken:
        async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await played(Roster(PLACES, 4), (HashPredictor(GAME), Broken()))


async def test_a_side_that_answers_at_once_is_waited_for_by_nobody() -> None:
    """Its game is soon the slow side's again, so both games share most of the slow requests."""
    requests: list[int] = []  # rows of each

    class Slow(HashPredictor):
        async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
            requests.append(len(observations))
            for _ in range(1_000):
                await asyncio.sleep(0)
            return await super().predict(observations)

    await played(Roster(PLACES[:2], 1), (Slow(GAME), NoNetwork(GAME)))
    assert sum(requests) > 1.3 * len(requests)
