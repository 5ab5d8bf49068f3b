"""A predictor that waits for the inference service instead of giving up."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from services.selfplay.backoff import Backoff
from services.selfplay.waits import Waits
from zerofleet.errors import InferenceUnavailableError, ModelNotFoundError, OverloadedError
from zerofleet.prediction import Prediction, Predictor

_SLOW_SECONDS = 3.0  # an answer out for longer than this is waited for, and said to be


class PatientPredictor:
    """Asks again until there is an answer: predictions are pure, so games lose nothing.

    Args:
        predictor: the one that may be away, overloaded, or without a model as yet.
        waits: told what is waited for.
        who: the name of the waiting part.
        address: where the inference service is, for people.
    """

    def __init__(self, predictor: Predictor, waits: Waits, who: str, address: str) -> None:
        self._predictor = predictor
        self._waits = waits
        self._who = who
        self._address = address

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """The prediction, however long it takes."""
        backoff = Backoff()
        while True:
            slow = asyncio.get_running_loop().call_later(_SLOW_SECONDS, self._say_slow)
            try:
                prediction = await self._predictor.predict(observations)
            except ModelNotFoundError:
                self._waits.begin(self._who, "the first promoted model")
            except OverloadedError:
                self._waits.begin(self._who, f"room in the queue of inference at {self._address}")
            except InferenceUnavailableError:
                self._waits.begin(self._who, f"inference at {self._address}")
            else:
                self._waits.end(self._who)
                return prediction
            finally:
                slow.cancel()
            await backoff.sleep()

    def _say_slow(self) -> None:
        self._waits.begin(self._who, f"an answer from inference at {self._address}")
