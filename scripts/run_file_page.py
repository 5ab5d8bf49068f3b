"""Write docs/run-file.md from the docstrings of ``zerofleet.config``; ``--check`` only compares."""

import sys
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from zerofleet.config import ProcessSettings, RunConfig

PAGE = Path(__file__).resolve().parent.parent / "docs" / "run-file.md"
HEAD = """# The run file

One TOML file describes one run and is read by every service.
Strongest first: `--set search.num_simulations=200` of `zerofleet up`, the environment
(`ZEROFLEET_SEARCH__NUM_SIMULATIONS=200`), the file, the defaults.
An unknown key is an error that names the nearest known one.
This page is generated from `zerofleet/config.py` by `scripts/run_file_page.py`.
"""


def main() -> int:
    """Write or compare the page; the exit status of the process."""
    page = render()
    if "--check" in sys.argv:
        if PAGE.read_text(encoding="utf-8") == page:
            return 0
        print("docs/run-file.md is stale: run scripts/run_file_page.py", file=sys.stderr)
        return 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


def render() -> str:
    """The page: top-level keys, each section, then the settings of a process."""
    plain = {key: field for key, field in RunConfig.model_fields.items() if not section(field)}
    parts = [HEAD, "## Top level\n", table(plain)]
    for key, field in RunConfig.model_fields.items():
        model = section(field)
        if model:
            parts += [f"## `[{key}]`\n", table(model.model_fields)]
    parts += [
        "## Settings of a process\n",
        "Where a process finds the others: `ZEROFLEET_DATABASE_URL` and so on.\n",
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


def table(fields: dict[str, FieldInfo]) -> str:
    """A row for each key."""
    rows = ["| Key | Default | Meaning |", "|---|---|---|"]
    for key, field in fields.items():
        default = "required" if field.default is PydanticUndefined else shown(field.default)
        meaning = " ".join((field.description or "").split()).replace("``", "`")
        rows.append(f"| `{key}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


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
