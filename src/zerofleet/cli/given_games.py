"""Shared parts of ``fork`` and ``import``, whose runs begin with games that they did not play."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from zerofleet.cli.run_options import default_folder, fleet_database, logged_in
from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError, StoreUnavailableError

if TYPE_CHECKING:
    from zerofleet.config import Overrides, RunConfig
    from zerofleet.database import Database

_T = TypeVar("_T")

_TRY_SECONDS = 60.0
_SAY_SECONDS = 5.0

NewData = Annotated[
    Path | None, typer.Option("--data", help="Data folder of the new run [zerofleet-data/NAME].")
]
OwnersUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="Postgres of a fleet, as its owner, instead of a data folder.",
    ),
]
Retrain = Annotated[
    bool,
    typer.Option("--retrain", help="Learn from these games alone: the new run plays no games."),
]


@dataclass(frozen=True, slots=True)
class NewRun:
    """The run that gets the games, as the options of the command say."""

    run: RunConfig
    run_file: Path
    override: list[str]
    """The values of ``--set``."""
    overrides: Overrides
    data: Path | None
    database_url: str | None
    """Postgres of a fleet, with its password; None: the run gets a data folder."""

    @classmethod
    def of_options(
        cls,
        run_file: Path,
        override: list[str] | None,
        data: Path | None,
        database_url: str | None,
        password_file: Path | None,
    ) -> NewRun:
        """Read the run file.

        Raises:
            ConfigError: one line for each mistake.
        """
        from zerofleet.cli.up import checked_run
        from zerofleet.config import Overrides, find_run_file

        run_file = find_run_file(run_file)
        overrides = Overrides.read(override or [])
        run = checked_run(run_file, overrides)
        url = fleet_database(data, database_url)
        url = None if url is None else logged_in(url, password_file)
        return cls(run, run_file, override or [], overrides, data, url)

    @property
    def folder(self) -> Path:
        """Its data folder, if it has one."""
        return self.data or default_folder(self.run.name)

    @contextlib.contextmanager
    def opened(self) -> Generator[Target]:
        """Yield the database that gets the games, with the run registered there.

        A new data folder is removed again unless ``Target.keep`` was called.

        Raises:
            ConfigError: the folder or the database cannot be used for this run.
            StoreUnavailableError: the database does not answer.
        """
        from zerofleet.database import Database

        if self.database_url is not None:
            with Database(self.database_url) as database:
                database.wait_ready(5.0)
                database.register_run(self.run)
                database.make_partitions()
                yield Target(database, lambda: None)
            return
        from zerofleet.cli.up import with_disk_limit
        from zerofleet.database import migrate
        from zerofleet.local.start import Start
        from zerofleet.local.stores import Stores, has_own_postgres

        with Start(self.folder, self.run, self.run_file, self.overrides) as start:
            run = with_disk_limit(self.run) if has_own_postgres(start.folder) else self.run
            stores = Stores(start.folder)
            stores.check(run.name)
            with stores:
                owner_url = stores.urls.database["owner"]
                migrate(owner_url, say=echo)
                with Database(owner_url) as database:
                    database.register_run(run)
                    database.make_partitions()

                    def keep() -> None:
                        start.write(run)
                        stores.remember()
                        start.succeeded()

                    yield Target(database, keep)

    def report(self, database: Database, *, until: str = "") -> None:
        """Print the origin of the games, and the command that starts the run.

        Args:
            database: database of the run.
            until: option that says when the run ends, to suggest.
        """
        echo(f"the run '{self.run.name}' begins with {database.origin(self.run.name)}")
        if self.database_url is not None:
            echo("its trainer learns from these games as soon as it runs")
            return
        words = ["zerofleet", "up", str(self.run_file)]
        for key in self.override:
            words += ["--set", key]
        if self.data is not None:
            words += ["--data", str(self.data)]
        echo(f"start    {shlex.join(words)}{until}")


@dataclass(frozen=True, slots=True)
class Target:
    """The database of the new run."""

    database: Database
    keep: Callable[[], None]
    """Keeps the new data folder, even if the command fails later."""


class Tries:
    """Repeats a step while a database does not answer, for a minute."""

    def __init__(self) -> None:
        self._since: float | None = None

    def __call__(self, step: Callable[[], _T]) -> _T:
        """Return what the step returns.

        Raises:
            StoreUnavailableError: it failed for a minute.
        """
        from zerofleet.waiting import Backoff

        backoff, deadline = Backoff(), time.monotonic() + _TRY_SECONDS
        while True:
            try:
                return step()
            except StoreUnavailableError as error:
                delay = backoff.delay()
                if time.monotonic() + delay > deadline:
                    raise
                echo(f"{error}: trying again", err=True)
                time.sleep(delay)


class Counter:
    """Prints a line of progress every few seconds."""

    def __init__(self, words: str, total: int) -> None:
        self._words = words
        self._total = total
        self._next = time.monotonic() + _SAY_SECONDS

    def show(self, done: int) -> None:
        """Print how many games are done, if the last line is old enough."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SAY_SECONDS
            echo(f"{self._words} {done:,} of {self._total:,} games")


@contextlib.contextmanager
def resumable(command: str) -> Generator[None]:
    """Say on Ctrl-C that the same command continues."""
    try:
        yield
    except KeyboardInterrupt:
        echo(f"stopped: the same `zerofleet {command}` command continues from here", err=True)
        raise typer.Exit(130) from None


def require_enough(run: RunConfig, positions: float) -> None:
    """Refuse to retrain on fewer positions than training needs to start.

    Raises:
        ConfigError: there are too few.
    """
    if positions < run.trainer.min_positions:
        raise ConfigError(
            f"--retrain: these games have {positions:,.0f} positions, fewer than "
            f"trainer.min_positions = {run.trainer.min_positions}: lower it, or give more games"
        )
