"""Convert arrays to messages and back, with every check that an untrusted message needs.

Tensors are raw little-endian bytes in row-major order: observations as packed bits (UINT8), policy
logits as FP16 (measured: a KL divergence of 4e-9 against FP32, at half the bytes), values as FP32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import InferenceUnavailableError, InvalidRequestError, ModelNotFoundError
from zerofleet.prediction import OBSERVATION, POLICY_LOGITS, PRECISIONS, VALUE, Prediction
from zerofleet.rpc.schema.open_inference import ModelInferRequest, ModelInferResponse

BEST = "best"
PRECISION = "precision"  # a parameter of requests and answers; servers may not know it
SHA256 = "sha256"  # a parameter of answers; older servers and other vendors' do not send it
MOST_ID_CHARACTERS = 256
MAX_MESSAGE_BYTES = 64 * 1024 * 1024

_FP16 = np.dtype(np.float16).newbyteorder("<")
_FP32 = np.dtype(np.float32).newbyteorder("<")

# An error quotes at most this much of a message, which may be large.
_MOST_CHARACTERS = 60
_MOST_VALUES = 4


@dataclass(frozen=True, slots=True)
class RequestShape:
    """Sizes of a run's requests and answers, the same for all versions."""

    observation_bytes: int
    num_actions: int
    max_batch_rows: int  # most rows of one request


def encode_request(
    model: str,
    version: str,
    observations: NDArray[np.uint8],
    request_id: str = "",
    precision: str | None = None,
) -> ModelInferRequest:
    """Build a request.

    Args:
        model: name of the run.
        version: decimal model version, or "best".
        observations: ``[batch, observation_bytes]`` uint8.
        request_id: echoed by the server.
        precision: the variant that has to answer; None leaves it to the server.

    Raises:
        InvalidRequestError: not an array of that dtype and rank, no rows, or too many bytes.
    """
    if observations.dtype != np.uint8 or observations.ndim != 2 or not len(observations):
        raise InvalidRequestError(
            f"observations are {observations.dtype} of shape {observations.shape}: "
            "give uint8 [batch, observation_bytes] with one row or more"
        )
    if observations.nbytes > MAX_MESSAGE_BYTES - 4096:
        raise InvalidRequestError(
            f"{observations.nbytes} bytes of observations are over the limit of one message, "
            f"{MAX_MESSAGE_BYTES}: send fewer rows"
        )
    request = ModelInferRequest(model_name=model, model_version=version, id=request_id)
    if precision is not None:
        request.parameters[PRECISION].string_param = precision
    tensor = request.inputs.add(name=OBSERVATION, datatype="UINT8")
    tensor.shape.extend(observations.shape)
    request.raw_input_contents.append(observations.tobytes())
    return request


def decode_request(request: ModelInferRequest, shape: RequestShape) -> NDArray[np.uint8]:
    """Return the observations of a request as a read-only view, not a copy.

    They are ``[batch, observation_bytes]`` uint8.

    Raises:
        InvalidRequestError: names what was sent and what is expected.
    """
    if len(request.id) > MOST_ID_CHARACTERS:
        raise InvalidRequestError(
            f"the id of the request has {len(request.id)} characters: give at most "
            f"{MOST_ID_CHARACTERS}, it comes back with the answer"
        )
    if len(request.inputs) != 1 or request.inputs[0].name != OBSERVATION:
        names = [tensor.name[:_MOST_CHARACTERS] for tensor in request.inputs[:_MOST_VALUES]]
        raise InvalidRequestError(
            f"inputs: {_some(names, len(request.inputs)) or 'none'}; send exactly one, "
            f"'{OBSERVATION}'"
        )
    tensor = request.inputs[0]
    if tensor.datatype != "UINT8":
        datatype = tensor.datatype[:_MOST_CHARACTERS] or "untyped"
        raise InvalidRequestError(f"'{OBSERVATION}' is {datatype}: send UINT8")
    rows = _rows(tensor.shape, shape)
    if len(request.raw_input_contents) != 1 or tensor.HasField("contents"):
        raise InvalidRequestError(
            f"'{OBSERVATION}' must come as one entry of raw_input_contents, "
            f"not {len(request.raw_input_contents)} and not as typed contents"
        )
    content = request.raw_input_contents[0]
    if len(content) != rows * shape.observation_bytes:
        raise InvalidRequestError(
            f"'{OBSERVATION}' of shape [{rows}, {shape.observation_bytes}] needs "
            f"{rows * shape.observation_bytes} bytes: {len(content)} came"
        )
    return np.frombuffer(content, np.uint8).reshape(rows, shape.observation_bytes)


def _some(first: Sequence[object], count: int) -> str:
    """Quote the first of ``count`` values, for an error."""
    shown = ", ".join(map(repr, first))
    return shown if len(first) == count else f"{shown}, ... ({count} of them)"


