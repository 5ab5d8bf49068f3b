"""Presets of a run file, as differences from the defaults."""

from __future__ import annotations

from typing import Any, cast

Values = dict[str, Any]

PLAIN: Values = {
    "search": {
        "root": "puct",
        "num_simulations": 100,
        "prove_results": False,
        "decisive_moves": False,
    },
    "selfplay": {
        "max_ahead_positions": 0,
        "random_opening_share": 1.0,
        "random_opening_plies": 0,
    },
    "resign": {"enabled": False},
    "network": {"value_head": "scalar"},
    "trainer": {
        "optimizer": "sgd",
        "learning_rate": (0.01,),
        "warmup_samples": 0,
        "value_lambda": 1.0,
        "growing_window": False,
        "average_decay": 0.0,
    },
    "precision": {"variants": ()},
    "evaluator": {"test": "fixed", "threshold": 0.55},
}
"""The bare algorithm, without the accelerations of later work."""

_PAPER: Values = {
    "search": {"num_simulations": 1600, "fpu": "zero"},
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
    "evaluator": {"games": 400, "num_simulations": 1600, "draws_only": "reject"},
}


def merge(below: Values, above: Values) -> Values:
    """Return ``below``, overwritten by the keys of ``above``, section by section."""
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        if isinstance(known, str) and isinstance(value, dict):
            known = {"name": known}  # game = "go" is [game] name = "go"
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = merge(cast("Values", known), cast("Values", value))
        else:
            merged[key] = value
    return merged


AGZ: Values = merge(PLAIN, _PAPER)
"""AlphaGo Zero (Silver et al., Nature 2017, Methods)."""

PRESETS: dict[str, Values] = {"agz": AGZ, "plain": PLAIN}
