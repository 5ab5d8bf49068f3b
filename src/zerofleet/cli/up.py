"""``zerofleet up``: the whole loop on this machine."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.page import NO_NICEGUI
from zerofleet.cli.which_run import default_folder
from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from zerofleet.config import RunConfig


_CHECKED_GAMES = 10
_DISK_GB = 20.0


class Until(StrEnum):
    """When a run ends by itself."""

    goal = "goal"
    forever = "forever"


def up(
    run_file: Annotated[
        Path, typer.Argument(metavar="RUN.toml", help="The run file, or its name: tictactoe.")
    ],
    data: Annotated[
        Path | None, typer.Option(help="Data folder [zerofleet-data/NAME OF THE RUN].")
    ] = None,
    until: Annotated[
        Until, typer.Option(help="End at the run file's [goal], or with Ctrl-C only.")
    ] = Until.forever,
    workers: Annotated[int, typer.Option(min=1, help="Self-play processes.")] = 1,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the inference service [free].")
    ] = None,
    dashboard_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Port of the page, kept for the next start [8080 or more]."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="First port of the metrics, one for each process [free ones]."
        ),
    ] = None,
    no_dashboard: Annotated[bool, typer.Option("--no-dashboard", help="Serve no page.")] = False,
    override: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Over the run file: search.c_puct=2."),
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(help="Your Postgres, with an owner's rights [embedded].")
    ] = None,
    redis_url: Annotated[str | None, typer.Option(help="Your Redis or Valkey [embedded].")] = None,
) -> None:
    """Train a player here, until its goal or Ctrl-C.

    Starts Postgres, Valkey and all services, and shows how it goes, here and on a page for the
    browser. Started again, it goes on where it was. Nothing listens beyond this machine.
    """
    from zerofleet import games
    from zerofleet.cli.local_run import LocalRun
    from zerofleet.config import find_run_file, load_run
    from zerofleet.local.data_folder import DataFolder
    from zerofleet.local.stores import has_own_postgres

    _apply_overrides(override or [])
    run_file = find_run_file(run_file)
    run = load_run(run_file)
    games.spec(run.game.name)
    _check_rules(run.game.name)
    goal = _goal(run, run_file) if until is Until.goal else None
    folder = DataFolder.for_run(data or default_folder(run.name), run)
    with folder.hold("up"):
        if has_own_postgres(folder, database_url):
            run = with_disk_limit(run)
        local_run = LocalRun(
            run,
            folder,
            workers=workers,
            port=port,
            page=not no_dashboard and _has_page(dashboard_port),
            page_port=dashboard_port,
            metrics_port=metrics_port,
            goal=goal,
        )
        folder.keep_run_file(run_file, run)
        reached = local_run.go(database_url, redis_url)
    if not reached:
        raise typer.Exit(130)  # as a shell names an interrupted program


def with_disk_limit(run: RunConfig) -> RunConfig:
    """The run with the disk limit of a data folder where it states none."""
    if run.retention.max_disk_gb is not None:
        return run
    retention = run.retention.model_copy(update={"max_disk_gb": _DISK_GB})
    return run.model_copy(update={"retention": retention})


def _check_rules(game: str) -> None:
    """Play a game written in Python at random first: its mistakes would come up hours later.

    Raises:
        ConfigError: it breaks the contract.
    """
    if not game.startswith("python:"):
        return
    from zerofleet.testing.conformance import check_game

    try:
        checked = check_game(game, games=_CHECKED_GAMES)
    except (AssertionError, ConfigError) as error:
        raise ConfigError(f"{error}; docs/your-own-game.md says what each method does") from error
    for remark in checked.remarks:
        typer.echo(f"{game}: {remark}", err=True)


def _has_page(port: int | None) -> bool:
    """Whether the page can be served; where NiceGUI is not there that is said on stderr."""
    from importlib.util import find_spec

    if find_spec("nicegui") is None:
        if port is not None:
            raise ConfigError(f"--dashboard-port {port}: {NO_NICEGUI}")
        typer.echo(f"no page: {NO_NICEGUI}", err=True)
        return False
    return True


def _goal(run: RunConfig, run_file: Path) -> float:
    from zerofleet.exam import has_exam

    if run.goal is None:
        raise ConfigError(
            f"{run_file} states no goal: add [goal] exam_error_rate = 0.0, or leave --until out"
        )
    if not has_exam(run.game.name):
        raise ConfigError(f"a [goal] needs an exam, and {run.game.name} has none")
    return run.goal.exam_error_rate


def _apply_overrides(settings: Iterable[str]) -> None:
    """Put each ``--set KEY=VALUE`` into the environment, where this process and its children look.

    Raises:
        ConfigError: one is not KEY=VALUE, or its first part is no section of a run file. What
            stands in a section is checked with the run file itself.
    """
    from zerofleet.config import ENV_PREFIX, RunConfig

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
