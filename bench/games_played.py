"""Games for the benchmarks of stores and trainer, from the real engine with a uniform network."""

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
    """Return a run of the workload, with the defaults for all keys that it does not set.

    Args:
        workload: gives the game, the simulations per move and the network's size.
        more: sections of the run file to add; they replace sections of the same name.

    Raises:
        ValidationError: pydantic's; a key of ``more`` is unknown or has an invalid value.
    """
    values: Values = {
        "name": RUN,
        "game": {"name": workload.game},
        "search": {"num_simulations": workload.simulations},
        "network": workload.network.model_dump(exclude_unset=True),
    }
    return run_from_values(values | (more or {}))


def played_games(workload: Workload, count: int, seed: int) -> list[GameRecord]:
    """Play games to their end, and return them as a worker records them.

    About a quarter of the moves have full searches, and the others have fast ones. Every game that
    was started is returned, in the order of their ends.

    Args:
        workload: game and simulations per move.
        count: number of games.
        seed: seed of the engine. Uids are new in each call.
    """
    search = selfplay_search(run_of(workload, _FULL_AND_FAST))
    engine, in_play = (
        SelfPlay(workload.game, count, search, seed),
        GamesInPlay(workload.game),
    )
    network = NoNetwork(workload.spec.num_actions, count)
    records: list[GameRecord] = []
    observations = engine.select()
    engine.set_accepting(False)  # new games would favour short ones, which end first
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
    """Return observations from games of random moves, from all stages of the game.

    Args:
        game: name of the game.
        count: number of positions.
        seed: seed of the moves.

    Returns:
        Array ``[count, observation_bytes]``, packed as the network's input.
    """
    chance = random.Random(seed)
    state = State(game)
    rows: list[NDArray[np.uint8]] = []
    while len(rows) < count:
        if state.is_terminal:
            state = State(game)
        rows.append(state.observation())
        state.apply(chance.choice(state.legal_actions()))
    return np.stack(rows)
