"""Removes data that is no longer needed: old searches, and the files of old models."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from zerofleet.config import RunConfig
from zerofleet.database import Retentions
from zerofleet.errors import StoreUnavailableError
from zerofleet.fleet.disk import FULL_SHARE, FolderSizes
from zerofleet.learning.schedule import window_reach
from zerofleet.models.model_store import ModelStore

EVERY_SECONDS = 600.0
RETRY_SECONDS = 20.0  # after a partition that could not be dropped because it was being read
LIMIT_SECONDS = 60.0  # between two checks of the disk while its limit may be near
DROPPED_AT_ONCE = 20  # partitions, while the disk limit is near
GRACE = timedelta(minutes=10)  # a match that was about to use the model has begun by then
DELETED_AT_ONCE = 500  # games; each transaction takes a fraction of a second
REMOVED_AT_ONCE = 50  # models
_MORE_GAMES = (
    1.05  # margin on the window's games: it drops training and validation games separately
)

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class HeldGames:
    """Size and position of the trainer's window."""

    games: int  # including validation games and rejected games
    read_tx: int  # the transaction up to which they were read


class Forgetting:
    """Carries out ``[retention]`` of one run.

    Args:
        run: the run file.
        database: the database, with the trainer's rights.
        models: the store of the run's models.
        epoch: the trainer's fence epoch.
        grace: time between giving a model up and removing its files.
        folder: the run's data folder, which counts toward the disk limit; None: only the database
            counts.
    """

    def __init__(
        self,
        run: RunConfig,
        database: Retentions,
        models: ModelStore,
        epoch: int,
        grace: timedelta = GRACE,
        folder: Path | None = None,
    ) -> None:
        self._run = run
        self._database = database
        self._models = models
        self._epoch = epoch
        self._grace = grace
        self._folder = folder
        self._removed: set[int] = set()
        self._warned = False
        self._next = 0.0

    def due(self, now: float | None = None) -> bool:
        """Return whether it is time for a pass.

        Args:
            now: the monotonic clock, in seconds.
        """
        return (time.monotonic() if now is None else now) >= self._next

    def carry_out(self, held: HeldGames | None = None, now: float | None = None) -> None:
        """Make partitions ahead, drop old partitions, remove a few old models.

        One pass is short and leaves the rest to the next pass, also if Postgres does not answer or
        takes too long. Only the caller waits for it, and it waits for no session that reads.

        Args:
            held: the trainer's window, which the disk limit never drops; None: unknown, so the
                limit drops nothing that ``[retention]`` keeps.
            now: the monotonic clock, in seconds.

        Raises:
            StaleEpochError: another trainer has taken over.
        """
        try:
            wait = self._carry_out(held)
        except StoreUnavailableError as error:
            _log.warning("forgetting_postponed", seconds=EVERY_SECONDS, reason=str(error))
            wait = EVERY_SECONDS
        self._next = (time.monotonic() if now is None else now) + wait

    def _carry_out(self, held: HeldGames | None) -> float:
        """Carry out one pass and return the seconds until the next one."""
        settings = self._run.retention
        self._database.make_partitions()
        is_limited = held is not None and settings.limit_bytes is not None
        self._database.state_needs(
            self._run.name,
            window_games=window_reach(self._run.trainer),
            played_on_games=self._run.resign.window_games,
            margin=timedelta(days=settings.searches_days) if settings.forget else None,
            epoch=self._epoch,
            held_games=round(_MORE_GAMES * held.games) if is_limited and held else None,
            read_tx=held.read_tx if held else 0,
        )
        is_more = self._forget_searches()
        if settings.forget:
            is_more |= self._give_up_models()
        wait = RETRY_SECONDS if is_more else EVERY_SECONDS
        return min(wait, self._keep_limit(settings.limit_bytes))

    def _forget_searches(self) -> bool:
        """Drop a partition or delete old positions; return whether more is left to remove soon."""
        drop = self._database.drop_partition()
        if drop is not None:
            _log.info("searches_forgotten", partition=drop.partition, outcome=drop.outcome)
        deleted = self._database.delete_old_positions(DELETED_AT_ONCE)
        return drop is not None or deleted == DELETED_AT_ONCE

    def _keep_limit(self, limit: float | None) -> float:
        """Drop the oldest searches that training does not need while the disk limit is near.

        Returns:
            Seconds until the next check of the disk.
        """
        if limit is None:
            self._warn(None)
            return EVERY_SECONDS
        used = self._used_bytes()
        for _ in range(DROPPED_AT_ONCE):
            if used < FULL_SHARE * limit:
                break
            drop = self._database.drop_partition(at_limit=True)
            if drop is None:
                break
            _log.info(
                "searches_dropped_for_disk_limit",
                partition=drop.partition,
                outcome=drop.outcome,
                used_bytes=used,
                limit_bytes=round(limit),
            )
            if not drop.is_done:  # it is being read
                return RETRY_SECONDS
            used = self._used_bytes()
        else:
            return RETRY_SECONDS
        use = self._database.database_use()
        if used > limit:
            needed, others = use.needed_bytes / 1e9, (used - use.needed_bytes) / 1e9
            lower = "" if 1e9 * others > limit else ", or lower trainer.window_positions"
            self._warn(
                f"{used / 1e9:.2f} GB are used of retention.max_disk_gb = {limit / 1e9:g}: "
                f"{needed:.2f} GB of searches that training needs, and {others:.2f} GB of other "
                f"data (`zerofleet status` lists it). Raise the limit{lower}."
            )
            return LIMIT_SECONDS
        self._warn(None)
        per_second = (use.searches_per_day or 0) / 86400
        if not per_second:
            return LIMIT_SECONDS
        until_full = (FULL_SHARE * limit - used) / per_second
        return min(EVERY_SECONDS, max(LIMIT_SECONDS, until_full / 2))

    def _used_bytes(self) -> int:
        used = self._database.database_use().bytes
        if self._folder is None:
            return used
        return used + FolderSizes.of(self._folder, used).total

    def _warn(self, words: str | None) -> None:
        """Record that the limit is exceeded, or no longer exceeded."""
        self._database.warn_of_limit(self._run.name, words, self._epoch)
        if words is not None and not self._warned:
            _log.warning("disk_limit_exceeded", reason=words)
        self._warned = words is not None

    def _give_up_models(self) -> bool:
        """Remove files of old models; return whether more are left to remove soon."""
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
                return False  # the store is down; the next pass tries again
            self._removed.add(model.version)
        return len(removable) > REMOVED_AT_ONCE
