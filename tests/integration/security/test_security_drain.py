"""A server that leaves: what its open streams are still answered."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
import numpy as np

from zerofleet.rpc.codec import encode_request
from zerofleet.rpc.methods import INFERENCE
from zerofleet.rpc.prediction_stream import stream_infer
from zerofleet.rpc.schema import open_inference as pb

RUN = "secured"


async def test_what_comes_after_the_drain_has_begun_is_not_read(serve: Any, until: Any) -> None:
    """Workers have always something in flight: such a stream would not end by itself."""
    async with serve() as served, grpc.aio.insecure_channel(served.address) as channel:
        call = stream_infer(channel)(timeout=120)
        served.backend.go.clear()
        await call.write(_request("before"))
        await until(lambda: served.backend.waiting == 1)
        served.server._inference.drain()
        live = channel.unary_unary(f"/{INFERENCE}/ServerLive")
        await live(b"", timeout=120)  # by now it has begun
        for _ in range(3):
            await call.write(_request("after"))
            await live(b"", timeout=120)
        assert served.backend.waiting == 1
        served.backend.go.set()
        answer: Any = await call.read()
        assert (answer.infer_response.id, answer.error_message) == ("before", "")
        assert await call.code() is grpc.StatusCode.UNAVAILABLE
        assert await call.details() == "the server is shutting down"


def _request(name: str) -> pb.ModelInferRequest:
    return encode_request(RUN, "best", np.zeros((2, 4), np.uint8), name)
