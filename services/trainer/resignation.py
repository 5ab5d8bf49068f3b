"""Now and then v_resign is computed again, from the games in which nobody resigned."""

from __future__ import annotations

import time
from typing import Protocol

import structlog

from zerofleet.config import ResignSection
from zerofleet.database import ResignRow

_log = structlog.get_logger()


class ResignRows(Protocol):
    """The part of the database that knows the games."""

    def calibrate_resign(
        self,
        run: str,
        *,
        false_positive_share: float,
        min_games: int,
        window_games: int,
        highest: float,
    ) -> ResignRow:
        """Compute v_resign and write it down."""
        ...


class Calibrator:
    """Has the threshold computed every so many seconds, and says when it changes.

    Args:
        run: name of the run.
        settings: whether, how often, and from which games.
        rows: the database.
    """

    def __init__(self, run: str, settings: ResignSection, rows: ResignRows) -> None:
        self._run = run
        self._settings = settings
        self._rows = rows
        self._next = 0.0
        self._threshold: float | None = None

    def due(self, now: float | None = None) -> bool:
        """Whether it is time; ``now`` is that of the monotonic clock, in seconds."""
        return self._settings.enabled and (time.monotonic() if now is None else now) >= self._next

    def calibrate(self, now: float | None = None) -> None:
        """Compute it now.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        row = self._rows.calibrate_resign(
            self._run,
            false_positive_share=self._settings.false_positive_share,
            min_games=self._settings.min_games,
            window_games=self._settings.window_games,
            highest=self._settings.highest,
        )
        self._next = (time.monotonic() if now is None else now) + self._settings.every_seconds
        if row.threshold != self._threshold:
            self._threshold = row.threshold
            _log.info(
                "resign_threshold",
                threshold=row.threshold,
                games=row.games,
                would_resign=row.would_resign,
                wrong=row.wrong,
            )
