"""The best model from a server that identifies versions by number only, such as NVIDIA Triton."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import numpy as np
import structlog
from numpy.typing import NDArray

from zerofleet.database import Promotion
from zerofleet.errors import (
    AccessDeniedError,
    InferenceUnavailableError,
    ModelNotFoundError,
    OverloadedError,
    StoreUnavailableError,
)
from zerofleet.prediction import Prediction

_log = structlog.get_logger()

_LOOK_SECONDS = 2.0


class Versions(Protocol):
    """Reports which versions a server has; an ``AsyncModel`` does."""

    async def ready(self, version: int) -> bool:
        """Return whether that version of the run's models answers."""
        ...


class Stream(Protocol):
    """A ``Predictor`` whose version can change; a ``PredictionStream`` is one."""

    version: str

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict a batch."""
        ...


class BestVersionPredictor:
    """A ``Predictor`` that names the promoted version in every request.

    It switches to a newly promoted version once the server reports that it has it; until then it
    uses the previous one.

    Args:
        run: name of the run, and so of the model.
        versions: versions of the same server.
        newest: returns the newest promotion, None before the first. It blocks, and raises
            ``StoreUnavailableError`` while no store answers.
    """

    def __init__(
        self,
        run: str,
        stream: Stream,
        versions: Versions,
        newest: Callable[[], Promotion | None],
    ) -> None:
        self._run = run
        self._stream = stream
        self._versions = versions
        self._newest = newest
        self._version: int | None = None
        self._refusal: AccessDeniedError | None = None

    async def follow(self) -> None:
        """Keep up with the promotions, forever."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Check once for a newer promotion.

        If the server refuses the call, ``predict`` raises that error: its caller knows how long to
        retry a token, and keeps the games.
        """
        try:
            newest = await asyncio.to_thread(self._newest)
            if newest is None or newest.version == self._version:
                return
            ready = await self._versions.ready(newest.version)
        except AccessDeniedError as error:
            self._refusal = error
            return
        except (
            InferenceUnavailableError,
            ModelNotFoundError,
            OverloadedError,
            StoreUnavailableError,
        ):
            return  # not now
        self._refusal = None
        if not ready:
            return
        self._version = newest.version
        self._stream.version = str(newest.version)
        _log.info("best_model_changed", version=newest.version)

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict with the promoted version; see ``Predictor``.

        Raises:
            ModelNotFoundError: nothing is promoted yet, or the server does not have it yet.
            AccessDeniedError: the server refuses this client.
        """
        if self._version is None:
            if self._refusal is not None:
                raise self._refusal
            raise ModelNotFoundError(f"model '{self._run}' has no promoted version here yet")
        return await self._stream.predict(observations)
