"""The autoscaler as KEDA meets it: a client made of the protocol's descriptor alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import message_factory

from zerofleet.config import ScalingSection
from zerofleet.fleet.figures import DemandFigures, InferenceFigures, SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.rpc.scaler import ScalerServer
from zerofleet.rpc.schema import service
from zerofleet.rpc.tls import ServerCredentials
from zerofleet.services.autoscaler.keda import KedaScaler, Watch

RUN = "scaled"
SECTION = ScalingSection(window_seconds=1e-6, every_seconds=1, max_workers=64)
SELFPLAY = {"scalerAddress": "autoscaler:9001", "role": "selfplay", "run": RUN}
INFERENCE = {"scalerAddress": "autoscaler:9001", "role": "inference"}


class Keda:
    """Calls in the order in which KEDA does, for one ScaledObject."""

    def __init__(self, channel: grpc.aio.Channel, metadata: Mapping[str, str]) -> None:
        self._channel = channel
        self._metadata = dict(metadata)
        self._methods = service("externalscaler.ExternalScaler").methods_by_name
        self.metric = ""

    async def meet(self) -> float:
        """The first thing it does; the metric's target for one replica."""
        found = await self._call("GetMetricSpec", self._reference("GetMetricSpec"))
        [spec] = found.metricSpecs
        self.metric = spec.metricName
        assert spec.targetSize == spec.targetSizeFloat
        return spec.targetSizeFloat

    async def poll(self) -> float:
        """Do what KEDA does at every poll and whenever the HPA asks; return the replicas."""
        kind = self._kind("GetMetrics")
        # KEDA has taken its own "s0-" off the name.
        request = kind(scaledObjectRef=self._reference("IsActive"), metricName=self.metric)
        found = await self._call("GetMetrics", request)
        assert (await self._call("IsActive", self._reference("IsActive"))).result
        [value] = found.metricValues
        assert value.metricName == self.metric
        assert value.metricValue == value.metricValueFloat
        return value.metricValueFloat

    def stream(self, method: str) -> Any:
        found = self._methods[method]
        response = message_factory.GetMessageClass(found.output_type)
        call = self._channel.unary_stream(
            f"/externalscaler.ExternalScaler/{method}",
            lambda message: message.SerializeToString(),
            response.FromString,
        )
        return call(self._reference(method))

    def _kind(self, method: str) -> Any:
        return message_factory.GetMessageClass(self._methods[method].input_type)

    def _reference(self, method: str) -> Any:
        return self._kind(method)(
            name="selfplay", namespace="zerofleet", scalerMetadata=self._metadata
        )

    async def _call(self, method: str, request: Any) -> Any:
        response = message_factory.GetMessageClass(self._methods[method].output_type)
        call = self._channel.unary_unary(
            f"/externalscaler.ExternalScaler/{method}",
            lambda message: message.SerializeToString(),
            response.FromString,
        )
        return await call(request, timeout=120)


class Scaled:
    """An autoscaler over a real Redis, looked at by hand."""

    def __init__(self, heartbeats: Heartbeats, watch: Watch, server: ScalerServer) -> None:
        self.heartbeats, self.watch, self.server = heartbeats, watch, server
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")

    def keda(self, metadata: Mapping[str, str] = SELFPLAY) -> Keda:
        return Keda(self.channel, metadata)

    def beat(self, workers: int, samples: float) -> None:
        """Workers that make 10 positions a second each."""
        demand = DemandFigures(samples_per_second=samples, reuse_target=4.0)
        inference = InferenceFigures(
            rows_per_second=100.0 * workers,
            capacity_rows_per_second=10_000.0,
            fill=0.3,
            queue_wait_per_compute=0.2,
        )
        play = SelfplayFigures(training_positions_per_second=10.0)
        beats = [Heartbeat("t", 1, "", TrainerFigures(demand=demand))]
        beats += [Heartbeat("i", 1, "", inference)]
        beats += [Heartbeat(f"w{number}", 1, "", play) for number in range(workers)]
        for beat in beats:
            self.heartbeats.beat(beat, ttl=600.0)


