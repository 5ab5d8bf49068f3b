"""Predictors for benchmarks: ONNX Runtime in this process, or a network that costs nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerofleet.models.session import ModelSession
from zerofleet.prediction import Prediction


class SessionPredictor:
    """ONNX Runtime on the calling thread.

    Args:
        session: the model.
        model_version: version in the predictions.
    """

    def __init__(self, session: ModelSession, model_version: int) -> None:
        self._session = session
        self._version = model_version

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict for packed observations ``[batch, observation_bytes]``; blocks the event loop."""
        return Prediction(*self._session.run(observations), model_version=self._version)


class NoNetwork:
    """Predicts a uniform policy and the value 0 for every position, at nearly no cost.

    Args:
        num_actions: number of actions of the game.
        rows: most rows of a batch.
    """

    def __init__(self, num_actions: int, rows: int) -> None:
        self._policy_logits = np.zeros((rows, num_actions), np.float16)
        self._value = np.zeros(rows, np.float32)

    def run(
        self, observations: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        """Return policy logits ``[batch, num_actions]`` and values ``[batch]``, all 0.

        Each call returns views of the same memory.
        """
        batch = len(observations)
        return self._policy_logits[:batch], self._value[:batch]
