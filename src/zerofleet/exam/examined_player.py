"""The examined player: a search without chance over many positions at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zerofleet_core import Search, SearchConfig, SearchResult

from zerofleet.config import SearchSection
from zerofleet.prediction import Predictor
from zerofleet.search_configs import match_search

MOST_ROWS = 256  # rows of one request, unless the caller knows the server's limit


@dataclass(frozen=True, slots=True)
class ExaminedPlayer:
    """A predictor behind a search that always answers the same position the same way."""

    game: str
    predictor: Predictor
    config: SearchConfig
    most_rows: int = MOST_ROWS  # rows of one request, and positions of one search

    @classmethod
    def of(
        cls,
        game: str,
        predictor: Predictor,
        num_simulations: int,
        search: SearchSection,
        most_rows: int = MOST_ROWS,
    ) -> ExaminedPlayer:
        """Return a player with the search of matches, in which nothing is random."""
        return cls(game, predictor, match_search(search, num_simulations), most_rows)

    async def choose(self, positions: Sequence[Sequence[int]]) -> list[int]:
        """Return the best action in each position; a position is its list of actions so far."""
        return [result.best_action for result in await self.search(positions)]

    async def search(
        self, positions: Sequence[Sequence[int]], starts: Sequence[str] = ()
    ) -> list[SearchResult]:
        """Return the result of the search of each position.

        Args:
            positions: each a list of actions from its start position.
            starts: start position of each position; empty: all begin at the usual start.
        """
        results: list[SearchResult] = []
        for first in range(0, len(positions), self.most_rows):
            part = slice(first, first + self.most_rows)
            results += await self._search(positions[part], starts[part])
        return results

    async def _search(
        self, positions: Sequence[Sequence[int]], starts: Sequence[str]
    ) -> list[SearchResult]:
        search = Search(self.game, positions, self.config, 0, starts=starts)
        while not search.done:
            observations = search.select()
            if len(observations) == 0:
                continue
            prediction = await self.predictor.predict(observations)
            search.backup(prediction.policy_logits, prediction.value, prediction.model_version)
        return search.results()
