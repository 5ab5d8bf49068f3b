"""What a person wants to know of a run: figures of the record, and what each service does."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from zerofleet.config import RunConfig
from zerofleet.database import Database, ExamRow, Kept, RecentPlay
from zerofleet.errors import ConfigError, StoreUnavailableError
from zerofleet.exam import position_kinds
from zerofleet.figures import (
    DashboardFigures,
    DemandFigures,
    EvaluatorFigures,
    Figures,
    InferenceFigures,
    SelfplayFigures,
    TrainerFigures,
    WorkStatus,
)
from zerofleet.fleet import Advice, advise, observe
from zerofleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.local.data_folder import FULL_SHARE, LOG_BYTES, FolderSizes, full_disk
from zerofleet.local.supervisor import Child
from zerofleet.redis_connection import UP, RedisState

_BEHIND = re.compile(r"the trainer, \d+ positions behind")  # what paced self-play waits for
_LACKS = re.compile(r"[\d,]+ positions")  # what a paced trainer waits for
_NO_MODEL = ("a new model", "the first model")  # what an idle evaluator waits for
_PACED_SHARE = 0.05  # of a stage's time in which it lets another catch up
_STARVED_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Loss:
    """The two parts of the loss: cross-entropy of the policy, squared error of the value."""

    policy: float
    value: float


@dataclass(frozen=True, slots=True)
class Exam:
    """One promoted model's exam."""

    version: int
    simulations: int
    positions: int
    errors: int
    error_rate: float
    kind: str = ""
    """Of its positions."""
    prior_error_rate: float | None = None
    """Of the prior alone; None: not asked."""
    value_error: float | None = None
    """Mean square; None: not known."""


@dataclass(frozen=True, slots=True)
class RunFigures:
    """A run in numbers."""

    run: str
    game: str
    games: int
    positions: int
    games_last_hour: int
    games_per_hour: float
    """The rate of the last half minute, by all workers."""
    positions_per_s: float
    """Predicted for self-play, by all workers."""
    models: int
    promotions: int
    has_exam: bool
    exams: tuple[Exam, ...] = ()
    """Of promoted models, oldest first, in the positions that a goal is about."""
    newest_exams: tuple[Exam, ...] = ()
    """One for each kind of positions, of the model that was examined last."""
    train: Loss | None = None
    held_out: Loss | None = None
    learning_rate: float | None = None
    """Of the next step; None: no trainer says."""
    budget_used: float | None = None
    """Share of the trainer's budget; None: no trainer says, or it has none."""
    steps: int | None = None
    """Training steps in total; None: no trainer responds."""
    until: str | None = None
    """Progress toward the condition of ``--until``; None: it has no measure."""
    best_version: int | None = None
    best_age_s: float | None = None
    refused_variants: str | None = None
    """Of the best model, and why: without int8 a CPU with VNNI predicts a third as much."""
    rated_version: int | None = None
    """The newest promoted model that has a rating."""
    elo: float | None = None
    """Of that model."""
    elo_error: float | None = None
    """Standard error."""
    play: RecentPlay = field(default_factory=RecentPlay)
    """Whether self-play still explores."""
    warnings: Mapping[str, str] = field(default_factory=dict[str, str])
    """That it ``narrows`` or ``overfits``: since when, and why."""
    window_blocker: str | None = None
    """The open transaction that keeps stored games from the trainer."""
    disk: str | None = None
    """That the disk of the run's data folder is full."""
    redis: RedisState = UP
    """Status of Redis. While it is not up, heartbeats are missing."""

    def exam_at(self, goal: float | None, *, after: int = 0) -> Exam | None:
        """The newest exam at or under an error rate; the best model's goes before.

        Args:
            goal: the error rate; None is never reached.
            after: that many exams are old: of these only the best model's counts.
        """
        if goal is None:
            return None
        reached = [
            exam
            for number, exam in enumerate(self.exams)
            if exam.error_rate <= goal and (number >= after or exam.version == self.best_version)
        ]
        of_best = [exam for exam in reached if exam.version == self.best_version]
        return next(reversed(of_best or reached), None)


