"""ONNX Runtime alone, as the baseline for self-play."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bench.blocks import Counts
from zerofleet.models.session import ModelSession

RAW_BATCHES = (32, 64, 128, 256, 512, 1024)
"""Batch sizes to choose from, in rows."""


class Raw:
    """Runs the model on this thread, again and again on one batch.

    Args:
        session: the model.
        observations: ``[rows, observation_bytes]``, real positions, as many as the largest batch.
    """

    def __init__(self, session: ModelSession, observations: NDArray[np.uint8]) -> None:
        self._session = session
        self._observations = observations
        self._batch = observations

    def choose_batch(self, seconds: float, clock: Callable[[], float]) -> None:
        """Choose the batch size with the most positions per second of the clock.

        Args:
            seconds: measured time of each size, on the clock.
            clock: CPU time in seconds, or wall-clock time if the CPU does not limit the speed.
        """
        batches = [self._observations[:size] for size in RAW_BATCHES]
        self._batch = max(batches, key=lambda batch: self._rate(batch, seconds, clock))

    def rate(self, seconds: float, clock: Callable[[], float]) -> float:
        """Return the positions per second of the clock, in batches of the chosen size.

        Args:
            seconds: measured time, on the clock.
            clock: CPU time or wall-clock time, in seconds.
        """
        return self._rate(self._batch, seconds, clock)

    def _rate(self, batch: NDArray[np.uint8], seconds: float, clock: Callable[[], float]) -> float:
        self._session.run(batch)
        start, runs = clock(), 0
        while runs == 0 or clock() - start < seconds:
            self._session.run(batch)
            runs += 1
        return runs * len(batch) / (clock() - start)

    async def block(self, seconds: float) -> Counts:
        """Run for at least this time.

        Returns:
            The number of ``positions`` and ``batches``; ``simulations`` and ``plies`` are 0.
        """
        end, batches = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            self._session.run(self._batch)
            batches += 1
        rows = batches * len(self._batch)
        return {"positions": rows, "simulations": 0, "plies": 0, "batches": batches}
