"""Many predictions in flight over one long-lived ``ModelStreamInfer`` call.

A stream may end at any time: its server restarts, a proxy closes it, or it has reached its
lifetime. Predictions are pure, so unanswered ones are sent again over the next stream, and the
caller notices nothing until its timeout is over.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import grpc
import grpc.aio
import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import AccessDeniedError, InferenceUnavailableError, ZerofleetError
from zerofleet.prediction import Prediction
from zerofleet.rpc import codec
from zerofleet.rpc.channel import Channel, both_streams, call_backoff, rpc_error
from zerofleet.rpc.methods import INFERENCE, code_from_name, error_of
from zerofleet.rpc.schema import open_inference as pb
from zerofleet.waiting import Backoff

_Call = grpc.aio.StreamStreamCall[pb.ModelInferRequest, pb.ModelStreamInferResponse]

# A stream is replaced after this long (with jitter), so that workers spread over new servers.
_LIFETIME_SECONDS = 300.0


@dataclass(slots=True, eq=False)
class _Question:
    """A request without an answer yet."""

    request: pb.ModelInferRequest
    rows: int
    deadline: float
    answer: asyncio.Future[Prediction]
    backoff: Backoff = field(default_factory=call_backoff)  # while the server refuses it
    last_error: str = field(default="")


class PredictionStream:
    """A ``Predictor`` over one stream, for ``async with``; made by ``AsyncModel.stream``."""

    def __init__(
        self,
        channel: grpc.aio.Channel | Channel,
        address: str,
        *,
        model: str,
        version: str,
        timeout: float,
        precision: str | None = None,
        lifetime: float = _LIFETIME_SECONDS,
    ) -> None:
        self._open = stream_infer(channel)
        self._address = address
        self._model = model
        self.version = version
        """Version for predictions from now on: decimal, or "best"."""
        self._precision = precision
        self._timeout = timeout
        self._lifetime = lifetime
        self._ids = itertools.count(1)
        self._questions: dict[str, _Question] = {}  # unanswered ones, oldest first
        self._outbox: deque[str] = deque()  # IDs that this stream has not sent yet
        self._wake = asyncio.Event()
        self._call: _Call | None = None
        self._retired = False
        self._last_answer = 0.0
        self._last_error = "no connection yet"

    async def __aenter__(self) -> Self:
        self._runner = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runner.cancel()
        # Gathered, so that the runner's cancellation is not mistaken for our caller's.
        await asyncio.gather(self._runner, return_exceptions=True)

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict a batch; any number of calls may wait at once.

        Args:
            observations: bit-packed planes, ``[batch, observation_bytes]`` uint8.

        Raises:
            ModelNotFoundError: no such model or version.
            InvalidRequestError: the array does not fit the model.
            OverloadedError: the server's queue is full; back off first.
            AccessDeniedError: the server refuses this token, or its role.
            InferenceUnavailableError: no server answered within the timeout.
        """
        if self._runner.done():
            raise InferenceUnavailableError("the stream was closed")
        request_id = str(next(self._ids))
        question = _Question(
            codec.encode_request(
                self._model, self.version, observations, request_id, self._precision
            ),
            len(observations),
            time.monotonic() + self._timeout,
            asyncio.get_running_loop().create_future(),
        )
        self._questions[request_id] = question
        self._send(request_id)
        try:
            async with asyncio.timeout(self._timeout):
                return await question.answer
        except TimeoutError:
            self._hang_up_if_silent()
            reason = question.last_error or self._last_error
            raise InferenceUnavailableError(
                f"inference at {self._address} gave no answer in {self._timeout:g} s: {reason}"
            ) from None
        finally:
            del self._questions[request_id]

    def _send(self, request_id: str) -> None:
        self._outbox.append(request_id)
        self._wake.set()

    def _hang_up_if_silent(self) -> None:
        """End a stream that has stopped answering, so that the next try uses a new one."""
        if self._call is not None and time.monotonic() - self._last_answer >= self._timeout:
            self._call.cancel()

    async def _run(self) -> None:
        backoff = call_backoff()
        try:
            while True:
                while not self._questions:
                    self._wake.clear()
                    await self._wake.wait()
                if await self._converse():
                    backoff.reset()
                else:
                    await backoff.sleep()
        finally:
            self._give_up(InferenceUnavailableError("the stream was closed"))

    async def _converse(self) -> bool:
        """Run one stream until it ends; return whether at least one answer came."""
        lifetime = self._lifetime * random.uniform(0.8, 1.2)  # nosec B311
        self._retired = False
        retirement = asyncio.get_running_loop().call_later(lifetime, self._retire)
        self._call = call = self._open(timeout=lifetime + 2 * self._timeout)
        self._outbox = deque(self._questions)
        reader = asyncio.create_task(self._read(call))
        writer = asyncio.create_task(self._write(call))
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            if writer.done() and not writer.cancelled() and writer.exception() is None:
                await asyncio.wait({reader})  # the last answers of a retired stream
        finally:
            retirement.cancel()
            call.cancel()
            self._call = None
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
        return reader.result() if not reader.cancelled() else False

    def _retire(self) -> None:
        self._retired = True
        self._wake.set()

    async def _write(self, call: _Call) -> None:
        while not self._retired:
            while self._outbox:
                question = self._questions.get(self._outbox.popleft())
                if question is not None and not question.answer.done():
                    left = question.deadline - time.monotonic()
                    question.request.parameters["timeout"].int64_param = max(1, int(left * 1e6))
                    await call.write(question.request)
            self._wake.clear()
            await self._wake.wait()
        await call.done_writing()

    async def _read(self, call: _Call) -> bool:
        answered = False
        try:
            while isinstance(answer := await call.read(), pb.ModelStreamInferResponse):
                answered = True
                self._take(answer)
            self._last_error = "the server ended the stream"
        except grpc.aio.AioRpcError as error:
            self._last_error = f"{error.code().name}: {error.details()}"
            denied = rpc_error(self._address, error)
            if isinstance(denied, AccessDeniedError):
                self._give_up(denied)
        return answered

    def _give_up(self, error: ZerofleetError) -> None:
        """Fail every open request; the next request opens another stream."""
        for question in self._questions.values():
            if not question.answer.done():
                question.answer.set_exception(error)

    def _take(self, answer: pb.ModelStreamInferResponse) -> None:
        self._last_answer = time.monotonic()
        response = answer.infer_response
        question = self._questions.get(response.id)
        if question is None and answer.error_message:
            self._last_error = answer.error_message  # the server could not name the request
        if question is None or question.answer.done():
            return
        if answer.error_message:
            self._refused(response, answer.error_message, question)
            return
        try:
            prediction = codec.decode_response(response, question.rows, self._precision)
            question.answer.set_result(prediction)
        except ZerofleetError as error:
            question.answer.set_exception(error)

    def _refused(self, response: pb.ModelInferResponse, message: str, question: _Question) -> None:
        code = code_from_name(response.parameters["status"].string_param)
        if code is not grpc.StatusCode.UNAVAILABLE:
            question.answer.set_exception(error_of(code, message))
            return
        # The server cannot answer yet (for example, no model is promoted): retry until the timeout.
        question.last_error = message
        pause = question.backoff.delay()
        asyncio.get_running_loop().call_later(pause, self._send, response.id)


def stream_infer(
    channel: grpc.aio.Channel | Channel,
) -> grpc.aio.StreamStreamMultiCallable[pb.ModelInferRequest, pb.ModelStreamInferResponse]:
    """Return the callable of ``ModelStreamInfer``, for a ``PredictionStream``."""
    return both_streams(
        channel, INFERENCE, "ModelStreamInfer", pb.ModelInferRequest, pb.ModelStreamInferResponse
    )
