"""Games of OpenSpiel (Lanctot et al. 2019): ``openspiel:chess``, ``openspiel:hex(board_size=5)``.

Every deterministic, sequential, zero-sum game for two players with perfect information and an
observation tensor.
"""

from __future__ import annotations

import difflib
import importlib
import math
import re
from typing import cast

from zerofleet.errors import ConfigError
from zerofleet.games.openspiel_api import Pyspiel, SpielGame, SpielKind
from zerofleet.games.openspiel_rules import OpenSpielRules
from zerofleet.games.openspiel_tensor import Tensor

_MOST_ACTIONS = 32_767  # smallint in positions.action
_MOST_NUMBERS = 1_000_000  # of an observation; 19x19 Go has 1,444
# A name may come from the database, and what OpenSpiel says of a file has a line of it.
_READS_FILES = re.compile(
    r"\b(?:efg_game|nfg_game)\b|\b\w*(?:file|path|root|dir)\w*\s*=", re.IGNORECASE
)


def load_openspiel(name: str) -> OpenSpielRules:
    """The rules of a game of OpenSpiel, parameters included as OpenSpiel writes them.

    Raises:
        ConfigError: OpenSpiel is not installed, has no such game, or it cannot be played here; the
            message says why.
    """
    if _READS_FILES.search(name):
        raise ConfigError(f"'openspiel:{name}' reads files: choose a game without a file's name")
    pyspiel = _pyspiel()
    known = pyspiel.registered_names()
    family = name.partition("(")[0]
    if family not in known:
        nearest = difflib.get_close_matches(family.lower(), known, n=1, cutoff=0.5)
        hint = f"; did you mean 'openspiel:{nearest[0]}'?" if nearest else ""
        raise ConfigError(f"OpenSpiel has no game '{family}'{hint}")
    try:
        game = pyspiel.load_game(name)
        reasons = _why_not(game)
        if not reasons:
            return OpenSpielRules(game)
    # Numbers that a game cannot have end in any of these, some of them in our own arithmetic.
    except (
        pyspiel.SpielError,
        ArithmeticError,
        LookupError,
        MemoryError,
        RuntimeError,
        ValueError,
    ) as error:
        raise ConfigError(f"OpenSpiel does not make '{name}': {error}") from error
    raise ConfigError(f"OpenSpiel's '{name}' cannot be played here: {'; '.join(reasons)}")


def playable_games() -> list[str]:
    """Names of the games that OpenSpiel makes without parameters and that are played here.

    Raises:
        ConfigError: OpenSpiel is not installed.
    """
    pyspiel = _pyspiel()
    return [
        f"openspiel:{kind.short_name}"
        for kind in pyspiel.registered_games()
        if kind.default_loadable
        and not _why_not_kind(kind)
        and not _why_not(pyspiel.load_game(kind.short_name))
    ]


def _pyspiel() -> Pyspiel:
    try:
        return cast("Pyspiel", importlib.import_module("pyspiel"))
    except ImportError as error:
        raise ConfigError(
            f"OpenSpiel is not installed ({error}): pip install 'zerofleet[openspiel]', or make "
            "setup in a checkout"
        ) from error


def _why_not(game: SpielGame) -> list[str]:
    reasons = _why_not_kind(game.get_type())
    if game.num_players() != 2:
        reasons.append(f"it is for {game.num_players()} players, not 2")
    if game.num_distinct_actions() > _MOST_ACTIONS:
        reasons.append(f"it has {game.num_distinct_actions()} actions, more than {_MOST_ACTIONS}")
    kind = game.get_type()
    if kind.provides_observation_tensor or kind.provides_information_state_tensor:
        numbers = math.prod(Tensor(game).shape)
        if numbers > _MOST_NUMBERS:
            reasons.append(f"an observation has {numbers:,} numbers, more than {_MOST_NUMBERS:,}")
    return reasons


def _why_not_kind(kind: SpielKind) -> list[str]:
    reasons: list[str] = []
    if kind.dynamics.name != "SEQUENTIAL":
        reasons.append("the players do not move one after the other")
    if kind.chance_mode.name != "DETERMINISTIC":
        reasons.append("chance takes part")
    if kind.information.name != "PERFECT_INFORMATION":
        reasons.append("a player does not see everything (imperfect information)")
    if kind.utility.name != "ZERO_SUM":
        reasons.append("it is not zero-sum")
    if not (kind.provides_observation_tensor or kind.provides_information_state_tensor):
        reasons.append("it has no observation tensor")
    return reasons
