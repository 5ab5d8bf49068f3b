"""Reads the state of one run: its figures, and what each of its services does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from zerofleet.config import RunConfig
from zerofleet.database import Database, ExamRow
from zerofleet.errors import ConfigError, StoreUnavailableError
from zerofleet.exam import position_kinds
from zerofleet.fleet.disk import DiskUse, FolderSizes, full_disk
from zerofleet.fleet.figures import SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.fleet.need import Advice, advise, observe
from zerofleet.fleet.report import (
    Exam,
    Loss,
    RunFigures,
    ServiceState,
    has_resumed,
    own_losses,
    state_of,
    states_of,
    steps_to_next,
    why_no_beat,
)
from zerofleet.local.supervisor import Child
from zerofleet.redis_connection import RedisState


class Monitor:
    """Reads the state of one run; its calls block, so an event loop makes them in a thread.

    Args:
        database_url: Postgres, with at least the console's rights.
        redis_url: Redis with the heartbeats.
        folder: data folder of the run, if it is on this machine.
    """

    def __init__(
        self, run: RunConfig, database_url: str, redis_url: str, folder: Path | None = None
    ) -> None:
        self._run = run
        self._folder = folder
        self._heard: set[str] = set()  # PIDs of processes that have sent a heartbeat
        self._database = Database(database_url, pool_size=1)
        self._heartbeats = Heartbeats(redis_url, run.name)
        self._beats: list[Heartbeat] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._database.close()
        self._heartbeats.close()

    def require_redis(self) -> None:
        """Check that Redis answers.

        Raises:
            StoreUnavailableError: it does not.
        """
        self._heartbeats.read()

    def figures(self) -> RunFigures:
        """Return the current figures of the run.

        Raises:
            StoreUnavailableError: Postgres does not answer. Without Redis the rates are missing.
        """
        self._beats = []
        with contextlib.suppress(StoreUnavailableError):
            self._beats = self._heartbeats.read()
        figures_sent = [beat.figures for beat in self._beats if not beat.is_late]
        workers = [figures for figures in figures_sent if isinstance(figures, SelfplayFigures)]
        trainers = (figures for figures in figures_sent if isinstance(figures, TrainerFigures))
        trainer = next(trainers, None)
        steps, every = _steps(self._beats), self._run.trainer.publish_every_steps
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
        origin = self._database.origin(self._run.name)
        age = (datetime.now(UTC) - history[0].at).total_seconds() if history else None
        return RunFigures(
            run=self._run.name,
            game=self._run.game.name,
            games=summary.games,
            positions=summary.positions,
            games_last_hour=summary.games_last_hour,
            games_per_hour=sum(worker.games_per_hour for worker in workers),
            positions_per_second=sum(worker.positions_per_second for worker in workers),
            models=summary.models,
            promotions=summary.promotions,
            has_exam=bool(kinds),
            exams=tuple(exam for exam in exams if exam.kind == kinds[0]),
            newest_exams=tuple(newest.values()),
            train=_loss(summary.policy_loss, summary.value_loss, summary.own_losses),
            held_out=_loss(summary.held_out_policy_loss, summary.held_out_value_loss),
            learning_rate=None if trainer is None else trainer.learning_rate,
            budget_used=None if trainer is None else trainer.budget_used,
            given_games=0 if origin is None else origin.games,
            origin=None if origin is None else str(origin),
            steps=steps,
            steps_to_next_model=None if steps is None else steps_to_next(steps, every),
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
            restarts=(
                self._database.restart_list(self._run.name)
                if self._run.selfplay.restart_share
                else None
            ),
            window_blocker=None if blocker is None else str(blocker),
            disk=self.disk(),
            redis=self._heartbeats.state,
        )

    def disk(self) -> str | None:
        """Return the message for a full disk of the run's folder; None: it is not full."""
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
        """Return the state of each child, from the last heartbeats read."""
        beats = {beat.worker.rpartition("-")[2]: beat for beat in self._beats}
        self._heard |= beats.keys()
        redis = self._heartbeats.state
        return [_state_of_child(child, beats, self._heard, redis) for child in children]

    def services_of_heartbeats(self) -> list[ServiceState]:
        """Return the state of each process that had a heartbeat at the last reading."""
        return states_of(self._beats, self._heartbeats.state)

    def advice(self, cores: int | None) -> Advice:
        """Return advice on the number of self-play workers, from the last reading.

        Args:
            cores: cores of the one machine that runs everything; None: there are several.
        """
        return advise(observe(self._beats), self._run.scaling, cores)


def _steps(beats: Iterable[Heartbeat]) -> int | None:
    """Return the trainer's step; None until it has resumed."""
    for beat in beats:
        if isinstance(beat.figures, TrainerFigures) and has_resumed(beat.figures):
            return beat.progress
    return None


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


def _loss(policy: float | None, value: float | None, own: object = None) -> Loss | None:
    return None if policy is None or value is None else Loss(policy, value, own_losses(own))


def _state_of_child(
    child: Child, beats: dict[str, Heartbeat], heard: AbstractSet[str], redis: RedisState
) -> ServiceState:
    name, restarts = child.program.name, child.restarts
    if child.process is None:
        return ServiceState(name, child.note or "Not started", "down", restarts=restarts)
    beat = beats.get(str(child.process.pid))
    if beat is None and redis.status != "up":
        return ServiceState(name, f"Not known: {why_no_beat(redis)}", "blocked", restarts=restarts)
    if beat is None and str(child.process.pid) in heard:
        words = "Not responding (no heartbeat in Redis)"
        return ServiceState(name, words, "down", restarts=restarts)
    if beat is None:
        return ServiceState(name, "Starting", "idle", restarts=restarts)
    return state_of(name, beat, restarts, redis)
