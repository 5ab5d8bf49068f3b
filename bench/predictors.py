"""Predictors that cost what they are meant to cost: a session in this process, or nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerofleet.models.session import ModelSession
from zerofleet.prediction import Prediction


class SessionPredictor:
    """ONNX Runtime in this process, on the calling thread."""

    def __init__(self, session: ModelSession, model_version: int) -> None:
        self._session = session
        self._version = model_version

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict at once."""
        return Prediction(*self._session.run(observations), model_version=self._version)


class NoNetwork:
    """Answers that are even for every action and position, for next to nothing.

    Args:
        num_actions: of the game.
        rows: most of one batch.
    """

    def __init__(self, num_actions: int, rows: int) -> None:
        self._policy_logits = np.zeros((rows, num_actions), np.float16)
        self._value = np.zeros(rows, np.float32)

    def run(
        self, observations: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        """``[batch, num_actions]`` and ``[batch]`` zeros; the same memory each time."""
        batch = len(observations)
        return self._policy_logits[:batch], self._value[:batch]