Status = WorkStatus | Literal["down"]
"""The status of a process; down: it has ended or does not respond."""


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Disk usage of a run in bytes; for a fleet, that of its database."""

    kept: Kept
    folder: FolderSizes | None
    """Files of the data folder; None: there is none on this machine."""
    limit: float | None
    """The disk limit; None: no limit."""

    @property
    def total(self) -> int:
        """The whole database, and the files of the data folder."""
        return self.kept.database_bytes + (0 if self.folder is None else self.folder.total)

    @property
    def fixed(self) -> int:
        """Bytes that the limit cannot free: all but searches, with a write-ahead log that is full.

        The log of the embedded Postgres is smaller only in a run that has stored little.
        """
        log = 0 if self.folder is None else self.folder.log
        return self.total - self.kept.bytes + (max(0, LOG_BYTES - log) if log else 0)

    @property
    def limit_fault(self) -> str | None:
        """Why the limit can never be kept, and what to do; None: it can."""
        if self.limit is None or self.limit >= self.fixed:
            return None
        parts = "tables" if self.folder is None else "tables, models and other files"
        if self.folder is not None and self.folder.log:
            parts = f"the write-ahead log (up to {LOG_BYTES >> 20} MB), {parts}"
        enough = math.ceil(1.25 * self.fixed / 1e8) / 10
        return (
            f"retention.max_disk_gb = {self.limit / 1e9:g} cannot be kept: {parts} need "
            f"{self.fixed / 1e9:.2f} GB without any searches. Set it to {enough:g} or more, or to "
            "0 for no limit."
        )

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the trainer drops searches for the limit, at the rate of the last hour.

        0: it does so now. None: there is no limit, or no rate.
        """
        if self.limit is None or not self.kept.bytes_per_day:
            return None
        return max(0.0, FULL_SHARE * self.limit - self.total) / self.kept.bytes_per_day * 86400


@dataclass(frozen=True, slots=True)
class ServiceState:
    """One process of a service: its status, and what it does in words."""

    name: str
    doing: str
    status: Status = "running"
    waiting_for: str = ""
    restarts: int = 0
    figures: Figures | None = None
    """Of its heartbeat."""


