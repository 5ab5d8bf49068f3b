"""Positions at which games of self-play begin again, from the trainer to the workers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from zerofleet.database.connection import ConnectionPool


class ReadRestarts(ConnectionPool):
    """Reads the positions where games restart; workers have the permission."""

    def restarts(self, run: str) -> list[list[int]]:
        """Return the actions to each position, in the order of their regret."""
        [row] = self._rows("SELECT restarts_of(:run) AS positions", run=run)
        positions: list[dict[str, Any]] = row.positions or []
        return [each["actions"] for each in positions]


class Restarts(ReadRestarts):
    """Writes the positions where games restart."""

    def store_restarts(
        self, run: str, positions: Sequence[tuple[Sequence[int], float]], epoch: int
    ) -> None:
        """Replace the run's restarts.

        A crash of Postgres may lose the last ones; the next ones follow within a minute.

        Args:
            positions: the actions to each position, and its regret.
            epoch: the trainer's fence epoch.

        Raises:
            StaleEpochError: another trainer has taken over.
        """
        found = [{"actions": list(actions), "regret": regret} for actions, regret in positions]
        with self._transaction() as connection:
            connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
            connection.execute(
                text(
                    "INSERT INTO restarts (run, positions, epoch, at) VALUES "
                    "(:run, CAST(:positions AS jsonb), :epoch, now()) "
                    "ON CONFLICT (run) DO UPDATE SET positions = excluded.positions, "
                    "epoch = excluded.epoch, at = excluded.at"
                ),
                {"run": run, "positions": json.dumps(found), "epoch": epoch},
            )
