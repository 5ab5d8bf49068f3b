"""Arrays to messages and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from zerofleet.errors import (
    InferenceUnavailableError,
    InvalidRequestError,
    ModelNotFoundError,
)
from zerofleet.prediction import Prediction
from zerofleet.rpc import codec
from zerofleet.rpc.player_service import decode_description
from zerofleet.rpc.schema.open_inference import ModelInferRequest
from zerofleet.rpc.schema.player import DescribeResponse

SHAPE = codec.RequestShape(observation_bytes=16, num_actions=7, max_batch_rows=64)
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


@pytest.mark.parametrize(
    "names", [("value",), ("policy_logits",), ("value", "policy_logits"), ()], ids=str
)
def test_outputs_are_sent_as_they_are_asked_for(names: tuple[str, ...]) -> None:
    request = codec.encode_request("go", "", np.zeros((5, 16), np.uint8))
    for name in names:
        request.outputs.add(name=name)
    outputs = codec.requested_outputs(request)
    assert outputs == (names or BOTH)
    response = codec.encode_response("go", "7", _prediction(5), outputs)
    assert tuple(output.name for output in response.outputs) == outputs


def test_an_output_is_sent_once() -> None:
    request = codec.encode_request("go", "", np.zeros((5, 16), np.uint8))
    for name in ("value", "policy_logits", "policy_logits"):
        request.outputs.add(name=name)
    with pytest.raises(InvalidRequestError, match="'policy_logits' is named twice: name it once"):
        codec.requested_outputs(request)


def test_errors_repeat_little_of_a_large_message() -> None:
    """A server refuses it in a few words, whatever its size."""
    good = codec.encode_request("go", "", np.zeros((5, 16), np.uint8))

    def changed(change: Callable[[ModelInferRequest], object]) -> ModelInferRequest:
        request = ModelInferRequest.FromString(good.SerializeToString())
        change(request)
        return request

    long = "x" * 100_000
    for request in (
        changed(lambda request: setattr(request.inputs[0], "name", long)),
        changed(lambda request: setattr(request.inputs[0], "datatype", long)),
        changed(lambda request: request.inputs[0].shape.extend(range(10_000))),
        changed(lambda request: request.inputs.extend([good.inputs[0]] * 10_000)),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            codec.decode_request(request, SHAPE)
        assert len(str(caught.value)) < 500
    with pytest.raises(InvalidRequestError) as caught:
        codec.requested_outputs(changed(lambda request: request.outputs.add(name=long)))
    assert len(str(caught.value)) < 500
    with pytest.raises(ModelNotFoundError) as unknown:
        codec.parse_version(long, long)
    assert len(str(unknown.value)) < 500


@pytest.mark.parametrize("precision", ["fp32", "int8", "fp16"])
def test_the_precision_travels_as_a_parameter(precision: str) -> None:
    request = codec.encode_request("go", "3", np.zeros((2, 16), np.uint8), precision=precision)
    assert request.parameters["precision"].string_param == precision
    assert codec.requested_precision(request) == precision
    answered = replace(_prediction(5), precision=precision)
    response = codec.encode_response("go", "7", answered, BOTH)
    assert response.parameters["precision"].string_param == precision
    assert codec.decode_response(response, 5).precision == precision


def test_without_a_precision_no_parameter_is_sent() -> None:
    """Servers of the standard protocol know none, and give none."""
    request = codec.encode_request("go", "3", np.zeros((2, 16), np.uint8))
    assert not request.parameters
    assert codec.requested_precision(request) is None
    response = codec.encode_response("go", "7", _prediction(5), BOTH)
    assert not response.parameters
    assert codec.decode_response(response, 5).precision == ""


@pytest.mark.parametrize("precision", ["", "int4", "INT8", "best"])
def test_precisions_that_there_are_none(precision: str) -> None:
    request = codec.encode_request("go", "3", np.zeros((2, 16), np.uint8), precision=precision)
    with pytest.raises(InvalidRequestError, match="give fp32, int8, fp16"):
        codec.requested_precision(request)


def test_a_precision_of_another_type_is_none() -> None:
    request = codec.encode_request("go", "3", np.zeros((2, 16), np.uint8))
    request.parameters["precision"].int64_param = 8
    with pytest.raises(InvalidRequestError, match="give fp32, int8, fp16"):
        codec.requested_precision(request)


def test_an_answer_names_the_file_that_gave_it() -> None:
    """Servers of another kind do not."""
    named = replace(_prediction(5), sha256="5" * 64)
    response = codec.encode_response("go", "7", named, BOTH)
    assert response.parameters["sha256"].string_param == "5" * 64
    assert codec.decode_response(response, 5).sha256 == "5" * 64
    silent = codec.encode_response("go", "7", _prediction(5), BOTH)
    assert codec.decode_response(silent, 5).sha256 == ""
    assert not silent.parameters


def test_another_variants_answer_is_not_taken() -> None:
    """A server that ignores the parameter would make a match of fp32 against itself."""
    silent = codec.encode_response("go", "7", _prediction(5), BOTH)
    with pytest.raises(ModelNotFoundError, match="names no precision where int8 was asked for"):
        codec.decode_response(silent, 5, "int8")
    other = codec.encode_response("go", "7", replace(_prediction(5), precision="fp32"), BOTH)
    with pytest.raises(ModelNotFoundError, match="with fp32 where int8 was asked for"):
        codec.decode_response(other, 5, "int8")
    assert codec.decode_response(other, 5, "fp32").precision == "fp32"


@pytest.mark.parametrize(("sent", "decoded"), [(0, 20_000), (1_000_000, 1_000_000)])
def test_an_analysis_without_a_limit_of_its_own_has_that_of_a_search(
    sent: int, decoded: int
) -> None:
    response = DescribeResponse(
        observation_shape=(2, 3, 3), max_simulations=20_000, max_analysis_simulations=sent
    )
    assert decode_description(response).max_analysis_simulations == decoded
