"""The players of matches, by name: a model's version, a version in one precision, an anchor."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack

import numpy as np
import structlog
from numpy.typing import NDArray
from zerofleet_core import SearchConfig

from zerofleet.client import AsyncModel
from zerofleet.database import ModelName
from zerofleet.errors import IncompatibleModelError, ModelNotFoundError
from zerofleet.games import State
from zerofleet.match.anchors import anchor_player
from zerofleet.match.play_match import MatchPlayer, SearchPlayer
from zerofleet.prediction import Prediction, Predictor
from zerofleet.services.evaluator.context import EvaluatorContext
from zerofleet.waiting import PatientPredictor

_log = structlog.get_logger()


class Players:
    """Finds the players of matches.

    Args:
        context: of this evaluator.
        model: the run's, at the inference service.
    """

    def __init__(self, context: EvaluatorContext, model: AsyncModel) -> None:
        self._context = context
        self._model = model
        self._thinking = asyncio.Semaphore(os.cpu_count() or 1)

    async def predictor(self, streams: AsyncExitStack, name: ModelName) -> Predictor:
        """One exact model, over a stream that ends with ``streams``."""
        waits, who = self._context.waits, f"version {name.version}"
        stream = self._model.stream(version=name.version, precision=name.precision)
        predictor: Predictor = await streams.enter_async_context(stream)
        if name.precision is not None:
            who += f" in {name.precision}"
            predictor = ExactPredictor(predictor, name.precision)
        streams.callback(waits.end, who)
        return PatientPredictor(predictor, waits, who, f"inference to load {who}")

    async def player(
        self, streams: AsyncExitStack, name: str, search: SearchConfig, seed: int
    ) -> MatchPlayer:
        """The player of this name.

        Args:
            streams: what the player needs ends with this.
            name: of the player.
            search: of models; the anchor ``search`` has as many simulations.
            seed: of what the anchor ``random`` draws.

        Raises:
            ConfigError: the name is that of an anchor that cannot play here.
        """
        model = ModelName.of(name)
        if model is None:
            game = self._context.run.game.name
            simulations = search.num_simulations
            return anchor_player(name, game, simulations, seed, streams, self._thinking)
        return SearchPlayer(await self.predictor(streams, model), search, model.version)

    async def can_play(self, version: int) -> bool:
        """Whether a model answers at all; waits until the inference service has tried it."""
        async with AsyncExitStack() as streams:
            predictor = await self.predictor(streams, ModelName(version))
            start = State(self._context.run.game.name).observation()[np.newaxis]
            try:
                await predictor.predict(start)
            except IncompatibleModelError as error:
                _log.error("model_unusable", version=version, reason=str(error))
                return False
        return True


class ExactPredictor:
    """Makes sure of the precision: a server that does not know the question answers in its own.

    Args:
        predictor: a stream that asks for the precision.
        precision: the one that has to answer.
    """

    def __init__(self, predictor: Predictor, precision: str) -> None:
        self._predictor = predictor
        self._precision = precision

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """The prediction in that precision.

        Raises:
            IncompatibleModelError: the server lacks the variant, or answers in another precision;
                it is in the record, so waiting will not help.
        """
        try:
            prediction = await self._predictor.predict(observations)
        except ModelNotFoundError as error:
            raise IncompatibleModelError(str(error)) from error
        if prediction.precision != self._precision:
            told = prediction.precision or "a precision that it does not name"
            raise IncompatibleModelError(
                f"asked in {self._precision}, inference answered in {told}: its service must be "
                "one that serves variants"
            )
        return prediction
