"""Connections end in peace when they are old, so that clients spread over servers again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest

from zerofleet.client import AsyncModel
from zerofleet.rpc import server
from zerofleet.rpc.prediction_stream import PredictionStream

RUN = "marker"
AGE_SECONDS = 0.3


@pytest.fixture
def young(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers whose connections live for a moment, and streams that are shorter still."""
    options = dict(server._OPTIONS)
    assert options["grpc.max_connection_age_grace_ms"] > 1000 * 420  # a stream's life and timeout
    options["grpc.max_connection_age_ms"] = int(1000 * AGE_SECONDS)
    options["grpc.max_connection_age_grace_ms"] = 10_000
    monkeypatch.setattr(server, "_OPTIONS", tuple(options.items()))
    monkeypatch.setitem(PredictionStream.__init__.__kwdefaults__, "lifetime", AGE_SECONDS)


@pytest.mark.slow
async def test_no_call_is_lost_when_connections_end(
    young: None, serve: Any, models: Any, observations: Any
) -> None:
    models.publish(1)
    models.promote(1)
    end = time.monotonic() + 8 * AGE_SECONDS
    answers: Counter[str] = Counter()

    async def ask(name: str, predict: Any) -> None:
        while time.monotonic() < end or answers[name] < 50:
            assert (await predict()).model_version == 1
            answers[name] += 1

    async with (
        serve() as served,
        AsyncModel(served.address, RUN, timeout=120) as client,
        client.stream() as stream,
    ):
        await asyncio.gather(
            ask("unary", lambda: client.predict(observations(3))),
            ask("stream", lambda: stream.predict(observations(3))),
        )
    assert min(answers.values()) >= 50


@pytest.mark.slow
async def test_a_client_moves_on_to_another_process(
    young: None, serve: Any, models: Any, observations: Any
) -> None:
    """Two servers share a port: whoever stays long enough meets both."""
    models.publish(1)
    models.promote(1)
    async with (
        serve(share_port=True) as one,
        serve(address=one.address, share_port=True) as other,
        AsyncModel(one.address, RUN, timeout=120) as client,
        client.stream() as stream,
    ):
        async with asyncio.timeout(120):
            while not all(served.batcher.statistics.totals.rows for served in (one, other)):
                assert (await stream.predict(observations(2))).model_version == 1
