"""Self-play without the rest of a worker: no stores, and no records of games in play."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import numpy as np
from zerofleet_core import GameColumns, SearchConfig, SelfPlay

from bench.blocks import Counts
from bench.predictors import NoNetwork
from bench.workloads import Workload
from zerofleet.games import State
from zerofleet.prediction import Predictor
from zerofleet.records import COLUMNS

WARM_UP_VERSION = 1
PLAY_VERSION = 2
"""Version of the measured model. It differs from the warm-up's, which empties the caches."""


class Play:
    """Engines that play concurrently, and keep their games between blocks.

    They start in the usual state of a worker: games at all stages, with grown trees. A warm-up of
    two plies per game grows the trees, with a network that costs nothing.

    Args:
        workload: its game, and the usual number of plies.
        config: settings of the search.
        games: games of one engine.
        engines: number of engines.
        seed: seed of the first engine; each further engine has the next number.
    """

    def __init__(
        self, workload: Workload, config: SearchConfig, games: int, engines: int = 2, seed: int = 0
    ) -> None:
        seeds = range(seed, seed + engines)
        self._engines = [SelfPlay(workload.game, games, config, each) for each in seeds]
        self._batches = 0
        network = NoNetwork(workload.spec.num_actions, games)
        for each, engine in zip(seeds, self._engines, strict=True):
            for game in openings(workload, games, seed=each):
                engine.adopt(game)
            while engine.statistics.plies < 2 * games:
                policy_logits, value = network.run(engine.select())
                engine.backup(policy_logits, value, WARM_UP_VERSION)
            engine.take_finished()

    async def block(self, predictor: Predictor, seconds: float) -> Counts:
        """Play for at least this time.

        Returns:
            The number of evaluated ``positions``, ``simulations``, ``plies`` and ``batches``.
        """
        before = self._totals()
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for engine in self._engines:
                group.create_task(self._play(engine, predictor, end))
        after = self._totals()
        return {name: after[name] - before[name] for name in after}

    async def _play(self, engine: SelfPlay, predictor: Predictor, end: float) -> None:
        while time.monotonic() < end:
            observations = engine.select()
            found = await predictor.predict(observations)
            engine.backup(found.policy_logits, found.value, found.model_version)
            self._batches += 1
            engine.take_finished()

    def _totals(self) -> Counts:
        figures = [engine.statistics for engine in self._engines]
        return {
            "positions": sum(figure.positions_evaluated for figure in figures),
            "simulations": sum(figure.simulations for figure in figures),
            "plies": sum(figure.plies for figure in figures),
            "batches": self._batches,
        }


def openings(workload: Workload, count: int, seed: int) -> list[GameColumns]:
    """Return unfinished games of random moves, with a random number of plies.

    Args:
        workload: its game; each opening has fewer plies than the workload's usual game.
        count: number of games.
        seed: seed of the moves.
    """
    chance = random.Random(seed)
    return [_opening(workload, chance) for _ in range(count)]


def _opening(workload: Workload, chance: random.Random) -> GameColumns:
    state = State(workload.game)
    actions: list[int] = []
    for _ in range(chance.randrange(workload.plies)):
        action = chance.choice(state.legal_actions())
        state.apply(action)
        if state.is_terminal:
            break
        actions.append(action)
    return _unsearched(actions)


def _unsearched(actions: list[int]) -> GameColumns:
    """Return the columns of a game whose plies have no search."""
    sizes = {"ply": len(actions), "legal action": 0}
    columns: dict[str, Any] = {
        column.name: np.zeros(sizes[column.entry], column.dtype) for column in COLUMNS
    }
    columns["action"] = np.asarray(actions, np.int16)
    return GameColumns(**columns, offsets=np.zeros(len(actions) + 1, np.int32))
