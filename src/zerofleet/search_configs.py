"""The core's search settings, made from a run file.

All keys of ``[search]`` and most keys of ``[selfplay]`` are passed on by name, because the core's
``SearchConfig`` has the same names. A new key needs no change here, unless the core does not know
it (``_NOT_SEARCH_KEYS``) or it is random by default (``DETERMINISTIC``).

Matches, clients and self-play share ``[search]``. Only self-play also reads ``[selfplay]``, so a
new exploration key never changes a match.
"""

from __future__ import annotations

from typing import Any

from zerofleet_core import SearchConfig

from zerofleet import games
from zerofleet.config import RunConfig, SearchSection, SelfplaySection

PLAIN_SEARCH = SearchSection(
    num_simulations=100, root="puct", prove_results=False, decisive_moves=False
)
"""PUCT without proofs, for players that must not depend on the run file."""

DETERMINISTIC: dict[str, Any] = {
    "dirichlet_fraction": 0.0,
    "gumbel_scale": 0.0,
    "temperature": 0.0,
    "temperature_moves": 0,
    "random_symmetry": False,
}
"""Values that switch off every setting of the core that is random by default. The other keys of
``[selfplay]`` are neutral by default."""

STDEV_SETTINGS = {"lcb_stdevs": 5.0, "c_puct_stdev_scale": 0.85}
"""Settings of client searches in a run with a Gumbel root; the numbers are KataGo's. The best
action has the highest lower confidence bound, and ``c_puct`` follows the standard deviation of the
values."""

_MOST_OPENING_PLIES = 24  # default of selfplay.random_opening_plies in long games

_NOT_SEARCH_KEYS = {
    "games_per_engine",
    "engines",
    "save_every_plies",
    "lease_seconds",
    "max_ahead_positions",
    "restart_share",  # SelfPlay.set_restarts takes it with the positions
}
"""Keys of ``[selfplay]`` that do not belong to the search."""

_SEARCH_KEYS = set(SelfplaySection.model_fields) - _NOT_SEARCH_KEYS


def selfplay_search(run: RunConfig) -> SearchConfig:
    """Return the search of self-play, the only search that explores."""
    exploration: dict[str, Any] = run.selfplay.model_dump(include=_SEARCH_KEYS)
    exploration["random_opening_plies"] = _random_opening_plies(run)
    return SearchConfig(**run.search.model_dump(), **exploration)


def _random_opening_plies(run: RunConfig) -> int:
    """Return the most plies of a random opening. The default depends on the game's length."""
    plies = run.selfplay.random_opening_plies
    if plies is None:
        return min(games.spec(run.game.name).max_length // 2, _MOST_OPENING_PLIES)
    return plies


def match_search(section: SearchSection, num_simulations: int) -> SearchConfig:
    """Return the search of matches, ratings and exams: full and deterministic.

    Args:
        section: the run file's section.
        num_simulations: simulations for each move.
    """
    values: dict[str, Any] = section.model_dump() | DETERMINISTIC
    values["num_simulations"] = num_simulations
    return SearchConfig(**values)


def client_simulations(run: RunConfig) -> int:
    """Return the default number of simulations of a client search.

    It is the largest number that self-play, matches or rating games use. So a client gets at least
    the simulations with which the model was rated.
    """
    return max(section.num_simulations for section in (run.search, run.evaluator, run.rating))


def client_search(section: SearchSection, num_simulations: int) -> SearchConfig:
    """Return the search of a client's request: full, with noise only if the client asks for it.

    The root is PUCT even if the run trains with a Gumbel root, because people read visits as the
    search's preference. Sequential halving at a Gumbel root visits good and bad actions equally
    often. A Gumbel root chooses the move by values too; with PUCT, ``STDEV_SETTINGS`` do this.

    Args:
        section: the run file's section.
        num_simulations: simulations for each search.
    """
    stdev_settings = STDEV_SETTINGS if section.root == "gumbel" else {}
    values: dict[str, Any] = (
        section.model_dump()
        | stdev_settings
        | {
            "root": "puct",
            "num_simulations": num_simulations,
            "cache_positions": min(section.cache_positions, num_simulations),
        }
    )
    return SearchConfig(**values)
