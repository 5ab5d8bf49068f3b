"""Requests that wait, and the batch that is made of them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zerofleet.prediction import Prediction
from zerofleet.services.inference.loaded_models import LoadedModel


@dataclass(slots=True, eq=False)
class Request:
    """One client's rows, which stay together."""

    observations: NDArray[np.uint8]
    deadline: float | None  # by time.monotonic()
    answer: asyncio.Future[Prediction]
    queued_ns: int  # by time.perf_counter_ns()

    @property
    def rows(self) -> int:
        """Rows of its batch."""
        return len(self.observations)

    def is_over(self, now: float) -> bool:
        """Whether its client has gone, or its deadline has passed."""
        return self.answer.cancelled() or (self.deadline is not None and self.deadline <= now)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Requests of one model that run together."""

    model: LoadedModel
    requests: tuple[Request, ...]
    is_full: bool  # another request waited and did not fit
    expired: tuple[Request, ...] = ()  # their deadline passed while they waited

    @property
    def rows(self) -> int:
        """Rows of all requests."""
        return sum(request.rows for request in self.requests)

    def observations(self) -> NDArray[np.uint8]:
        """All rows in order; copied only when there are several requests."""
        if len(self.requests) == 1:
            return self.requests[0].observations
        return np.concatenate([request.observations for request in self.requests])

    def slices(self) -> Iterator[tuple[Request, slice]]:
        """Each request with its rows of the outputs."""
        start = 0
        for request in self.requests:
            yield request, slice(start, start + request.rows)
            start += request.rows


class ModelQueue:
    """Requests that wait for one model, oldest first. The batcher's lock guards it."""

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        self.rows = 0
        self._requests: deque[Request] = deque()

    def __bool__(self) -> bool:
        return bool(self._requests)

    def append(self, request: Request) -> None:
        """Add the newest."""
        self._requests.append(request)
        self.rows += request.rows

    def purge(self) -> list[Request]:
        """Remove requests that are over; returns those whose deadline passed, to be answered."""
        now = time.monotonic()
        over = [request for request in self._requests if request.is_over(now)]
        if over:
            self._requests = deque(r for r in self._requests if not r.is_over(now))
            self.rows = sum(request.rows for request in self._requests)
        return [request for request in over if not request.answer.cancelled()]

    def take(self, most: int, share: int) -> Batch:
        """Take requests from the front, whole ones only.

        Args:
            most: rows that a batch may have; a single request never has more.
            share: stop when the batch has this many, so that other threads get some, too.
        """
        now = time.monotonic()
        taken: list[Request] = []
        expired: list[Request] = []
        rows = 0
        while self._requests and rows < share:
            request = self._requests[0]
            if request.is_over(now):
                if not request.answer.cancelled():
                    expired.append(request)
            elif rows + request.rows > most:
                break
            else:
                taken.append(request)
                rows += request.rows
            self._requests.popleft()
            self.rows -= request.rows
        is_full = rows == most or (rows < share and bool(self._requests))
        return Batch(self.model, tuple(taken), is_full, tuple(expired))
