"""Limits: each is really reached, and the refusal harms no other client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest

from zerofleet.client import AsyncModel
from zerofleet.errors import OverloadedError
from zerofleet.rpc import player_service, server
from zerofleet.rpc.access import Limits
from zerofleet.rpc.channel import unary
from zerofleet.rpc.codec import encode_request
from zerofleet.rpc.methods import INFERENCE, PLAYER
from zerofleet.rpc.player_service import SearchChild, SearchTable
from zerofleet.rpc.prediction_stream import stream_infer
from zerofleet.rpc.schema import open_inference as pb
from zerofleet.rpc.tls import ClientCredentials, ServerCredentials
from zerofleet.secrets.tokens import add_token

RUN = "secured"
ROWS = np.zeros((2, 4), np.uint8)


@contextlib.asynccontextmanager
async def stock_channel(address: str, *options: tuple[str, Any]) -> AsyncIterator[Any]:
    """Return a channel without any of our clients' settings."""
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        yield channel


def _infer(channel: Any) -> Any:
    return unary(channel, INFERENCE, "ModelInfer", pb.ModelInferRequest, pb.ModelInferResponse)


async def test_a_call_without_a_deadline_gets_the_servers(serve: Any, until: Any) -> None:
    async with (
        serve(limits=Limits(call_seconds=0.2)) as served,
        stock_channel(served.address) as channel,
    ):
        served.backend.go.clear()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _infer(channel)(encode_request(RUN, "best", ROWS))
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert caught.value.details() == (
            "this call set no deadline, and the server's own of 0.2 s is over"
        )
        await until(lambda: served.backend.waiting == 0)  # the server cancels its request
        patient = asyncio.ensure_future(
            _infer(channel)(encode_request(RUN, "best", ROWS), timeout=120)
        )
        await until(lambda: served.backend.waiting == 1)
        await asyncio.wait({patient}, timeout=0.4)
        assert not patient.done()  # only the client's own deadline counts
        served.backend.go.set()
        assert (await patient).model_version == "1"


async def test_calls_of_all_are_bounded(serve: Any, until: Any) -> None:
    async with serve(limits=Limits(calls=3)) as served, stock_channel(served.address) as channel:
        served.backend.go.clear()
        calls = [
            asyncio.ensure_future(_infer(channel)(encode_request(RUN, "best", ROWS), timeout=120))
            for _ in range(3)
        ]
        await until(lambda: served.backend.waiting == 3)
        async with AsyncModel(served.address, RUN) as another:
            with pytest.raises(OverloadedError, match=r"(?i)concurrent rpc limit"):
                await another.predict(ROWS)
        served.backend.go.set()
        assert [answer.model_version for answer in await asyncio.gather(*calls)] == ["1"] * 3


async def test_calls_of_one_token_leave_room_for_others(
    serve: Any, until: Any, tmp_path: Path
) -> None:
    accepted = tmp_path / "roles.toml"
    shown: list[ClientCredentials] = []
    for name in ("greedy", "modest"):
        path = tmp_path / name
        path.write_text(add_token(accepted, name, "worker"))
        shown.append(ClientCredentials(token_file=path))
    limits = Limits(calls=6, calls_of_one=2)
    async with (
        serve(ServerCredentials(token_roles_file=accepted), limits) as served,
        AsyncModel(served.address, RUN, **shown[0]) as greedy,
        AsyncModel(served.address, RUN, **shown[1]) as modest,
        greedy.stream() as stream,
    ):
        served.backend.go.clear()
        calls = [asyncio.ensure_future(ask(ROWS)) for ask in (stream.predict, _one(greedy))]
        await until(lambda: served.backend.waiting == 2)
        with pytest.raises(OverloadedError, match="token 'greedy' has 2 calls open"):
            await greedy.predict(ROWS)
        calls.append(asyncio.ensure_future(modest.predict(ROWS)))
        await until(lambda: served.backend.waiting == 3)
        served.backend.go.set()
        assert [answer.model_version for answer in await asyncio.gather(*calls)] == [1] * 3
        assert (await greedy.predict(ROWS)).model_version == 1  # there is capacity again


def _one(client: AsyncModel) -> Any:
    return lambda rows: client.predict(rows)


