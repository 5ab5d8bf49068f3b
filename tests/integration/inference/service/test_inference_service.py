"""The whole process, ``python -m zerofleet.services.inference``, over real stores."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import urllib.request
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np
import pytest
import redis
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from zerofleet import games
from zerofleet.best_pointer import BestPointer
from zerofleet.client import AsyncModel, AsyncPlayer
from zerofleet.database import Promotion
from zerofleet.errors import InferenceUnavailableError, InvalidRequestError

GAME = "connect_four"


def _observations(rows: int) -> np.ndarray:
    return np.repeat(games.State(GAME).observation()[np.newaxis], rows, axis=0)


async def _version(client: AsyncModel) -> int:
    prediction = await client.predict(_observations(2))
    assert np.rint(prediction.value * 1024).tolist() == [prediction.model_version] * 2
    return prediction.model_version


async def _until(condition: Any) -> None:
    async with asyncio.timeout(120):
        while not await condition():  # noqa: ASYNC110 - a process has no event
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_life_of_a_service(fleet: Any) -> None:
    """The service waits, follows promotions with and without Redis, reports its state and stops."""
    with fleet.start() as process:
        async with AsyncModel(fleet.address, fleet.run.name, timeout=120) as client:

            async def waits() -> bool:
                beat = await asyncio.to_thread(fleet.heartbeat)
                return beat is not None and beat.waiting_for == "the first promoted model"

            await _until(waits)
            assert not await client.server_ready()
            assert await _health(fleet.address) == {health_pb2.HealthCheckResponse.NOT_SERVING}
            fleet.publish(1)
            await _until(client.server_ready)
            assert await _version(client) == 1
            await _until(lambda: _is_serving(fleet.address))

            fleet.publish(2, promote=False)
            with contextlib.closing(BestPointer(fleet.redis_url, "serving")) as pointer:
                fleet.promote(2)
                assert pointer.reconcile(fleet.database) is not None
                await _until(lambda: _is(client, 2))
                # If the pointer names a damaged file, the server keeps serving the old model.
                fleet.publish(3, damage=50)
                pointer.reconcile(fleet.database)
                await _until(lambda: _scraped(fleet, "model_load_failures_total", 1))
                assert await _version(client) == 2
            with redis.Redis.from_url(fleet.redis_url) as store:
                store.flushall()
            fleet.publish(4)
            await _until(lambda: _is(client, 4))

            async def beats() -> bool:
                beat = await asyncio.to_thread(fleet.heartbeat)
                return beat is not None and beat.figures.model_version == 4

            await _until(beats)
            beat = fleet.heartbeat()
            assert beat is not None
            assert (beat.service, beat.worker, beat.waiting_for) == ("inference", "inference-1", "")
            assert beat.progress > 0
            assert beat.figures.provider == "cpu"
            await _check_player(fleet)
            await _check_reflection(fleet.address)
            metrics = await asyncio.to_thread(_scrape, fleet)
            assert "zerofleet_inference_model_version 4.0" in metrics
            assert 'zerofleet_inference_batch_rows_bucket{le="2.0"}' in metrics
            assert 'zerofleet_inference_batch_release_total{reason="idle"}' in metrics
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 120) == 0, process.output()
        assert "Traceback" not in process.output()


async def _is(client: AsyncModel, version: int) -> bool:
    return await _version(client) == version


async def _scraped(fleet: Any, name: str, least: float) -> bool:
    lines = (await asyncio.to_thread(_scrape, fleet)).splitlines()
    values = [line.split()[1] for line in lines if line.startswith(f"zerofleet_inference_{name} ")]
    return float(values[0]) >= least


def _scrape(fleet: Any) -> str:
    url = f"http://127.0.0.1:{fleet.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=120) as response:
        return response.read().decode()


async def _health(address: str) -> set[int]:
    """Return the statuses of the server and its services, which may differ during a change."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answers = [
            (await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=120)).status
            for name in ("", "inference.GRPCInferenceService", "zerofleet.v1.Player")
        ]
    return set(answers)


async def _is_serving(address: str) -> bool:
    return await _health(address) == {health_pb2.HealthCheckResponse.SERVING}


