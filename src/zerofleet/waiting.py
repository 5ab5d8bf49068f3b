"""Waiting for other processes: the reason, the delay between tries, and the log."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from threading import Event
from typing import Literal, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import (
    InferenceUnavailableError,
    ModelNotFoundError,
    OverloadedError,
    RunNotRegisteredError,
    StoreFullError,
    StoreLoginError,
    StoreReadOnlyError,
    StoreUnavailableError,
    UnauthenticatedError,
)
from zerofleet.prediction import Prediction, Predictor

_P = ParamSpec("_P")
_T = TypeVar("_T")

WorkStatus = Literal["running", "idle", "blocked"]
"""Whether a process works, waits for work, or waits for something that should be available."""
FIRST_MODEL = "the first promoted model"
"""Name of the wait of inference and its clients in a new run."""
_GRACE_SECONDS = 10.0  # long enough for a service to restart, so that nobody has to act
_TOKEN_SECONDS = 120.0  # a rotated token reaches the servers' files within this
_SLOW_SECONDS = 3.0  # a request without an answer for this long is reported


class StoppedError(Exception):
    """The process was told to stop while one of its threads waited."""


class Backoff:
    """Delays that double from ``first`` to ``most`` seconds; each is drawn from its upper half.

    The random draw keeps a thousand workers from reconnecting to a restarted server at once.
    """

    def __init__(self, first: float = 0.1, most: float = 5.0) -> None:
        self._first = first
        self._most = most
        self._next = first

    def delay(self) -> float:
        """Return the seconds to wait after this failure; the next failure waits longer."""
        delay = random.uniform(self._next / 2, self._next)  # nosec B311
        self._next = min(2 * self._next, self._most)
        return delay

    async def sleep(self) -> None:
        """Wait for ``delay()``."""
        await asyncio.sleep(self.delay())

    def reset(self) -> None:
        """Start again at ``first`` seconds, after a success."""
        self._next = self._first


class _Wait(NamedTuple):
    """A wait of one part of a process."""

    thing: str
    status: WorkStatus
    since: float


class Waits:
    """The waits of a process, one for each part that waits.

    Heartbeats report them, and each change is logged once. One thread may write while another
    reads.

    Args:
        tick: called whenever a part waits, because a process that reports a wait is not stuck.
        clock: monotonic clock, in seconds.
    """

    def __init__(
        self,
        tick: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._things: dict[str, _Wait] = {}
        self._clock = clock
        self._askers = 0  # coroutines that wait for a store under one name
        self._tick = tick

    def begin(self, who: str, thing: str, status: WorkStatus = "blocked", **why: str) -> None:
        """Record that a part of this process waits.

        Args:
            who: the part.
            thing: what it waits for, as a noun phrase.
            status: "idle" if it waits for work, "running" if waiting is part of the work.
            why: further values for the log.
        """
        if self._tick is not None:
            self._tick()
        before = self._things.get(who)
        since = self._clock()
        if before is not None and before.status == status:
            since = before.since
        self._things[who] = _Wait(thing, status, since)
        if before is None or before.thing != thing:
            _say("waiting", part=who, waiting_for=thing, **why)

    def end(self, who: str) -> None:
        """Record that ``who`` continues."""
        wait = self._things.pop(who, None)
        if wait is not None:
            _say("waited", part=who, waited_for=wait.thing)

    async def ask_store(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Make a call to a store in a thread, until the store answers.

        A call whose answer was lost may have succeeded, so it must be safe to repeat.
        """
        backoff = Backoff()
        waits = False
        try:
            while True:
                try:
                    return await asyncio.to_thread(call, *args, **kwargs)
                except StoreUnavailableError as error:
                    self._askers += not waits
                    waits = True
                    self.begin("store", awaited(error), reason=str(error))
                    await backoff.sleep()
        finally:
            self._askers -= waits
            if waits and not self._askers:  # otherwise another coroutine still waits
                self.end("store")

    def retry(
        self,
        stop: Event,
        call: Callable[[], _T],
        thing: str = "Postgres",
        on: type[Exception] = StoreUnavailableError,
        backoff: Backoff | None = None,
    ) -> _T:
        """Repeat a blocking call until it succeeds; ``ask_store`` is the same for coroutines.

        Args:
            stop: ends the wait.
            call: must be safe to repeat.
            thing: what is waited for.
            on: the error after which the call is repeated.
            backoff: delays between tries.

        Raises:
            StoppedError: ``stop`` was set while the call failed.
        """
        backoff = backoff or Backoff()
        while True:
            try:
                answer = call()
            except on as error:
                why = f": {error.strerror}" if isinstance(error, OSError) else ""
                self.begin("store", f"{awaited(error, thing)}{why}", reason=str(error))
            else:
                self.end("store")
                return answer
            if stop.wait(backoff.delay()):
                raise StoppedError

    def __str__(self) -> str:
        """Return everything waited for, each thing once; empty if nothing is."""
        return ", ".join(dict.fromkeys(wait.thing for wait in list(self._things.values())))

    @property
    def status(self) -> WorkStatus:
        """Return the worst status of all waits: blocked, idle, running.

        A wait counts as idle for its first ten seconds, and as blocked after that.
        """
        waits = list(self._things.values())
        now = self._clock()
        found = {wait.status for wait in waits}
        if any(w.status == "blocked" and now - w.since >= _GRACE_SECONDS for w in waits):
            return "blocked"
        return "idle" if found & {"blocked", "idle"} else "running"

    def __bool__(self) -> bool:
        return bool(self._things)


