"""Positions at which games of self-play begin again, from the trainer to the workers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import text

from zerofleet.database.connection import ConnectionPool

_MOST_ACTIONS = 2**15  # stored actions are int16


class ReadRestarts(ConnectionPool):
    """Reads the positions where games restart; workers have the permission."""

    def restarts(self, run: str) -> list[list[int]]:
        """Return the actions to each position, in the order of their regret.

        Raises:
            ValueError: the row was changed by hand, and has something else.
        """
        [row] = self._rows("SELECT restarts_of(:run) AS positions", run=run)
        if row.positions is None:
            return []
        if not isinstance(row.positions, list):
            raise _not_a_restart(run, row.positions)
        return [_actions_of(run, each) for each in cast("list[Any]", row.positions)]


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


def _actions_of(run: str, position: Any) -> list[int]:  # noqa: ANN401
    try:
        actions: list[Any] = list(position["actions"])
    except (TypeError, KeyError):
        raise _not_a_restart(run, position) from None
    if not all(map(_is_action, actions)):
        raise _not_a_restart(run, position)
    return actions


def _is_action(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_ACTIONS


def _not_a_restart(run: str, value: object) -> ValueError:
    return ValueError(
        f"restarts.positions of run {run} has {json.dumps(value)[:100]}, which is no list of "
        "actions. The trainer replaces the row within a minute"
    )
