"""Values that a run file starts from: the paper's, or what later work proved."""

from __future__ import annotations

from typing import Any, cast

Values = dict[str, Any]

AGZ: Values = {
    "search": {
        "num_simulations": 1600,
        "fpu": "zero",
    },
    "selfplay": {"full_search_share": 1.0},
    "resign": {"enabled": True},
    "network": {"blocks": 19, "channels": 256, "value_hidden": 256},
    "trainer": {
        "batch_size": 2048,
        "learning_rate": (0.01, 0.001, 0.0001),
        "learning_rate_steps": (400_000, 600_000),
        "window_games": 500_000,
        "window_positions": 100_000_000,
        "publish_every_steps": 1000,
        "checkpoint_every_steps": 1000,
    },
    "evaluator": {
        "test": "fixed",
        "games": 400,
        "num_simulations": 1600,
        "threshold": 0.55,
        "draws_only": "reject",
    },
}
"""AlphaGo Zero (Silver et al., Nature 2017, Methods)."""

FAST: Values = {
    "search": {"prove_results": True, "decisive_moves": True},
    "selfplay": {
        "full_search_share": 0.25,
        "forced_playouts": 2.0,
        "prune_targets": True,
        "play_pruned": False,
        "root_policy_temperature": 1.25,
        "root_policy_temperature_final": 1.1,
        "root_policy_temperature_halflife": 8.0,
        "root_fpu_reduction": 0.0,
        "temperature": 0.8,
        "temperature_final": 0.2,
        "temperature_halflife": 8.0,
    },
    "resign": {"enabled": True},
    "network": {"value_head": "outcome"},
    "trainer": {
        "optimizer": "muon",
        "learning_rate": (0.12,),
        "warmup_samples": 20_000,
        "samples_per_position": 8.0,
        "value_lambda": 0.9,
        "growing_window": True,
        "average_decay": 0.75,
    },
    "precision": {"variants": ("int8",)},
    "evaluator": {"test": "sprt", "threshold": 0.5},
}
"""What later work proved: Wu 2019 (arXiv 1902.10565), sections 3 and 4, and KataGo since; the keys
that docs/learning.md and bench/NOTES.md measure and that fit any game; predictions in 8 bits;
sequential tests for the gate."""

PRESETS: dict[str, Values] = {"agz": AGZ, "fast": FAST, "plain": {}}


def merge(below: Values, above: Values) -> Values:
    """``below`` with the keys of ``above`` written over it, section by section."""
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = merge(cast("Values", known), cast("Values", value))
        else:
            merged[key] = value
    return merged
