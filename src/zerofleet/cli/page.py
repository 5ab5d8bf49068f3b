"""``zerofleet page``: the dashboard of a run, whether it is running or not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand

from zerofleet.cli.run_options import DataOption, RunFile, chosen_folder
from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from typer._click import Context

    from zerofleet.local.data_folder import DataFolder
    from zerofleet.local.stores import Running
    from zerofleet.local.supervisor import Program

NO_NICEGUI = "NiceGUI is not installed: pip install 'zerofleet[dashboard]'"
_LOOK_SECONDS = 1.0
_POLL_SECONDS = 0.1
_START_SECONDS = 60.0


class OneRun(TyperCommand):
    """A command that takes one run. If several are given, its error names ``--with``."""

    allow_extra_args = True

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Refuse a second run, which Typer would report as an unexpected argument.

        Raises:
            ConfigError: there is more than one run.
        """
        others = super().parse_args(ctx, args)
        if others:
            options = " ".join(f"--with {shlex.quote(other)}" for other in others)
            raise ConfigError(f"{ctx.info_name} takes one run. To show others too, add {options}")
        return others


def page(
    run_file: RunFile = None,
    data: DataOption = None,
    dashboard_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Port of the dashboard, kept for the next start [8080 or more]."
        ),
    ] = None,
    others: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            metavar="RUN",
            help="Also show the curves of this run on the page Runs: its name, run file or data "
            "folder. Repeat it for more runs.",
        ),
    ] = None,
) -> None:
    """Show the dashboard of a run in the browser, also after the run has ended.

    Prints the address of the dashboard. For a stopped run, starts its database and an
    inference service until Ctrl-C: the dashboard shows all of the run, and you can play against its
    models. Nothing trains, and the record of the run does not change.

    --with draws the curves of several runs in one chart. It starts their databases too.
    """
    from importlib.util import find_spec

    from zerofleet.cli.local_run import page_command
    from zerofleet.cli.terminal import interruptible
    from zerofleet.local.programs import chosen_page_address, keep_page_port
    from zerofleet.local.stores import joined

    if find_spec("nicegui") is None:
        raise ConfigError(f"there is no dashboard: {NO_NICEGUI}")
    folder = chosen_folder(data, run_file)
    folder.read_run()
    other_folders = _other_folders(folder, others or [])

    def choose() -> str:
        return chosen_page_address(folder, dashboard_port, _say)

    def choose_and_say() -> str:
        address = choose()
        _say(f"starting the database of {folder.root}, then the dashboard")
        return address

    with interruptible(), contextlib.ExitStack() as stack:
        running = stack.enter_context(joined(folder, "page", choose_and_say))
        is_served = running.page_address is not None and running.pid != os.getpid()
        if running.page_address is not None and is_served and not other_folders:
            _tell_served(folder, running.page_address, dashboard_port)
            return
        address = choose() if is_served else running.page_address or choose()
        others_shown: list[dict[str, str]] = []
        followed: dict[str, tuple[DataFolder, Running, contextlib.ExitStack]] = {}
        for label, other in other_folders.items():
            guest = stack.enter_context(contextlib.ExitStack())
            stores = guest.enter_context(joined(other, "page"))
            others_shown.append(_other_run(label, other, stores))
            followed[label] = other, stores, guest

        def ended() -> bool:
            for label, (other, stores, guest) in list(followed.items()):
                if not stores.goes_on(other):
                    guest.close()  # the next command on its data folder need not wait for this one
                    del followed[label]
                    _say(
                        f"the run '{other.run}' in {other.root} has ended: start this command "
                        "again to see its curves"
                    )
            return not running.goes_on(folder)

        def listens() -> None:
            keep_page_port(folder, address, dashboard_port)
            echo(f"dashboard: http://{address}")
            _say("Press Ctrl-C to stop the dashboard.")

        programs = programs_of(folder, running, address, others_shown)
        logs = [log for each in (folder, *other_folders.values()) for log in each.store_logs]
        if asyncio.run(_serve(programs, logs, address, ended, listens)):
            _say(
                "The run has ended, and so has its dashboard. "
                f"To open it again: {page_command(folder)}"
            )
        # Ctrl-C works here again: closing waits for other commands that use these stores.
        with interruptible():
            stack.close()


def _say(line: str) -> None:
    echo(line, err=True)


def _tell_served(folder: DataFolder, address: str, dashboard_port: int | None) -> None:
    """Print where another process of this run serves the dashboard.

    Raises:
        ConfigError: the dashboard does not respond, or another port was requested.
    """
    from zerofleet.local.programs import port_of

    if dashboard_port not in (None, port_of(address)):
        raise ConfigError(
            f"--dashboard-port {dashboard_port}: the dashboard of this run is already at "
            f"http://{address}. Leave the option out, or stop process {folder.holder_pid()} first."
        )
    try:
        asyncio.run(asyncio.wait_for(_wait_listening(address), _START_SECONDS))
    except TimeoutError as error:
        raise ConfigError(
            f"the dashboard at http://{address} does not respond: "
            f"see {folder.logs / 'dashboard.log'}"
        ) from error
    echo(f"dashboard: http://{address}")