class Monitor:
    """Looks at one run; its calls block, so an event loop makes them in a thread.

    Args:
        run: which one.
        database_url: with at least the console's rights.
        redis_url: where the heartbeats are.
        folder: of the run, if it is on this machine.
    """

    def __init__(
        self, run: RunConfig, database_url: str, redis_url: str, folder: Path | None = None
    ) -> None:
        self._run = run
        self._folder = folder
        self._heard: set[str] = set()  # numbers of processes
        self._database = Database(database_url, pool_size=1)
        self._heartbeats = Heartbeats(redis_url, run.name)
        self._beats: list[Heartbeat] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._database.close()
        self._heartbeats.close()

    def require_redis(self) -> None:
        """Look for Redis.

        Raises:
            StoreUnavailableError: it does not answer.
        """
        self._heartbeats.read()

    def figures(self) -> RunFigures:
        """The run in numbers, now.

        Raises:
            StoreUnavailableError: Postgres does not answer. Without Redis the rates are missing.
        """
        self._beats = []
        with contextlib.suppress(StoreUnavailableError):
            self._beats = self._heartbeats.read()
        said = [beat.figures for beat in self._beats if not beat.is_late]
        workers = [figures for figures in said if isinstance(figures, SelfplayFigures)]
        trainers = (figures for figures in said if isinstance(figures, TrainerFigures))
        trainer = next(trainers, None)
        summary = self._database.summary(self._run.name)
        history = self._database.promotion_history(self._run.name)
        promoted = {row.promotion.version for row in history}
        kinds = position_kinds(self._run.game.name)
        exams = [
            _exam(row)
            for row in self._database.exams(self._run.name)
            if row.version in promoted and row.kind in kinds
        ]
        newest = {exam.kind: exam for exam in exams if exam.version == exams[-1].version}
        blocker = self._database.window_blocker(self._run.name)
        age = (datetime.now(UTC) - history[0].at).total_seconds() if history else None
        return RunFigures(
            run=self._run.name,
            game=self._run.game.name,
            games=summary.games,
            positions=summary.positions,
            games_last_hour=summary.games_last_hour,
            games_per_hour=sum(worker.games_per_hour for worker in workers),
            positions_per_s=sum(worker.positions_per_s for worker in workers),
            models=summary.models,
            promotions=summary.promotions,
            has_exam=bool(kinds),
            exams=tuple(exam for exam in exams if exam.kind == kinds[0]),
            newest_exams=tuple(newest.values()),
            train=_loss(summary.policy_loss, summary.value_loss),
            held_out=_loss(summary.held_out_policy_loss, summary.held_out_value_loss),
            learning_rate=None if trainer is None else trainer.learning_rate,
            budget_used=None if trainer is None else trainer.budget_used,
            steps=_steps(self._beats),
            best_version=summary.best_model,
            best_age_s=age,
            refused_variants=summary.refused_variants,
            rated_version=summary.rated_model,
            elo=summary.elo,
            elo_error=summary.elo_error,
            play=self._database.recent_play(self._run.name),
            warnings={
                each.warning: each.words
                for each in self._database.training_warnings(self._run.name)
            },
            window_blocker=None if blocker is None else str(blocker),
            disk=self.disk(),
            redis=self._heartbeats.state,
        )

    def disk(self) -> str | None:
        """That the disk of the run's folder is full, for a person; None: it is not."""
        return None if self._folder is None else full_disk(self._folder)

    def disk_use(self) -> DiskUse:
        """Return the disk usage of the run.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        kept = self._database.kept(self._run.name)
        folder = None
        if self._folder is not None:
            folder = FolderSizes.of(self._folder, kept.database_bytes)
        return DiskUse(kept, folder, self._run.retention.limit_bytes)

    def forget(self, pid: int) -> None:
        """Remove the heartbeats of a process of this machine that has ended.

        Until they expire, the process would seem to run.
        """
        with contextlib.suppress(StoreUnavailableError, ConfigError):
            for beat in self._heartbeats.read():
                if beat.worker.rpartition("-")[2] == str(pid):
                    self._heartbeats.remove(beat.service, beat.worker)

    def services(self, children: Sequence[Child]) -> list[ServiceState]:
        """What each child does, as its heartbeat of the last look says."""
        beats = {beat.worker.rpartition("-")[2]: beat for beat in self._beats}
        self._heard |= beats.keys()
        redis = self._heartbeats.state
        return [_state_of_child(child, beats, self._heard, redis) for child in children]

    def services_of_heartbeats(self) -> list[ServiceState]:
        """What each service does that had a heartbeat at the last look."""
        return states_of(self._beats, self._heartbeats.state)

    def advice(self, cores: int | None) -> Advice:
        """How many self-play workers would be used, by the last look.

        Args:
            cores: of the one machine that all run on; None: they run on several.
        """
        return advise(observe(self._beats), self._run.scaling, cores)


def _steps(beats: Iterable[Heartbeat]) -> int | None:
    """Return the trainer's step; None until it has resumed."""
    for beat in beats:
        if isinstance(beat.figures, TrainerFigures) and has_resumed(beat.figures):
            return beat.progress
    return None


def all_up(services: Iterable[ServiceState]) -> bool:
    """Whether every service sends heartbeats, and the trainer has resumed."""
    return all(
        has_resumed(each.figures)
        if isinstance(each.figures, TrainerFigures)
        else each.figures is not None
        for each in services
    )


def has_resumed(figures: TrainerFigures) -> bool:
    """Whether a trainer has taken over the run: before that it has no window."""
    return figures.window_limit > 0


def states_of(beats: Iterable[Heartbeat], redis: RedisState = UP) -> list[ServiceState]:
    """Return the state of each process with a heartbeat.

    Args:
        beats: the heartbeats.
        redis: status of Redis when they were read.
    """
    return [_state(beat.service, beat, 0, redis) for beat in beats]


def _state_of_child(
    child: Child, beats: dict[str, Heartbeat], heard: AbstractSet[str], redis: RedisState
) -> ServiceState:
    name, restarts = child.program.name, child.restarts
    if child.process is None:
        return ServiceState(name, child.note or "Not started", "down", restarts=restarts)
    beat = beats.get(str(child.process.pid))
    if beat is None and redis.status != "up":
        return ServiceState(name, f"Not known: {_why_no_beat(redis)}", "blocked", restarts=restarts)
    if beat is None and str(child.process.pid) in heard:
        words = "Not responding (no heartbeat in Redis)"
        return ServiceState(name, words, "down", restarts=restarts)
    if beat is None:
        return ServiceState(name, "Starting", "idle", restarts=restarts)
    return _state(name, beat, restarts, redis)


