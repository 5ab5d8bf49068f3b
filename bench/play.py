"""Self-play as a worker plays it, without what a worker does besides: no stores, no in_play."""

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
PLAY_VERSION = 2  # another than the warm-up's, so that no prediction of it stays in a cache


class Play:
    """Engines in flight side by side, which keep their games between blocks.

    They begin as a worker is found at any moment: games at all stages, two plies played, trees
    grown. A network that costs nothing plays these plies.

    Args:
        workload: what is played.
        config: of the search.
        games: of one engine.
        engines: in flight.
        seed: of the first engine; the others have the next ones.
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
        """Play for a while."""
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
            answer = await predictor.predict(observations)
            engine.backup(answer.policy_logits, answer.value, answer.model_version)
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
    """Games that were begun at random, each with fewer plies than the workload's games have."""
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
    """A game whose plies were given: no search, no children."""
    sizes = {"ply": len(actions), "legal action": 0}
    columns: dict[str, Any] = {
        column.name: np.zeros(sizes[column.entry], column.dtype) for column in COLUMNS
    }
    columns["action"] = np.asarray(actions, np.int16)
    return GameColumns(**columns, offsets=np.zeros(len(actions) + 1, np.int32))
