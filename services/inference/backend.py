"""Predictions for clients: one run's models and batcher behind the requests over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import (
    IncompatibleModelError,
    InferenceUnavailableError,
    OverloadedError,
)
from zerofleet.prediction import Prediction
from zerofleet.rpc.codec import RequestShape
from zerofleet.rpc.inference_service import ModelCounters, ModelState
from zerofleet.services.inference.batcher import Batcher
from zerofleet.services.inference.loaded_models import LoadedModel
from zerofleet.services.inference.served_models import ServedModels


class Backend:
    """An ``InferenceBackend`` of one run.

    Args:
        shape: of the run's game, with the batcher's limit.
        provider: what the models run on.
    """

    def __init__(
        self,
        models: ServedModels,
        batcher: Batcher,
        shape: RequestShape,
        provider: str = "cpu",
    ) -> None:
        self.models = models
        self.batcher = batcher
        self.provider = provider
        self._shape = shape
        self._parked_rows = 0  # requests whose model was not in memory, until they are answered

    def ready(self) -> bool:
        """Whether the best model is loaded."""
        return self.models.peek(None) is not None

    def runs(self) -> Sequence[str]:
        """This process serves one run."""
        return (self.models.run,)

    def shape(self, run: str) -> RequestShape:
        """See ``InferenceBackend``."""
        self.models.require(run)
        return self._shape

    def submit(
        self,
        run: str,
        version: int | None,
        observations: NDArray[np.uint8],
        deadline: float | None,
        precision: str | None = None,
    ) -> asyncio.Future[Prediction]:
        """See ``InferenceBackend``."""
        model = self.models.peek(version, precision)
        if model is not None:
            return self.batcher.submit(model, observations, deadline)
        if version is None and not self.ready():
            raise InferenceUnavailableError(f"waiting for {self.models.waiting_for}")
        if self._parked_rows + len(observations) > self.batcher.limits.max_queue_rows:
            raise OverloadedError(
                f"{self._parked_rows} rows wait for their models: send again later"
            )
        return self._park(version, precision, observations, deadline)

    def _park(
        self,
        version: int | None,
        precision: str | None,
        observations: NDArray[np.uint8],
        deadline: float | None,
    ) -> asyncio.Future[Prediction]:
        """Hold rows until their model is loaded."""

        async def load_and_submit() -> Prediction:
            model = await self.models.get(version, precision)
            return await self.batcher.submit(model, observations, deadline)

        def leave(_: asyncio.Future[Prediction]) -> None:
            self._parked_rows -= len(observations)

        self._parked_rows += len(observations)
        answer = asyncio.ensure_future(load_and_submit())
        answer.add_done_callback(leave)
        return answer

    async def model_ready(self, run: str, version: int | None) -> bool:
        """See ``InferenceBackend``."""
        try:
            await self.models.get(version)
        except (IncompatibleModelError, InferenceUnavailableError):
            return False
        return True

    async def check(self, run: str, version: int | None) -> None:
        """See ``InferenceBackend``."""
        await self.models.check(version)

    def loaded_versions(self, run: str) -> list[int]:
        """Versions in memory, ascending."""
        return sorted({model.version for model in self.models.loaded()})

    def parameters(self, run: str, version: int | None) -> Mapping[str, str]:
        """See ``InferenceBackend``."""
        model = self.models.peek(version)
        found = {"provider": self.provider}
        return found if model is None else found | {"precision": model.precision}

    def counters(self, run: str) -> list[ModelCounters]:
        """Counters of the versions in memory, each over all of its precisions."""
        models = self.models.loaded()
        return [
            self.batcher.statistics.counters([m for m in models if m.version == version])
            for version in self.loaded_versions(run)
        ]

    async def index(self) -> list[ModelState]:
        """Every known version."""
        return await self.models.index()


class PinnedPredictor:
    """A ``Predictor`` over the batcher that stays with one model through promotions."""

    def __init__(self, batcher: Batcher, model: LoadedModel) -> None:
        self._batcher = batcher
        self._model = model

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict ``[batch, observation_bytes]``."""
        return await self._batcher.submit(self._model, observations)
