"""What a player is asked, and what it answers: positions in, opinions and actions out.

``PlayerBackend`` is what the service ``zerofleet.v1.Player`` asks; the inference service implements
it over its own models. Programs ask that service with ``zerofleet.client``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from zerofleet.rpc.codec import BEST


@dataclass(frozen=True, slots=True)
class Sgf:
    """A position as the main line of an SGF file, of Go or Othello."""

    text: str | bytes  # bytes: the unchanged file, whose encoding the server detects


Actions = Sequence[int] | Sequence[str] | Sgf
"""The actions from the start of a game, as numbers, as the game writes them, or as SGF."""


@dataclass(frozen=True, slots=True)
class PlayerDescription:
    """What a player plays, and with which models."""

    game: str  # with its rules
    num_actions: int
    observation_shape: tuple[int, int, int]  # planes, rows, columns
    run: str
    best: int | None  # the promoted version; None while there is none
    versions: tuple[int, ...]  # that may be asked for, ascending
    num_simulations: int  # of a search that does not say how many
    max_simulations: int  # that a search may ask for


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search; the defaults are the run file's."""

    num_simulations: int | None = None
    leaves: int = 1  # of one tree that may be at the network together: more is faster and weaker
    seed: int | None = None  # None: drawn by the server
    noise: bool = False  # Dirichlet noise in the root's priors


@dataclass(frozen=True, slots=True)
class PositionPrediction:
    """The network's opinion of a position."""

    run: str
    version: int
    to_play: int
    value: float  # in [-1, 1], for the player to move
    actions: tuple[int, ...]  # legal ones, ascending
    action_strings: tuple[str, ...]
    priors: tuple[float, ...]  # of ``actions``; they give 1 together


@dataclass(frozen=True, slots=True)
class SearchChild:
    """One legal action at the root of a search."""

    action: int
    action_string: str
    visit_count: int
    prior: float
    q_value: float | None  # for the player to move at the root; None while unvisited
    principal_variation: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SearchTable:
    """The table at the root of a search."""

    run: str
    version: int
    to_play: int
    simulations: int
    root_value: float  # for the player to move, after search
    network_value: float  # for the player to move, before search
    best_action: int
    best_action_string: str
    children: tuple[SearchChild, ...]  # by action, ascending
    done: bool

    @property
    def ranked(self) -> list[SearchChild]:
        """The children, best first: the action to play, then by visits and prior.

        The action to play is the most visited one, unless the search has proven another better.
        """
        return sorted(
            self.children,
            key=lambda child: (child.action != self.best_action, -child.visit_count, -child.prior),
        )


@dataclass(frozen=True, slots=True)
class PlayedAction:
    """The action a player chose."""

    run: str
    version: int
    action: int
    action_string: str
    root_value: float
    simulations: int


class PlayerBackend(Protocol):
    """Answers questions about positions.

    All methods raise ``InvalidRequestError`` for an unknown game, an illegal action (named, with
    its ply), a finished game, or options without sense, and ``ModelNotFoundError``. An empty
    ``game`` or ``run`` is the server's.
    """

    async def describe(self) -> PlayerDescription:
        """The game, and the models there are."""
        ...

    async def predict(
        self, game: str, actions: Actions, *, run: str = "", version: str = BEST
    ) -> PositionPrediction:
        """The network's opinion, without search."""
        ...

    async def search(
        self,
        game: str,
        actions: Actions,
        *,
        run: str = "",
        version: str = BEST,
        options: SearchOptions = SearchOptions(),
    ) -> SearchTable:
        """The table after a whole search."""
        ...

    def analyze(
        self,
        game: str,
        actions: Actions,
        *,
        run: str = "",
        version: str = BEST,
        options: SearchOptions = SearchOptions(),
        every_simulations: int = 0,
        every_seconds: float = 0.0,
    ) -> AsyncGenerator[SearchTable]:
        """The table while the search runs: about every so many simulations, every so many seconds.

        With neither, after each tenth of the simulations. The search ends when the generator is
        closed.
        """
        ...

    async def play(
        self,
        game: str,
        actions: Actions,
        *,
        run: str = "",
        version: str = BEST,
        options: SearchOptions = SearchOptions(),
        temperature: float = 0.0,
    ) -> PlayedAction:
        """Choose an action: the most visited, or at a temperature a sample of the visits."""
        ...
