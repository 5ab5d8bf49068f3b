"""What is measured on the way: losses, exams, games that did not replay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

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
    "policy_error",
    "value_error",
    "search_kl",
    "explained_variance",
    "value_bias",
    "distinct_share",
    "age_games",
    "gradient_norm",
    "opponent_policy_loss",
    "final_planes_loss",
    "final_score_loss",
    "window_limit",
    "policy_gap",
    "value_gap",
    "overfit",
    "calibration",
)


@dataclass(frozen=True, slots=True)
class TrainEvent:
    """What happened to the training of a run."""

    run: str
    step: int
    event: str
    detail: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ExamRow:
    """How often a model erred where perfect play is known."""

    run: str
    version: int
    kind: str  # of its positions: lines, random or good
    num_simulations: int
    positions: int
    errors: int
    error_rate: float
    value_error: float | None  # mean square; None: not known
    at: datetime


class Metrics(ConnectionPool):
    """Writing and reading what is measured."""

    def insert_train_metrics(
        self, run: str, step: int, split: Split, values: Mapping[str, Any], epoch: int
    ) -> None:
        """Record the losses at a step; a resumed trainer's second measurement replaces the first.

        Args:
            run: name of the run.
            step: SGD steps taken.
            split: measured on games that are trained on, or on those held out.
            values: numbers by name, ``policy_loss`` and ``value_loss`` at least; None is unknown.
                ``calibration`` is a list of objects with the columns of the view value_by_stage.
            epoch: the trainer's fence epoch.

        Raises:
            StaleEpochError: another trainer has taken over.
            ValueError: a value has an unknown name.
        """
        unknown = values.keys() - set(_TRAIN_METRICS)
        if unknown:
            raise ValueError(f"unknown metrics {sorted(unknown)}: known are {_TRAIN_METRICS}")
        columns = ", ".join(values)
        placeholders = ", ".join(
            f"CAST(:{name} AS jsonb)" if name == "calibration" else f":{name}" for name in values
        )
        if values.get("calibration") is not None:
            values = {**values, "calibration": json.dumps(values["calibration"])}
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

    def insert_train_event(self, run: str, step: int, event: str, detail: str, epoch: int) -> None:
        """Write down what happened; the same event at the same step is written once.

        Args:
            run: name of the run.
            step: SGD steps taken.
            event: such as ``overfit_begins``.
            detail: with figures, for people.
            epoch: the trainer's fence epoch.

        Raises:
            StaleEpochError: another trainer has taken over.
        """
        self._run(
            "INSERT INTO train_events (run, step, event, detail, epoch) "
            "VALUES (:run, :step, :event, :detail, :epoch) ON CONFLICT DO NOTHING",
            run=run,
            step=step,
            event=event,
            detail=detail,
            epoch=epoch,
        )

    def train_events(self, run: str) -> list[TrainEvent]:
        """Every event of a run's training, oldest first."""
        rows = self._rows(
            "SELECT run, step, event, detail, at FROM train_events WHERE run = :run "
            "ORDER BY event_id",
            run=run,
        )
        return [TrainEvent(*row) for row in rows]

    def insert_exam(
        self,
        run: str,
        version: int,
        num_simulations: int,
        positions: int,
        errors: int,
        *,
        kind: str,
        value_error: float | None = None,
    ) -> None:
        """Record an exam of a model; repeating the same one does nothing."""
        self._run(
            "INSERT INTO exams "
            "(run, version, kind, num_simulations, positions, errors, value_error) "
            "SELECT :run, :version, :kind, :num_simulations, :positions, :errors, "
            "CAST(:value_error AS real) WHERE NOT EXISTS "
            "(SELECT FROM exams WHERE run = :run AND version = :version AND positions = :positions "
            "AND kind = :kind AND num_simulations = :num_simulations AND errors = :errors)",
            run=run,
            version=version,
            kind=kind,
            value_error=value_error,
            num_simulations=num_simulations,
            positions=positions,
            errors=errors,
        )

    def exams(self, run: str) -> list[ExamRow]:
        """Every exam of a run, oldest first."""
        rows = self._rows(
            "SELECT run, version, kind, num_simulations, positions, errors, error_rate, "
            "value_error, at FROM exams WHERE run = :run ORDER BY exam_id",
            run=run,
        )
        return [ExamRow(*row) for row in rows]

    def reject_game(self, run: str, game_uid: UUID, reason: str) -> None:
        """Note that a stored game does not replay; ``read_games`` leaves it out from now on."""
        self._run(
            "INSERT INTO rejected_games (run, game_uid, reason) "
            "VALUES (:run, CAST(:game_uid AS uuid), :reason) ON CONFLICT DO NOTHING",
            run=run,
            game_uid=str(game_uid),
            reason=reason,
        )
