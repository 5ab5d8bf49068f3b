"""A predictor that takes no answer in another precision than it asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import IncompatibleModelError, ModelNotFoundError
from zerofleet.prediction import Prediction, Predictor


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
