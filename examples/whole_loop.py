"""The whole training loop on one page, without services.

Self-play fills a replay buffer, a learner trains on it and exports models, and an exam scores them.

python examples/whole_loop.py           # tic-tac-toe, ten models in 15 s
python examples/whole_loop.py 20        # twenty models

A fleet runs each part as a process, with Postgres and gRPC between them. Its evaluator judges the
models. Here self-play always uses the newest model, as a fleet does with ``evaluator.gate =
false``.
"""

from __future__ import annotations

import asyncio
import sys
import time

import numpy as np
import torch
from numpy.typing import NDArray
from zerofleet_core import GameColumns, ReplayBuffer, SelfPlay

from zerofleet import games
from zerofleet.config import RunConfig, run_from_values
from zerofleet.exam import examine
from zerofleet.learning import export_onnx
from zerofleet.learning.learner import Learner
from zerofleet.learning.window import TrainBucket
from zerofleet.models.session import ModelSession
from zerofleet.prediction import Prediction
from zerofleet.search_configs import selfplay_search

GAME = "tic_tac_toe"
GAMES_AT_ONCE = 64
GAMES_PER_MODEL = 256

# The default value target uses root values as well, which keep() below does not pass on.
RUN = run_from_values(
    {
        "name": "whole-loop",
        "preset": "plain",
        "game": GAME,
        "search": {"num_simulations": 50},
        "selfplay": {"temperature_moves": 6},
        "network": {"blocks": 2, "channels": 32},
        "trainer": {
            "batch_size": 128,
            "learning_rate": [0.02],
            "window_positions": 10_000,
        },
    }
)


class Model:
    """The newest network as a ``Predictor``, exported to ONNX and run by ONNX Runtime."""

    def __init__(self, learner: Learner, version: int) -> None:
        spec = games.spec(GAME)
        exported = export_onnx(learner.published, spec.observation_bytes, {"version": str(version)})
        self._session = ModelSession(exported, spec)
        self.version = version

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict for packed observations [batch, observation_bytes]; see zerofleet.prediction."""
        policy_logits, value = self._session.run(observations)
        return Prediction(policy_logits, value, self.version)


async def play(engine: SelfPlay, model: Model, wanted: int) -> list[GameColumns]:
    """Play until at least ``wanted`` games are over, and return all games that are over."""
    finished: list[GameColumns] = []
    while len(finished) < wanted:
        prediction = await model.predict(engine.select())
        engine.backup(prediction.policy_logits, prediction.value, model.version)
        finished += engine.take_finished()
    return finished


def keep(game: GameColumns, buffer: ReplayBuffer) -> int:
    """Add a game to the window and return the number of positions added."""
    return buffer.add(
        game.action,
        game.result or 0,
        game.full_search,
        game.offsets,
        game.legal_actions,
        game.policy_weights,
    )


async def main(models: int = 10, run: RunConfig = RUN, each: int = GAMES_PER_MODEL) -> list[float]:
    """Train; return each model's share of lost lines of play, beginning with the untrained one."""
    learner = Learner(games.spec(GAME), run)
    engine = SelfPlay(GAME, GAMES_AT_ONCE, selfplay_search(run), run.seed)
    buffer = ReplayBuffer(GAME, run.trainer.window_positions, run.trainer.window_games)
    bucket = TrainBucket(run.trainer.samples_per_position)
    size, began, lost = run.trainer.batch_size, time.monotonic(), list[float]()
    for version in range(models + 1):
        model = Model(learner, version)
        # With two simulations per move the player knows little more than its network. The exam
        # walks all lines of play, whatever the number of positions.
        result = await examine(GAME, model, num_simulations=2, positions=1)
        lost.append(result.error_rate)
        print(
            f"model {version:2}: loses {result.error_rate:6.1%} of all lines of play, "
            f"{learner.step:4} steps, {time.monotonic() - began:3.0f} s",
            flush=True,
        )
        for game in await play(engine, model, each if version < models else 0):
            bucket.pay(keep(game, buffer))
        while bucket.holds(size):  # the bucket bounds how often each position is drawn
            learner.train(buffer.sample(size, run.seed * 1_000_003 + learner.step, symmetry=True))
            bucket.draw(size)
    return lost


if __name__ == "__main__":
    torch.set_num_threads(1)  # more threads gain nothing with a network this small
    asyncio.run(main(*map(int, sys.argv[1:2])))
