"""Asking again until there is an answer, and saying meanwhile what is waited for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from zerofleet.errors import (
    InferenceUnavailableError,
    ModelNotFoundError,
    OverloadedError,
    StoreUnavailableError,
)
from zerofleet.prediction import Prediction, Predictor

_log = structlog.get_logger()

_P = ParamSpec("_P")
_T = TypeVar("_T")

_MOST_SECONDS = 2.0


class Patience:
    """What is waited for, by whom; heartbeats read it here, and each change is logged once."""

    def __init__(self) -> None:
        self._things: dict[str, str] = {}

    @property
    def waiting_for(self) -> str:
        """Everything waited for, each thing once; empty while nothing is."""
        return ", ".join(dict.fromkeys(self._things.values()))

    def begin(self, who: str, thing: str) -> None:
        """``who`` waits for ``thing``."""
        if self._things.get(who) != thing:
            self._things[who] = thing
            _log.info("waiting", part=who, waiting_for=thing)

    def end(self, who: str) -> None:
        """``who`` goes on."""
        self._things.pop(who, None)

    async def ask(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Make a store's call in a thread, until the store answers.

        The call may have been done though its answer was lost: it must bear being done twice.
        """
        while True:
            try:
                answer = await asyncio.to_thread(call, *args, **kwargs)
            except StoreUnavailableError:
                self.begin("store", "Postgres")
                await pause()
            else:
                self.end("store")
                return answer


class PatientPredictor:
    """Asks one exact version until the inference service has it and answers.

    Args:
        predictor: the version's stream.
        version: the version that every answer must come from.
        patience: told what is waited for.
    """

    def __init__(self, predictor: Predictor, version: int, patience: Patience) -> None:
        self._predictor = predictor
        self._version = version
        self._patience = patience
        self.answers = 0

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """The prediction, however long it takes."""
        who, version = f"version {self._version}", self._version
        while True:
            try:
                prediction = await self._predictor.predict(observations)
            except ModelNotFoundError:
                self._patience.begin(who, f"inference to load version {version}")
            except OverloadedError:
                self._patience.begin(who, "room in the queue of inference")
            except InferenceUnavailableError:
                self._patience.begin(who, "inference")
            else:
                self._patience.end(who)
                self.answers += 1
                return prediction
            await pause()


async def pause() -> None:
    """A little while, with jitter, so that a fleet does not come back in step."""
    await asyncio.sleep(random.uniform(_MOST_SECONDS / 8, _MOST_SECONDS))
