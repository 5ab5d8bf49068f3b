"""Keys and values of zerofleet 1.0, and their places today.

A run file with a key of 1.0 is refused, and the message names the new place. The copies that 1.0
stored in data folders and in Postgres are converted: they get today's keys, and the defaults of 1.0
are written out as values.
"""

from __future__ import annotations

import copy
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, cast

MARKER = "zerofleet.json"
"""File of a data folder that names its run."""
OF_1_0 = "run-1.0.toml"
"""File of a data folder that 1.0 made: the run file as 1.0 stored it."""
FORMAT = 2
"""Format of a run file's keys; copies stored by 1.0 name no format."""

_TO_SELFPLAY = (
    "full_search_share",
    "fast_simulations",
    "random_opening_share",
    "random_opening_plies",
    "opening_actions",
    "fork_share",
    "gumbel_scale",
    "dirichlet_fraction",
    "dirichlet_alpha",
    "temperature",
    "temperature_moves",
    "temperature_final",
    "temperature_halflife",
    "root_policy_temperature",
    "root_policy_temperature_final",
    "root_policy_temperature_halflife",
    "root_fpu_reduction",
    "forced_playouts",
    "min_child_visits",
    "prune_targets",
    "play_pruned",
)

MOVED = {f"search.{key}": f"selfplay.{key}" for key in _TO_SELFPLAY}
"""Today's key for each key that moved."""

_FIXED = "no run needed another value"
_NO_GAIN = "it was measured to give nothing (docs/how-to/tuning.md)"

GONE: dict[str, tuple[object, str]] = {
    "search.simulations_start": (None, "few simulations at a Gumbel root need no growth"),
    "search.simulations_growth_models": (0, "few simulations at a Gumbel root need no growth"),
    "search.c_puct_growth": (0.0, "c_puct is constant; set it for the number of simulations"),
    "search.c_puct_base": (19_652.0, "c_puct is constant; set it for the number of simulations"),
    "search.gumbel_c_visit": (50.0, "the paper's value is used"),
    "search.gumbel_c_scale": (1.0, "the paper's value is used"),
    "selfplay.spool_games": (20_000, _FIXED),
    "resign.min_games": (100, _FIXED),
    "resign.window_games": (1_000, _FIXED),
    "resign.every_seconds": (30.0, _FIXED),
    "trainer.schedule": ("steps", "learning_rate_steps count steps"),
    "trainer.value_loss_weight": (1.0, _NO_GAIN),
    "trainer.growing_window_alpha": (0.75, "the paper's value is used"),
    "trainer.growing_window_beta": (0.4, "the paper's value is used"),
    "trainer.policy_surprise_share": (0.0, _NO_GAIN),
    "trainer.repeated_positions": ("all", _NO_GAIN),
    "trainer.age_halflife": (0.0, _NO_GAIN),
    "trainer.channels_last": (True, "no run needed another value"),
    "overfit.smoothing": (0.8, _FIXED),
    "overfit.slow_factor": (0.25, _FIXED),
    "retention.models_every": (10, _FIXED),
    "inference.cuda_graphs": (False, "it gained 6% and could fail while a model loads"),
    "precision.calibration_positions": (512, _FIXED),
    "precision.check_positions": (1_024, _FIXED),
    "evaluator.sprt_error": (0.05, _FIXED),
    "rating.share": (0.2, _FIXED),
    "scaling.grow_above": (1.1, _FIXED),
    "scaling.shrink_below": (0.8, _FIXED),
    "scaling.max_wait": (1.0, _FIXED),
    "scaling.inference_load": (0.8, _FIXED),
}
"""Default value of each key without a successor, and the reason why the key is gone."""

_DEFAULTS: dict[str, dict[str, Any]] = {
    "search": {"decisive_moves": False},
    "network": {"blocks": 5, "channels": 64},
    "inference": {"sessions": 1},
    "trainer": {
        "optimizer": "sgd",
        "learning_rate": [0.01, 0.001, 0.0001],
        "learning_rate_steps": [400_000, 600_000],
        "publish_every_steps": 1_000,
        "checkpoint_every_steps": 1_000,
    },
    "retention": {"max_disk_gb": 0.0},
}
"""Defaults of 1.0 that differ today, in the defaults or in the preset ``plain``."""

