"""Measurements of a run: losses, events of training, exams, and variety of self-play."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

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
    "policy_error",
    "value_error",
    "search_kl",
    "explained_variance",
    "value_bias",
    "distinct_share",
    "age_games",
    "gradient_norm",
    "soft_policy_loss",
    "opponent_policy_loss",
    "final_planes_loss",
    "final_score_loss",
    "window_limit",
    "policy_gap",
    "value_gap",
    "overfit",
    "calibration",
    "own_losses",
)
_JSON = ("calibration", "own_losses")

TRAINING_WARNINGS = "SELECT warning, detail, at FROM training_warnings WHERE run = :run ORDER BY at"
"""Query with the rows of ``TrainingWarning``."""

NEWEST_GAMES = 1000
"""Number of games examined; with fewer there is no warning."""
LEAST_DISTINCT = 0.75
"""Least share of distinct games among the newest.

In a run of Connect Four that stalled it was 73%, then 49% (lab/notes.md, "Games that are all the
same").
"""
ENOUGH_DISTINCT = 0.85
"""Share that ends the warning, so that a share near LEAST_DISTINCT is not reported each time."""
_SHORT_GAME = 16  # plies: a game as short as tic-tac-toe has few lines, and even fewer good ones


@dataclass(frozen=True, slots=True)
class TrainEvent:
    """An event in the training of a run."""

    run: str
    step: int
    event: str
    detail: str
    at: datetime


@dataclass(frozen=True, slots=True)
class TrainingWarning:
    """A problem in the training of a run."""

    warning: str
    """``narrows`` or ``overfits``."""
    detail: str
    """Text with the figures of the moment when it began."""
    at: datetime

    @property
    def words(self) -> str:
        """Return the text for a person."""
        return f"{self.detail} (since {self.at:%Y-%m-%d %H:%M} UTC)"


@dataclass(frozen=True, slots=True)
class ExamFigures:
    """Figures of an exam in addition to its errors; None: the exam does not have them."""

    prior_errors: int | None = None  # positions, by the prior alone
    value_error: float | None = None  # mean squared error over positions
    wins: int | None = None  # whole games, like the following figures
    draws: int | None = None
    given_away: int | None = None  # actions that gave up a better outcome
    margin: float | None = None  # mean area minus the other's
    even_komi: float | None = None  # points that the model would need to win half


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A position of an exam with a mistake of the model; all in the game's notation."""

    moves: str  # moves that lead there
    played: str
    right: tuple[str, ...]  # any of these keeps the outcome
    start: str = ""  # position that the moves begin at; empty: the usual start


@dataclass(frozen=True, slots=True)
class GroupErrors:
    """Errors in a group of an exam's positions."""

    name: str
    positions: int
    errors: int


MOST_WRONG_ANSWERS = 100
"""Most wrong answers kept of one exam."""
_NOTHING_MORE = ExamFigures()


@dataclass(frozen=True, slots=True)
class ExamRow:
    """A model's error rate against perfect play, or its results against GNU Go."""

    run: str
    version: int
    kind: str  # a kind of positions, or whole games
    num_simulations: int
    positions: int
    errors: int
    error_rate: float
    at: datetime
    figures: ExamFigures


@dataclass(frozen=True, slots=True)
class RecentPlay:
    """Figures of the last 1,000 self-play games and of the trainer's newest measurement."""

    games: int = 0
    distinct_game_share: float | None = None
    """Share of games whose moves differ from all others; None: there is no game."""
    drawn_game_share: float | None = None
    """Share of drawn games; None: there is no game."""
    policy_entropy: float | None = None
    """Entropy of the network's policy, in nats; None: not measured yet."""
    target_entropy: float | None = None
    """Entropy of the search's policy, in nats; None: not measured yet."""
    first_policy_entropy: float | None = None
    """First measurement of ``policy_entropy``."""

    def narrows(self, max_length: int, *, was_narrow: bool) -> str | None:
        """Return why self-play is too narrow, and what to do; None while it is not.

        Args:
            max_length: of a game, in plies.
            was_narrow: whether it was before; then it takes more to be wide again.
        """
        if max_length <= _SHORT_GAME:
            return None
        share = self.distinct_game_share
        least = ENOUGH_DISTINCT if was_narrow else LEAST_DISTINCT
        if self.games < NEWEST_GAMES or share is None or share >= least:
            return None
        return (
            f"{share:.1%} of the last {self.games:,} games differ, less than {least:.0%}: raise "
            "selfplay.random_opening_plies, then selfplay.fork_share and selfplay.temperature. "
            "Games of few plies repeat each other at any setting"
        )


class Metrics(ConnectionPool):
    """Measurements and events of training, and a look at the newest games."""

    def insert_train_metrics(
        self, run: str, step: int, split: Split, values: Mapping[str, Any], epoch: int
    ) -> None:
        """Record the losses at a step; a resumed trainer's second measurement replaces the first.

        Args:
            step: SGD steps taken.
            split: measured on training games, or on the validation set.
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
            f"CAST(:{name} AS jsonb)" if name in _JSON else f":{name}" for name in values
        )
        for name in _JSON:
            if values.get(name) is not None:
                values = {**values, name: json.dumps(values[name])}
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

    def record_progress(self, run: str, unspent_positions: float, tx: int, epoch: int) -> None:
        """Record the progress of training, for workers that cannot read it from Redis.

        A crash of Postgres may lose the last record; the next one follows within seconds.

        Args:
            unspent_positions: positions whose samples are not drawn yet ...
            tx: ... from the games up to this transaction.
            epoch: the trainer's fence epoch.

        Raises:
            StaleEpochError: another trainer has taken over.
        """
        with self._transaction() as connection:
            connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
            connection.execute(
                text(
                    "INSERT INTO trainer_progress (run, unspent_positions, tx, epoch, at) VALUES "
                    "(:run, :unspent, CAST(CAST(:tx AS text) AS xid8), :epoch, now()) "
                    "ON CONFLICT (run) DO UPDATE SET unspent_positions = "
                    "excluded.unspent_positions, tx = excluded.tx, epoch = excluded.epoch, "
                    "at = excluded.at"
                ),
                {"run": run, "unspent": unspent_positions, "tx": str(tx), "epoch": epoch},
            )

    def insert_train_event(self, run: str, step: int, event: str, detail: str, epoch: int) -> None:
        """Record an event; the same event at the same step is recorded once.

        Args:
            step: SGD steps taken.
            event: such as ``overfit_begins``.
            detail: text with figures, for people.
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

    def training_warnings(self, run: str) -> list[TrainingWarning]:
        """Return the problems of a run's training according to its last events, oldest first."""
        return [TrainingWarning(*row) for row in self._rows(TRAINING_WARNINGS, run=run)]

    def train_events(self, run: str) -> list[TrainEvent]:
        """Return every event of a run's training, oldest first."""
        rows = self._rows(
            "SELECT run, step, event, detail, at FROM train_events WHERE run = :run "
            "ORDER BY event_id",
            run=run,
        )
        return [TrainEvent(*row) for row in rows]

    def recent_play(self, run: str) -> RecentPlay:
        """Read the view ``recent_play``, whose cost does not grow with the run."""
        rows = self._rows(
            "SELECT games, distinct_game_share, drawn_game_share, policy_entropy, target_entropy, "
            "first_policy_entropy FROM recent_play WHERE run = :run",
            run=run,
        )
        return RecentPlay(*rows[0]) if rows else RecentPlay()


class Exams(ConnectionPool):
    """Exams of models."""

    def insert_exam(
        self,
        run: str,
        version: int,
        num_simulations: int,
        positions: int,
        errors: int,
        *,
        kind: str,
        figures: ExamFigures = _NOTHING_MORE,
        wrong_answers: Sequence[WrongAnswer] | None = None,
        groups: Sequence[GroupErrors] = (),
    ) -> None:
        """Record an exam of a model; repeating the same one does nothing.

        Args:
            num_simulations: simulations of each search.
            kind: a value of the table's column.
            figures: further figures.
            wrong_answers: the first hundred are stored; None: they are not known.
            groups: errors by group; empty: the exam has no groups.
        """
        kept = [asdict(each) for each in wrong_answers or ()][:MOST_WRONG_ANSWERS]
        self._run(
            "INSERT INTO exams (run, version, kind, num_simulations, positions, errors, "
            "prior_errors, value_error, wins, draws, given_away, margin, even_komi, "
            "wrong_answers, groups) SELECT :run, :version, :kind, :num_simulations, :positions, "
            ":errors, CAST(:prior_errors AS integer), CAST(:value_error AS real), "
            "CAST(:wins AS integer), CAST(:draws AS integer), CAST(:given_away AS integer), "
            "CAST(:margin AS real), CAST(:even_komi AS real), CAST(:wrong_answers AS jsonb), "
            "CAST(:groups AS jsonb) WHERE NOT EXISTS "
            "(SELECT FROM exams WHERE run = :run AND version = :version AND positions = :positions "
            "AND kind = :kind AND num_simulations = :num_simulations AND errors = :errors "
            "AND wins IS NOT DISTINCT FROM CAST(:wins AS integer) "
            "AND draws IS NOT DISTINCT FROM CAST(:draws AS integer) "
            "AND given_away IS NOT DISTINCT FROM CAST(:given_away AS integer) "
            "AND margin IS NOT DISTINCT FROM CAST(:margin AS real) "
            "AND even_komi IS NOT DISTINCT FROM CAST(:even_komi AS real))",
            run=run,
            version=version,
            kind=kind,
            num_simulations=num_simulations,
            positions=positions,
            errors=errors,
            wrong_answers=None if wrong_answers is None else json.dumps(kept),
            groups=json.dumps([asdict(each) for each in groups]) if groups else None,
            **asdict(figures),
        )

    def exams(self, run: str) -> list[ExamRow]:
        """Return every exam of a run, oldest first."""
        rows = self._rows(
            "SELECT run, version, kind, num_simulations, positions, errors, error_rate, at, "
            "prior_errors, value_error, wins, draws, given_away, margin, even_komi "
            "FROM exams WHERE run = :run ORDER BY exam_id",
            run=run,
        )
        found = map(list[Any], rows)
        return [ExamRow(*row[:8], figures=ExamFigures(*row[8:])) for row in found]
