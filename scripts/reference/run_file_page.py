"""The run file: every key with its default, from ``zerofleet.config``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markdown_text import cell, joined, shown, table
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from zerofleet.config import RunConfig
from zerofleet.config.presets import PRESETS
from zerofleet.config.section import BASIC

HEAD = """# The run file

One TOML file describes one run. Every service reads it.
A key takes its value from the first of these sources that sets it:
`--set search.num_simulations=200` of `zerofleet up`,
the variable `ZEROFLEET_SET=search.num_simulations=200,trainer.batch_size=512`,
the file, its preset if it names one, and the defaults.
An unknown key is an error that names the nearest known one.
Each section lists its basic keys first; most runs set only these.
This page is generated from `zerofleet/config/` by `scripts/reference`.
"""
PRESETS_HEAD = """## Presets

A run file without a preset starts from the defaults further below.
A preset replaces these defaults:
"""


def render() -> str:
    """Return the page: the top-level keys, the presets, then each section."""
    plain = {key: field for key, field in RunConfig.model_fields.items() if not section(field)}
    parts = [HEAD, "## Top level\n", *groups(plain), PRESETS_HEAD, presets_table()]
    for key, field in RunConfig.model_fields.items():
        model = section(field)
        if model:
            parts += [f"## `[{key}]`\n", *groups(model.model_fields)]
    return joined(parts)


def section(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a section; None for a plain key."""
    options = getattr(field.annotation, "__args__", (field.annotation,))
    for option in options:
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def groups(fields: dict[str, FieldInfo]) -> list[str]:
    """Return the table of the basic keys, then the table of the advanced ones."""
    basic = {key: field for key, field in fields.items() if field.json_schema_extra == BASIC}
    advanced = {
        key: field for key, field in fields.items() if key not in basic and not field.exclude
    }
    tables = [keys_table(basic)] if basic else []
    return [*tables, "Advanced:\n", keys_table(advanced)] if advanced else tables


def keys_table(fields: dict[str, FieldInfo]) -> str:
    """Return a row for each key."""
    return table(
        ("Key", "Default", "Meaning"),
        (
            (
                f"`{key}`",
                "required" if field.default is PydanticUndefined else shown(field.default),
                cell(field.description),
            )
            for key, field in fields.items()
        ),
    )


def presets_table() -> str:
    """Return a row for each key that a preset sets, with the default that it replaces."""
    presets = {name: dict(leaves(values)) for name, values in PRESETS.items()}
    keys = {key: None for values in presets.values() for key in values}  # once each, in order
    names = sorted(presets)
    rows: list[tuple[str, ...]] = []
    for key in sorted(keys, key=lambda key: key.partition(".")[0]):
        default = shown(default_of(key))
        values = [shown(presets[name][key]) if key in presets[name] else default for name in names]
        if any(value != default for value in values):
            rows.append((f"`{key}`", default, *values))
    return table(("Key", "Default", *(f"`{name}`" for name in names)), rows)


def default_of(path: str) -> object:
    """Return the default of a key; its section stands before the dot."""
    name, _, key = path.partition(".")
    model = section(RunConfig.model_fields[name])
    assert model is not None
    return model.model_fields[key].default


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of a preset with their sections, and their values."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
