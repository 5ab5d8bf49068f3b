"""The stream's life: servers that end, calls that are given up, shutdown under load."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest

from zerofleet.client import AsyncModel
from zerofleet.errors import InferenceUnavailableError
from zerofleet.local.processes import free_port
from zerofleet.rpc.codec import encode_request
from zerofleet.rpc.prediction_stream import PredictionStream, stream_infer

RUN = "marker"


@pytest.fixture
def published(models: Any) -> None:
    models.publish(1)
    models.promote(1)


def _free_address() -> str:
    return f"127.0.0.1:{free_port()}"


async def _ask(stream: Any, rows: Any, until: asyncio.Event) -> int:
    """Keep calls in flight until the event; a lost or failed call would raise here."""
    answers = 0
    while not until.is_set():
        for prediction in await asyncio.gather(*(stream.predict(rows) for _ in range(4))):
            assert len(prediction.value) == len(rows)
            answers += 1
    return answers


@pytest.mark.usefixtures("published")
async def test_servers_come_and_go_under_a_stream(
    serve: Any, observations: Any, until: Any
) -> None:
    address = _free_address()
    async with AsyncModel(address, RUN, timeout=120) as client, client.stream() as stream:
        done = asyncio.Event()
        asker = asyncio.create_task(_ask(stream, observations(8), done))
        for _ in range(3):
            async with serve(address=address) as served:
                totals = served.batcher.statistics.totals
                await until(lambda totals=totals: totals.success > 8)
        async with serve(address=address):
            done.set()
            assert await asker > 24


@pytest.mark.usefixtures("published")
async def test_drain_answers_what_has_come(serve: Any, observations: Any, until: Any) -> None:
    address = _free_address()
    async with AsyncModel(address, RUN, timeout=120) as client, client.stream() as stream:
        done = asyncio.Event()
        async with serve(address=address) as served:
            asker = asyncio.create_task(_ask(stream, observations(64), done))
            await until(lambda: served.batcher.statistics.totals.success > 20)
            await served.server.drain(grace=10)
            assert served.batcher.queue_rows == 0
        async with serve(address=address):
            done.set()
            assert await asker > 20


@pytest.mark.usefixtures("published")
async def test_a_retired_stream_is_replaced_without_a_lost_call(
    serve: Any, observations: Any, until: Any
) -> None:
    async with serve() as served, grpc.aio.insecure_channel(served.address) as channel:
        stream = PredictionStream(
            channel, served.address, model=RUN, version="best", timeout=120, lifetime=0.05
        )
        async with stream:
            done = asyncio.Event()
            asker = asyncio.create_task(_ask(stream, observations(8), done))
            await until(lambda: served.batcher.statistics.totals.success > 400)
            done.set()
            answers = await asker
        # Nothing was asked twice: a retired stream is read to its end first.
        assert served.batcher.statistics.totals.success == answers


async def test_no_server_is_unavailable_after_the_timeout(observations: Any) -> None:
    address = _free_address()
    async with AsyncModel(address, RUN, timeout=0.3) as client, client.stream() as stream:
        for predict in (stream.predict, lambda rows: client.predict(rows)):
            with pytest.raises(InferenceUnavailableError, match=address):
                await predict(observations(1))
        assert not await client.server_ready()


@pytest.mark.usefixtures("published")
async def test_a_closed_stream_says_so(serve: Any, observations: Any) -> None:
    async with serve() as served, AsyncModel(served.address, RUN) as client:
        stream = client.stream()
        async with stream:
            await stream.predict(observations(1))
        with pytest.raises(InferenceUnavailableError, match="closed"):
            await stream.predict(observations(1))


@pytest.mark.usefixtures("published")
async def test_cancelled_calls_leave_nothing_behind(
    serve: Any, observations: Any, until: Any
) -> None:
    async with serve() as served, AsyncModel(served.address, RUN, timeout=120) as client:
        async with client.stream() as stream:
            await stream.predict(observations(1))
            given_up = [asyncio.create_task(stream.predict(observations(200))) for _ in range(20)]
            await asyncio.sleep(0)
            for task in given_up:
                task.cancel()
            await asyncio.gather(*given_up, return_exceptions=True)
            assert not stream._questions
            assert (await stream.predict(observations(3))).model_version == 1
        await until(lambda: served.batcher.queue_rows == 0)
        unary = [asyncio.create_task(client.predict(observations(200))) for _ in range(20)]
        await asyncio.sleep(0)
        for task in unary:
            task.cancel()
        await asyncio.gather(*unary, return_exceptions=True)
        await until(lambda: served.batcher.queue_rows == 0)
        assert (await client.predict(observations(3))).model_version == 1


@pytest.mark.usefixtures("published")
async def test_a_client_that_reads_no_answers_is_not_read_from(
    serve: Any, observations: Any
) -> None:
    """Its answers would pile up in the server's memory otherwise."""
    async with serve() as served, grpc.aio.insecure_channel(served.address) as channel:
        call = stream_infer(channel)()
        written = 0

        async def write() -> None:
            nonlocal written
            while written < 20_000:
                await call.write(encode_request(RUN, "best", observations(256), str(written)))
                written += 1

        writing = asyncio.create_task(write())
        stood_at = asked = 0
        answered = served.batcher.statistics.totals
        async with AsyncModel(served.address, RUN) as another:
            # Until the server has answered others meanwhile, and taken nothing of this client,
            # although it has sent more than was answered.
            while not writing.done() and (
                written > stood_at or written <= answered.success - asked
            ):
                stood_at = written
                for _ in range(20):
                    await another.predict(observations(3))
                    asked += 1
        # Some answers fill the connection's window, a bounded number waits in the server.
        assert answered.success - asked < written < 20_000
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        call.cancel()
        async with AsyncModel(served.address, RUN) as client:
            assert (await client.predict(observations(3))).model_version == 1
