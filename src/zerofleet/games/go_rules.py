"""What a game's name says of the rules of Go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from zerofleet_core import game_spec

from zerofleet.errors import ConfigError

_KOMI = 7.5  # of the core, for a name that gives none


@dataclass(frozen=True, slots=True)
class GoRules:
    """Tromp-Taylor rules as far as they vary, read from a name such as ``go(size=9,komi=7)``."""

    size: int  # rows, and columns
    komi: float  # White's points
    suicide: bool  # whether a move may remove its own chain

    @classmethod
    def of(cls, game: str) -> Self:
        """The rules that a game's name stands for.

        Raises:
            ConfigError: there is no such game, or it is not Go.
        """
        if not is_go(game):
            raise ConfigError(f"the game is '{game}', not Go")
        try:
            size = game_spec(game).observation_shape[1]
        except ValueError as error:
            raise ConfigError(str(error)) from error
        given = _settings(game)
        return cls(
            size=size,
            komi=float(given.get("komi", min(_KOMI, size * size))),
            suicide=given.get("suicide", "true") == "true",
        )

    @property
    def name(self) -> str:
        """A name of the game with these rules."""
        suicide = "true" if self.suicide else "false"
        return f"go(size={self.size},komi={self.komi:g},suicide={suicide})"


def is_go(game: str) -> bool:
    """Whether a game's name stands for Go."""
    return base_name(game) == "go"


def base_name(game: str) -> str:
    """A game's name without its rules."""
    return game.partition("(")[0]


def _settings(game: str) -> dict[str, str]:
    inside = game.partition("(")[2].removesuffix(")")
    pairs = (setting.partition("=") for setting in inside.split(",") if setting)
    return {key.strip(): value.strip() for key, _, value in pairs}
