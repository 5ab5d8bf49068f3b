"""The health port: its answers, who may ask, and that it works while the event loop is stuck."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from zerofleet.errors import ConfigError
from zerofleet.rpc import health as health_module
from zerofleet.rpc.health import HealthServer
from zerofleet.rpc.probe import probe


def test_it_follows_readiness_and_ticks() -> None:
    ready = False
    with HealthServer("127.0.0.1:0", ready=lambda: ready, names=("a.Service",)) as health:
        address = f"127.0.0.1:{health.port}"
        assert [probe(address, name) for name in ("", "a.Service", "live")] == [
            "NOT_SERVING",
            "NOT_SERVING",
            "",
        ]
        ready = True
        assert [probe(address, name) for name in ("", "a.Service", "live")] == [""] * 3
        assert probe(address, "b.Service").startswith("NOT_FOUND: no service is named 'b.Service'")
    assert probe(address, timeout=1.0).startswith(("UNAVAILABLE", "DEADLINE_EXCEEDED"))


async def test_a_loop_that_is_stuck_is_told_of(monkeypatch: pytest.MonkeyPatch, until: Any) -> None:
    now = 0.0
    monkeypatch.setattr(health_module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(health_module, "_TICK_SECONDS", 0.001)
    with HealthServer("127.0.0.1:0", stuck_seconds=60) as health:
        address = f"127.0.0.1:{health.port}"
        ticking = asyncio.create_task(health.keep_ticking())
        await asyncio.sleep(0)
        now = 59.0
        # These probes block the event loop, so it cannot tick.
        assert [probe(address, name) for name in ("", "live")] == ["", ""]
        now = 61.0
        assert [probe(address, name) for name in ("", "live")] == ["NOT_SERVING", "NOT_SERVING"]
        await until(lambda: probe(address) == "")
        assert probe(address, "live") == ""
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)


def test_there_is_nothing_else_on_it() -> None:
    with (
        HealthServer("127.0.0.1:0") as health,
        grpc.insecure_channel(f"127.0.0.1:{health.port}") as channel,
    ):
        for path in (
            "/grpc.health.v1.Health/Watch",
            "/inference.GRPCInferenceService/ServerLive",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ):
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(path)(b"", timeout=120)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_an_address_that_is_taken_or_none() -> None:
    with HealthServer("127.0.0.1:0") as health:
        for address in (f"127.0.0.1:{health.port}", "127.0.0.1:99999"):
            with (
                pytest.raises(ConfigError, match="choose another ZEROFLEET_HEALTH_ADDRESS"),
                HealthServer(address),
            ):
                pass
    with HealthServer(None) as nowhere:
        nowhere.tick()
        assert nowhere.port == 0


def test_the_probe_as_a_program() -> None:
    with HealthServer("127.0.0.1:0") as health:
        command = [sys.executable, "-m", "zerofleet.rpc.probe", f"127.0.0.1:{health.port}"]
        assert subprocess.run(command, check=False).returncode == 0
        named = subprocess.run(
            [*command, "--service", "nothing"], capture_output=True, text=True, check=False
        )
        assert named.returncode == 1
        assert named.stderr.endswith("NOT_FOUND: no service is named 'nothing' here\n")


def test_the_probe_imports_little() -> None:
    """Engines start the probe every few seconds, next to each service."""
    code = "import sys, zerofleet.rpc.probe; print(*sys.modules)"
    listed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"numpy", "google.protobuf", "pydantic", "sqlalchemy", "redis", "structlog"}
    assert heavy.isdisjoint(listed)
