"""Each bad request gets its own status, and the server goes on answering everybody else."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest

from zerofleet.client import AsyncModel
from zerofleet.errors import (
    ConfigError,
    InvalidRequestError,
    ModelNotFoundError,
    OverloadedError,
)
from zerofleet.models.session import ModelSession
from zerofleet.rpc.channel import unary
from zerofleet.rpc.codec import encode_request
from zerofleet.rpc.methods import INFERENCE
from zerofleet.rpc.schema import open_inference as pb

RUN = "marker"

Change = Callable[[pb.ModelInferRequest], None]


def _set(name: str, value: Any) -> Change:
    return lambda request: setattr(request, name, value)


def _tensor(name: str, value: Any) -> Change:
    return lambda request: setattr(request.inputs[0], name, value)


def _shape(*shape: int) -> Change:
    def change(request: pb.ModelInferRequest) -> None:
        request.inputs[0].shape[:] = shape

    return change


def _raw(*contents: bytes) -> Change:
    def change(request: pb.ModelInferRequest) -> None:
        request.raw_input_contents[:] = contents

    return change


def _typed(request: pb.ModelInferRequest) -> None:
    request.raw_input_contents[:] = []
    request.inputs[0].contents.uint_contents.extend([0] * 16)


def _outputs(*names: str) -> Change:
    def change(request: pb.ModelInferRequest) -> None:
        for name in names:
            request.outputs.add(name=name)

    return change


def _inputs(*names: str) -> Change:
    def change(request: pb.ModelInferRequest) -> None:
        request.ClearField("inputs")
        for name in names:
            request.inputs.add(name=name)

    return change


def _rows(rows: int) -> Change:
    def change(request: pb.ModelInferRequest) -> None:
        _shape(rows, 8)(request)
        _raw(bytes(8 * rows))(request)

    return change


BAD: dict[str, tuple[Change, grpc.StatusCode, str]] = {
    "unknown model": (_set("model_name", "nobody"), grpc.StatusCode.NOT_FOUND, "nobody"),
    "unknown version": (_set("model_version", "9"), grpc.StatusCode.NOT_FOUND, "9"),
    "no version": (_set("model_version", "0x1"), grpc.StatusCode.NOT_FOUND, "0x1"),
    "long id": (_set("id", "i" * 257), grpc.StatusCode.INVALID_ARGUMENT, "at most 256"),
    "dtype": (_tensor("datatype", "FP32"), grpc.StatusCode.INVALID_ARGUMENT, "send UINT8"),
    "name": (_tensor("name", "board"), grpc.StatusCode.INVALID_ARGUMENT, "'board'"),
    "width": (_shape(2, 9), grpc.StatusCode.INVALID_ARGUMENT, "[2, 9]"),
    "rank": (_shape(16), grpc.StatusCode.INVALID_ARGUMENT, "[16]"),
    "no rows": (_shape(0, 8), grpc.StatusCode.INVALID_ARGUMENT, "[0, 8]"),
    "negative rows": (_shape(-2, 8), grpc.StatusCode.INVALID_ARGUMENT, "[-2, 8]"),
    "huge shape": (_shape(2**62, 8), grpc.StatusCode.INVALID_ARGUMENT, "at most"),
    "short": (_raw(bytes(15)), grpc.StatusCode.INVALID_ARGUMENT, "15"),
    "long": (_raw(bytes(17)), grpc.StatusCode.INVALID_ARGUMENT, "17"),
    "two contents": (_raw(bytes(16), b""), grpc.StatusCode.INVALID_ARGUMENT, "one entry"),
    "typed contents": (_typed, grpc.StatusCode.INVALID_ARGUMENT, "raw_input_contents"),
    "too many rows": (_rows(257), grpc.StatusCode.INVALID_ARGUMENT, "at most 256"),
    "no input": (
        lambda request: request.ClearField("inputs"),
        grpc.StatusCode.INVALID_ARGUMENT,
        "exactly one",
    ),
    "many inputs": (
        _inputs(*("board" + "d" * 10_000 for _ in range(100))),
        grpc.StatusCode.INVALID_ARGUMENT,
        "... (100 of them)",
    ),
    "many dimensions": (
        _shape(*range(10_000)),
        grpc.StatusCode.INVALID_ARGUMENT,
        "[0, 1, 2, 3, ... (10000 of them)]",
    ),
    "output": (_outputs("ownership"), grpc.StatusCode.INVALID_ARGUMENT, "ownership"),
    "output twice": (
        _outputs("value", "policy_logits", "value"),
        grpc.StatusCode.INVALID_ARGUMENT,
        "'value' is named twice",
    ),
}


@pytest.fixture
def published(models: Any) -> None:
    models.publish(1)
    models.promote(1)


@pytest.mark.usefixtures("published")
async def test_every_bad_request_harms_only_its_sender(
    serve: Any, observations: Any, until: Any
) -> None:
    async with (
        serve() as served,
        AsyncModel(served.address, RUN) as client,
        grpc.aio.insecure_channel(served.address) as channel,
        client.stream() as good,
    ):
        stop = asyncio.Event()
        bystander = asyncio.create_task(_predict_until(stop, good, observations))
        infer = unary(channel, INFERENCE, "ModelInfer", pb.ModelInferRequest, pb.ModelInferResponse)
        for name, (change, code, text) in BAD.items():
            request = encode_request(RUN, "best", observations(2))
            change(request)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await infer(request, timeout=120)
            assert caught.value.code() is code, name
            details = caught.value.details() or ""
            assert text in details, name
            assert len(details) < 500, name
        stop.set()
        assert await bystander > 0


async def _predict_until(stop: asyncio.Event, stream: Any, observations: Any) -> int:
    answers = 0
    while not stop.is_set():
        prediction = await stream.predict(observations(4))
        assert prediction.model_version == 1
        answers += 1
    return answers


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("over", ["unary", "stream"])
async def test_client_raises_our_errors(serve: Any, observations: Any, over: Any) -> None:
    async with serve() as served:

        async def predict(run: str, rows: np.ndarray, version: str = "best") -> None:
            async with AsyncModel(served.address, run, message_rows=300, timeout=120) as model:
                if over == "unary":
                    await model.predict(rows, version)
                    return
                async with model.stream(version) as stream:
                    await stream.predict(rows)

        with pytest.raises(ModelNotFoundError, match="unknown model 'nobody'"):
            await predict("nobody", observations(1))
        with pytest.raises(ModelNotFoundError, match="no version 5"):
            await predict(RUN, observations(1), "5")
        with pytest.raises(InvalidRequestError, match="at most 256"):
            await predict(RUN, observations(257))
        with pytest.raises(InvalidRequestError, match=r"\[1, 9\]"):
            await predict(RUN, np.zeros((1, 9), np.uint8))
        with pytest.raises(InvalidRequestError, match="float32"):
            await predict(RUN, np.zeros((1, 8), np.float32))  # type: ignore[arg-type]


@pytest.mark.usefixtures("published")
async def test_a_full_queue_refuses_and_recovers(
    serve: Any, observations: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, go = ModelSession.run, threading.Event()

    def held(session: ModelSession, rows: np.ndarray) -> Any:
        assert go.wait(120)
        return run(session, rows)

    go.set()
    monkeypatch.setattr(ModelSession, "run", held)
    async with (
        serve(max_queue_rows=300) as served,
        AsyncModel(served.address, RUN, timeout=120) as client,
        client.stream() as stream,
    ):
        go.clear()  # the model takes none off the queue while they arrive
        predictions = [stream.predict(observations(250)) for _ in range(400)]
        together = asyncio.gather(*predictions, return_exceptions=True)
        await until(lambda: served.batcher.statistics.totals.refused > 0)
        go.set()
        results = await together
        refused = [result for result in results if isinstance(result, BaseException)]
        assert all(isinstance(error, OverloadedError) for error in refused)
        assert refused
        assert len(refused) < 400
        assert (await stream.predict(observations(250))).model_version == 1


async def test_before_the_first_promotion_requests_wait(
    serve: Any, models: Any, observations: Any, refusal: Any
) -> None:
    async with serve() as served, AsyncModel(served.address, RUN, timeout=2) as hasty:
        assert not await hasty.server_ready()
        assert "first promoted model" in await refusal(lambda: hasty.predict(observations(1)))
        async with (
            AsyncModel(served.address, RUN, timeout=120) as patient,
            patient.stream() as stream,
        ):
            waiting = asyncio.create_task(stream.predict(observations(3)))
            models.publish(1)
            models.promote(1)
            await served.models.refresh()
            assert (await waiting).model_version == 1
            assert await patient.server_ready()
            assert await patient.ready()
            assert await patient.ready("1")


async def test_an_address_that_cannot_be_bound_is_a_config_error(serve: Any) -> None:
    async with serve() as served:
        for address in (
            served.address,
            "elsewhere.invalid:1",
            "127.0.0.1:http?",
            "127.0.0.1:99999",
        ):
            with pytest.raises(ConfigError, match=f"cannot listen on {re.escape(address)}: "):
                async with serve(address=address):
                    pass


@pytest.mark.usefixtures("published")
async def test_messages_that_are_not_the_protocols(serve: Any, observations: Any) -> None:
    """Garbage and messages over the limit end their own call; a stranger's stream goes on."""
    async with (
        serve() as served,
        AsyncModel(served.address, RUN, timeout=120) as client,
        client.stream() as good,
        grpc.aio.insecure_channel(
            served.address, options=[("grpc.max_send_message_length", -1)]
        ) as channel,
    ):
        await good.predict(observations(1))
        infer = channel.unary_unary(f"/{INFERENCE}/ModelInfer")
        for message, code in (
            (b"\xff\xff\xff", grpc.StatusCode.INVALID_ARGUMENT),
            # Larger than any request of this run can be: it is not even read.
            (bytes(2 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await infer(message, timeout=120)
            assert caught.value.code() is code
            assert (await good.predict(observations(2))).model_version == 1
        garbage = channel.stream_stream(f"/{INFERENCE}/ModelStreamInfer")(timeout=120)
        await garbage.write(b"\xff\xff\xff")
        answer = pb.ModelStreamInferResponse.FromString(await garbage.read())
        assert "not a ModelInferRequest" in answer.error_message
        await garbage.write(encode_request(RUN, "", observations(2), "x").SerializeToString())
        answer = pb.ModelStreamInferResponse.FromString(await garbage.read())
        assert (answer.infer_response.id, answer.error_message) == ("x", "")
        await garbage.done_writing()
        assert await garbage.code() is grpc.StatusCode.OK
        unknown = channel.unary_unary(f"/{INFERENCE}/RepositoryModelLoad")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await unknown(b"", timeout=120)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
