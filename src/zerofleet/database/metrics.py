"""What is measured on the way: losses, exams, ratings, games that did not replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import text

from zerofleet.database.connection import ConnectionPool

Split = Literal["train", "held_out"]

_TRAIN_METRICS = (
    "policy_loss",
    "value_loss",
    "total_loss",
    "positions",
    "target_entropy",
    "policy_entropy",
    "policy_agreement",
    "learning_rate",
    "samples",
    "window_positions",
    "window_games",
    "samples_per_position",
)


@dataclass(frozen=True, slots=True)
class ExamRow:
    """How often a model erred where perfect play is known."""

    run: str
    version: int
    num_simulations: int
    positions: int
    errors: int
    error_rate: float
    at: datetime


@dataclass(frozen=True, slots=True)
class RatingRow:
    """A model's strength among the models of its run."""

    run: str
    version: int
    elo: float
    elo_error: float  # standard error
    games: int
    at: datetime


class Metrics(ConnectionPool):
    """Writing and reading what is measured."""

    def insert_train_metrics(
        self, run: str, step: int, split: Split, values: Mapping[str, float], epoch: int
    ) -> None:
        """Record the losses at a step; a resumed trainer's second measurement replaces the first.

        Args:
            run: name of the run.
            step: SGD steps taken.
            split: measured on games that are trained on, or on those held out.
            values: by name; ``policy_loss`` and ``value_loss`` at least.
            epoch: the trainer's fence epoch.

        Raises:
            StaleEpochError: another trainer has taken over.
            ValueError: a value has a name that nobody knows.
        """
        unknown = values.keys() - set(_TRAIN_METRICS)
        if unknown:
            raise ValueError(f"unknown metrics {sorted(unknown)}: known are {_TRAIN_METRICS}")
        columns = ", ".join(values)
        placeholders = ", ".join(f":{name}" for name in values)
        updates = ", ".join(f"{name} = excluded.{name}" for name in (*values, "epoch", "at"))
        self._run(
            f"INSERT INTO train_metrics (run, step, split, epoch, {columns}) "
            f"VALUES (:run, :step, :split, :epoch, {placeholders}) "
            f"ON CONFLICT (run, step, split) DO UPDATE SET {updates}",
            run=run,
            step=step,
            split=split,
            epoch=epoch,
            **values,
        )

    def insert_exam(
        self, run: str, version: int, num_simulations: int, positions: int, errors: int
    ) -> None:
        """Record an exam of a model."""
        self._run(
            "INSERT INTO exams (run, version, num_simulations, positions, errors) "
            "VALUES (:run, :version, :num_simulations, :positions, :errors)",
            run=run,
            version=version,
            num_simulations=num_simulations,
            positions=positions,
            errors=errors,
        )

    def exams(self, run: str) -> list[ExamRow]:
        """Every exam of a run, oldest first."""
        rows = self._rows(
            "SELECT run, version, num_simulations, positions, errors, error_rate, at "
            "FROM exams WHERE run = :run ORDER BY exam_id",
            run=run,
        )
        return [ExamRow(*row) for row in rows]

    def upsert_ratings(self, run: str, ratings: Sequence[tuple[int, float, float]]) -> None:
        """Replace the ratings of models, given as (version, elo, standard error)."""
        if not ratings:
            return
        with self._transaction() as connection:
            connection.execute(
                text(
                    "INSERT INTO ratings (run, version, elo, elo_error, games) "
                    "SELECT :run, :version, :elo, :elo_error, count(g.game_uid) FROM matches AS m "
                    "JOIN match_games AS g USING (match_id) "
                    "WHERE m.run = :run AND :version IN (m.candidate, m.best) "
                    "ON CONFLICT (run, version) DO UPDATE SET elo = excluded.elo, "
                    "elo_error = excluded.elo_error, games = excluded.games, at = now()"
                ),
                [
                    {"run": run, "version": version, "elo": elo, "elo_error": error}
                    for version, elo, error in ratings
                ],
            )

    def ratings(self, run: str) -> list[RatingRow]:
        """The ratings of a run's models, oldest model first."""
        rows = self._rows(
            "SELECT run, version, elo, elo_error, games, at FROM ratings "
            "WHERE run = :run ORDER BY version",
            run=run,
        )
        return [RatingRow(*row) for row in rows]

    def reject_game(self, run: str, game_uid: UUID, reason: str) -> None:
        """Note that a stored game does not replay; ``read_games`` leaves it out from now on."""
        self._run(
            "INSERT INTO rejected_games (run, game_uid, reason) "
            "VALUES (:run, CAST(:game_uid AS uuid), :reason) ON CONFLICT DO NOTHING",
            run=run,
            game_uid=str(game_uid),
            reason=reason,
        )