def _other_folders(folder: DataFolder, others: Sequence[Path]) -> dict[str, DataFolder]:
    """Return the data folders of the other runs by their labels on the page.

    Raises:
        ConfigError: a run does not exist, plays another game, or is named twice.
    """
    from zerofleet.config.renamed import MARKER

    found: dict[str, DataFolder] = {}
    run, roots = folder.read_run(), {folder.root}
    for path in others:
        has_marker = (path / MARKER).exists()
        other = chosen_folder(path if has_marker else None, None if has_marker else path)
        game = other.read_run().game.name
        if game != run.game.name:
            raise ConfigError(
                f"--with {path}: the run '{other.run}' plays {game}, and '{run.name}' plays "
                f"{run.game.name}: compare runs of the same game"
            )
        if other.root in roots:
            raise ConfigError(f"--with {path}: {other.root} is named twice: name each run once")
        roots.add(other.root)
        label = other.run
        if label == run.name or label in found:
            label = f"{other.run} ({other.root.name})".replace(",", "")
        while label in found:
            label += "'"
        found[label] = other
    return found


def _other_run(label: str, folder: DataFolder, running: Running) -> dict[str, str]:
    """Return a run as in the dashboard's setting ``dashboard_other_runs``.

    Raises:
        ConfigError, StoreUnavailableError: its database is of another version.
    """
    from zerofleet.local.stores import update_database

    if running.pid == os.getpid():
        update_database(folder, running.database_urls["owner"])
    return {
        "label": label,
        "run": folder.run,
        "database_url": running.database_urls["console"],
        "usage_file": str(folder.usage_file),
    }


def programs_of(
    folder: DataFolder,
    running: Running,
    address: str,
    others: Sequence[Mapping[str, str]] = (),
) -> Sequence[Program]:
    """Return the programs to start for the dashboard; for a stopped run also inference.

    Args:
        others: runs of other databases to compare with.

    Raises:
        ConfigError: a newer zerofleet has updated the database of the run.
        StoreUnavailableError: the database is not embedded and must be migrated first.
    """
    from zerofleet.cli.serving import point_at_best
    from zerofleet.local.programs import LocalPrograms, chosen_address
    from zerofleet.local.stores import StoreUrls, update_database

    urls = StoreUrls(running.database_urls, running.redis_url)
    if running.inference_address is not None:
        programs = LocalPrograms(folder, urls, running.inference_address, address)
        return [programs.page(run_is_stopped=False, others=others)]
    update_database(folder, running.database_urls["owner"])
    programs = LocalPrograms(folder, urls, chosen_address(None), address)
    shown = [programs.page(run_is_stopped=True, others=others)]
    try:
        point_at_best(folder, running)
    except ConfigError as error:
        _say(f"nobody can play on the dashboard: {error}")
    else:
        # The dashboard shows the run even if its model cannot be loaded.
        shown.append(replace(programs.inference(), optional=True))
    return shown


async def _serve(
    programs: Sequence[Program],
    logs: Sequence[Path],
    address: str,
    ended: Callable[[], bool],
    listens: Callable[[], None],
) -> bool:
    """Run the programs until a signal, a failure, or the end of the stores.

    Args:
        programs: the dashboard, and inference for a stopped run.
        logs: logs of the stores, whose sizes are limited.
        ended: returns whether the stores of another command have ended.
        listens: called when the dashboard listens.

    Returns:
        Whether the stores have ended.

    Raises:
        ConfigError, ProgramFailedError: the dashboard cannot be kept running.
    """
    from zerofleet.cli.terminal import stop_event
    from zerofleet.local.supervisor import Supervisor

    supervisor = Supervisor(programs, _say, logs=logs)

    def say_stop() -> None:
        _say("Stopping. Press Ctrl-C again to force.")

    async with stop_event(first=say_stop, again=supervisor.hurry) as stop, supervisor:
        failed = asyncio.create_task(supervisor.failed())
        stopped = asyncio.create_task(stop.wait())
        gone = asyncio.create_task(_wait_until(ended, _LOOK_SECONDS))
        ready = asyncio.create_task(_wait_listening(address))
        ends = {failed, stopped, gone}
        await asyncio.wait({ready, *ends}, return_when=FIRST_COMPLETED)
        if ready.done():
            listens()
            await asyncio.wait(ends, return_when=FIRST_COMPLETED)
        for task in (ready, stopped, gone):
            task.cancel()
        if failed.done():
            failed.result()
        failed.cancel()
        return gone.done() and not gone.cancelled()


async def _wait_until(condition: Callable[[], bool], every_seconds: float) -> None:
    while not condition():  # noqa: ASYNC110  it is about another process
        await asyncio.sleep(every_seconds)


async def _wait_listening(address: str) -> None:
    """Wait until a server listens at the address."""
    from zerofleet.local.processes import answers

    await _wait_until(lambda: answers(address), _POLL_SECONDS)