@pytest.fixture
async def scaled(valkey_url: str) -> AsyncGenerator[Scaled]:
    with contextlib.closing(Heartbeats(valkey_url, RUN)) as heartbeats:
        watch = Watch(heartbeats, SECTION)
        scaler = KedaScaler(RUN, watch)
        async with ScalerServer("127.0.0.1:0", scaler, ServerCredentials()) as server:
            found = Scaled(heartbeats, watch, server)
            yield found
            await found.channel.close()


async def test_polls_see_the_replicas_themselves(scaled: Scaled) -> None:
    keda = scaled.keda()
    assert await keda.meet() == 1.0
    assert keda.metric == "zerofleet-selfplay-replicas"
    scaled.beat(workers=3, samples=120.0)
    await scaled.watch.look()
    await scaled.watch.look()
    assert await keda.poll() == 3
    scaled.beat(workers=3, samples=180.0)
    await scaled.watch.look()
    assert [await keda.poll(), await keda.poll()] == [5, 5]


async def test_inference_has_a_metric_of_its_own(scaled: Scaled) -> None:
    scaled.beat(workers=2, samples=80.0)
    await scaled.watch.look()
    await scaled.watch.look()
    keda = scaled.keda(INFERENCE)
    await keda.meet()
    assert (keda.metric, await keda.poll()) == ("zerofleet-inference-replicas", 1)


async def test_before_anything_is_known_there_is_no_metric_and_all_is_active(
    scaled: Scaled,
) -> None:
    keda = scaled.keda()
    await keda.meet()
    await scaled.watch.look()
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await keda.poll()
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "no heartbeat of a self-play worker" in (failed.value.details() or "")
    stream = keda.stream("StreamIsActive")
    assert (await stream.read()).result
    stream.cancel()


async def test_when_redis_goes_away_the_last_answer_stands(
    scaled: Scaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaled.beat(workers=4, samples=160.0)
    await scaled.watch.look()
    await scaled.watch.look()
    with contextlib.closing(Heartbeats("redis://127.0.0.1:1/0", RUN)) as away:
        monkeypatch.setattr(scaled.watch, "_heartbeats", away)
        for _ in range(3):
            await scaled.watch.look()
    keda = scaled.keda()
    await keda.meet()
    assert await keda.poll() == 4
    assert scaled.watch.missed_looks == 3
    assert scaled.watch.answers is not None
    assert scaled.watch.answers.selfplay.text == "4: held: Redis does not answer"
    assert scaled.watch.pulse().waiting_for == "Redis"


async def test_both_streams_say_it_at_once_and_end_when_the_server_drains(scaled: Scaled) -> None:
    keda = scaled.keda()
    active, specs = keda.stream("StreamIsActive"), keda.stream("StreamMetricSpec")
    assert (await active.read()).result
    [spec] = (await specs.read()).metricSpecs
    assert (spec.metricName, spec.targetSizeFloat) == ("zerofleet-selfplay-replicas", 1.0)
    async with asyncio.timeout(120):
        await scaled.server.drain(10.0)
        assert await active.read() is grpc.aio.EOF
        assert await specs.read() is grpc.aio.EOF
    assert await active.code() is grpc.StatusCode.OK


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "the key 'role' is missing: give 'selfplay' or 'inference'"),
        ({"role": "trainer"}, "role = 'trainer': give 'selfplay' or 'inference'"),
        (
            {"role": "selfplay", "run": "other"},
            f"run = 'other', but this autoscaler watches '{RUN}'",
        ),
        ({"role": "selfplay", "rum": RUN}, "unknown key 'rum': did you mean 'run'?"),
        ({"role": "selfplay", "queueLength": "5"}, "unknown key 'queueLength'"),
    ],
)
async def test_a_trigger_that_is_not_right_is_refused_by_its_key(
    scaled: Scaled, metadata: dict[str, str], words: str
) -> None:
    keda = scaled.keda({"scalerAddress": "autoscaler:9001", "enableTLS": "false", **metadata})
    keda.metric = "zerofleet-selfplay-replicas"
    for call in (keda.meet, keda.poll, keda.stream("StreamIsActive").read):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert words in (refused.value.details() or "")
        assert "zerofleet/selfplay" in (refused.value.details() or "")


async def test_a_metric_of_another_name_is_refused(scaled: Scaled) -> None:
    keda = scaled.keda()
    keda.metric = "zerofleet-inference-replicas"
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await keda.poll()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "GetMetricSpec names 'zerofleet-selfplay-replicas'" in (refused.value.details() or "")
