"""The server's side of a stream, with a client that a test holds by the hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import grpc.aio
import numpy as np
import pytest

from zerofleet.errors import OverloadedError
from zerofleet.prediction import Prediction
from zerofleet.rpc import codec, inference_service
from zerofleet.rpc.inference_service import AnswerStream, UnsentBytes
from zerofleet.rpc.schema import open_inference as pb

SHAPE = codec.RequestShape(observation_bytes=1, num_actions=1, max_batch_rows=4)
BOUND = 8 * SHAPE.max_batch_rows


class Client:
    """Sends its requests as soon as they are read, and reads answers when it is told to."""

    def __init__(self, rows: Iterable[int]) -> None:
        self._requests = [
            codec.encode_request("run", "", np.zeros((each, 1), np.uint8), str(number))
            for number, each in enumerate(rows)
        ]
        self.reads = asyncio.Semaphore(0)
        self.answers: list[pb.ModelStreamInferResponse] = []

    async def read(self) -> pb.ModelInferRequest | None:
        for _ in range(3):
            await asyncio.sleep(0)  # an answer comes before the next request
        return self._requests.pop(0) if self._requests else None

    async def write(self, answer: pb.ModelStreamInferResponse) -> None:
        await self.reads.acquire()
        self.answers.append(answer)


class Server:
    """A backend that answers at once: with zeros, or an error, or not even that."""

    def __init__(self, fails: str = "") -> None:
        self.rows = 0
        self.unanswered: list[asyncio.Future[Prediction]] = []
        self._fails = fails

    def runs(self) -> list[str]:
        return ["run"]

    def shape(self, run: str) -> codec.RequestShape:
        del run
        return SHAPE

    def submit(self, *arguments: Any) -> asyncio.Future[Prediction]:
        rows = len(arguments[2])
        self.rows += rows
        answer: asyncio.Future[Prediction] = asyncio.get_running_loop().create_future()
        error = OverloadedError("send again later")
        if self._fails == "at once":
            raise error
        if self._fails == "later":
            answer.set_exception(error)
        elif self._fails == "never":
            self.unanswered.append(answer)
        else:
            zeros = np.zeros((rows, 1), np.float16), np.zeros(rows, np.float32)
            answer.set_result(Prediction(*zeros, 1))
        return answer


def _stream(server: Any, client: Any, unsent: UnsentBytes | None = None) -> AnswerStream:
    return AnswerStream(server, client, unsent or UnsentBytes(1 << 30))


async def _settled() -> None:
    for _ in range(1_000):
        await asyncio.sleep(0)


@pytest.mark.parametrize("rows", [1, 3, 4])
async def test_unread_answers_are_bounded_in_rows(rows: int) -> None:
    server, client = Server(), Client([rows] * 100)
    stream = _stream(server, client)
    running = asyncio.create_task(stream.run(draining=False))
    await _settled()
    most = -(-BOUND // rows) * rows  # the last may be beyond
    assert server.rows == most
    client.reads.release()
    await _settled()
    assert server.rows == most + rows
    for _ in range(99):
        client.reads.release()
    await running
    assert server.rows == 100 * rows
    assert [answer.infer_response.id for answer in client.answers] == [str(n) for n in range(100)]


async def test_unread_answers_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference_service, "_MAX_UNSENT_BYTES", 10_000)
    server, client = Server("at once"), Client([1] * 100)
    running = asyncio.create_task(_stream(server, client).run(draining=False))
    await _settled()
    assert 2 <= server.rows <= 10
    for _ in range(100):
        client.reads.release()
    await running
    assert len(client.answers) == 100


@pytest.mark.parametrize("fails", ["", "at once"])
async def test_unread_answers_are_bounded_over_all_streams(fails: str) -> None:
    """A stream without any adds what it has asked already; who reads is served as ever."""
    server, unsent = Server(fails), UnsentBytes(20_000)
    slow = [
        asyncio.create_task(_stream(server, Client([1] * 100), unsent).run(draining=False))
        for _ in range(12)
    ]
    await _settled()
    assert len(slow) <= server.rows <= 2 * len(slow)
    assert unsent.total > 3_000 * server.rows
    honest = Client([1] * 100)
    running = asyncio.create_task(_stream(server, honest, unsent).run(draining=False))
    for _ in range(100):
        honest.reads.release()
    await running
    assert len(honest.answers) == 100
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert unsent.total == 0


async def test_an_answer_to_a_stream_that_has_ended_counts_for_nothing() -> None:
    """Done in the very moment in which its call is cancelled."""
    server, unsent = Server("never"), UnsentBytes(20_000)
    running = asyncio.create_task(_stream(server, Client([1, 1]), unsent).run(draining=False))
    await _settled()
    running.cancel()
    zeros = np.zeros((1, 1), np.float16), np.zeros(1, np.float32)
    for answer in server.unanswered:
        answer.set_result(Prediction(*zeros, 1))
    await asyncio.gather(running, return_exceptions=True)
    await _settled()
    assert unsent.total == 0


async def test_a_client_that_is_gone_is_no_error() -> None:
    class Gone(Client):
        async def write(self, answer: pb.ModelStreamInferResponse) -> None:
            raise grpc.aio.InternalError

    with pytest.raises(asyncio.CancelledError):
        await _stream(Server(), Gone([1] * 100)).run(draining=False)


@pytest.mark.parametrize("fails", ["at once", "later"])
async def test_requests_that_fail_give_their_room_back(fails: str) -> None:
    server, client = Server(fails), Client([4] * 300)
    stream = _stream(server, client)
    for _ in range(300):
        client.reads.release()
    await asyncio.wait_for(stream.run(draining=False), 120)
    assert server.rows == 1_200
    assert [answer.error_message for answer in client.answers] == ["send again later"] * 300


async def test_a_stream_that_waits_for_its_client_can_be_given_up() -> None:
    server, client = Server(), Client([4] * 100)
    stream = _stream(server, client)
    running = asyncio.create_task(stream.run(draining=False))
    await _settled()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
    assert server.rows == BOUND
