"""Predictors without a network: each is a function of the observation alone."""

from __future__ import annotations

import asyncio
import hashlib

import numpy as np
from numpy.typing import NDArray

from zerofleet import games
from zerofleet.prediction import Prediction


class UniformPredictor:
    """Predicts a uniform policy and value 0, so the search alone decides."""

    def __init__(self, game: str, model_version: int = 1) -> None:
        self._num_actions = games.spec(game).num_actions
        self.model_version = model_version

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Zeros: ``policy_logits`` [batch, num_actions] float16, ``value`` [batch] float32."""
        await asyncio.sleep(0)  # let other tasks run, as a remote predictor does
        batch = len(observations)
        return Prediction(
            np.zeros((batch, self._num_actions), np.float16),
            np.zeros(batch, np.float32),
            self.model_version,
        )


class MarkerPredictor:
    """Encodes the version in every value, so that an answer shows its model."""

    _MOST_VERSIONS = 1024

    def __init__(self, game: str, model_version: int) -> None:
        if not 1 <= model_version <= self._MOST_VERSIONS:
            raise ValueError(f"model_version {model_version} is not in 1 .. {self._MOST_VERSIONS}")
        self._num_actions = games.spec(game).num_actions
        self.model_version = model_version

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Uniform ``policy_logits`` [batch, num_actions], ``value`` [batch] = version / 1024."""
        await asyncio.sleep(0)
        batch = len(observations)
        return Prediction(
            np.zeros((batch, self._num_actions), np.float16),
            np.full(batch, self.model_version / self._MOST_VERSIONS, np.float32),
            self.model_version,
        )

    @classmethod
    def decode(cls, value: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return the versions [batch] int32 that these values encode."""
        return np.rint(value * cls._MOST_VERSIONS).astype(np.int32)


class HashPredictor:
    """Predicts different, arbitrary values for every position, so that games vary."""

    def __init__(self, game: str, model_version: int = 1, *, value_scale: float = 0.5) -> None:
        self._num_actions = games.spec(game).num_actions
        self._value_scale = value_scale
        self.model_version = model_version

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Return pseudo-random ``policy_logits`` [batch, num_actions] and ``value`` [batch]."""
        await asyncio.sleep(0)
        logits = np.empty((len(observations), self._num_actions), np.float16)
        value = np.empty(len(observations), np.float32)
        for row, observation in enumerate(observations):
            digest = hashlib.sha256(f"{self.model_version}|".encode() + observation.tobytes())
            rng = np.random.default_rng(int.from_bytes(digest.digest()[:8], "big"))
            logits[row] = rng.normal(size=self._num_actions)
            value[row] = self._value_scale * rng.uniform(-1.0, 1.0)
        return Prediction(logits, value, self.model_version)
