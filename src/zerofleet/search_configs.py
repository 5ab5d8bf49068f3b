"""The searches outside self-play, made of a run file's ``[search]``."""

from __future__ import annotations

from typing import Any

from zerofleet_core import SearchConfig

from zerofleet.config import RunConfig, SearchSection

_ALWAYS_FULL: dict[str, Any] = {
    "full_search_share": 1.0,
    "fast_simulations": None,
    "simulations_start": None,
    "simulations_growth_models": 0,
    "root_fpu_reduction": None,
    "root_policy_temperature": 1.0,
    "root_policy_temperature_halflife": 0.0,
    "forced_playouts": 0.0,
    "min_child_visits": 0,
    "prune_targets": False,
    "random_opening_plies": 0,
    "fork_share": 0.0,
}
_WITHOUT_CHANCE: dict[str, Any] = {
    "dirichlet_fraction": 0.0,
    "gumbel_scale": 0.0,
    "temperature": 0.0,
    "temperature_moves": 0,
    "temperature_final": 0.0,
    "temperature_halflife": 0.0,
    "random_symmetry": False,
}


def served_simulations(run: RunConfig) -> int:
    """Simulations of a client's search that does not say how many.

    The largest number that self-play, matches or rating games use: a client gets at least the
    simulations with which the model was rated.
    """
    return max(section.num_simulations for section in (run.search, run.evaluator, run.rating))


def served_search(section: SearchSection, num_simulations: int) -> SearchConfig:
    """Return the search of a client's request: always full, without self-play's additions.

    The root is PUCT whatever the run trains with: people read visits as the search's preference.
    Sequential halving at a Gumbel root visits good and bad actions equally often.
    """
    values = section.model_dump() | _ALWAYS_FULL
    values["root"] = "puct"
    values["num_simulations"] = num_simulations
    values["cache_positions"] = min(section.cache_positions, num_simulations)
    return SearchConfig(**values)


def match_search(section: SearchSection, num_simulations: int) -> SearchConfig:
    """The search of matches, ratings and exams: always full, and nothing in it is random."""
    values = section.model_dump() | _ALWAYS_FULL | _WITHOUT_CHANCE
    values["num_simulations"] = num_simulations
    return SearchConfig(**values)
