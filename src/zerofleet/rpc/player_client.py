"""Client of ``zerofleet.v1.Player``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self

import grpc.aio

from zerofleet.errors import InferenceUnavailableError
from zerofleet.rpc import player_codec as codec
from zerofleet.rpc.channel import LOCAL, open_channel
from zerofleet.rpc.codec import BEST
from zerofleet.rpc.credentials import ClientCredentials
from zerofleet.rpc.methods import PLAYER, server_stream, unary
from zerofleet.rpc.player import (
    Actions,
    PlayedAction,
    PlayerDescription,
    PositionPrediction,
    SearchOptions,
    SearchTable,
)
from zerofleet.rpc.retry import retrying, rpc_error
from zerofleet.rpc.schema import player as pb

_DEFAULT = SearchOptions()


class PlayerClient:
    """A ``PlayerBackend`` over the wire, for ``async with``.

    Args:
        address: of an inference service.
        timeout: seconds for an answer; in ``analyze`` for each of its tables.
        credentials: what to show, and whom to believe.

    Besides ``PlayerBackend``'s errors, methods raise ``InferenceUnavailableError`` when no answer
    came within the timeout, ``OverloadedError`` when the server has no room and
    ``AccessDeniedError`` when it refuses this token.

    Raises:
        ConfigError: on entering, when the credentials cannot be used, or it would be plaintext to
            another machine.
    """

    def __init__(
        self, address: str, *, timeout: float = 60.0, credentials: ClientCredentials = LOCAL
    ) -> None:
        self._address = address
        self._credentials = credentials
        self._timeout = timeout

    async def __aenter__(self) -> Self:
        self._channel = channel = open_channel(self._address, self._credentials)
        self._describe = unary(channel, PLAYER, "Describe", pb.DescribeRequest, pb.DescribeResponse)
        self._predict = unary(channel, PLAYER, "Predict", pb.PredictRequest, pb.PredictResponse)
        self._search = unary(channel, PLAYER, "Search", pb.SearchRequest, pb.SearchResponse)
        self._analyze = server_stream(
            channel, PLAYER, "Analyze", pb.AnalyzeRequest, pb.SearchResponse
        )
        self._play = unary(channel, PLAYER, "Play", pb.PlayRequest, pb.PlayResponse)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._channel.close()

    async def describe(self) -> PlayerDescription:
        """See ``PlayerBackend.describe``."""
        request = pb.DescribeRequest()
        return codec.decode_description(
            await retrying(
                self._address, self._timeout, lambda left: self._describe(request, timeout=left)
            )
        )

    async def predict(
        self, game: str, actions: Actions, *, run: str = "", version: str = BEST
    ) -> PositionPrediction:
        """See ``PlayerBackend.predict``."""
        request = pb.PredictRequest(
            position=codec.encode_position(game, actions), model=pb.Model(run=run, version=version)
        )
        return codec.decode_prediction(
            await retrying(
                self._address, self._timeout, lambda left: self._predict(request, timeout=left)
            )
        )

    async def search(
        self,
        game: str,
        actions: Actions,
        *,
        run: str = "",
        version: str = BEST,
        options: SearchOptions = _DEFAULT,
    ) -> SearchTable:
        """See ``PlayerBackend.search``."""
        request = _search_request(game, actions, run, version, options)
        return codec.decode_table(
            await retrying(
                self._address, self._timeout, lambda left: self._search(request, timeout=left)
            )
        )

    async def analyze(
        self,
        game: str,
        actions: Actions,
        *,
        run: str = "",
        version: str = BEST,
        options: SearchOptions = _DEFAULT,
        every_simulations: int = 0,
        every_seconds: float = 0.0,
    ) -> AsyncGenerator[SearchTable]:
        """See ``PlayerBackend.analyze``; a broken stream is an error, not another try."""
        request = pb.AnalyzeRequest(
            search=_search_request(game, actions, run, version, options),
            every_simulations=every_simulations,
            every_seconds=every_seconds,
        )
        call = self._analyze(request)
        try:
            while (response := await self._next(call)) is not None:
                yield codec.decode_table(response)
        except grpc.aio.AioRpcError as error:
            raise rpc_error(self._address, error) from error
        finally:
            call.cancel()

    async def _next(
        self, call: grpc.aio.UnaryStreamCall[pb.AnalyzeRequest, pb.SearchResponse]
    ) -> pb.SearchResponse | None:
        """The next table; None after the last one."""
        try:
            async with asyncio.timeout(self._timeout):
                response = await call.read()
        except TimeoutError as error:
            raise InferenceUnavailableError(
                f"inference at {self._address} gave no table for {self._timeout:g} s"
            ) from error
        return response if isinstance(response, pb.SearchResponse) else None

    async def play(
        self,
        game: str,
        actions: Actions,
        *,
        run: str = "",
        version: str = BEST,
        options: SearchOptions = _DEFAULT,
        temperature: float = 0.0,
    ) -> PlayedAction:
        """See ``PlayerBackend.play``."""
        request = pb.PlayRequest(
            position=codec.encode_position(game, actions),
            model=pb.Model(run=run, version=version),
            options=codec.encode_options(options),
            temperature=temperature,
        )
        return codec.decode_played(
            await retrying(
                self._address, self._timeout, lambda left: self._play(request, timeout=left)
            )
        )


def _search_request(
    game: str, actions: Actions, run: str, version: str, options: SearchOptions
) -> pb.SearchRequest:
    return pb.SearchRequest(
        position=codec.encode_position(game, actions),
        model=pb.Model(run=run, version=version),
        options=codec.encode_options(options),
    )
