"""Play a model against OpenSpiel's MCTS with random rollouts, which knows only the rules.

``python -m bench.openspiel_match RUN.toml MODEL.onnx --rollouts 10000 --games 40`` plays pairs of
games from random openings of ``evaluator.opening_plies`` plies, with colours swapped.

The model searches as in a match of its run, with ``--simulations``. OpenSpiel's bot has the
settings of OpenSpiel's example programs: UCT with c = 2, one rollout per simulation, and proven
results backed up. It discards its tree after each move.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyspiel
from numpy.typing import NDArray

from bench.report import positive, run_main
from zerofleet import games
from zerofleet.config import load_run
from zerofleet.cpus import usable_cpus
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

SAME_ACTIONS = ("connect_four", "othello", "tic_tac_toe")
"""Games whose actions have the same numbers in OpenSpiel.

tests/games/test_against_openspiel.py checks this.
"""

_UCT_C = 2.0
_MEMORY_MB = 1000
_PAIRS_AT_ONCE = 4


class RolloutPlayer(ActionPlayer):
    """OpenSpiel's ``MCTSBot``, a new one for each move; at most one search runs on each core.

    Args:
        game: one of ``SAME_ACTIONS``.
        rollouts: rollouts for each move.
        seed: with the place of the game and the ply, the seed of each search.
    """

    def __init__(self, game: str, rollouts: int, seed: int) -> None:
        self._game = pyspiel.load_game(game)
        self._rollouts = rollouts
        self._seed = seed
        self._cores = asyncio.Semaphore(usable_cpus())

    async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int:
        """Return the bot's action in the game at this place, after these actions."""
        async with self._cores:
            return await asyncio.to_thread(self._search, place, list(actions))

    def _search(self, place: Place, actions: list[int]) -> int:
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
    """Play all games, and print a line when one ends.

    Raises:
        ConfigError: the run file cannot be used, its actions have other numbers in OpenSpiel, or
            the openings are as long as the game.
    """
    run = load_run(options.run)
    game = run.game.name
    if game not in SAME_ACTIONS:
        raise ConfigError(
            f"{options.run} plays {game}: choose a run of {', '.join(SAME_ACTIONS)}, whose actions "
            "have the same numbers in OpenSpiel"
        )
    session = ModelSession(options.model.read_bytes(), games.spec(game))
    player = SearchPlayer(_Model(session), match_search(run.search, options.simulations))
    other = RolloutPlayer(game, options.rollouts, options.seed)
    plies = run.evaluator.opening_plies
    openings = draw_openings(game, plies, options.games // 2, options.seed)
    places = [(opening, color) for opening in range(len(openings)) for color in (0, 1)]
    queue = PairQueue(places, _PAIRS_AT_ONCE)
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
    """Play the match and print its result."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.openspiel_match",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, metavar="RUN.toml", help="run file")
    parser.add_argument("model", type=Path, metavar="MODEL.onnx", help="model file")
    parser.add_argument(
        "--rollouts",
        type=positive(int),
        default=10_000,
        help="rollouts of OpenSpiel's bot for each move [10000]",
    )
    parser.add_argument(
        "--simulations",
        type=positive(int),
        default=400,
        help="simulations of the model for each move [400]",
    )
    parser.add_argument(
        "--games", type=positive(int), default=40, help="number of games, even [40]"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the openings and the rollouts [1]"
    )
    options = parser.parse_args()
    began = time.process_time()
    scores = [each.score for each in asyncio.run(play(options))]
    mean, games = sum(scores) / len(scores), len(scores)
    print(
        f"{scores.count(1)} won, {scores.count(0.5)} drawn, {scores.count(0)} lost: {mean:.1%} "
        f"(95% interval: {lower_bound(mean, games):.1%} to "
        f"{1 - lower_bound(1 - mean, games):.1%}), {time.process_time() - began:.0f} CPU-seconds"
    )


if __name__ == "__main__":
    run_main(main)