_AGZ: dict[str, dict[str, Any]] = {"network": {"blocks": 19, "channels": 256}}
"""Values of 1.0's preset ``agz`` that replace these defaults."""

_FAST: dict[str, dict[str, Any]] = {
    "search": {"root": "puct", "num_simulations": 100},
    "selfplay": {
        "max_ahead_positions": 0,
        "full_search_share": 0.25,
        "random_opening_share": 1.0,
        "random_opening_plies": 0,
        "temperature": 0.8,
        "temperature_final": 0.2,
        "temperature_halflife": 8.0,
        "root_policy_temperature": 1.25,
        "root_policy_temperature_final": 1.1,
        "root_policy_temperature_halflife": 8.0,
        "root_fpu_reduction": 0.0,
        "forced_playouts": 2.0,
        "prune_targets": True,
        "play_pruned": False,
    },
    "trainer": {
        "learning_rate": [0.06],
        "learning_rate_steps": [],
        "samples_per_position": 8.0,
    },
    "precision": {"variants": ["int8"]},
}
"""Values of 1.0's preset ``fast``, its default, that differ from today's defaults."""

Table = MutableMapping[str, Any]


def renamed(key: str) -> str:
    """Return the hint for a key of 1.0 that has moved or is gone; "" for any other key."""
    if key in MOVED:
        return f": it is '{MOVED[key]}' now"
    if key in GONE:
        return f": the key is gone, because {GONE[key][1]}"
    return ""


def is_of_1_0(path: Path, values: MutableMapping[str, Any]) -> bool:
    """Return whether a run file is the copy that 1.0 stored in a data folder.

    A ``run.toml`` next to ``run-1.0.toml`` is not, because that copy has been converted. Neither is
    a file that has a key in its place of today.

    Args:
        path: the run file.
        values: its contents.
    """
    original = path.with_name(OF_1_0)
    is_copy = path.name == OF_1_0 or (path.name == "run.toml" and not original.exists())
    if not is_copy or "format" in values or not (path.parent / MARKER).exists():
        return False
    places = [_place(values, key) for key in MOVED.values()]
    return not any(table is not None and key in table for table, key in places)


def carry_over(values: Table) -> list[str]:
    """Convert a run file of 1.0 to today's keys in place; its values stay the same.

    Args:
        values: the file's contents, as a dictionary or as a TOML document, which keeps its
            comments.

    Returns:
        A line for each key that is gone and had a value other than the default.
    """
    dropped: list[str] = []
    for path, (default, reason) in GONE.items():
        table, key = _place(values, path)
        if table is not None and key in table:
            value = table.pop(key)
            if value != default:
                dropped.append(f"{path} = {value} has no effect any more: {reason}")
    for path, new_path in MOVED.items():
        table, key = _place(values, path)
        if table is not None and key in table:
            section, _, new_key = new_path.partition(".")
            _section(values, section)[new_key] = table.pop(key)
    preset = values.get("preset", "fast")
    if preset == "fast":
        values.pop("preset", None)
    for defaults in ({"fast": _FAST, "agz": _AGZ}.get(preset, {}), _DEFAULTS):
        _write_out(values, defaults)
    return dropped


def _write_out(values: Table, defaults: dict[str, dict[str, Any]]) -> None:
    """Add each key that the file leaves out."""
    for section, keys in defaults.items():
        table = _section(values, section)
        for key, value in keys.items():
            table.setdefault(key, copy.copy(value))


def _place(values: Table, path: str) -> tuple[Table | None, str]:
    """Return the section of a key, if the file has it, and the key's name."""
    section, _, key = path.partition(".")
    table = values.get(section)
    return (cast("Table", table) if isinstance(table, MutableMapping) else None), key


def _section(values: Table, name: str) -> Table:
    """Return a section; create it if the file has none."""
    if not isinstance(values.get(name), MutableMapping):
        values[name] = {}
    return values[name]
