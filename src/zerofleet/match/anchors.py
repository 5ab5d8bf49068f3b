"""Opponents that never change: random play, the search without a network, and programs."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack

import numpy as np
from numpy.typing import NDArray

from zerofleet import games
from zerofleet.config import EngineName
from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.games.chess import is_chess
from zerofleet.games.go import GoRules, is_go
from zerofleet.match.play_match import ActionPlayer, MatchPlayer, Place, SearchPlayer
from zerofleet.match.program_players import (
    GtpPlayer,
    PythonPlayer,
    UciPlayer,
    gnugo_command,
    go_setup,
    gtp_setup,
)
from zerofleet.prediction import Prediction
from zerofleet.search_configs import PLAIN_SEARCH, match_search

_GNUGO = re.compile(r"gnugo:(10|[1-9])")
NO_GNUGO = (
    "the program gnugo is not on PATH: install GNU Go (Debian and Ubuntu: apt-get install gnugo, "
    "and add /usr/games to PATH)"
)


def why_unsuited(name: str, game: str) -> str | None:
    """Return why an anchor cannot play this game on any machine; None if it can."""
    if _GNUGO.fullmatch(name) and not is_go(game):
        return f"GNU Go does not play {game}"
    engine = EngineName.of(name)
    if engine is not None and engine.protocol == "uci" and not is_chess(game):
        return f"UCI programs play chess, not {game}"
    return None


def why_absent(name: str, game: str, allowed: Collection[str] | None) -> str | None:
    """Return why an anchor cannot play this game here; None if it can.

    Args:
        name: the anchor. A run file or a row of the database may name it, so it is no permission to
            start a program.
        game: name of the game.
        allowed: programs and classes that may be started; None: any.
    """
    reason = why_unsuited(name, game)
    if reason is not None:
        return reason
    level = _GNUGO.fullmatch(name)
    if level is not None:
        return NO_GNUGO if gnugo_command(int(level[1]), GoRules.of(game)) is None else None
    engine = EngineName.of(name)
    if engine is None:
        return None
    if allowed is not None and engine.command not in allowed:
        return (
            f"the evaluator may not start '{engine.command}': add it to ZEROFLEET_ENGINES in the "
            "evaluator's environment"
        )
    if engine.protocol != "python" and shutil.which(engine.arguments[0]) is None:
        program = engine.arguments[0]
        if "/" in program:
            return f"{program} is no executable file: correct its name, or make it executable"
        return f"the program {program} is not on PATH: install it, or correct its name"
    return None


def anchor_player(
    name: str,
    game: str,
    num_simulations: int,
    seed: int,
    programs: AsyncExitStack,
    thinking: asyncio.Semaphore,
    allowed: Collection[str] | None,
) -> MatchPlayer:
    """Return an anchor that can play here.

    Args:
        num_simulations: simulations of the anchor ``search``. Its other settings are constants, so
            that it is the same opponent in all runs.
        seed: seed of the anchor ``random``.
        programs: ends the programs that the anchor starts.
        thinking: limits how many programs choose an action at once.
        allowed: programs and classes that may be started; None: any.

    Raises:
        ConfigError: there is no such anchor, or it cannot play here.
    """
    if name == "random":
        return RandomPlayer(game, seed)
    if name == "search":
        return SearchPlayer(NoNetwork(game), match_search(PLAIN_SEARCH, num_simulations))
    try:
        reason = why_absent(name, game, allowed)
        engine = EngineName.of(name)
    except ValueError as error:  # a row of another version of zerofleet
        raise ConfigError(str(error)) from error
    if reason is not None:
        raise ConfigError(f"the anchor '{name}' cannot play here: {reason}")
    if engine is not None and engine.protocol == "uci":
        return UciPlayer(game, engine, programs, thinking)
    if engine is not None and engine.protocol == "python":
        return PythonPlayer(game, name, programs, thinking)
    if engine is not None:
        return GtpPlayer(game, engine.arguments, gtp_setup(game), programs, thinking)
    level = _GNUGO.fullmatch(name)
    command = gnugo_command(int(level[1]), GoRules.of(game)) if level else None
    if command is None:
        raise ConfigError(f"there is no anchor '{name}'")
    return GtpPlayer(game, command, go_setup(GoRules.of(game)), programs, thinking)


class NoNetwork:
    """A predictor without knowledge: equal priors, every position even."""

    def __init__(self, game: str) -> None:
        self._num_actions = games.spec(game).num_actions

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Return zeros: policy_logits [batch, num_actions] float32, value [batch] float32."""
        await asyncio.sleep(0)  # like a remote predictor, let other tasks run
        batch = len(observations)
        return Prediction(
            np.zeros((batch, self._num_actions), np.float32), np.zeros(batch, np.float32), 0
        )


class RandomPlayer(ActionPlayer):
    """Plays legal actions with equal probability; the seed determines each ply's draw."""

    def __init__(self, game: str, seed: int) -> None:
        self._game = game
        self._seed = seed

    async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int:
        """Return a random legal action."""
        generator = random.Random(f"{self._seed} {place} {len(actions)}")
        return generator.choice(State(self._game, actions, start).legal_actions())
