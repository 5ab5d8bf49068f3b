"""Client of the tensor-level service."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import AccessDeniedError
from zerofleet.prediction import Prediction
from zerofleet.rpc import codec
from zerofleet.rpc.channel import LOCAL, open_channel
from zerofleet.rpc.credentials import ClientCredentials
from zerofleet.rpc.methods import INFERENCE, unary
from zerofleet.rpc.prediction_stream import PredictionStream
from zerofleet.rpc.retry import retrying, rpc_error
from zerofleet.rpc.schema import open_inference as pb


class InferenceClient:
    """One channel to an inference service, for ``async with``.

    Args:
        address: ``host:port`` or any gRPC target.
        timeout: seconds over all tries of one call.
        precision: the variant of each model that has to answer, unless a call names another; None
            leaves it to the server.
        credentials: what to show, and whom to believe.

    Raises:
        ConfigError: on entering, when the credentials cannot be used, or it would be plaintext to
            another machine.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 30.0,
        precision: str | None = None,
        credentials: ClientCredentials = LOCAL,
    ) -> None:
        self._address = address
        self._credentials = credentials
        self._timeout = timeout
        self._precision = precision

    async def __aenter__(self) -> Self:
        self._channel = channel = open_channel(self._address, self._credentials)
        self._infer = unary(
            channel, INFERENCE, "ModelInfer", pb.ModelInferRequest, pb.ModelInferResponse
        )
        self._ready = unary(
            channel, INFERENCE, "ServerReady", pb.ServerReadyRequest, pb.ServerReadyResponse
        )
        self._model_ready = unary(
            channel, INFERENCE, "ModelReady", pb.ModelReadyRequest, pb.ModelReadyResponse
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._channel.close()

    async def server_ready(self) -> bool:
        """Whether the server answers now and has its best model; asked once, not retried.

        Raises:
            AccessDeniedError: the server refuses this token.
        """
        try:
            answer = await self._ready(pb.ServerReadyRequest(), timeout=min(2.0, self._timeout))
        except grpc.aio.AioRpcError as error:
            failure = rpc_error(self._address, error)
            if isinstance(failure, AccessDeniedError):
                raise failure from error
            return False
        return answer.ready

    async def model_ready(self, model: str, version: str = "") -> bool:
        """Whether that version answers, waiting for it to be loaded.

        Raises:
            ModelNotFoundError: no such model or version.
            AccessDeniedError: the server refuses this token, or its role.
            InferenceUnavailableError: nobody answered within the timeout.
        """
        request = pb.ModelReadyRequest(name=model, version=version)
        answer = await retrying(
            self._address, self._timeout, lambda left: self._model_ready(request, timeout=left)
        )
        return answer.ready

    async def predict(
        self,
        model: str,
        observations: NDArray[np.uint8],
        version: str = codec.BEST,
        precision: str | None = None,
    ) -> Prediction:
        """Predict one batch by a call of its own; a worker is better served by ``stream``.

        Args:
            model: name of the run.
            observations: bit-packed planes, ``[batch, observation_bytes]`` uint8.
            version: decimal model version, or "best".
            precision: the variant that has to answer; None: the client's own.

        Raises:
            ModelNotFoundError: no such model or version, or no accepted variant of it.
            InvalidRequestError: the array cannot be what the model takes.
            OverloadedError: the server's queue is full; back off first.
            AccessDeniedError: the server refuses this token, or its role.
            InferenceUnavailableError: nobody answered within the timeout.
        """
        precision = precision or self._precision
        request = codec.encode_request(model, version, observations, precision=precision)
        answer = await retrying(
            self._address, self._timeout, lambda left: self._infer(request, timeout=left)
        )
        return codec.decode_response(answer, len(observations), precision)

    def stream(
        self, model: str, version: str = codec.BEST, precision: str | None = None
    ) -> PredictionStream:
        """One long-lived stream to a model, for ``async with``; it is a ``Predictor``.

        Args:
            model: name of the run.
            version: decimal model version, or "best".
            precision: the variant that has to answer; None: the client's own.
        """
        return PredictionStream(
            self._channel,
            self._address,
            model=model,
            version=version,
            precision=precision or self._precision,
            timeout=self._timeout,
        )
