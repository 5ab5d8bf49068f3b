"""The server's side of one ``ModelStreamInfer`` call.

One reader takes requests, one writer sends answers as batches finish (gRPC forbids two writes at
once), and no task is made for a request. A client that does not read its answers is not read from.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import structlog

from zerofleet.errors import InvalidRequestError, ZerofleetError
from zerofleet.prediction import Prediction
from zerofleet.rpc import codec, status_codes
from zerofleet.rpc.inference_backend import InferenceBackend
from zerofleet.rpc.methods import Malformed
from zerofleet.rpc.schema import open_inference as pb

_log = structlog.get_logger()

_Context = grpc.aio.ServicerContext[Any, Any]
_Answer = tuple[pb.ModelStreamInferResponse, int, int]  # with the rows and bytes that it holds

# A stream is not read from while so many of its requests, or of their rows in full batches, are
# unanswered or unsent, or so many bytes unsent: answers that the client does not take stay here.
_MAX_IN_FLIGHT = 256
_MAX_FULL_BATCHES = 8
_MAX_UNSENT_BYTES = 8 << 20
# An answer of one row holds 3.1 kB, of which ByteSize knows a tenth; measured.
_ANSWER_BYTES = 3072


@dataclass(slots=True)
class UnsentBytes:
    """Of answers that their clients have not taken yet, over all streams of a server."""

    most: int
    total: int = 0


class AnswerStream:
    """Answers the requests of one stream until the client or the server ends it.

    Args:
        backend: answers.
        context: of the call.
        unsent: shared by all streams of the server.
    """

    def __init__(self, backend: InferenceBackend, context: _Context, unsent: UnsentBytes) -> None:
        self._backend = backend
        self._context = context
        self._all_unsent = unsent
        self._pending: set[asyncio.Future[Prediction]] = set()
        self._answers: asyncio.Queue[_Answer | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(_MAX_IN_FLIGHT)
        rows = max((backend.shape(run).max_batch_rows for run in backend.runs()), default=1)
        self._most_rows = _MAX_FULL_BATCHES * rows
        self._rows = 0  # of requests that are unanswered or unsent
        self._unsent_bytes = 0
        self._ended = False
        self._sent = asyncio.Event()
        self._drained = asyncio.Event()

    def drain(self) -> None:
        """Read no more; end the stream when what was read is answered."""
        self._drained.set()

    async def run(self, draining: bool) -> None:
        """Serve the stream to its end."""
        if draining:
            await self._context.abort(grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
        reader = asyncio.create_task(self._read())
        writer = asyncio.create_task(self._write())
        drained = asyncio.create_task(self._drained.wait())
        try:
            await asyncio.wait({reader, writer, drained}, return_when=asyncio.FIRST_COMPLETED)
            ended = reader.done()
            reader.cancel()  # or a client that never pauses would be answered for ever
            if not writer.done():
                await self._finish(writer)
            _check_sent(writer)
            if not ended:
                await self._context.abort(
                    grpc.StatusCode.UNAVAILABLE, "the server is shutting down"
                )
            reader.result()
        finally:
            tasks = (reader, writer, drained)
            for task in tasks:
                task.cancel()
            for future in self._pending:
                future.cancel()
            self._ended = True
            self._all_unsent.total -= self._unsent_bytes
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _finish(self, writer: asyncio.Task[None]) -> None:
        """Wait for the answers to everything that was read, then for the writer to send them."""
        while self._pending:
            await asyncio.wait(self._pending)
            await asyncio.sleep(0)  # the futures' callbacks run after those who wait are woken
        self._answers.put_nowait(None)
        await asyncio.wait({writer})

    async def _read(self) -> None:
        while True:
            await self._room.acquire()
            while self._is_full():
                self._sent.clear()
                await self._sent.wait()
            request = await self._context.read()
            if isinstance(request, Malformed):
                error = InvalidRequestError("the message is not a ModelInferRequest")
                self._put(_failure("", error), 0)
                continue
            if not isinstance(request, pb.ModelInferRequest):
                return
            try:
                self._submit(request)
            except Exception as error:  # the next request may well be a good one
                self._put(_failure(request.id, error), 0)

    def _is_full(self) -> bool:
        """Whether the client has to take answers before more is read from it.

        While all streams together hold too much, that is each request of its own: a client that
        reads goes on, and one that does not adds one answer, whoever has filled the server.
        """
        return (
            self._rows >= self._most_rows
            or self._unsent_bytes >= _MAX_UNSENT_BYTES
            or (
                (self._rows > 0 or self._unsent_bytes > 0)
                and self._all_unsent.total >= self._all_unsent.most
            )
        )

    def _submit(self, request: pb.ModelInferRequest) -> None:
        outputs = codec.requested_outputs(request)
        run, request_id = request.model_name, request.id
        observations = codec.decode_request(request, self._backend.shape(run))
        version = codec.parse_version(run, request.model_version)
        precision = codec.requested_precision(request)
        rows = len(observations)
        future = self._backend.submit(run, version, observations, _deadline(request), precision)
        self._rows += rows

        def answer(done: asyncio.Future[Prediction]) -> None:
            self._pending.discard(done)
            if done.cancelled():
                return
            error = done.exception()
            if error is not None:
                self._put(_failure(request_id, error), rows)
                return
            response = codec.encode_response(run, request_id, done.result(), outputs)
            self._put(pb.ModelStreamInferResponse(infer_response=response), rows)

        self._pending.add(future)
        future.add_done_callback(answer)

    def _put(self, answer: pb.ModelStreamInferResponse, rows: int) -> None:
        if self._ended:  # the answer was done in the same moment
            return
        size = answer.ByteSize() + _ANSWER_BYTES
        self._unsent_bytes += size
        self._all_unsent.total += size
        self._answers.put_nowait((answer, rows, size))

    async def _write(self) -> None:
        while (finished := await self._answers.get()) is not None:
            answer, rows, size = finished
            await self._context.write(answer)
            self._room.release()
            self._rows -= rows
            self._unsent_bytes -= size
            self._all_unsent.total -= size
            self._sent.set()


def _check_sent(writer: asyncio.Task[None]) -> None:
    """Raise what has ended a writer.

    A client that is gone is no error: such a call is cancelled, as gRPC does a moment later.
    """
    try:
        writer.result()
    except grpc.aio.InternalError as error:
        raise asyncio.CancelledError from error


def _deadline(request: pb.ModelInferRequest) -> float | None:
    """The deadline of a request, by ``time.monotonic()``."""
    if "timeout" not in request.parameters:
        return None
    timeout = request.parameters["timeout"]
    microseconds = timeout.int64_param or timeout.uint64_param
    return time.monotonic() + microseconds / 1e6 if microseconds > 0 else None


def _failure(request_id: str, error: BaseException) -> pb.ModelStreamInferResponse:
    if not isinstance(error, ZerofleetError):
        _log.error("request_failed", exc_info=error)
    code = status_codes.code_of(error)
    response = pb.ModelInferResponse(id=request_id[: codec.MOST_ID_CHARACTERS])
    response.parameters["status"].string_param = code.name
    return pb.ModelStreamInferResponse(
        error_message=status_codes.message_of(error) or code.name, infer_response=response
    )
