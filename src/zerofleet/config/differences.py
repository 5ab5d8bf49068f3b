"""The keys in which the run files of several runs differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from zerofleet.config.run import RunConfig

UNSET = "unset"


def run_values(run: RunConfig) -> dict[str, Any]:
    """Return a run's values as JSON, without its name, its seed and the format of its file."""
    return run.model_dump(mode="json", exclude={"name", "seed", "format"})


def flat_values(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return nested values by key, such as ``search.c_puct``."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            found |= flat_values(cast("dict[str, Any]", value), f"{name}.")
        else:
            found[name] = value
    return found


def differing_keys(values: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the keys in which runs differ, each with its value in every run.

    Args:
        values: the values of each run by its name, from ``run_values``.
    """
    flat = {name: flat_values(each) for name, each in values.items()}
    keys = sorted({key for each in flat.values() for key in each})
    table = {
        # A section that is left out is null in one run and has keys in another.
        key: {
            name: UNSET if (value := each.get(key)) is None else value
            for name, each in flat.items()
        }
        for key in keys
    }
    return {
        key: row
        for key, row in table.items()
        if any(value != next(iter(row.values())) for value in row.values())
    }


def value_words(value: object) -> str:
    """Return the value of a key for people."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(map(str, cast("list[object]", value))) or "none"
    return str(value)
