"""Removes what is not needed any more: old searches, and the files of old models."""

from __future__ import annotations

import time
from datetime import timedelta

import structlog

from services.trainer.schedule import window_reach
from zerofleet.config import RunConfig
from zerofleet.database import Database
from zerofleet.errors import StoreUnavailableError
from zerofleet.models.model_store import ModelStore

EVERY_SECONDS = 600.0
RETRY_SECONDS = 20.0  # after a partition that could not be dropped because it was being read
GRACE = timedelta(minutes=10)  # a match that was about to use the model has begun by then
DELETED_AT_ONCE = 500  # games; each transaction takes a fraction of a second
REMOVED_AT_ONCE = 50  # models

_log = structlog.get_logger()


class Forgetting:
    """Carries out ``[retention]`` of one run.

    Args:
        run: the run file.
        database: as the trainer.
        models: where the run's models are.
        epoch: the trainer's fence epoch.
        grace: between giving a model up and removing its files.
    """

    def __init__(
        self,
        run: RunConfig,
        database: Database,
        models: ModelStore,
        epoch: int,
        grace: timedelta = GRACE,
    ) -> None:
        self._run = run
        self._database = database
        self._models = models
        self._epoch = epoch
        self._grace = grace
        self._removed: set[int] = set()
        self._next = 0.0

    def due(self, now: float | None = None) -> bool:
        """Whether it is time; ``now`` is that of the monotonic clock, in seconds."""
        return (time.monotonic() if now is None else now) >= self._next

    def carry_out(self, now: float | None = None) -> None:
        """Make partitions ahead, forget one old partition, remove a few old models.

        Short: what is not done now is done the next time, also where Postgres does not answer or
        takes too long. Nothing waits for it but the caller, and it waits for no session that reads.

        Raises:
            StaleEpochError: another trainer has taken over.
        """
        try:
            is_more = self._carry_out()
        except StoreUnavailableError as error:
            _log.warning("forgetting_postponed", seconds=EVERY_SECONDS, reason=str(error))
            is_more = False
        wait = RETRY_SECONDS if is_more else EVERY_SECONDS
        self._next = (time.monotonic() if now is None else now) + wait

    def _carry_out(self) -> bool:
        """Whether there is more to do soon."""
        settings = self._run.retention
        size = timedelta(hours=settings.partition_hours)
        self._database.make_partitions(settings.partition_hours, max(2 * size, timedelta(days=1)))
        self._database.state_needs(
            self._run.name,
            window_games=window_reach(self._run.trainer),
            played_on_games=self._run.resign.window_games,
            margin=timedelta(days=settings.searches_days) if settings.forget else None,
            epoch=self._epoch,
        )
        is_more = self._forget_searches()
        if settings.forget:
            is_more |= self._give_up_models()
        return is_more

    def _forget_searches(self) -> bool:
        """Whether there is more to forget soon."""
        drop = self._database.drop_partition()
        if drop is not None:
            _log.info("searches_forgotten", partition=drop.partition, outcome=drop.outcome)
        deleted = self._database.delete_old_positions(DELETED_AT_ONCE)
        return drop is not None or deleted == DELETED_AT_ONCE

    def _give_up_models(self) -> bool:
        """Whether there are more files to remove soon."""
        given_up = self._database.give_up_models(
            self._run.name,
            newest=self._run.retention.models_newest,
            every=self._run.retention.models_every,
            grace=self._grace,
            epoch=self._epoch,
        )
        if given_up:
            _log.info("models_given_up", versions=given_up)
        removable = [
            model
            for model in self._database.removable_files(self._run.name)
            if model.version not in self._removed
        ]
        for model in removable[:REMOVED_AT_ONCE]:
            try:
                self._models.remove(model.version, model.sha256s)
            except (OSError, StoreUnavailableError) as error:
                _log.warning("model_not_removed", version=model.version, reason=str(error))
                return False  # the store is away; the next time will do
            self._removed.add(model.version)
        return len(removable) > REMOVED_AT_ONCE
