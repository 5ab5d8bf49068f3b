"""A predictor that is not asked while something else goes first."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from zerofleet.prediction import Prediction, Predictor


class PausingPredictor:
    """Asks the network only while ``go`` is set: games in play wait where they are.

    Args:
        predictor: the one that is asked.
        go: set while it may be.
    """

    def __init__(self, predictor: Predictor, go: asyncio.Event) -> None:
        self._predictor = predictor
        self._go = go

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """The prediction, when it is time for it."""
        await self._go.wait()
        return await self._predictor.predict(observations)
