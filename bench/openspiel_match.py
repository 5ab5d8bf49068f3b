"""How does a model do against OpenSpiel's MCTS with random rollouts, which knows rules alone?

``python -m bench.openspiel_match RUN.toml MODEL.onnx --rollouts 10000 --games 40`` plays pairs of
games from random openings of ``evaluator.opening_plies`` plies with colours swapped. The model
searches as in a match of its run, with ``--simulations``. OpenSpiel's bot chooses as its example
programs have it: UCT with c = 2, one rollout a simulation, proven results backed up, its tree
thrown away after each move.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyspiel
from numpy.typing import NDArray

from bench.report import positive, run_main
from zerofleet import games
from zerofleet.config import load_run
from zerofleet.database import MatchGame
from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.gtp.engine import lower_bound
from zerofleet.match.play_match import (
    ActionPlayer,
    PairQueue,
    Place,
    SearchPlayer,
    draw_openings,
    play_match,
)
from zerofleet.models.session import ModelSession
from zerofleet.prediction import Prediction
from zerofleet.search_configs import match_search

# Whose actions have the same numbers in OpenSpiel (tests/games/test_against_openspiel.py).
SAME_ACTIONS = ("connect_four", "othello", "tic_tac_toe")
_UCT_C = 2.0
_MEMORY_MB = 1000


class RolloutPlayer(ActionPlayer):
    """OpenSpiel's ``MCTSBot``, anew for each move, as many at once as there are cores.

    Args:
        game: one of ``SAME_ACTIONS``.
        rollouts: of a move.
        seed: of its draws, with the place of the game and the ply.
    """

    def __init__(self, game: str, rollouts: int, seed: int) -> None:
        self._game = pyspiel.load_game(game)
        self._rollouts = rollouts
        self._seed = seed
        self._free = asyncio.Semaphore(os.cpu_count() or 1)

    async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int:
        """The most visited action."""
        async with self._free:
            return await asyncio.to_thread(self._step, place, list(actions))

    def _step(self, place: Place, actions: list[int]) -> int:
        state = self._game.new_initial_state()
        for action in actions:
            state.apply_action(action)
        seed = hash((self._seed, *place, len(actions))) % 2**31
        rollout = pyspiel.RandomRolloutEvaluator(1, seed)
        bot = pyspiel.MCTSBot(
            self._game, rollout, _UCT_C, self._rollouts, _MEMORY_MB, True, seed, False
        )
        return int(bot.step(state))


class _Model:
    """A model file as a predictor."""

    def __init__(self, session: ModelSession) -> None:
        self._session = session

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        return Prediction(*self._session.run(observations), 1)


async def play(options: argparse.Namespace) -> list[MatchGame]:
    """All games; told of one by one."""
    run = load_run(options.run)
    game = run.game.name
    if game not in SAME_ACTIONS:
        raise ConfigError(
            f"{options.run} plays {game}: OpenSpiel numbers the actions of "
            f"{', '.join(SAME_ACTIONS)} alone as we do"
        )
    session = ModelSession(options.model.read_bytes(), games.spec(game))
    player = SearchPlayer(_Model(session), match_search(run.search, options.simulations))
    other = RolloutPlayer(game, options.rollouts, options.seed)
    plies = run.evaluator.opening_plies
    openings = draw_openings(game, plies, options.games // 2, options.seed)
    queue = PairQueue([(opening, color) for opening in range(len(openings)) for color in (0, 1)], 4)
    played: list[MatchGame] = []

    async def keep(finished: Sequence[MatchGame]) -> None:
        for each in finished:
            played.append(each)
            state = State(game, each.record.columns.action.tolist())
            print(
                f"game {len(played)}: the model plays {('first', 'second')[each.color]}, "
                f"score {each.score:g}, {state.ply} plies",
                flush=True,
            )

    await play_match(game, openings, (player, other), queue, keep)
    return played


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN.toml")
    parser.add_argument("model", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--rollouts", type=positive(int), default=10_000)
    parser.add_argument("--simulations", type=positive(int), default=400)
    parser.add_argument("--games", type=positive(int), default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.process_time()
    scores = [each.score for each in asyncio.run(play(options))]
    mean, games = sum(scores) / len(scores), len(scores)
    print(
        f"{scores.count(1)} won, {scores.count(0.5)} drawn, {scores.count(0)} lost: {mean:.1%} "
        f"(95% sure: {lower_bound(mean, games):.1%} to {1 - lower_bound(1 - mean, games):.1%}), "
        f"{time.process_time() - began:.0f} CPU-seconds"
    )


if __name__ == "__main__":
    run_main(main)
