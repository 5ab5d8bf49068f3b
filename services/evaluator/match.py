"""The games of a match: candidate against best, each opening twice with colours swapped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from zerofleet_core import EngineGame, Match, SearchConfig

from services.evaluator.together import together
from zerofleet.config import SearchSection
from zerofleet.prediction import Predictor

CANDIDATE, BEST = 0, 1  # the sides of zerofleet_core.Match


# A game's place in its match, which its row is keyed by: the opening, and the candidate's colour
# (0: the candidate is the first player, 1: the second).
Place: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Played:
    """A finished game of a match."""

    place: Place
    game: EngineGame


def match_search(section: SearchSection, num_simulations: int) -> SearchConfig:
    """The search of a match: nothing in it is random, and every visit is the search's own wish."""
    values = section.model_dump()
    values.update(
        num_simulations=num_simulations,
        full_search_share=1.0,
        root_policy_temperature=1.0,
        dirichlet_fraction=0.0,
        forced_playouts=0.0,
        min_child_visits=0,
        prune_targets=False,
        gumbel_scale=0.0,
        temperature=0.0,
        temperature_moves=0,
        temperature_final=0.0,
        random_symmetry=False,
    )
    return SearchConfig(**values)


async def play(
    game: str,
    openings: Sequence[Sequence[int]],
    missing: Collection[Place],
    search: SearchConfig,
    predictors: tuple[Predictor, Predictor],
    keep: Callable[[list[Played]], Awaitable[None]],
    *,
    most_rows: int,
) -> None:
    """Play the missing games, many at once, and hand them over as they finish.

    Args:
        game: name of the game.
        openings: all openings of the match.
        missing: the games to play.
        search: of both sides.
        predictors: the candidate's and the best's.
        keep: stores games; awaited before play goes on.
        most_rows: positions of one request at most, so also games at once.
    """
    for chunk in _chunks(sorted({opening for opening, _ in missing}), max(1, most_rows // 2)):
        match = Match(game, [openings[index] for index in chunk], search, 0)
        while not match.done:
            asked = await _advance_both(match, predictors)
            finished = [
                Played((chunk[each.game_id // 2], each.game_id % 2), each)
                for each in match.take_finished()
            ]
            # Half of a pair may be stored already: the other half cannot be played without it.
            wanted = [played for played in finished if played.place in missing]
            if wanted:
                await keep(wanted)
            elif not any(asked):
                await asyncio.sleep(0)


async def _advance_both(match: Match, predictors: tuple[Predictor, Predictor]) -> list[int]:
    """One request of each side."""
    return await together(*(_advance(match, side, predictors[side]) for side in (CANDIDATE, BEST)))


async def _advance(match: Match, side: int, predictor: Predictor) -> int:
    """One request of one side; how many positions it asked for."""
    observations = match.select(side)
    if len(observations) > 0:
        prediction = await predictor.predict(observations)
        match.backup(side, prediction.policy_logits, prediction.value, prediction.model_version)
    return len(observations)


def _chunks(indices: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for first in range(0, len(indices), size):
        yield indices[first : first + size]