def _rows(sent: Sequence[int], shape: RequestShape) -> int:
    if len(sent) != 2 or sent[1] != shape.observation_bytes or sent[0] < 1:
        raise InvalidRequestError(
            f"'{OBSERVATION}' has shape [{_some(sent[:_MOST_VALUES], len(sent))}]: send "
            f"[batch, {shape.observation_bytes}] with one row or more"
        )
    if sent[0] > shape.max_batch_rows:
        raise InvalidRequestError(
            f"'{OBSERVATION}' has {sent[0]} rows: send at most {shape.max_batch_rows} at once"
        )
    return sent[0]


def requested_precision(request: ModelInferRequest) -> str | None:
    """The variant that has to answer; None: whichever the server takes.

    Raises:
        InvalidRequestError: there is no such precision.
    """
    if PRECISION not in request.parameters:
        return None
    precision = request.parameters[PRECISION].string_param
    if precision not in PRECISIONS:
        raise InvalidRequestError(
            f"parameter '{PRECISION}' is '{precision[:_MOST_CHARACTERS]}': give "
            f"{', '.join(PRECISIONS)}, or leave it out"
        )
    return precision


def requested_outputs(request: ModelInferRequest) -> tuple[str, ...]:
    """Names of the outputs to send, in order.

    Raises:
        InvalidRequestError: an output that no model has, or one that is named twice.
    """
    if not request.outputs:
        return (POLICY_LOGITS, VALUE)
    names = list[str]()
    for output in request.outputs:
        name = output.name
        if name not in (POLICY_LOGITS, VALUE):
            raise InvalidRequestError(
                f"no output '{name[:_MOST_CHARACTERS]}': there are '{POLICY_LOGITS}' and '{VALUE}'"
            )
        if name in names:  # each time would be a copy of it in the answer
            raise InvalidRequestError(f"output '{name}' is named twice: name it once")
        names.append(name)
    return tuple(names)


def encode_response(
    model: str, request_id: str, prediction: Prediction, outputs: Iterable[str]
) -> ModelInferResponse:
    """Build the answer, which names the model that gave it."""
    response = ModelInferResponse(
        model_name=model, model_version=str(prediction.model_version), id=request_id
    )
    if prediction.precision:
        response.parameters[PRECISION].string_param = prediction.precision
    if prediction.sha256:
        response.parameters[SHA256].string_param = prediction.sha256
    for name in outputs:
        if name == POLICY_LOGITS:
            datatype, array = "FP16", prediction.policy_logits.astype(_FP16, copy=False)
        else:
            datatype, array = "FP32", prediction.value.astype(_FP32, copy=False)
        tensor = response.outputs.add(name=name, datatype=datatype)
        tensor.shape.extend(array.shape)
        response.raw_output_contents.append(array.tobytes())
    return response


def decode_response(
    response: ModelInferResponse, rows: int, precision: str | None = None
) -> Prediction:
    """The prediction in an answer; its arrays are read-only views of the message's bytes.

    Args:
        response: with raw contents.
        rows: how many were asked for.
        precision: the variant that was asked for; None: none was.

    Raises:
        InferenceUnavailableError: the answer is not one to that question.
        ModelNotFoundError: it is another variant's, or the server knows of none.
    """
    if not response.model_version.isdecimal():
        raise InferenceUnavailableError(
            f"the server's answer names no model version but '{response.model_version}'"
        )
    names = (output.name for output in response.outputs)
    contents = dict(zip(names, response.raw_output_contents, strict=False))
    value = contents.get(VALUE, b"")
    logits = contents.get(POLICY_LOGITS, b"")
    if len(value) != 4 * rows or not logits or len(logits) % (2 * rows):
        raise InferenceUnavailableError(
            f"the server's answer to {rows} rows has {len(value)} bytes of '{VALUE}' "
            f"and {len(logits)} bytes of '{POLICY_LOGITS}'"
        )
    answered = _text(response, PRECISION)
    if precision not in (None, answered):
        raise ModelNotFoundError(
            f"the server answered with {answered or 'a model that names no precision'} where "
            f"{precision} was asked for"
        )
    return Prediction(
        policy_logits=np.frombuffer(logits, _FP16).reshape(rows, -1),
        value=np.frombuffer(value, _FP32),
        model_version=int(response.model_version),
        precision=answered,
        sha256=_text(response, SHA256),
    )


def _text(response: ModelInferResponse, parameter: str) -> str:
    """Return a parameter of an answer; empty if the server did not send it."""
    # `in` first: reading a missing key of a protobuf map would add it.
    return response.parameters[parameter].string_param if parameter in response.parameters else ""


def parse_version(run: str, text: str) -> int | None:
    """The version a client wrote; None is the best one.

    Raises:
        ModelNotFoundError: not a number, so no version can have that name.
    """
    if text in ("", BEST):
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise ModelNotFoundError(
            f"model '{run[:_MOST_CHARACTERS]}' has no version '{text[:_MOST_CHARACTERS]}': give a "
            f"number, or '{BEST}'"
        )
    return int(text)
