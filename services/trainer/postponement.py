"""A publication that has to wait for the store of models, while training goes on."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from zerofleet.errors import StoreUnavailableError

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0

_log = structlog.get_logger()


class Postponement:
    """When to try again: later each time. The model of that moment is published then.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pause = FIRST_SECONDS
        self._until: float | None = None
        self.reason = ""
        """What is waited for, for people; empty while nothing is."""

    @property
    def over(self) -> bool:
        """Whether a publication may be tried now."""
        return self._until is None or self._clock() >= self._until

    def again(self, error: StoreUnavailableError) -> None:
        """It failed: try later."""
        self._until = self._clock() + self._pause
        self.reason = f"the store of models: {error}"
        _log.warning("model_postponed", seconds=self._pause, reason=str(error))
        self._pause = min(2 * self._pause, LONGEST_SECONDS)

    def end(self) -> None:
        """It worked."""
        if self._until is not None:
            _log.info("model_store_answers")
        self._pause, self._until, self.reason = FIRST_SECONDS, None, ""
