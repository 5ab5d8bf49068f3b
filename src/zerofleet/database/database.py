"""All that zerofleet asks of Postgres."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import exc

from zerofleet.config import RunConfig
from zerofleet.database.connection import explain
from zerofleet.database.matches import Matches
from zerofleet.database.metrics import Metrics
from zerofleet.database.models import Models
from zerofleet.database.promotions import Promotions
from zerofleet.database.ratings import Ratings
from zerofleet.database.recent_play import RecentPlays
from zerofleet.database.retention import Retentions
from zerofleet.database.summary import Summaries
from zerofleet.database.v_resign import Resignations
from zerofleet.database.variants import Variants
from zerofleet.database.window_games import Windows
from zerofleet.database.worker_games import WorkerGames
from zerofleet.errors import ConfigError, RunNotRegisteredError

FencedRole = Literal["trainer", "evaluator"]


class Database(
    WorkerGames,
    Windows,
    Resignations,
    Models,
    Retentions,
    Variants,
    Matches,
    Promotions,
    Ratings,
    Metrics,
    RecentPlays,
    Summaries,
):
    """The record of every run, over a few connections; a context manager.

    Its methods block: call them from a thread where an event loop runs. All of them raise
    ``StoreUnavailableError`` when Postgres does not answer, within about half a minute even when
    it is frozen, and all of them may then be called again with the same arguments.
    """

    def register_run(self, run: RunConfig) -> None:
        """Make the run's row, or refresh its configuration; safe to repeat.

        Raises:
            ConfigError: there is a run of this name that plays another game, or the run has a value
                that the database refuses.
        """
        try:
            [row] = self._rows(
                "SELECT register_run(:name, :game, CAST(:config AS jsonb)) AS game",
                name=run.name,
                game=run.game.name,
                config=run.model_dump_json(),
            )
        except exc.DataError as error:
            raise ConfigError(explain(error.orig or error)) from error
        _check_game(run, row.game)

    def require_run(self, run: RunConfig) -> None:
        """Check that the run is registered, for a service that may not do that itself.

        Raises:
            RunNotRegisteredError: it is not yet.
            ConfigError: there is a run of this name that plays another game.
        """
        rows = self._rows("SELECT game FROM runs WHERE name = :name", name=run.name)
        if not rows:
            raise RunNotRegisteredError(
                f"the run '{run.name}' is not registered in Postgres at {self._place} yet: its "
                "trainer, its evaluator or `zerofleet up` does that when it starts"
            )
        _check_game(run, rows[0].game)

    def acquire_fence(self, run: str, role: FencedRole, *, above: int = 0) -> int:
        """Become the one trainer, or the one evaluator, whose writes are taken.

        Args:
            run: name of the run.
            role: what to become.
            above: the newest epoch that is known from elsewhere, such as from checkpoints. Postgres
                may be restored from a dump that is older than they are.

        Returns:
            The epoch that every write must carry. Writes of those who came before are refused
            from now on with ``StaleEpochError``.
        """
        [row] = self._rows(
            "SELECT acquire_fence(:run, :role, :above) AS epoch", run=run, role=role, above=above
        )
        return row.epoch


def _check_game(run: RunConfig, stored: str) -> None:
    if stored != run.game.name:
        raise ConfigError(
            f"the run '{run.name}' in this database plays {stored}, not {run.game.name}: "
            "give this run another name"
        )
