"""Runs, and who may write to them."""

from __future__ import annotations

from typing import Literal

from zerofleet.config import RunConfig
from zerofleet.database.connection import ConnectionPool
from zerofleet.errors import ConfigError

FencedRole = Literal["trainer", "evaluator"]


class Runs(ConnectionPool):
    """Registering a run and taking over its writing."""

    def register_run(self, run: RunConfig) -> None:
        """Make the run's row, or refresh its configuration; safe to repeat.

        Raises:
            ConfigError: there is a run of this name that plays another game.
        """
        [row] = self._rows(
            "SELECT register_run(:name, :game, CAST(:config AS jsonb)) AS game",
            name=run.name,
            game=run.game.name,
            config=run.model_dump_json(),
        )
        if row.game != run.game.name:
            raise ConfigError(
                f"the run '{run.name}' in this database plays {row.game}, not {run.game.name}: "
                "give this run another name"
            )

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
