"""Several devices: a process for each behind one address, here all on the CPU."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import pytest

from tests.processes import wait_ended
from zerofleet import games
from zerofleet.client import AsyncModel
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.local.processes import free_port, take_port

pytestmark = pytest.mark.fleet  # several processes each, and seconds of them

GAME = "connect_four"
MOST_CLIENTS = 200


def adjacent_ports() -> int:
    """The first of two ports that nobody else takes until the server binds them."""
    while True:
        port = free_port()
        with contextlib.suppress(OSError):
            take_port(port + 1)
            return port


def beats(fleet: Any) -> dict[str, int]:
    """Progress by worker."""
    with contextlib.closing(Heartbeats(fleet.redis_url, fleet.run.name)) as heartbeats:
        return {beat.worker: beat.progress for beat in heartbeats.read()}


def page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as answer:
        return answer.read().decode()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(240):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - a process has no event
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_two_processes_answer_behind_one_address(fleet: Any) -> None:
    fleet.publish(1)
    metrics = adjacent_ports()
    rows = np.repeat(games.State(GAME).observation()[np.newaxis], 2, axis=0)
    changes = {
        "ZEROFLEET_DEVICES": "0,1",
        "ZEROFLEET_METRICS_ADDRESS": f"127.0.0.1:{metrics}",
    }
    with fleet.start(**changes) as parent:
        await until(lambda: {"inference-1-0", "inference-1-1"} <= set(beats(fleet)))
        assert "inference-1" in beats(fleet)  # the parent says that it is there
        for _ in range(MOST_CLIENTS):  # the kernel draws one of the two for each connection
            async with AsyncModel(fleet.address, fleet.run.name, timeout=120) as client:
                assert (await client.predict(rows)).model_version == 1
            answered = [beats(fleet).get(f"inference-1-{device}", 0) > 0 for device in (0, 1)]
            if all(answered):
                break
        await until(
            lambda: all(beats(fleet).get(f"inference-1-{device}", 0) > 0 for device in (0, 1))
        )
        for port in (metrics, metrics + 1):
            assert "zerofleet_inference_rows_total" in await asyncio.to_thread(page, port)
        children = psutil.Process(parent.pid).children()
        assert len(children) == 2
        parent.send_signal(signal.SIGTERM)
        status = await asyncio.to_thread(parent.wait, 120)
        output = parent.output()
        assert status == 0, output
        wait_ended(child.pid for child in children)
        assert "Traceback" not in output


@pytest.mark.slow
async def test_when_one_process_ends_all_do_and_the_status_says_so(fleet: Any) -> None:
    with fleet.start(
        ZEROFLEET_DEVICES="0,1", ZEROFLEET_METRICS_ADDRESS=f"127.0.0.1:{adjacent_ports()}"
    ) as parent:
        await until(lambda: {"inference-1-0", "inference-1-1"} <= set(beats(fleet)))
        children = psutil.Process(parent.pid).children()
        os.kill(children[1].pid, signal.SIGKILL)
        status = await asyncio.to_thread(parent.wait, 120)
        output = parent.output()
        assert status == 1, output
        assert '"device": 1' in output
        assert "device_process_ended" in output
        wait_ended(child.pid for child in children)
        assert "Traceback" not in output


@pytest.mark.slow
def test_devices_that_cannot_share_are_one_line_and_exit_2(fleet: Any, tmp_path: Any) -> None:
    line = fleet.refusal(ZEROFLEET_DEVICES="0,1", ZEROFLEET_LISTEN_ADDRESS="127.0.0.1:0")
    assert "needs a host and a port to share" in line
    line = fleet.refusal(ZEROFLEET_DEVICES="0,1", ZEROFLEET_LISTEN_ADDRESS=f"unix:{tmp_path}/s")
    assert "needs a host and a port to share" in line
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = fleet.refusal(ZEROFLEET_DEVICES="0,1", ZEROFLEET_LISTEN_ADDRESS=address)
        assert f"cannot listen on {address}" in line
    assert "give numbers of GPUs" in fleet.refusal(ZEROFLEET_DEVICES="one")


@pytest.mark.slow
def test_a_gpu_that_is_required_or_named_and_not_there(fleet: Any) -> None:
    line = fleet.refusal(ZEROFLEET_SET="inference.require_gpu=true")
    assert "require_gpu = true, but predictions would run without a GPU, on provider 'cpu'" in line
    line = fleet.refusal(ZEROFLEET_SET="inference.provider=cuda")
    assert "provider = 'cuda': ONNX Runtime as installed" in line
    line = fleet.refusal(ZEROFLEET_SET="inference.provider=rocm")
    assert "ZEROFLEET_SET: inference.provider=rocm" in line