async def test_without_tokens_the_address_is_who_calls(serve: Any, until: Any) -> None:
    async with (
        serve(limits=Limits(calls_of_one=1)) as served,
        AsyncModel(served.address, RUN) as client,
    ):
        served.backend.go.clear()
        call = asyncio.ensure_future(client.predict(ROWS))
        await until(lambda: served.backend.waiting == 1)
        with pytest.raises(OverloadedError, match=r"address ipv[46]:\S+ has 1 call open,"):
            await client.predict(ROWS)
        served.backend.go.set()
        await call


async def test_with_certificates_their_name_is_who_calls(serve: Any, until: Any, tls: Any) -> None:
    credentials = ServerCredentials(tls("inference"))
    async with (
        serve(credentials, Limits(calls_of_one=1)) as served,
        AsyncModel(served.address, RUN, **ClientCredentials(tls_folder=tls("selfplay"))) as worker,
        AsyncModel(
            served.address, RUN, **ClientCredentials(tls_folder=tls("evaluator"))
        ) as evaluator,
    ):
        served.backend.go.clear()
        calls = [asyncio.ensure_future(each.predict(ROWS)) for each in (worker, evaluator)]
        await until(lambda: served.backend.waiting == 2)
        with pytest.raises(OverloadedError, match="certificate 'selfplay' has 1 call open,"):
            await worker.predict(ROWS)
        served.backend.go.set()
        await asyncio.gather(*calls)


async def test_calls_of_one_connection_are_bounded(serve: Any, until: Any) -> None:
    """HTTP/2 refuses or delays excess calls; our clients retry until they fit."""
    async with (
        serve(limits=Limits(calls_of_connection=2)) as served,
        stock_channel(served.address) as channel,
        AsyncModel(served.address, RUN, timeout=120) as another,
    ):
        served.backend.go.clear()
        calls = [_infer(channel)(encode_request(RUN, "best", ROWS), timeout=120) for _ in range(5)]
        await until(lambda: served.backend.waiting == 2)
        asking = [asyncio.ensure_future(another.predict(ROWS)) for _ in range(5)]
        await until(lambda: served.backend.waiting == 4)
        await asyncio.wait(asking, timeout=0.3)
        assert served.backend.waiting == 4
        served.backend.go.set()
        for call in calls:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await call
        assert {(await call.code()).name for call in calls} <= {"OK", "UNAVAILABLE"}
        assert [answer.model_version for answer in await asyncio.gather(*asking)] == [1] * 5


async def test_answers_that_nobody_reads_are_bounded_over_all_streams(
    serve: Any, until: Any
) -> None:
    """Streams with unread answers are not read. Other clients are served, and memory is freed."""
    # gRPC itself buffers some unread answers; these settings make it buffer the minimum.
    small = (("grpc.http2.lookahead_bytes", 1), ("grpc.http2.bdp_probe", 0))
    most, streams, requests = 50_000, 8, 100
    async with (
        serve(limits=Limits(unsent_bytes=most)) as served,
        stock_channel(served.address, *small) as channel,
        AsyncModel(served.address, RUN, timeout=120) as client,
        client.stream() as honest,
    ):
        unsent = served.server._inference._unsent
        unread = [stream_infer(channel)() for _ in range(streams)]

        async def ask(call: Any) -> None:
            for number in range(requests):
                await call.write(encode_request(RUN, "best", ROWS, f"{number}".zfill(256)))

        await asyncio.gather(*map(ask, unread))
        await until(lambda: unsent.total >= most)
        full = 0
        for _ in range(200):
            assert len((await honest.predict(ROWS)).value) == len(ROWS)
            full += unsent.total >= most
        assert full == 200
        # includes earlier requests; without a bound it would be 2,700,000
        assert unsent.total < 5 * most
        for call in unread:
            call.cancel()
        await until(lambda: unsent.total == 0)
        assert len((await honest.predict(ROWS)).value) == len(ROWS)


async def test_metadata_is_bounded(serve: Any) -> None:
    async with (
        serve(limits=Limits(metadata_bytes=4096)) as served,
        stock_channel(served.address) as channel,
    ):
        ready = channel.unary_unary(f"/{INFERENCE}/ServerReady")
        await ready(b"", metadata=(("x", "a" * 1000),), timeout=120)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ready(b"", metadata=(("x", "a" * 8000),), timeout=120)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await ready(b"", timeout=120)


