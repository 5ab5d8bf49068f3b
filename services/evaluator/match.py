"""The search of games that decide or rate: the same for both sides, and without chance."""

from __future__ import annotations

from zerofleet_core import SearchConfig

from zerofleet.config import SearchSection


def match_search(section: SearchSection, num_simulations: int) -> SearchConfig:
    """The search of a match: nothing in it is random, and every visit is the search's own wish."""
    values = section.model_dump()
    values.update(
        num_simulations=num_simulations,
        full_search_share=1.0,
        root_policy_temperature=1.0,
        dirichlet_fraction=0.0,
        forced_playouts=0.0,
        min_child_visits=0,
        prune_targets=False,
        gumbel_scale=0.0,
        temperature=0.0,
        temperature_moves=0,
        temperature_final=0.0,
        random_opening_plies=0,
        random_symmetry=False,
    )
    return SearchConfig(**values)
