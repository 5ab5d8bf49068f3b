"""``zerofleet status``: show the state of a run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.run_options import DataOption, RunFile, chosen_folder, fleet_settings, in_fleet
from zerofleet.cli.serving import tell_of_damage
from zerofleet.cli.terminal import echo
from zerofleet.cpus import usable_cpus
from zerofleet.errors import StoreUnavailableError

if TYPE_CHECKING:
    from zerofleet.local.monitor import Monitor
    from zerofleet.local.stores import Running

_WATCH_SECONDS = 2.0


def status(
    run_file: RunFile = None,
    data: DataOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Repeat every 2 s until Ctrl-C; with --json, one line each."),
    ] = False,
) -> None:
    """Show the state of a run, and how many self-play workers it could use.

    For a stopped run, its database is started for the command. If ZEROFLEET_DATABASE_URL is set, as
    in the containers of a fleet, the run is that fleet's; ZEROFLEET_REDIS_URL and
    ZEROFLEET_RUN_FILE name its Redis and its run file.
    """
    of_fleet = in_fleet(data)
    opened = partial(_of_fleet, run_file) if of_fleet else partial(_of_folder, data, run_file)
    if not watch:
        with opened() as watched:
            echo(watched.look(as_json, indent=2))
        return
    with contextlib.suppress(KeyboardInterrupt):
        goes_on = True
        while goes_on:
            with opened() as watched:
                _watch(watched, as_json)
            goes_on = watched.is_followed()
        echo("the run is stopped", err=True)


@dataclass(frozen=True, slots=True)
class _Watched:
    """A run whose state is shown, perhaps repeatedly."""

    monitor: Monitor
    address: str | None
    """Address of the inference service; None: the run is stopped."""
    of_fleet: bool
    goes_on: Callable[[], bool]
    """Returns whether another reading may find something new."""
    is_followed: Callable[[], bool] = lambda: False
    """Returns whether the run was started again after its end; waits until that is known."""
    running: Running | None = None
    """Stores and services of its data folder; None: the run is a fleet's."""
    page_command: str = ""
    """Command that shows the dashboard of a run that has none now."""

    def look(self, as_json: bool, indent: int | None = None) -> str:
        """Return the current state as text.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        import json

        from zerofleet.cli.run_figures import status_text, status_values

        monitor, address = self.monitor, self.address
        figures, disk = monitor.figures(), monitor.disk_use()
        # A heartbeat stays for seconds after its process has ended.
        services = monitor.services_of_heartbeats() if address else []
        is_heard = figures.redis.status == "up"
        if self.of_fleet and not services:
            address = None
        # On a single machine, its cores are the limit.
        cores = None if self.of_fleet else usable_cpus()
        advice = monitor.advice(cores) if address and is_heard else None
        if as_json:
            values = status_values(
                *(figures, disk, services, address, advice, self.running),
                is_known=is_heard or not self.of_fleet,
            )
            return json.dumps(values, indent=indent)
        # A fleet that is just starting has no heartbeats yet.
        stopped = "no heartbeats: starting or stopped" if self.of_fleet else "stopped"
        if self.of_fleet and not is_heard:
            stopped = f"unknown: Redis is {figures.redis.status}"
        return status_text(
            *(figures, disk, services, address, advice, stopped), self.running, self.page_command
        )


def _watch(watched: _Watched, as_json: bool) -> None:
    """Show the state until the run ends; report a store that is down and wait for it."""
    import sys

    from rich.live import Live
    from rich.text import Text

    # Only a terminal is redrawn: programs and files get every reading.
    in_place = sys.stdout.isatty() and not as_json
    live = Live(auto_refresh=False) if in_place else contextlib.nullcontext()
    with live:
        while True:
            try:
                text = watched.look(as_json)
            except StoreUnavailableError as error:
                if not watched.goes_on():
                    break
                echo(str(error), err=True)
            else:
                if isinstance(live, Live):
                    live.update(Text(text), refresh=True)
                else:
                    echo(text if as_json else f"{text}\n")
            if not watched.goes_on():
                break
            time.sleep(_WATCH_SECONDS)


@contextlib.contextmanager
def _of_folder(data: Path | None, run_file: Path | None) -> Generator[_Watched]:
    """Yield a run of ``zerofleet up``, and the address of its inference service while it is up."""
    from zerofleet.cli.local_run import page_command
    from zerofleet.database import Database
    from zerofleet.local.monitor import Monitor
    from zerofleet.local.stores import joined, running_in

    folder = chosen_folder(data, run_file)
    run = folder.read_run()
    with (
        joined(folder, "status") as running,
        Monitor(run, running.database_urls["console"], running.redis_url, folder.root) as monitor,
    ):
        if running.inference_address is None:  # otherwise its inference service reports it
            with Database(running.database_urls["console"], pool_size=1) as database:
                best = database.promotion_head(folder.run)
            if best is not None:
                tell_of_damage(folder, best)
        address = running.inference_address

        def goes_on() -> bool:
            return bool(address) and running.goes_on(folder)

        def is_followed() -> bool:
            # otherwise it is still stopping, or another command holds the folder
            while address and folder.is_held():
                newest = running_in(folder)
                if newest and newest.inference_address and newest != running:
                    return True
                time.sleep(_WATCH_SECONDS)
            return False

        yield _Watched(
            *(monitor, address, False, goes_on, is_followed), running, page_command(folder)
        )


@contextlib.contextmanager
def _of_fleet(run_file: Path | None) -> Generator[_Watched]:
    """Yield a run whose stores are named by the environment."""
    from zerofleet.config import load_run
    from zerofleet.local.monitor import Monitor

    settings = fleet_settings(run_file)
    with Monitor(load_run(settings.run_file), settings.database_url, settings.redis_url) as monitor:
        yield _Watched(monitor, settings.inference_address, True, lambda: True)
