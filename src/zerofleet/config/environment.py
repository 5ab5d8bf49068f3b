"""The environment over a run file: ``ZEROFLEET_SEARCH__NUM_SIMULATIONS`` and the like."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

from zerofleet.config.process_settings import ENV_PREFIX


class Environment(EnvSettingsSource):
    """Lists and whole sections are JSON; a game may be its name alone, as in a run file.

    Args:
        settings_class: the settings.
        options: options of the command that set a variable, by variable, as the user gave them.
    """

    def __init__(
        self, settings_class: type[BaseSettings], options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(settings_class)
        self._options = options or {}

    def __call__(self) -> dict[str, Any]:
        """Return the values that the environment gives; ``mistakes`` lists what is not JSON."""
        self.mistakes: list[str] = []
        return super().__call__()

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: str) -> object:
        """Decode the JSON of a list or a section; note a value that is not JSON."""
        try:
            return super().decode_complex_value(field_name, field, value)
        except (ValueError, RecursionError):
            if field_name == "game":
                return value
            variable = self._holding(field_name, value)
            default = cast("object", field.default)
            option = self._options.get(variable)
            if isinstance(default, tuple):
                hint = f"such as {json.dumps(default)}"
            elif option is not None:
                hint = f"or one key of it, as {option.partition('=')[0]}.KEY=VALUE"
            else:
                hint = f"or one key of it, as {variable}__KEY=VALUE"
            given = f"{variable} = {value!r}" if option is None else option
            self.mistakes.append(f"{given}: give JSON, {hint}")
            return cast("object", default)

    def _holding(self, key: str, value: str) -> str:
        """The variable that was read last: it ends with the key, and has this value."""
        names = (name for name, held in self.env_vars.items() if held == value)
        prefix = self.env_prefix.lower()
        found = (n for n in names if n.startswith(prefix) and n.split("__")[-1].endswith(key))
        return next(found, key).upper()


def variable_of(location: Sequence[str]) -> str | None:
    """The variable that gives a run's value; None where none does.

    Args:
        location: the value's path, such as ``("rating", "anchors", "0")``.
    """
    present = {name.upper(): value for name, value in os.environ.items()}
    for length in range(len(location), 0, -1):
        name = ENV_PREFIX + "__".join(location[:length]).upper()
        if name in present and _holds(present[name], location[length:]):
            return name
    return None


def _holds(text: str, path: Sequence[str]) -> bool:
    """Whether a variable's JSON has a value at this path."""
    if not path:
        return True
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return False
    for part in path:
        if isinstance(value, dict) and part in value:
            value = cast("dict[str, object]", value)[part]
        elif isinstance(value, list) and part.isdecimal():
            items = cast("list[object]", value)
            if int(part) >= len(items):
                return False
            value = items[int(part)]
        else:
            return False
    return True
