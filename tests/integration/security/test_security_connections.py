"""Clients that speak HTTP/2 by hand, in ways that no gRPC library does."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zerofleet.rpc import health, server
from zerofleet.rpc.health import HealthServer
from zerofleet.service import raise_descriptor_limit

_HEADERS, _RST_STREAM, _SETTINGS, _PING = 1, 3, 4, 6
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1


def _frame(kind: int, flags: int, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def _text(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _call(number: int) -> bytes:
    """A call of a method that there is not: the cheapest to answer."""
    headers = {":path": "/no/method", ":authority": "x", "content-type": "application/grpc"}
    block = b"\x83\x86" + b"".join(
        b"\x00" + _text(name.encode()) + _text(value.encode())
        for name, value in (headers | {"te": "trailers"}).items()
    )
    return _frame(_HEADERS, _END_STREAM | _END_HEADERS, 2 * number + 1, block)


def _connected(served: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.server.port), timeout=120)


_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0)


def _frames(connection: socket.socket) -> Iterator[tuple[int, int]]:
    """Kind and flags of what comes, until the connection ends."""
    with connection.makefile("rb") as stream:
        while len(start := stream.read(9)) == 9:
            stream.read(int.from_bytes(start[:3]))
            yield start[3], start[4]


async def test_calls_of_a_burst_wait_for_the_loop(serve: Any) -> None:
    """While the loop stands still: over 1,000 of them were cancelled."""
    calls, answers = 650, list[int]()
    async with contextlib.AsyncExitStack() as stack:
        served = await stack.enter_async_context(serve())
        connections = [stack.enter_context(_connected(served)) for _ in range(2)]
        incoming = [_frames(connection) for connection in connections]
        burst = b"".join(map(_call, range(calls)))
        for connection, frames in zip(connections, incoming, strict=True):
            ping = _frame(_PING, 0, payload=bytes(8))
            connection.sendall(_GREETING + _frame(_SETTINGS, _ACK) + burst + ping)
            # Frames are read in order, so all calls have come, and no answer can have gone.
            for kind, _ in frames:
                answers += [kind] * (kind == _RST_STREAM)
                if kind == _PING:
                    break

        def read(frames: Iterator[tuple[int, int]]) -> None:
            mine = 0
            for kind, flags in frames:
                if kind == _RST_STREAM or (kind == _HEADERS and flags & _END_STREAM):
                    answers.append(kind)
                    mine += 1
                if mine == calls:
                    return

        await asyncio.gather(*(asyncio.to_thread(read, frames) for frames in incoming))
    assert answers == [_HEADERS] * (2 * calls)


@pytest.mark.parametrize("greeting", [b"", _GREETING], ids=["silent", "unacknowledged"])
async def test_who_does_not_finish_the_greeting_is_let_go(
    serve: Any, monkeypatch: pytest.MonkeyPatch, greeting: bytes
) -> None:
    """Nothing is sent, or our SETTINGS with the limits of a call are not acknowledged."""
    seconds = 1000 * server._GREETING_SECONDS
    assert seconds <= 10_000
    shortened = [(name, 200 if value == seconds else value) for name, value in server._OPTIONS]
    monkeypatch.setattr(server, "_OPTIONS", tuple(shortened))
    async with serve() as served:
        with _connected(served) as connection:
            connection.settimeout(120)
            connection.sendall(greeting)
            await asyncio.to_thread(lambda: list(_frames(connection)))


@pytest.mark.parametrize("greeting", [b"", _GREETING], ids=["silent", "unacknowledged"])
def test_the_health_port_lets_them_go_too(monkeypatch: pytest.MonkeyPatch, greeting: bytes) -> None:
    seconds = 1000 * server._GREETING_SECONDS
    shortened = [
        (name, 200 if value == seconds else value) for name, value in health.CONNECTION_OPTIONS
    ]
    monkeypatch.setattr(health, "CONNECTION_OPTIONS", tuple(shortened))
    with (
        HealthServer("127.0.0.1:0") as served,
        socket.create_connection(("127.0.0.1", served.port), timeout=120) as connection,
    ):
        connection.sendall(greeting)
        list(_frames(connection))  # until the server ends it


def test_a_service_takes_the_descriptors_that_it_may_have() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, soft), hard))
    try:
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 65_536), hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


_SERVICE = """
import resource
from zerofleet.config import ProcessSettings
from zerofleet.service import run_service

async def serve(run, settings, stop):
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

resource.setrlimit(resource.RLIMIT_NOFILE, (512, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
run_service("a service", ProcessSettings, serve)
"""


@pytest.mark.slow
def test_a_service_starts_with_them(tmp_path: Path) -> None:
    run_file = tmp_path / "run.toml"
    run_file.write_text('name = "any"\n[game]\nname = "tic_tac_toe"\n')
    said = subprocess.run(
        [sys.executable, "-c", _SERVICE, run_file], capture_output=True, text=True, check=True
    ).stdout
    assert int(said) == min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65_536)
