"""A fleet whose stores the environment names, as in its containers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from zerofleet.config import ProcessSettings


def in_fleet(data: Path | None) -> bool:
    """Whether the environment names a run's stores, and no data folder was given."""
    return data is None and "ZEROFLEET_DATABASE_URL" in os.environ


def fleet_database(data: Path | None, given: str | None) -> str | None:
    """The Postgres to ask: the one given, else that fleet's; None: a data folder's."""
    return given or (os.environ["ZEROFLEET_DATABASE_URL"] if in_fleet(data) else None)


def fleet_settings(run_file: Path | None) -> ProcessSettings:
    """Where that fleet's stores and run file are.

    Args:
        run_file: in place of ZEROFLEET_RUN_FILE.

    Raises:
        ConfigError: nobody names a run file, or a value is none.
    """
    from zerofleet.config import ProcessSettings, read_settings

    if run_file is None and "ZEROFLEET_RUN_FILE" not in os.environ:
        raise ConfigError(
            "ZEROFLEET_DATABASE_URL is set, so the run is a fleet's: give its run file, or "
            "ZEROFLEET_RUN_FILE; a run of `zerofleet up` is meant with --data DIR"
        )
    return read_settings(ProcessSettings, [] if run_file is None else [str(run_file)])
