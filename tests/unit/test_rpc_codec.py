"""Arrays to messages and back."""

from __future__ import annotations

import numpy as np
import pytest

from zerofleet.errors import (
    InferenceUnavailableError,
    InvalidRequestError,
    ModelNotFoundError,
)
from zerofleet.prediction import Prediction
from zerofleet.rpc import codec

SHAPE = codec.ModelShape(observation_bytes=16, num_actions=7, max_batch_rows=64)
BOTH = (codec.POLICY_LOGITS, codec.VALUE)


def _prediction(rows: int, dtype: type = np.float16) -> Prediction:
    generator = np.random.default_rng(rows)
    return Prediction(
        generator.normal(size=(rows, 7)).astype(dtype),
        generator.uniform(-1, 1, rows).astype(np.float32),
        41,
    )


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_observations_survive(rows: int) -> None:
    observations = np.random.default_rng(0).integers(0, 256, (rows, 16), np.uint8)
    request = codec.encode_request("go", "best", observations, "7")
    np.testing.assert_array_equal(codec.decode_request(request, SHAPE), observations)
    assert (request.model_name, request.model_version, request.id) == ("go", "best", "7")


def test_an_array_that_is_not_contiguous_is_sent_in_row_major_order() -> None:
    observations = np.arange(16 * 6, dtype=np.uint8).reshape(16, 6).T
    request = codec.encode_request("go", "", observations)
    np.testing.assert_array_equal(codec.decode_request(request, SHAPE), observations)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_predictions_survive_as_fp16_and_fp32(dtype: type) -> None:
    prediction = _prediction(5, dtype)
    answer = codec.decode_response(codec.encode_response("go", "7", prediction, BOTH), 5)
    np.testing.assert_array_equal(answer.policy_logits, prediction.policy_logits.astype(np.float16))
    np.testing.assert_array_equal(answer.value, prediction.value)
    assert answer.model_version == 41


def test_nothing_is_copied_out_of_a_message() -> None:
    request = codec.encode_request("go", "", np.zeros((2, 16), np.uint8))
    assert not codec.decode_request(request, SHAPE).flags.owndata


@pytest.mark.parametrize(
    "observations",
    [
        np.zeros((2, 16), np.float32),
        np.zeros(16, np.uint8),
        np.zeros((0, 16), np.uint8),
        np.zeros((70_000_000, 1), np.uint8),
    ],
)
def test_arrays_that_are_no_observations(observations: np.ndarray) -> None:
    with pytest.raises(InvalidRequestError):
        codec.encode_request("go", "", observations)


def test_answers_to_another_question_are_refused() -> None:
    response = codec.encode_response("go", "7", _prediction(5), BOTH)
    with pytest.raises(InferenceUnavailableError, match="to 4 rows"):
        codec.decode_response(response, 4)
    response.model_version = "best"
    with pytest.raises(InferenceUnavailableError, match="'best'"):
        codec.decode_response(response, 5)
    only_value = codec.encode_response("go", "7", _prediction(5), (codec.VALUE,))
    with pytest.raises(InferenceUnavailableError, match="policy_logits"):
        codec.decode_response(only_value, 5)


@pytest.mark.parametrize(("text", "version"), [("", None), ("best", None), ("1", 1), ("042", 42)])
def test_versions(text: str, version: int | None) -> None:
    assert codec.parse_version("go", text) == version


@pytest.mark.parametrize("text", ["-1", "1.0", "latest", " 1", "²", "1" * 10, "٣"])
def test_texts_that_are_no_version(text: str) -> None:
    with pytest.raises(ModelNotFoundError, match="model 'go' has no version"):
        codec.parse_version("go", text)
