"""Players who choose one action at a time: a search behind any predictor, and pure chance."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import Search, SearchConfig, SearchResult

from services.evaluator.board import Answer, Board
from services.evaluator.record import Ply, Searched
from zerofleet import games
from zerofleet.prediction import Prediction, Predictor


class NoNetwork:
    """A predictor that knows nothing: equal priors, every position even.

    Behind a search it is the bare search, a fixed opponent of the rating pool.
    """

    def __init__(self, game: str) -> None:
        self._num_actions = games.spec(game).num_actions

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Zeros: ``policy_logits`` [batch, num_actions] float32, ``value`` [batch] float32."""
        await asyncio.sleep(0)  # as a remote predictor, let others run
        batch = len(observations)
        return Prediction(
            np.zeros((batch, self._num_actions), np.float32), np.zeros(batch, np.float32), 0
        )


class SearchPlayer:
    """Plays what a search without chance visits most.

    Args:
        game: name of the game.
        predictor: behind the search.
        config: of the search.
        most_rows: positions of one request at most.
    """

    def __init__(
        self, game: str, predictor: Predictor, config: SearchConfig, most_rows: int
    ) -> None:
        self._game = game
        self._predictor = predictor
        self._config = config
        self._most_rows = most_rows

    async def choose(self, boards: Sequence[Board]) -> list[Answer]:
        """The most visited action on each board."""
        answers: list[Answer] = []
        for first in range(0, len(boards), self._most_rows):
            chunk = boards[first : first + self._most_rows]
            search = Search(self._game, [board.actions for board in chunk], self._config, 0)
            while not search.done:
                observations = search.select()
                if len(observations) > 0:
                    answer = await self._predictor.predict(observations)
                    search.backup(answer.policy_logits, answer.value, answer.model_version)
            answers += [_ply(result) for result in search.results()]
        return answers


class RandomPlayer:
    """Plays any legal action, each as likely as the others; a position's draw is the seed's."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    async def choose(self, boards: Sequence[Board]) -> list[Answer]:
        """A random action on each board."""
        return [Ply(self._draw(board), None) for board in boards]

    def _draw(self, board: Board) -> int:
        generator = random.Random(f"{self._seed} {board.place} {len(board.plies)}")
        return generator.choice(board.state.legal_actions())


def _ply(result: SearchResult) -> Ply:
    best = result.best_action
    actions = result.actions.tolist()
    q_value = float(result.q_values[actions.index(best)])
    return Ply(
        best,
        Searched(
            legal_actions=actions,
            visit_counts=result.visit_counts.tolist(),
            priors=result.priors.tolist(),
            root_value=result.root_value,
            network_value=result.network_value,
            best_child_value=0.0 if np.isnan(q_value) else q_value,
            simulations=result.simulations,
        ),
    )
