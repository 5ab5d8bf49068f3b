"""The Open Inference Protocol's service over an ``InferenceBackend``, which runs the models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
import grpc.aio
import numpy as np
import structlog
from numpy.typing import NDArray

import zerofleet
from zerofleet.errors import InvalidRequestError, ModelNotFoundError, ZerofleetError
from zerofleet.prediction import Prediction
from zerofleet.rpc import codec
from zerofleet.rpc.codec import RequestShape
from zerofleet.rpc.methods import Malformed, code_of, message_of
from zerofleet.rpc.schema import open_inference as pb

_log = structlog.get_logger()

_Context = grpc.aio.ServicerContext[Any, Any]
_Answer = tuple[pb.ModelStreamInferResponse, int, int]  # with the rows and bytes that it holds

# Stop reading a stream while it has this many requests, full batches of rows, or bytes outstanding.
# Answers that the client does not read count too.
_MAX_IN_FLIGHT = 256
_MAX_FULL_BATCHES = 8
_MAX_UNSENT_BYTES = 8 << 20
# An answer of one row takes 3.1 kB, of which ByteSize reports a tenth; measured.
_ANSWER_BYTES = 3072

PLATFORM = "onnxruntime_onnx"  # Triton's name for it
# Extensions of Triton that this server has in full; only the index of model_repository is here.
EXTENSIONS = ("model_configuration", "statistics")


@dataclass(frozen=True, slots=True)
class Duration:
    """Count of an event, and the nanoseconds of all its occurrences together."""

    count: int = 0
    ns: int = 0


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """Batches of one size."""

    rows: int
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


@dataclass(frozen=True, slots=True)
class ModelCounters:
    """Counters of one model since it was loaded.

    ``success``, ``queue`` and the three ``compute_*`` have equal counts (answered requests), as
    measuring clients require.
    """

    version: int
    rows: int = 0
    executions: int = 0
    last_inference_ms: int = 0
    success: Duration = Duration()
    fail: Duration = Duration()
    queue: Duration = Duration()
    compute_input: Duration = Duration()
    compute_infer: Duration = Duration()
    compute_output: Duration = Duration()
    batches: Sequence[BatchStatistics] = field(default=())


@dataclass(frozen=True, slots=True)
class ModelState:
    """One known version; ``reason`` says why it is not ready."""

    run: str
    version: int
    ready: bool
    reason: str = ""


class InferenceBackend(Protocol):
    """Runs models; versions are numbers, and None stands for the best one."""

    def ready(self) -> bool:
        """Whether the best model is loaded."""
        ...

    def runs(self) -> Sequence[str]:
        """Return the runs whose models are served here."""
        ...

    @property
    def provider(self) -> str:
        """The execution provider: cpu, cuda, tensorrt or openvino."""
        ...

    def shape(self, run: str) -> RequestShape:
        """Return the sizes of requests and answers of a run.

        Raises:
            ModelNotFoundError: not a run of this server.
        """
        ...

    def submit(
        self,
        run: str,
        version: int | None,
        observations: NDArray[np.uint8],
        deadline: float | None,
        precision: str | None = None,
    ) -> asyncio.Future[Prediction]:
        """Queue a batch. Cancelling the future removes it from the queue.

        Args:
            run: a run that ``shape`` knows.
            version: None for the best.
            observations: ``[rows, observation_bytes]`` uint8, checked.
            deadline: by ``time.monotonic()``; rows still waiting then are dropped.
            precision: the variant that must answer; None: this server's choice.

        Raises:
            ZerofleetError: at once or from the future.
        """
        ...

    async def model_ready(self, run: str, version: int | None) -> bool:
        """Return whether the version answers; load it first if necessary."""
        ...

    async def check(self, run: str, version: int | None) -> None:
        """Check that the version exists.

        Raises:
            ModelNotFoundError: it does not.
        """
        ...

    def loaded_versions(self, run: str) -> list[int]:
        """Return the versions in memory, ascending."""
        ...

    def parameters(self, run: str, version: int | None) -> Mapping[str, str]:
        """Return how a version runs, for clients: its provider and its precision."""
        ...

    def counters(self, run: str) -> list[ModelCounters]:
        """Return the counters of the versions in memory."""
        ...

    async def index(self) -> list[ModelState]:
        """Return every known version."""
        ...


@dataclass(slots=True)
class UnsentBytes:
    """Bytes of answers that clients have not read yet, over all streams of a server."""

    most: int
    total: int = 0


class AnswerStream:
    """Answers the requests of one ``ModelStreamInfer`` call until the client or server ends it.

    One reader takes requests, and one writer sends answers as batches finish, because gRPC forbids
    two writes at once. No task is made for a request. While a client does not read its answers, its
    requests are not read.

    Args:
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
        self._rows = 0  # in requests that are unanswered or unsent
        self._unsent_bytes = 0
        self._ended = False
        self._sent = asyncio.Event()
        self._drained = asyncio.Event()

    def drain(self) -> None:
        """Stop reading; end the stream when everything that was read is answered."""
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
            reader.cancel()  # otherwise a client that never pauses would be answered forever
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
            await asyncio.sleep(0)  # the futures' callbacks run after their waiters wake
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
            except Exception as error:  # the next request may be valid
                self._put(_failure(request.id, error), 0)

    def _is_full(self) -> bool:
        """Return whether the client must read answers before more is read from it.

        When the server-wide limit is reached, each stream may have one request in flight. A client
        that reads continues, and one that does not adds at most one answer.
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
        future = self._backend.submit(
            run, version, observations, _request_deadline(request), precision
        )
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
        if self._ended:  # the answer was done at the same moment
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
    """Raise the error that ended a writer.

    A client that is gone is not an error: such a call is cancelled, as gRPC does a moment later.
    """
    try:
        writer.result()
    except grpc.aio.InternalError as error:
        raise asyncio.CancelledError from error


def _request_deadline(request: pb.ModelInferRequest) -> float | None:
    """Return the deadline of a request of a stream, by ``time.monotonic()``."""
    if "timeout" not in request.parameters:
        return None
    timeout = request.parameters["timeout"]
    microseconds = timeout.int64_param or timeout.uint64_param
    return time.monotonic() + microseconds / 1e6 if microseconds > 0 else None


def _failure(request_id: str, error: BaseException) -> pb.ModelStreamInferResponse:
    if not isinstance(error, ZerofleetError):
        _log.error("request_failed", exc_info=error)
    code = code_of(error)
    response = pb.ModelInferResponse(id=request_id[: codec.MOST_ID_CHARACTERS])
    response.parameters["status"].string_param = code.name
    return pb.ModelStreamInferResponse(
        error_message=message_of(error) or code.name, infer_response=response
    )


class InferenceServicer:
    """Methods have the protocol's names; the interceptor turns errors into status codes.

    Args:
        unsent_bytes: see ``Limits``.
    """

    def __init__(self, backend: InferenceBackend, unsent_bytes: int) -> None:
        self._backend = backend
        self._unsent = UnsentBytes(unsent_bytes)
        self._streams: set[AnswerStream] = set()
        self._draining = False

    def drain(self) -> None:
        """Stop reading open streams: answer the ones read, then end the streams."""
        self._draining = True
        for stream in self._streams:
            stream.drain()

    async def ServerLive(  # noqa: N802
        self, request: pb.ServerLiveRequest, context: _Context
    ) -> pb.ServerLiveResponse:
        """Report alive: a process that answers is."""
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(  # noqa: N802
        self, request: pb.ServerReadyRequest, context: _Context
    ) -> pb.ServerReadyResponse:
        """Report ready once the best model is loaded, until shutdown begins."""
        return pb.ServerReadyResponse(ready=self._backend.ready() and not self._draining)

    async def ModelReady(  # noqa: N802
        self, request: pb.ModelReadyRequest, context: _Context
    ) -> pb.ModelReadyResponse:
        """Load a version if necessary, and report whether it is ready; an unknown one is not."""
        try:
            self._backend.shape(request.name)
            version = codec.parse_version(request.name, request.version)
            ready = await self._backend.model_ready(request.name, version)
        except ModelNotFoundError:
            ready = False
        return pb.ModelReadyResponse(ready=ready)

    async def ServerMetadata(  # noqa: N802
        self, request: pb.ServerMetadataRequest, context: _Context
    ) -> pb.ServerMetadataResponse:
        """Return name, version, extensions, and the execution provider as one more extension."""
        return pb.ServerMetadataResponse(
            name="zerofleet",
            version=zerofleet.__version__,
            extensions=[*EXTENSIONS, f"provider={self._backend.provider}"],
        )

    async def ModelMetadata(  # noqa: N802
        self, request: pb.ModelMetadataRequest, context: _Context
    ) -> pb.ModelMetadataResponse:
        """Return the tensors with their batch dimension (-1)."""
        shape = self._backend.shape(request.name)
        await self._backend.check(request.name, codec.parse_version(request.name, request.version))
        tensor = pb.ModelMetadataResponse.TensorMetadata
        return pb.ModelMetadataResponse(
            name=request.name,
            versions=[str(version) for version in self._backend.loaded_versions(request.name)],
            platform=PLATFORM,
            inputs=[
                tensor(
                    name=codec.OBSERVATION, datatype="UINT8", shape=[-1, shape.observation_bytes]
                )
            ],
            outputs=[
                tensor(name=codec.POLICY_LOGITS, datatype="FP16", shape=[-1, shape.num_actions]),
                tensor(name=codec.VALUE, datatype="FP32", shape=[-1]),
            ],
        )

    async def ModelConfig(  # noqa: N802
        self, request: pb.ModelConfigRequest, context: _Context
    ) -> pb.ModelConfigResponse:
        """Return tensors without batch dimension, the batcher's limits, provider and precision."""
        shape = self._backend.shape(request.name)
        version = codec.parse_version(request.name, request.version)
        await self._backend.check(request.name, version)
        config = pb.ModelConfig(
            name=request.name,
            platform=PLATFORM,
            backend="onnxruntime",
            max_batch_size=shape.max_batch_rows,
            default_model_filename="model.onnx",
            dynamic_batching=pb.ModelDynamicBatching(max_queue_delay_microseconds=0),
            model_transaction_policy=pb.ModelTransactionPolicy(decoupled=False),
        )
        config.input.add(
            name=codec.OBSERVATION, data_type=pb.TYPE_UINT8, dims=[shape.observation_bytes]
        )
        config.output.add(
            name=codec.POLICY_LOGITS, data_type=pb.TYPE_FP16, dims=[shape.num_actions]
        )
        # One number for each row: dims may not be empty, and the reshape says that the shape is.
        value = config.output.add(name=codec.VALUE, data_type=pb.TYPE_FP32, dims=[1])
        value.reshape.SetInParent()
        for name, text in self._backend.parameters(request.name, version).items():
            config.parameters[name].string_value = text
        return pb.ModelConfigResponse(config=config)

    async def ModelStatistics(  # noqa: N802
        self, request: pb.ModelStatisticsRequest, context: _Context
    ) -> pb.ModelStatisticsResponse:
        """Return counters of the versions in memory: of every run, of one, or of one version."""
        version = codec.parse_version(request.name, request.version)
        if request.name:
            self._backend.shape(request.name)
            await self._backend.check(request.name, version)
        return pb.ModelStatisticsResponse(
            model_stats=[
                _statistics(run, counters)
                for run in self._backend.runs()
                for counters in self._backend.counters(run)
                if request.name in ("", run) and version in (None, counters.version)
            ]
        )

    async def RepositoryIndex(  # noqa: N802
        self, request: pb.RepositoryIndexRequest, context: _Context
    ) -> pb.RepositoryIndexResponse:
        """Return the known versions with their state."""
        response = pb.RepositoryIndexResponse()
        for model in await self._backend.index():
            if model.ready or not request.ready:
                response.models.add(
                    name=model.run,
                    version=str(model.version),
                    state="READY" if model.ready else "UNAVAILABLE",
                    reason=model.reason,
                )
        return response

    async def ModelInfer(  # noqa: N802
        self, request: pb.ModelInferRequest, context: _Context
    ) -> pb.ModelInferResponse:
        """Predict one batch."""
        outputs = codec.requested_outputs(request)
        observations = codec.decode_request(request, self._backend.shape(request.model_name))
        prediction = await self._backend.submit(
            request.model_name,
            codec.parse_version(request.model_name, request.model_version),
            observations,
            _call_deadline(context.time_remaining()),
            codec.requested_precision(request),
        )
        return codec.encode_response(request.model_name, request.id, prediction, outputs)

    async def ModelStreamInfer(  # noqa: N802
        self, requests: AsyncIterator[pb.ModelInferRequest], context: _Context
    ) -> None:
        """Predict many batches, and answer each as it finishes."""
        stream = AnswerStream(self._backend, context, self._unsent)
        self._streams.add(stream)
        try:
            await stream.run(self._draining)
        finally:
            self._streams.discard(stream)


def _call_deadline(remaining: float | None) -> float | None:
    """Return the deadline of a call, by ``time.monotonic()``; None if the client set none."""
    return None if remaining is None else time.monotonic() + remaining


def _duration(duration: Duration) -> pb.StatisticDuration:
    return pb.StatisticDuration(count=duration.count, ns=duration.ns)


def _statistics(run: str, counters: ModelCounters) -> pb.ModelStatistics:
    return pb.ModelStatistics(
        name=run,
        version=str(counters.version),
        last_inference=counters.last_inference_ms,
        inference_count=counters.rows,
        execution_count=counters.executions,
        inference_stats=pb.InferStatistics(
            success=_duration(counters.success),
            fail=_duration(counters.fail),
            queue=_duration(counters.queue),
            compute_input=_duration(counters.compute_input),
            compute_infer=_duration(counters.compute_infer),
            compute_output=_duration(counters.compute_output),
        ),
        batch_stats=[
            pb.InferBatchStatistics(
                batch_size=batch.rows,
                compute_input=_duration(batch.compute_input),
                compute_infer=_duration(batch.compute_infer),
                compute_output=_duration(batch.compute_output),
            )
            for batch in counters.batches
        ],
    )