def _why_no_beat(redis: RedisState) -> str:
    return "Redis takes no writes" if redis.status == "half up" else "Redis is down"


def _state(name: str, beat: Heartbeat, restarts: int, redis: RedisState) -> ServiceState:
    status: Status = beat.work_status
    waits = beat.waiting_for
    if beat.is_late and redis.status != "up":
        age = f"last heartbeat {beat.age_seconds:.0f} s ago"
        words, status, waits = f"Not known: {_why_no_beat(redis)} ({age})", "blocked", ""
    elif beat.is_late:
        words = f"Not responding (last heartbeat {beat.age_seconds:.0f} s ago)"
        status, waits = "down", ""
    elif pace := _pace(beat):
        words, status, waits = f"Running (paced to {pace})", "running", ""
    elif waits and status == "idle":
        words = f"Idle: {_no_work(beat)}"
    elif waits:
        words = f"{'Running: waiting' if status == 'running' else 'Waiting'} for {waits}"
    else:
        words = work_words(beat.figures)
    return ServiceState(name, words, status, waits, restarts, beat.figures)


def _no_work(beat: Heartbeat) -> str:
    """Return why a process is idle."""
    if isinstance(beat.figures, EvaluatorFigures) and beat.waiting_for in _NO_MODEL:
        return "no new model to evaluate"
    return f"waiting for {beat.waiting_for}"


def _pace(beat: Heartbeat) -> str:
    """Return the service that a process is paced to, even if it is not waiting now; or ""."""
    match beat.figures:
        case SelfplayFigures(pause_share=share):
            paced = _BEHIND.fullmatch(beat.waiting_for) is not None
            if paced or (share >= _PACED_SHARE and not beat.waiting_for):
                return "the trainer"
        case TrainerFigures(demand=DemandFigures(wait_share=share)) if share is not None:
            # One that hardly ever trains starves: then it says for how much it waits.
            paced = _LACKS.fullmatch(beat.waiting_for) is not None and share < _STARVED_SHARE
            if paced or (share >= _PACED_SHARE and not beat.waiting_for):
                return "self-play"
        case _:
            pass
    return ""


def _exam(row: ExamRow) -> Exam:
    prior_errors = row.figures.prior_errors
    return Exam(
        row.version,
        row.num_simulations,
        row.positions,
        row.errors,
        row.error_rate,
        row.kind,
        None if prior_errors is None else prior_errors / row.positions,
        row.figures.value_error,
    )


def _loss(policy: float | None, value: float | None) -> Loss | None:
    return None if policy is None or value is None else Loss(policy, value)


def work_words(figures: Figures) -> str:
    """Return the status text of a service that does not wait."""
    match figures:
        case EvaluatorFigures():
            return _judging(figures)
        case InferenceFigures():
            return f"Running on {figures.devices} GPUs" if figures.devices else "Running"
        case DashboardFigures():
            return f"Running ({figures.open_pages} open {_plural('page', figures.open_pages)})"
        case _:
            return "Running"


def _plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"


def _judging(figures: EvaluatorFigures) -> str:
    """Return what is played; a match comes before the games that wait for it."""
    if figures.match_in_play:
        games = _games(figures.match_games, figures.match_most_games, figures.match_score)
        return f"Evaluating model {figures.candidate}: {games}"
    if figures.trial_in_play:
        games = _games(figures.trial_games, figures.trial_most_games, figures.trial_score)
        return f"Playing a test match: {games}"
    if figures.rating_in_play:
        games = _games(figures.rating_player_games, figures.rating_player_most_games, None)
        return f"Rating model {figures.rating_player}: {games}"
    return "Running"


def _games(played: int, most: int, score: float | None) -> str:
    """Such as ``23 of 64 games, score 0.61``."""
    games = f"{played} of {most} games"
    return games if score is None else f"{games}, score {score:.2f}"
