"""Waiting for a store that does not answer: longer each time, out loud, and never past SIGTERM."""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Event
from typing import TypeVar

import structlog

from zerofleet.errors import StoreUnavailableError

_log = structlog.get_logger()

Answer = TypeVar("Answer")

FIRST_SECONDS, LONGEST_SECONDS = 0.2, 5.0


class StoppedError(Exception):
    """The process was asked to leave while it waited."""


class Patience:
    """Repeats a call until the store answers.

    Args:
        stop: set when the process must leave.
        say: told, before each wait, what is waited for.
    """

    def __init__(self, stop: Event, say: Callable[[str], None]) -> None:
        self._stop = stop
        self._say = say
        self._random = random.Random()  # jitter, so that waiting processes spread

    def __call__(self, store: str, call: Callable[[], Answer]) -> Answer:
        """Call until it answers.

        Every write goes through here and may therefore be sent twice: it must be one that
        can be repeated, or one whose repetition the caller can recognise.

        Raises:
            StoppedError: the process was asked to leave before the store answered.
        """
        seconds = FIRST_SECONDS
        while True:
            try:
                return call()
            except StoreUnavailableError as error:
                self._say(store)
                _log.info("store_away", store=store, reason=str(error))
            if self._stop.wait(seconds * self._random.uniform(0.75, 1.25)):
                raise StoppedError
            seconds = min(LONGEST_SECONDS, seconds * 2)
