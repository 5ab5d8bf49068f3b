"""A run's models over the wire, for asyncio: observations in, predictions out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import AccessDeniedError, InvalidRequestError
from zerofleet.prediction import Prediction
from zerofleet.rpc import codec
from zerofleet.rpc.channel import Channel, retrying, rpc_error, unary
from zerofleet.rpc.codec import BEST
from zerofleet.rpc.methods import INFERENCE
from zerofleet.rpc.prediction_stream import PredictionStream
from zerofleet.rpc.schema import open_inference as pb

# Messages in flight for batches split into several, over all batches of a connection: one is
# computed, one is on its way in, and one on its way out.
_IN_FLIGHT = 4
_READY_SECONDS = 2.0  # a server that is up answers at once


class AsyncModel:
    """Predicts batches of any size; for ``async with``. It is a ``Predictor``.

    Each message of ``predict`` is its own call, and several run at once. They spread over all
    servers of an address, and a token of the role ``client`` is enough. A worker, which predicts
    continuously, is better served by ``stream``.

    Args:
        address: ``host:port``, ``unix:path`` or any gRPC target.
        run: name of the run whose models answer.
        version: model version; ``"best"``: whichever is promoted at the moment.
        precision: the variant that must answer (``fp32``, ``int8``, ``fp16``); None leaves it to
            the server.
        message_rows: most rows of one message; larger batches are split.
        timeout: seconds for the answer to a message, all tries together.
        tls_folder, token_file, allow_plaintext: see ``AsyncPlayer``.

    Raises:
        ConfigError: on entering, if a file cannot be used, or the connection would be plaintext to
            another machine.
    """

    def __init__(
        self,
        address: str,
        run: str,
        *,
        version: int | str = BEST,
        precision: str | None = None,
        message_rows: int = 256,
        timeout: float = 30.0,
        tls_folder: str | Path | None = None,
        token_file: str | Path | None = None,
        allow_plaintext: bool = False,
    ) -> None:
        if message_rows < 1:
            raise InvalidRequestError(f"message_rows is {message_rows}: give 1 or more")
        self._address = address
        self._connect = lambda: Channel(
            address, tls_folder=tls_folder, token_file=token_file, allow_plaintext=allow_plaintext
        )
        self._run = run
        self._version = str(version)
        self._precision = precision
        self._message_rows = message_rows
        self._timeout = timeout

    async def __aenter__(self) -> Self:
        self._channel = channel = self._connect()
        self._room = asyncio.Semaphore(_IN_FLIGHT)
        self._infer = unary(
            channel, INFERENCE, "ModelInfer", pb.ModelInferRequest, pb.ModelInferResponse
        )
        self._server_ready = unary(
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
        """Return whether the server answers now and has its best model; not retried.

        Raises:
            AccessDeniedError: it refuses this token.
        """
        try:
            answer = await self._server_ready(
                pb.ServerReadyRequest(), timeout=min(_READY_SECONDS, self._timeout)
            )
        except grpc.aio.AioRpcError as error:
            failure = rpc_error(self._address, error)
            if isinstance(failure, AccessDeniedError):
                raise failure from error
            return False
        return answer.ready

    async def ready(self, version: int | str | None = None) -> bool:
        """Return whether a version answers, after waiting for it to be loaded.

        Args:
            version: model version; None: the one given to the constructor.

        Returns:
            False also if the server has no such run or version.

        Raises:
            ModelNotFoundError: the same, from servers that answer with an error instead.
            AccessDeniedError: the server refuses this token, or its role.
            InferenceUnavailableError: no answer came within the timeout.
        """
        request = pb.ModelReadyRequest(name=self._run, version=self._chosen(version))
        answer = await retrying(
            self._address, self._timeout, lambda left: self._model_ready(request, timeout=left)
        )
        return answer.ready

    async def predict(
        self,
        observations: NDArray[np.uint8],
        version: int | str | None = None,
        precision: str | None = None,
    ) -> Prediction:
        """Predict any number of rows; one version of the model answers all of them.

        Args:
            observations: bit-packed planes, ``[rows, observation_bytes]`` uint8.
                ``zerofleet.games.State(game).observation()`` returns one row.
            version: model version; None: the one given to the constructor.
            precision: the variant that must answer; None: the one given to the constructor.

        Raises:
            ModelNotFoundError: no such run or version, or no accepted variant of it.
            InvalidRequestError: the array does not fit the model.
            OverloadedError: the server's queue is full; back off first.
            AccessDeniedError: the server refuses the token.
            InferenceUnavailableError: no answer came within the timeout.
        """
        chosen, precision = self._chosen(version), precision or self._precision
        if len(observations) <= self._message_rows:
            return await self._ask(observations, chosen, precision)
        starts = range(0, len(observations), self._message_rows)
        parts = [observations[start : start + self._message_rows] for start in starts]

        async def ask(part: NDArray[np.uint8]) -> Prediction:
            async with self._room:
                return await self._ask(part, chosen, precision)

        tasks = [asyncio.create_task(ask(part)) for part in parts]
        try:
            answers = await asyncio.gather(*tasks)
        finally:  # one error is enough: the rest need not be sent
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        newest = max(answer.model_version for answer in answers)
        for number, part in enumerate(parts):
            if answers[number].model_version != newest:  # a promotion came in between
                answers[number] = await self._ask(part, str(newest), precision)
        return _joined(answers)

    def stream(
        self, version: int | str | None = None, precision: str | None = None
    ) -> PredictionStream:
        """Return one long-lived stream to the run's models, for ``async with``: a ``Predictor``.

        Args:
            version: model version; None: the one given to the constructor.
            precision: the variant that must answer; None: the one given to the constructor.
        """
        return PredictionStream(
            self._channel,
            self._address,
            model=self._run,
            version=self._chosen(version),
            precision=precision or self._precision,
            timeout=self._timeout,
        )

    def _chosen(self, version: int | str | None) -> str:
        return self._version if version is None else str(version)

    async def _ask(
        self, observations: NDArray[np.uint8], version: str, precision: str | None
    ) -> Prediction:
        request = codec.encode_request(self._run, version, observations, precision=precision)
        answer = await retrying(
            self._address, self._timeout, lambda left: self._infer(request, timeout=left)
        )
        return codec.decode_response(answer, len(observations), precision)


def _joined(parts: list[Prediction]) -> Prediction:
    return Prediction(
        np.concatenate([part.policy_logits for part in parts]),
        np.concatenate([part.value for part in parts]),
        parts[0].model_version,
        parts[0].precision if len({part.precision for part in parts}) == 1 else "",
        parts[0].sha256 if len({part.sha256 for part in parts}) == 1 else "",
    )