def awaited(error: Exception, store: str = "Postgres") -> str:
    """Return what to wait for after a store's error: the store, or what it lacks."""
    if isinstance(error, RunNotRegisteredError):
        return "the trainer or evaluator to register the run"
    if isinstance(error, StoreLoginError):
        return f"{store} to accept the login"
    if isinstance(error, StoreFullError):
        return f"room on the disk of {store}"
    return f"{store} to take writes" if isinstance(error, StoreReadOnlyError) else store


class PatientPredictor:
    """Repeats a prediction until it is answered: predictions are pure, so nothing is lost.

    A token that the server does not know is tried for two minutes: during a rotation, our file may
    have the new token before the server's. A role without this right fails at once.

    Args:
        predictor: may be down, overloaded, or still without the model.
        waits: records the waits.
        who: name of the waiting part.
        model: what is waited for while the model is missing.
        status: status of that wait.
    """

    def __init__(
        self,
        predictor: Predictor,
        waits: Waits,
        who: str,
        model: str,
        status: WorkStatus = "running",
    ) -> None:
        self._predictor = predictor
        self._waits = waits
        self._who = who
        self._model = model
        self._status: WorkStatus = status

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Return the prediction, however long it takes.

        Raises:
            AccessDeniedError: the server refuses our token or its role, and waiting does not help.
        """
        backoff = Backoff()
        known_by: float | None = None
        while True:
            slow = asyncio.get_running_loop().call_later(_SLOW_SECONDS, self._say, "an answer from")
            try:
                prediction = await self._predictor.predict(observations)
            except ModelNotFoundError:
                self._waits.begin(self._who, self._model, self._status)
            except OverloadedError:
                self._waits.begin(self._who, "room in the queue of inference", "running")
            except UnauthenticatedError as error:
                known_by = known_by or time.monotonic() + _TOKEN_SECONDS
                if time.monotonic() >= known_by:
                    raise
                self._say("our token to be known by", str(error))
            except InferenceUnavailableError as error:
                if FIRST_MODEL in str(error):  # inference responds, but has no model
                    self._waits.begin(self._who, FIRST_MODEL, "idle")
                else:
                    self._say("", str(error))
            else:
                self._waits.end(self._who)
                return prediction
            finally:
                slow.cancel()
            await backoff.sleep()

    def _say(self, what: str, reason: str = "") -> None:
        thing = f"{what} inference".strip()
        if reason:
            self._waits.begin(self._who, thing, reason=reason)
        else:
            self._waits.begin(self._who, thing)


def _say(event: str, **values: object) -> None:
    import structlog  # here: clients need only the delays, and structlog is slow to import

    structlog.get_logger().info(event, **values)