async def _check_player(fleet: Any) -> None:
    async with AsyncPlayer(fleet.address, timeout=120) as player:
        # the default is the number for matches
        assert (await player.describe()).num_simulations == 40
        table = await player.search([3, 3], game=GAME, seed=1)
        assert (table.run, table.version) == ("serving", 4)
        assert len(table.children) == 7
        with pytest.raises(InvalidRequestError, match="ply 6: illegal action 3"):
            await player.play([3] * 7, game=GAME)


async def _check_reflection(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        requests = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="zerofleet.v1.Player"),
        ]
        answers = [answer async for answer in stub.ServerReflectionInfo(iter(requests))]
    names = {service.name for service in answers[0].list_services_response.service}
    assert {"inference.GRPCInferenceService", "zerofleet.v1.Player"} <= names
    assert answers[1].file_descriptor_response.file_descriptor_proto


@pytest.mark.slow
async def test_sigkill_and_restart_under_a_stream_lose_no_call(fleet: Any) -> None:
    fleet.publish(1)
    answers = 0
    done = asyncio.Event()

    async def ask(stream: Any) -> None:
        nonlocal answers
        while not done.is_set():
            for prediction in await asyncio.gather(
                *(stream.predict(_observations(16)) for _ in range(4))
            ):
                assert np.rint(prediction.value * 1024).tolist() == [1] * 16
                answers += 1

    async with (
        AsyncModel(fleet.address, fleet.run.name, timeout=120) as client,
        client.stream() as stream,
    ):
        asker = asyncio.create_task(ask(stream))
        for _ in range(2):
            with fleet.start() as process:
                before = answers

                async def served(before: int = before) -> bool:
                    if asker.done():
                        await asker
                    return answers > before + 40

                await _until(served)
                process.kill()
        with fleet.start():
            done.set()
            await asker
    assert answers > 80


@pytest.mark.slow
async def test_a_model_that_fails_again_and_again_ends_the_process(fleet: Any) -> None:
    """Otherwise it would report SERVING forever; a new process may get a working GPU."""
    fleet.publish(1, broken=True)
    fatal = _observations(2)
    fatal[:, 0] = 66
    with fleet.start() as process:
        async with AsyncModel(fleet.address, fleet.run.name, timeout=120) as client:
            await _until(client.server_ready)
            for _ in range(2):
                with pytest.raises(InferenceUnavailableError, match="failed to run"):
                    await client.predict(fatal)
            assert await _version(client) == 1
            for _ in range(3):
                with pytest.raises(InferenceUnavailableError):
                    await client.predict(fatal)
        assert await asyncio.to_thread(process.wait, 120) == 1, process.output()
    assert "model_always_fails" in process.output()


@pytest.mark.slow
def test_bad_input_is_one_line_and_exit_2(fleet: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = fleet.refusal(ZEROFLEET_LISTEN_ADDRESS=f"127.0.0.1:{port}")
        assert f"cannot listen on 127.0.0.1:{port}" in line
        line = fleet.refusal(ZEROFLEET_METRICS_ADDRESS=f"127.0.0.1:{port}")
        assert f"cannot serve metrics on '127.0.0.1:{port}'" in line
    assert "checkers" in fleet.refusal(ZEROFLEET_SET="game=checkers")
    fleet.run_file.unlink()
    assert "cannot read the run file" in fleet.refusal()


def test_the_pointer_is_not_followed_backwards(fleet: Any) -> None:
    """Redis is only a cache: an older promotion in it changes nothing."""
    from zerofleet.services.inference.served_models import StoredModels

    for version in (1, 2):
        fleet.publish(version)
    with contextlib.closing(BestPointer(fleet.redis_url, "serving")) as pointer:
        source = StoredModels("serving", fleet.database, pointer)
        head = source.best()
        assert head is not None
        assert (head.seq, head.version) == (2, 2)  # Redis is empty, so this comes from Postgres
        pointer.set_if_newer(Promotion(1, 1, "0" * 64))
        assert source.best() == head
        assert [promoted.version for promoted in source.promotions()] == [2, 1]
        assert source.versions() == [1, 2]
