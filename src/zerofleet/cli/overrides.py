"""``--set KEY=VALUE``: the command line over the run file."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable

from zerofleet.config import ENV_PREFIX, RunConfig
from zerofleet.errors import ConfigError


def apply_overrides(settings: Iterable[str]) -> None:
    """Put settings where this process and its children find them: into the environment.

    Raises:
        ConfigError: one is not KEY=VALUE, or its first part is no section of a run file. What
            stands in a section is checked with the run file itself.
    """
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: give KEY=VALUE, such as search.c_puct=2")
        first = key.partition(".")[0]
        if first not in RunConfig.model_fields:
            near = difflib.get_close_matches(first, RunConfig.model_fields, n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'?" if near else "see the sections of a run file"
            raise ConfigError(f"--set {setting}: unknown key '{first}': {hint}")
        os.environ[ENV_PREFIX + key.upper().replace(".", "__")] = value
