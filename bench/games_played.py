"""Games for the stores and the trainer: played by the real engine, by a network that is even."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import SelfPlay

from bench.predictors import NoNetwork
from bench.workloads import Workload
from zerofleet.config import RunConfig, run_from_values
from zerofleet.config.presets import Values
from zerofleet.games import State
from zerofleet.records import GameRecord
from zerofleet.search_configs import selfplay_search
from zerofleet.services.selfplay.game_storage import GamesInPlay

RUN = "bench"
_FULL_AND_FAST: Values = {"preset": "plain", "selfplay": {"full_search_share": 0.25}}


def run_of(workload: Workload, more: Values | None = None) -> RunConfig:
    """A run of the workload, from the run file that a person would write: the defaults and sizes.

    Args:
        workload: what is played.
        more: further keys of the run file.
    """
    values: Values = {
        "name": RUN,
        "game": {"name": workload.game},
        "search": {"num_simulations": workload.simulations},
        "network": workload.network.model_dump(exclude_unset=True),
    }
    return run_from_values(values | (more or {}))


def played_games(workload: Workload, count: int, seed: int) -> list[GameRecord]:
    """Whole games as a worker records them, full searches and fast ones; none is left out.

    Args:
        workload: what is played.
        count: games.
        seed: of the play; every game has a uid of its own all the same.
    """
    search = selfplay_search(run_of(workload, _FULL_AND_FAST))
    engine, in_play = (
        SelfPlay(workload.game, count, search, seed),
        GamesInPlay(workload.game),
    )
    network = NoNetwork(workload.spec.num_actions, count)
    records: list[GameRecord] = []
    observations = engine.select()
    engine.set_accepting(False)  # finish running games: short games end first
    in_play.begin(engine.take_begun(), datetime.now(UTC))
    while len(observations) > 0:
        policy_logits, value = network.run(observations)
        engine.backup(policy_logits, value, 1)
        observations = engine.select()
        for game in engine.take_finished():
            finished = in_play.finish(game, datetime.now(UTC))
            if finished is not None:
                records.append(finished[0])
    return records


def random_positions(game: str, count: int, seed: int) -> NDArray[np.uint8]:
    """Observations ``[count, observation_bytes]`` of games of random moves, all stages alike."""
    chance = random.Random(seed)
    state = State(game)
    rows: list[NDArray[np.uint8]] = []
    while len(rows) < count:
        if state.is_terminal:
            state = State(game)
        rows.append(state.observation())
        state.apply(chance.choice(state.legal_actions()))
    return np.stack(rows)
