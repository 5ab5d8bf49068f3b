"""The Open Inference Protocol's service over an ``InferenceBackend``."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

import zerofleet
from zerofleet.errors import ModelNotFoundError
from zerofleet.rpc import codec
from zerofleet.rpc.answer_stream import AnswerStream, UnsentBytes
from zerofleet.rpc.inference_backend import Duration, InferenceBackend, ModelCounters
from zerofleet.rpc.schema import open_inference as pb

_Context = grpc.aio.ServicerContext[Any, Any]

PLATFORM = "onnxruntime_onnx"  # as Triton has it
# Extensions of Triton that this server has, whole: of model_repository it has the index alone.
EXTENSIONS = ("model_configuration", "statistics")


class InferenceServicer:
    """Methods are named as the protocol names them; errors are the interceptor's work.

    Args:
        backend: answers.
        unsent_bytes: see ``Limits``.
    """

    def __init__(self, backend: InferenceBackend, unsent_bytes: int) -> None:
        self._backend = backend
        self._unsent = UnsentBytes(unsent_bytes)
        self._streams: set[AnswerStream] = set()
        self._draining = False

    def drain(self) -> None:
        """Take no more from open streams: answer what has come, then end them."""
        self._draining = True
        for stream in self._streams:
            stream.drain()

    async def ServerLive(  # noqa: N802
        self, request: pb.ServerLiveRequest, context: _Context
    ) -> pb.ServerLiveResponse:
        """A process that answers is alive."""
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(  # noqa: N802
        self, request: pb.ServerReadyRequest, context: _Context
    ) -> pb.ServerReadyResponse:
        """Ready once the best model is loaded, until shutdown begins."""
        return pb.ServerReadyResponse(ready=self._backend.ready() and not self._draining)

    async def ModelReady(  # noqa: N802
        self, request: pb.ModelReadyRequest, context: _Context
    ) -> pb.ModelReadyResponse:
        """A version that is not loaded yet is loaded to find out; an unknown one is not ready."""
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
        """Name, version, extensions, and what the models run on, as one more extension."""
        return pb.ServerMetadataResponse(
            name="zerofleet",
            version=zerofleet.__version__,
            extensions=[*EXTENSIONS, f"provider={self._backend.provider}"],
        )

    async def ModelMetadata(  # noqa: N802
        self, request: pb.ModelMetadataRequest, context: _Context
    ) -> pb.ModelMetadataResponse:
        """Tensors with their batch dimension (-1)."""
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
        """Tensors without their batch dimension, the batcher's limits, provider and precision."""
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
        # One number for each row: dims may not be empty, the reshape says that the shape is.
        value = config.output.add(name=codec.VALUE, data_type=pb.TYPE_FP32, dims=[1])
        value.reshape.SetInParent()
        for name, text in self._backend.parameters(request.name, version).items():
            config.parameters[name].string_value = text
        return pb.ModelConfigResponse(config=config)

    async def ModelStatistics(  # noqa: N802
        self, request: pb.ModelStatisticsRequest, context: _Context
    ) -> pb.ModelStatisticsResponse:
        """Counters of the versions in memory: of every run, of one, or of one version."""
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
        """Known versions with their state."""
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
        """One batch."""
        outputs = codec.requested_outputs(request)
        observations = codec.decode_request(request, self._backend.shape(request.model_name))
        prediction = await self._backend.submit(
            request.model_name,
            codec.parse_version(request.model_name, request.model_version),
            observations,
            _deadline(context.time_remaining()),
            codec.requested_precision(request),
        )
        return codec.encode_response(request.model_name, request.id, prediction, outputs)

    async def ModelStreamInfer(  # noqa: N802
        self, requests: AsyncIterator[pb.ModelInferRequest], context: _Context
    ) -> None:
        """Many batches, answered as they are done."""
        stream = AnswerStream(self._backend, context, self._unsent)
        self._streams.add(stream)
        try:
            await stream.run(self._draining)
        finally:
            self._streams.discard(stream)


def _deadline(remaining: float | None) -> float | None:
    """By ``time.monotonic()``; a client may have set none."""
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
