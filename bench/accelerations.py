"""Variants of a run in which single accelerations are on or off, for ``bench.strength``."""

from __future__ import annotations

Settings = dict[str, object]
"""Keys of a run file, with the section before the dot, and their values."""

FAST_PLAYOUTS: Settings = {"search.full_search_share": 0.25}
FORCED: Settings = {"search.forced_playouts": 2.0, "search.prune_targets": True}
RESIGN: Settings = {"resign.enabled": True}
KEPT_TREE: Settings = {"search.reuse_tree": True}
GROWING: Settings = {"trainer.growing_window": True}
AVERAGE: Settings = {"trainer.average_decay": 0.75}
POOLING: Settings = {"network.global_pooling": True}
GUMBEL: Settings = {"search.root": "gumbel", "search.gumbel_actions": 7}
OFF: Settings = {
    "search.full_search_share": 1.0,
    "search.forced_playouts": 0.0,
    "search.prune_targets": False,
    "search.reuse_tree": False,
    "resign.enabled": False,
    "trainer.growing_window": False,
    "trainer.average_decay": 0.0,
    "network.global_pooling": False,
}
FAST = FAST_PLAYOUTS | FORCED | RESIGN | KEPT_TREE | GROWING | AVERAGE | POOLING

VARIANTS: dict[str, Settings] = {
    "agz": OFF,
    "+kept tree": OFF | KEPT_TREE,
    "+resignation": OFF | RESIGN,
    "+fast playouts": OFF | FAST_PLAYOUTS,
    "+fast playouts, kept tree": OFF | FAST_PLAYOUTS | KEPT_TREE,
    "+kept tree, forced visits": OFF | KEPT_TREE | FORCED,
    "+growing window": OFF | GROWING,
    "+weight average": OFF | AVERAGE,
    "+global pooling": OFF | POOLING,
    "+gumbel": OFF | GUMBEL,
    "fast": FAST,
    "fast-fast playouts": FAST | {"search.full_search_share": 1.0},
    "fast-forced visits": FAST | {"search.forced_playouts": 0.0, "search.prune_targets": False},
    "fast-kept tree": FAST | {"search.reuse_tree": False},
    "fast-resignation": FAST | {"resign.enabled": False},
    "fast-growing window": FAST | {"trainer.growing_window": False},
    "fast-weight average": FAST | {"trainer.average_decay": 0.0},
    "fast-global pooling": FAST | {"network.global_pooling": False},
    "fast, half the moves": FAST | {"search.full_search_share": 0.5},
    "gumbel, 32 simulations": OFF | GUMBEL | {"search.num_simulations": 32},
}
"""By name: ``agz`` is as in the paper; each ``+`` switches something on; ``fast`` has all of the
preset, each ``fast-`` all but one thing."""
