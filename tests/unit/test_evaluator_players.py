"""Players by name: a named precision, and no other, answers for a model, from its own file."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from zerofleet.database import ModelName
from zerofleet.errors import (
    IncompatibleModelError,
    InferenceUnavailableError,
    ModelNotFoundError,
    OverloadedError,
)
from zerofleet.prediction import Prediction
from zerofleet.services.evaluator.context import ExactPredictor
from zerofleet.waiting import PatientPredictor, Waits


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
    """Answers in a precision of its own from a file of its own, or not at all."""

    def __init__(self, precision: str, error: Exception | None = None, *, sha256: str = "") -> None:
        self.sha256 = sha256
        self._precision = precision
        self._error = error

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        if self._error is not None:
            raise self._error
        value = np.zeros(len(observations), np.float32)
        return Prediction(value[:, np.newaxis], value, 1, self._precision, self.sha256)


class Rows:
    """The rows of a version's files, and how often they were read."""

    def __init__(self, *files: str) -> None:
        self.files = frozenset(files)
        self.reads = 0

    async def read(self) -> frozenset[str]:
        self.reads += 1
        return self.files


def exactly(server: Server, precision: str | None) -> ExactPredictor:
    return ExactPredictor(server, precision, Rows().read)


async def test_no_other_precision_answers() -> None:
    rows = np.zeros((2, 1), np.uint8)
    answer = await exactly(Server("int8"), "int8").predict(rows)
    assert answer.precision == "int8"
    with pytest.raises(
        IncompatibleModelError, match="requested int8, but inference answered in fp32"
    ):
        await exactly(Server("fp32"), "int8").predict(rows)
    with pytest.raises(IncompatibleModelError, match="a precision that it does not name"):
        await exactly(Server(""), "fp32").predict(rows)
    absent = Server("int8", ModelNotFoundError("version 1 has no accepted variant int8"))
    with pytest.raises(IncompatibleModelError, match="no accepted variant"):
        await exactly(absent, "int8").predict(rows)
    with pytest.raises(OverloadedError):
        await exactly(Server("int8", OverloadedError("full")), "int8").predict(rows)


async def test_a_version_alone_waits_until_inference_knows_it() -> None:
    absent = Server("int8", ModelNotFoundError("model 'run' has no version 1"))
    with pytest.raises(ModelNotFoundError, match="has no version 1"):
        await exactly(absent, None).predict(np.zeros((2, 1), np.uint8))


async def test_no_other_file_answers() -> None:
    """A replaced version stays in a server's memory for up to a minute."""
    observations = np.zeros((2, 1), np.uint8)
    server, rows = Server("int8", sha256="old"), Rows("new", "new in int8")
    predictor = ExactPredictor(server, None, rows.read)
    for _ in range(2):
        with pytest.raises(
            InferenceUnavailableError, match="from the file old, but the database names new, new in"
        ):
            await predictor.predict(observations)
    server.sha256 = "new"
    assert (await predictor.predict(observations)).sha256 == "new"
    server.sha256 = "new in int8"
    assert (await predictor.predict(observations)).sha256 == "new in int8"
    assert rows.reads == 2

    rows.files = frozenset()
    server.sha256 = "newer"
    with pytest.raises(InferenceUnavailableError, match="the database names none"):
        await predictor.predict(observations)
    rows.files = frozenset({"newer"})
    assert (await predictor.predict(observations)).sha256 == "newer"


async def test_a_server_that_names_no_file_is_believed() -> None:
    rows = Rows("a file")
    predictor = ExactPredictor(Server("fp32"), None, rows.read)
    assert (await predictor.predict(np.zeros((2, 1), np.uint8))).sha256 == ""
    assert not rows.reads


async def test_an_answer_from_another_file_is_asked_for_again() -> None:
    """A match goes on with the right model; it is not broken off."""
    server, rows = Server("fp32", sha256="old"), Rows("new")
    said = list[str]()

    class Loading(Waits):
        def begin(self, who: str, thing: str, *_: Any, reason: str = "") -> None:
            said.append(f"{who}: {reason}")
            server.sha256 = "new"

    predictor = PatientPredictor(
        ExactPredictor(server, None, rows.read), Loading(), "version 1", "version 1"
    )
    assert (await predictor.predict(np.zeros((2, 1), np.uint8))).sha256 == "new"
    [reason] = said
    assert reason.startswith("version 1: inference answered for version 1 from the file old")
