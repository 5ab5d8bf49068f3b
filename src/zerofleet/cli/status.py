"""``zerofleet status``: where a run stands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli.chosen import chosen_folder


def status(
    run_file: Annotated[
        Path | None, typer.Argument(metavar="[RUN.toml]", help="Its default data folder is meant.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of the run.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say where a run stands.

    A run that is stopped has its database started for the time.
    """
    import json

    from zerofleet.cli.status_text import status_text, status_values
    from zerofleet.config import load_run
    from zerofleet.local.monitor import Monitor
    from zerofleet.local.running import joined

    folder = chosen_folder(data, run_file)
    run = load_run(folder.run_file)
    with (
        joined(folder, "status") as running,
        Monitor(run, running.database_urls["console"], running.redis_url) as monitor,
    ):
        address = running.inference_address
        figures = monitor.figures()
        # A heartbeat outlives the one who sent it by seconds.
        services = monitor.services_of_heartbeats() if address else []
    if as_json:
        typer.echo(json.dumps(status_values(figures, services, address), indent=2))
    else:
        typer.echo(status_text(figures, services, address))
