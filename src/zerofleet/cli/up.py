"""``zerofleet up``: the whole loop on this machine."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.check_game import require_conformance
from zerofleet.cli.page import NO_NICEGUI
from zerofleet.cli.run_options import OverrideOption, default_folder
from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from zerofleet.config import Overrides, RunConfig
    from zerofleet.local.data_folder import DataFolder
    from zerofleet.local.trained_models import StartingWeights


_CHECKED_GAMES = 10
_DISK_GB = 20.0


def up(
    run_file: Annotated[
        Path, typer.Argument(metavar="RUN.toml", help="The run file, or its name: tictactoe.")
    ],
    data: Annotated[
        Path | None, typer.Option(help="Data folder [zerofleet-data/NAME OF THE RUN].")
    ] = None,
    until: Annotated[
        str,
        typer.Option(
            metavar="END",
            help="When to end: this long after the start (90s, 10m, 1h30m); at a total of the run "
            "(5000steps of training, 20000games of self-play); when the trainer's budget is used "
            "up (budget); at the run file's [goal] (goal); or on Ctrl-C only (forever).",
        ),
    ] = "forever",
    start_from: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Start a new run from a trained model (connect_four), or from the newest "
            "checkpoint of another data folder [random weights].",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Self-play processes.")] = 1,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the inference service [free].")
    ] = None,
    dashboard_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Port of the dashboard, kept for the next start [8080 or more]."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="First port of the metrics, one for each process [free ones]."
        ),
    ] = None,
    no_dashboard: Annotated[
        bool, typer.Option("--no-dashboard", help="Do not serve the dashboard.")
    ] = False,
    override: OverrideOption = None,
    database_url: Annotated[
        str | None, typer.Option(help="Your Postgres, with an owner's rights [embedded].")
    ] = None,
    redis_url: Annotated[str | None, typer.Option(help="Your Redis or Valkey [embedded].")] = None,
) -> None:
    """Train a player here, until its goal or Ctrl-C.

    Starts Postgres, Valkey and all services, and shows the progress here and on a
    dashboard in the browser. Run the same command again to resume. Nothing listens beyond this
    machine.
    """
    from zerofleet.cli.local_run import LocalRun, Until
    from zerofleet.config import Overrides, find_run_file
    from zerofleet.fleet.disk import data_folder_of
    from zerofleet.local.data_folder import DataFolder
    from zerofleet.local.start import Start
    from zerofleet.local.stores import has_own_postgres

    parsed = Until.parse(until)
    run_file = find_run_file(run_file)
    if (own := data_folder_of(run_file)) is not None:  # its last start may have been killed
        DataFolder.open(own).undo_killed_start()
    overrides = Overrides.read(override or [])
    run = checked_run(run_file, overrides)
    weights = None if start_from is None else _starting_weights(start_from, run)
    ending = parsed.of_run(run, run_file)
    with Start(data or default_folder(run.name), run, run_file, overrides) as start:
        if start.folder.is_of_1_0():
            _tell_of_1_0(start.folder, run_file)
        if weights is not None:
            weights.keep(start.folder)
        if has_own_postgres(start.folder, database_url):
            run = with_disk_limit(run)
        local_run = LocalRun(
            run,
            start.folder,
            workers=workers,
            port=port,
            page=not no_dashboard and _has_page(dashboard_port),
            page_port=dashboard_port,
            metrics_port=metrics_port,
            until=ending,
        )
        reached = local_run.go(database_url, redis_url, start)
    if not reached:
        raise typer.Exit(130)  # as shells report an interrupted program


def _starting_weights(source: str, run: RunConfig) -> StartingWeights:
    """Return the weights of ``--from``, checked against the run.

    Raises:
        ConfigError: there are none, or they do not fit the run.
    """
    from zerofleet import games
    from zerofleet.local.trained_models import StartingWeights

    weights = StartingWeights.find(source)
    weights.check(run, games.spec(run.game.name))
    return weights


def _tell_of_1_0(folder: DataFolder, run_file: Path) -> None:
    """Say in one line that a data folder of 1.0 is carried over, and with which settings."""
    from zerofleet.config.renamed import OF_1_0, carry_over

    if run_file.resolve() != folder.run_file:
        echo(
            f"{folder.root} is of zerofleet 1.0, and the run goes on with {run_file}. To go on "
            f"with the settings that it had, start {folder.run_file} instead; once this start has "
            f"succeeded, {folder.root / OF_1_0}.",
            err=True,
        )
        return
    dropped = carry_over(tomllib.loads(folder.run_file.read_text(encoding="utf-8")))
    echo(
        f"{folder.run_file} is of zerofleet 1.0. It gets today's keys with the values that it had; "
        f"the old file is kept as {OF_1_0}.{''.join(f' {line}.' for line in dropped)}",
        err=True,
    )


def with_disk_limit(run: RunConfig) -> RunConfig:
    """Return the run with the default disk limit of a data folder, unless it sets one."""
    if run.retention.max_disk_gb is not None:
        return run
    retention = run.retention.model_copy(update={"max_disk_gb": _DISK_GB})
    return run.model_copy(update={"retention": retention})


def _check_rules(game: str) -> None:
    """Play a game written in Python at random, because its mistakes would show up hours later.

    Raises:
        ConfigError: the game breaks the contract.
    """
    if not game.startswith("python:"):
        return
    for remark in require_conformance(game, _CHECKED_GAMES).remarks:
        echo(f"{game}: {remark}", err=True)


def _has_page(port: int | None) -> bool:
    """Return whether the dashboard can be served; warn on stderr if NiceGUI is not installed."""
    from importlib.util import find_spec

    if find_spec("nicegui") is None:
        if port is not None:
            raise ConfigError(f"--dashboard-port {port}: {NO_NICEGUI}")
        echo(f"no dashboard: {NO_NICEGUI}", err=True)
        return False
    return True


def checked_run(run_file: Path, overrides: Overrides) -> RunConfig:
    """Read the run and check everything that needs no stores or services.

    Raises:
        ConfigError: one line for each mistake.
    """
    from zerofleet.config import load_run

    run = load_run(run_file, overrides, checked=True)
    _check_rules(run.game.name)
    return run
