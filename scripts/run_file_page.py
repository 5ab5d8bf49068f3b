"""Write docs/reference/run-file.md from ``zerofleet.config``; ``--check`` only compares."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from zerofleet.config import ProcessSettings, RunConfig
from zerofleet.config.presets import PRESETS
from zerofleet.config.section import BASIC

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "run-file.md"
HEAD = """# The run file

One TOML file describes one run. Every service reads it.
A key takes its value from the first of these sources that sets it:
`--set search.num_simulations=200` of `zerofleet up`,
the variable `ZEROFLEET_SET=search.num_simulations=200,trainer.batch_size=512`,
the file, its preset if it names one, and the defaults.
An unknown key is an error that names the nearest known one.
Each section lists its basic keys first; most runs set only these.
This page is generated from `zerofleet/config/` by `scripts/run_file_page.py`.
"""
PRESETS_HEAD = """## Presets

A run file without a preset starts from the defaults further below.
A preset replaces these defaults:
"""


def main() -> int:
    """Write or compare the page; the exit status of the process."""
    page = render()
    if "--check" in sys.argv:
        if PAGE.read_text(encoding="utf-8") == page:
            return 0
        print("docs/reference/run-file.md is stale: run scripts/run_file_page.py", file=sys.stderr)
        return 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


def render() -> str:
    """The page: top-level keys, each section, then the settings of a process."""
    plain = {key: field for key, field in RunConfig.model_fields.items() if not section(field)}
    parts = [HEAD, "## Top level\n", *groups(plain), PRESETS_HEAD, presets_table()]
    for key, field in RunConfig.model_fields.items():
        model = section(field)
        if model:
            parts += [f"## `[{key}]`\n", *groups(model.model_fields)]
    parts += [
        "## Settings of a process\n",
        "Environment variables set addresses, folders and secrets: `ZEROFLEET_DATABASE_URL` and so "
        "on.\n",
        table(ProcessSettings.model_fields),
    ]
    return "\n".join(parts)


def section(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a section, None for a plain key."""
    options = getattr(field.annotation, "__args__", (field.annotation,))
    for option in options:
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def groups(fields: dict[str, FieldInfo]) -> list[str]:
    """Return the table of the basic keys, then the table of the advanced ones."""
    basic = {key: field for key, field in fields.items() if field.json_schema_extra == BASIC}
    advanced = {key: field for key, field in fields.items() if key not in basic}
    tables = [table(basic)] if basic else []
    return [*tables, "Advanced:\n", table(advanced)] if advanced else tables


def table(fields: dict[str, FieldInfo]) -> str:
    """A row for each key."""
    rows = ["| Key | Default | Meaning |", "|---|---|---|"]
    for key, field in fields.items():
        default = "required" if field.default is PydanticUndefined else shown(field.default)
        meaning = " ".join((field.description or "").split()).replace("``", "`").replace("|", r"\|")
        rows.append(f"| `{key}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def presets_table() -> str:
    """A row for each key that a preset sets, with the default that it replaces."""
    presets = {name: dict(leaves(values)) for name, values in PRESETS.items()}
    keys = {key: None for values in presets.values() for key in values}  # once each, in order
    names = sorted(presets)
    head = " | ".join(f"`{name}`" for name in names)
    rows = [f"| Key | Default | {head} |", "|---" * (len(names) + 2) + "|"]
    for key in sorted(keys, key=lambda key: key.partition(".")[0]):
        default = shown(default_of(key))
        values = [shown(presets[name][key]) if key in presets[name] else default for name in names]
        if any(value != default for value in values):
            rows.append(f"| `{key}` | {default} | {' | '.join(values)} |")
    return "\n".join(rows) + "\n"


def default_of(path: str) -> object:
    """The default of a key, with its section before the dot."""
    name, _, key = path.partition(".")
    model = section(RunConfig.model_fields[name])
    assert model is not None
    return model.model_fields[key].default


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of a preset with their sections, and their values."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def shown(value: object) -> str:
    """A default as TOML would write it."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{list(value)}`"
    return f'`"{value}"`' if isinstance(value, str | Path) else f"`{value}`"


if __name__ == "__main__":
    sys.exit(main())