@pytest.mark.parametrize("talks", [True, False])
async def test_a_stream_that_its_client_never_ends_is_ended(
    serve: Any, monkeypatch: pytest.MonkeyPatch, talks: bool
) -> None:
    options = dict(server._OPTIONS)
    options["grpc.max_connection_age_ms"] = 200
    options["grpc.max_connection_age_grace_ms"] = 200
    monkeypatch.setattr(server, "_OPTIONS", tuple(options.items()))
    async with serve() as served:
        has_talked = False
        while not has_talked:  # a slow machine may miss the connection's short life
            async with stock_channel(served.address) as channel:
                call = stream_infer(channel)()
                if talks:
                    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                        await call.write(encode_request(RUN, "best", ROWS, "1"))
                        answer = await call.read()
                        has_talked = answer is not grpc.aio.EOF
                        assert not has_talked or answer.infer_response.model_version == "1"
                assert await asyncio.wait_for(call.code(), 120) is grpc.StatusCode.UNAVAILABLE
            has_talked |= not talks


async def test_a_call_is_judged_before_any_message_of_it_comes(serve: Any, tmp_path: Path) -> None:
    """Otherwise idle calls would use up the capacity for everybody, even without a token."""
    accepted = tmp_path / "roles.toml"
    metadata = (("authorization", f"Bearer {add_token(accepted, 'greedy', 'worker')}"),)
    credentials = ServerCredentials(token_roles_file=accepted)
    path = f"/{INFERENCE}/ServerReady"
    async with (
        serve(credentials, Limits(calls_of_one=2, call_seconds=600)) as served,
        stock_channel(served.address) as channel,
    ):
        silent = channel.stream_unary(path)
        assert await _code(silent()) is grpc.StatusCode.UNAUTHENTICATED
        taken = [silent(metadata=metadata) for _ in range(2)]
        await asyncio.gather(*(call.wait_for_connection() for call in taken))
        assert await _code(silent(metadata=metadata)) is grpc.StatusCode.RESOURCE_EXHAUSTED
        for call in taken:
            call.cancel()
    async with (
        serve(credentials, Limits(calls_of_one=2, call_seconds=0.2)) as served,
        stock_channel(served.address) as channel,
    ):
        silent = channel.stream_unary(path)
        assert await _code(silent(metadata=metadata)) is grpc.StatusCode.DEADLINE_EXCEEDED


async def _code(call: Any) -> grpc.StatusCode:
    return await asyncio.wait_for(call.code(), 120)


async def test_garbage_to_a_service_that_grpc_brings_is_refused_like_any(serve: Any) -> None:
    async with serve() as served, stock_channel(served.address) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.aio.AioRpcError, match="not one of this method's") as caught:
            await check(b"\xff", timeout=120)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        nothing = channel.stream_unary(f"/{INFERENCE}/ServerReady")(timeout=120)
        await nothing.done_writing()
        assert await _code(nothing) is grpc.StatusCode.INVALID_ARGUMENT


class Endless:
    """A player that sends one large table after the other."""

    def __init__(self) -> None:
        self.searches = 0

    async def analyze(self, *arguments: object, **options: object) -> AsyncIterator[SearchTable]:
        del arguments, options
        child = SearchChild(0, "a1", 1, 1.0, None, tuple(range(10_000)))
        self.searches += 1
        try:
            while True:
                yield SearchTable(RUN, 1, 0, 1, 0.0, 0.0, 0, "a1", (child,), done=False)
        finally:
            self.searches -= 1


async def test_a_search_whose_tables_nobody_reads_gives_its_place_back(
    serve: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(player_service, "_UNREAD_SECONDS", 0.2)
    player: Any = Endless()
    async with serve(player=player) as served, stock_channel(served.address) as channel:
        call = channel.unary_stream(f"/{PLAYER}/Analyze")(b"")
        await until(lambda: player.searches == 1)
        await until(lambda: player.searches == 0)
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for _ in call:
                pass
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await call.details()).startswith("no table was read for 0.2 s")


async def test_connections_leave_the_process_files(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = server._RESERVED_FILES + 20
    monkeypatch.setattr(server.resource, "getrlimit", lambda _: (files, files))
    async with serve() as served, contextlib.AsyncExitStack() as held:
        firsts: list[bytes] = []
        for _ in range(21):
            reader, writer = await asyncio.open_connection(*served.address.split(":"))
            held.callback(writer.close)
            async with asyncio.timeout(120):
                # the server greets each connection that it accepts
                firsts.append(await reader.read(1))
    assert firsts.count(b"") == 1
