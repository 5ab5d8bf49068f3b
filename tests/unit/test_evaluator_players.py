"""Players by name: a named precision, and no other, answers for a model."""

import numpy as np
import pytest
from numpy.typing import NDArray

from zerofleet.database import ModelName
from zerofleet.errors import IncompatibleModelError, ModelNotFoundError, OverloadedError
from zerofleet.prediction import Prediction
from zerofleet.services.evaluator.context import ExactPredictor


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("12", ModelName(12)),
        ("12/int8", ModelName(12, "int8")),
        ("1/fp32", ModelName(1, "fp32")),
        ("random", None),
        ("gnugo:5", None),
        ("0", None),
        ("12/int4", None),
        ("12/", None),
    ],
)
def test_the_name_of_a_model(name: str, model: ModelName | None) -> None:
    assert ModelName.of(name) == model
    assert model is None or str(model) == name


class Server:
    """Answers in a precision of its own, or not at all."""

    def __init__(self, precision: str, error: Exception | None = None) -> None:
        self._precision = precision
        self._error = error

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        if self._error is not None:
            raise self._error
        value = np.zeros(len(observations), np.float32)
        return Prediction(value[:, np.newaxis], value, 1, self._precision)


async def test_no_other_precision_answers() -> None:
    rows = np.zeros((2, 1), np.uint8)
    answer = await ExactPredictor(Server("int8"), "int8").predict(rows)
    assert answer.precision == "int8"
    with pytest.raises(
        IncompatibleModelError, match="requested int8, but inference answered in fp32"
    ):
        await ExactPredictor(Server("fp32"), "int8").predict(rows)
    with pytest.raises(IncompatibleModelError, match="a precision that it does not name"):
        await ExactPredictor(Server(""), "fp32").predict(rows)
    absent = Server("int8", ModelNotFoundError("version 1 has no accepted variant int8"))
    with pytest.raises(IncompatibleModelError, match="no accepted variant"):
        await ExactPredictor(absent, "int8").predict(rows)
    with pytest.raises(OverloadedError):
        await ExactPredictor(Server("int8", OverloadedError("full")), "int8").predict(rows)
