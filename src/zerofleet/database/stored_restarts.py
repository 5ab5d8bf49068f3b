"""The positions at which games of self-play restart: the trainer writes them, workers read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from zerofleet.database.connection import ConnectionPool


class StoredRestarts(ConnectionPool):
    """Reads the positions at which games restart, with the rights of a worker."""

    def restarts(self, run: str) -> list[list[int]]:
        """Return the actions to each position, the largest regret first."""
        [row] = self._rows("SELECT restarts_of(:run) AS positions", run=run)
        positions: list[dict[str, Any]] = row.positions or []
        return [each["actions"] for each in positions]


class WritableRestarts(StoredRestarts):
    """Writes the positions at which games restart, with the rights of the trainer."""

    def store_restarts(
        self, run: str, positions: Sequence[tuple[Sequence[int], float]], epoch: int
    ) -> None:
        """Replace the run's restarts.

        A crash of Postgres may lose them. The trainer replaces them within a minute.

        Args:
            run: name of the run.
            positions: the actions to each position, and its regret; the largest regret first.
            epoch: the trainer's fence epoch.

        Raises:
            StaleEpochError: another trainer has taken over.
        """
        rows = [{"actions": list(actions), "regret": regret} for actions, regret in positions]
        with self._transaction() as connection:
            connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
            connection.execute(
                text(
                    "INSERT INTO restarts (run, positions, epoch, at) VALUES "
                    "(:run, CAST(:positions AS jsonb), :epoch, now()) "
                    "ON CONFLICT (run) DO UPDATE SET positions = excluded.positions, "
                    "epoch = excluded.epoch, at = excluded.at"
                ),
                {"run": run, "positions": json.dumps(rows), "epoch": epoch},
            )
