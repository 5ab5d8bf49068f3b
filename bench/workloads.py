"""Workloads: games with the network and the simulations behind other systems' figures."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from zerofleet import games
from zerofleet.config import NetworkSection
from zerofleet.errors import ConfigError
from zerofleet.games import GameSpec


@dataclass(frozen=True, slots=True)
class Workload:
    """A game as it is benchmarked.

    Args:
        name: on the command line and in results.
        game: the game with its rules.
        network: its sizes; weights are random unless a model file is given.
        simulations: of a move.
        plies: of a game, stated rather than measured, so that games an hour can be compared.
        games: that one engine plays at once, and so the rows of a message; a worker's own default,
            but more where the network is so small that a message costs as much as its rows.
    """

    name: str
    game: str
    network: NetworkSection
    simulations: int
    plies: int
    games: int = 256

    @property
    def spec(self) -> GameSpec:
        """The game's sizes."""
        return games.spec(self.game)

    @property
    def network_name(self) -> str:
        """Blocks and channels, as 5x64."""
        return f"{self.network.blocks}x{self.network.channels}"


WORKLOADS = {
    known.name: known
    for known in (
        Workload("connect_four", "connect_four", NetworkSection(blocks=5, channels=64), 100, 21),
        Workload("tic_tac_toe", "tic_tac_toe", NetworkSection(blocks=2, channels=32), 50, 8, 512),
        Workload("go9", "go(size=9)", NetworkSection(blocks=6, channels=64), 200, 80),
        Workload("chess", "chess", NetworkSection(blocks=6, channels=64), 100, 120),
    )
}
"""The settings W1, W2 and W3 of the published comparisons, and chess."""


def workload(name: str) -> Workload:
    """A workload by its name, or any game with the run file's default network.

    Raises:
        ArgumentTypeError: there is no such game.
    """
    known = WORKLOADS.get(name)
    if known is not None:
        return known
    try:
        longest = games.spec(name).max_length
    except ConfigError as error:
        message = f"{error}; workloads: {', '.join(WORKLOADS)}"
        raise argparse.ArgumentTypeError(message) from error
    return Workload(name, name, NetworkSection(), 100, max(1, longest // 2))
