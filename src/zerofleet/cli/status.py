"""``zerofleet status``: where a run stands."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.serving import tell_of_damage
from zerofleet.cli.which_run import chosen_folder, fleet_settings, in_fleet

if TYPE_CHECKING:
    from zerofleet.local.monitor import Monitor


def status(
    run_file: Annotated[
        Path | None, typer.Argument(metavar="[RUN.toml]", help="Its default data folder is meant.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of the run.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say where a run stands, and how many self-play workers it could use.

    A run that is stopped has its database started for the time. Where ZEROFLEET_DATABASE_URL is
    set, as in the containers of a fleet, the run is that fleet's: ZEROFLEET_REDIS_URL and
    ZEROFLEET_RUN_FILE say the rest.
    """
    import json

    from zerofleet.cli.status_text import status_text, status_values

    of_fleet = in_fleet(data)
    with _of_fleet(run_file) if of_fleet else _of_folder(data, run_file) as (monitor, address):
        figures, kept = monitor.figures(), monitor.kept()
        # A heartbeat stays for seconds after its process has ended.
        services = monitor.services_of_heartbeats() if address else []
        if of_fleet and not services:
            address = None
        # Where all share one machine, its cores are the limit.
        advice = monitor.advice(None if of_fleet else os.cpu_count()) if address else None
    if as_json:
        values = status_values(figures, kept, services, address, advice)
        typer.echo(json.dumps(values, indent=2))
    else:
        typer.echo(status_text(figures, kept, services, address, advice))


@contextlib.contextmanager
def _of_folder(data: Path | None, run_file: Path | None) -> Generator[tuple[Monitor, str | None]]:
    """A run of ``zerofleet up``, and the address of its inference service while that is up."""
    from zerofleet.config import load_run
    from zerofleet.database import Database
    from zerofleet.local.monitor import Monitor
    from zerofleet.local.running import joined

    folder = chosen_folder(data, run_file)
    run = load_run(folder.run_file)
    with (
        joined(folder, "status") as running,
        Monitor(run, running.database_urls["console"], running.redis_url) as monitor,
    ):
        if running.inference_address is None:  # else its inference service says so
            with Database(running.database_urls["console"], pool_size=1) as database:
                best = database.promotion_head(folder.run)
            if best is not None:
                tell_of_damage(folder, best)
        yield monitor, running.inference_address


@contextlib.contextmanager
def _of_fleet(run_file: Path | None) -> Generator[tuple[Monitor, str | None]]:
    """A run whose stores the environment names."""
    from zerofleet.config import load_run
    from zerofleet.local.monitor import Monitor

    settings = fleet_settings(run_file)
    with Monitor(load_run(settings.run_file), settings.database_url, settings.redis_url) as monitor:
        yield monitor, settings.inference_address
