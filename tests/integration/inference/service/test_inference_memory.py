"""After a flood the process is back at the memory that it had before."""

from __future__ import annotations

import asyncio
import ctypes
import resource
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zerofleet import games
from zerofleet.client import AsyncModel
from zerofleet.rpc.methods import INFERENCE

_HEADERS, _SETTINGS, _CONTINUATION = 1, 4, 9
_END_HEADERS = 4
_CALLS = 60


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def _header(name: bytes, value: bytes) -> bytes:
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def _heavy_call(number: int) -> bytes:
    """A stream that stays open, with 1 MB of metadata."""
    path = f"/{INFERENCE}/ModelStreamInfer".encode()
    first = b"\x83\x86" + _header(b":path", path) + _header(b":authority", b"x")
    last = _header(b"content-type", b"application/grpc") + _header(b"te", b"trailers")
    heavy = b"\x00\x01x\x7f\x91\x4d" + b"a" * 10_000  # its length, in HPACK's seven bits and more
    stream = 2 * number + 1
    return (
        _frame(_HEADERS, 0, stream, first)
        + _frame(_CONTINUATION, 0, stream, heavy) * 100
        + _frame(_CONTINUATION, _END_HEADERS, stream, last)
    )


def _resident_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


@pytest.mark.fleet  # a flood takes a quarter of a minute
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
async def test_memory_goes_back_after_a_flood(fleet: Any, until: Any) -> None:
    """The flood is metadata, before the client acknowledges the SETTINGS that would bound it."""
    fleet.publish(1)
    spec = games.spec(fleet.run.game.name)
    with fleet.start() as process:
        async with AsyncModel(fleet.address, fleet.run.name, timeout=120) as client:
            await client.predict(np.zeros((1, spec.observation_bytes), np.uint8))
        before = _resident_bytes(process.pid)
        with socket.create_connection(("127.0.0.1", fleet.port), timeout=120) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0))
            for number in range(_CALLS):
                await asyncio.to_thread(connection.sendall, _heavy_call(number))
            await until(lambda: _resident_bytes(process.pid) > before + _CALLS * 1_000_000)
        await until(lambda: _resident_bytes(process.pid) < before + _CALLS * 500_000)
