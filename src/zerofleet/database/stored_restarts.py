"""The positions at which games of self-play restart: the trainer writes them, workers read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from zerofleet.database.connection import ConnectionPool

RESTART_LIST = """
SELECT listed.positions, listed.regret, extract(epoch FROM now() - r.at)::float8 AS age_s
FROM restarts AS r
CROSS JOIN LATERAL (
    SELECT count(*) AS positions, avg(CAST(each AS float8)) AS regret
    FROM jsonb_path_query(r.positions, '$[*].regret ? (@.type() == "number")') AS each
) AS listed
WHERE r.run = :run
"""
"""Query for a run's ``RestartList``, with the rights of the console."""


@dataclass(frozen=True, slots=True)
class RestartList:
    """The newest list of positions at which games of self-play restart, in figures."""

    positions: int = 0
    regret: float | None = None
    """Mean regret of the positions, 0 to 4; None: the list is empty."""
    age_s: float | None = None
    """Seconds since the trainer wrote the list; None: it has not written one."""


def restart_list_of(rows: Sequence[Any]) -> RestartList:
    """Return the list in the rows of ``RESTART_LIST``: one row, or none before the first list."""
    return RestartList(*rows[0]) if rows else RestartList()


class StoredRestarts(ConnectionPool):
    """Reads the positions at which games restart, with the rights of a worker."""

    def restarts(self, run: str) -> list[list[int]]:
        """Return the actions to each position, the largest regret first."""
        [row] = self._rows("SELECT restarts_of(:run) AS positions", run=run)
        positions: list[dict[str, Any]] = row.positions or []
        return [each["actions"] for each in positions]

    def restart_list(self, run: str) -> RestartList:
        """Return the run's list of restarts in figures, with the rights of the console."""
        return restart_list_of(self._rows(RESTART_LIST, run=run))


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
