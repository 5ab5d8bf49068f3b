"""Fixed opponents by name: what they are, and whether they can play here."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack

from services.evaluator.board import Player
from services.evaluator.outside import OutsidePlayer, gnugo_command, go_setup
from services.evaluator.players import RandomPlayer
from zerofleet.config import RunConfig
from zerofleet.errors import ConfigError
from zerofleet.games.go_rules import GoRules, is_go

SEARCH = "search"  # it asks a predictor, as models do
_RANDOM = "random"
_GNUGO = re.compile(r"gnugo:(10|[1-9])")


def check_anchors(run: RunConfig) -> None:
    """Refuse names that nobody knows.

    Raises:
        ConfigError: ``rating.anchors`` has one.
    """
    for name in run.rating.anchors:
        if name not in (_RANDOM, SEARCH) and _GNUGO.fullmatch(name) is None:
            raise ConfigError(
                f"rating.anchors has '{name}': give random, search, or gnugo:1 to gnugo:10"
            )


def why_absent(name: str, game: str) -> str | None:
    """Why an anchor cannot play this game here; None when it can."""
    level = _GNUGO.fullmatch(name)
    if level is None:
        return None
    if not is_go(game):
        return f"GNU Go does not play {game}"
    if gnugo_command(int(level[1]), GoRules.of(game)) is None:
        return "the program gnugo is not on PATH"
    return None


def anchor_player(
    name: str, game: str, seed: int, processes: AsyncExitStack, thinking: asyncio.Semaphore
) -> Player:
    """An anchor that asks no predictor and can play here.

    Args:
        name: of the anchor.
        game: name of the game.
        seed: of what it draws.
        processes: programs that it starts end with this.
        thinking: how many programs may choose a move at once.
    """
    if name == _RANDOM:
        return RandomPlayer(seed)
    level, rules = _GNUGO.fullmatch(name), GoRules.of(game)
    command = gnugo_command(int(level[1]), rules) if level else None
    if command is None:
        raise ConfigError(f"the anchor '{name}' cannot play here")
    return OutsidePlayer(command, go_setup(rules), processes, thinking)
