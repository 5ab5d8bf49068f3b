"""The service ``zerofleet.v1.Player`` over a ``PlayerBackend``."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc.aio

from zerofleet.errors import OverloadedError
from zerofleet.rpc import player_codec as codec
from zerofleet.rpc.codec import BEST
from zerofleet.rpc.player_backend import PlayerBackend
from zerofleet.rpc.schema import player as pb

_Context = grpc.aio.ServicerContext[Any, Any]

# A search waits for the client that reads its tables, and other searches wait for its place.
_UNREAD_SECONDS = 30.0


class PlayerServicer:
    """Methods are named as the schema names them; errors are the interceptor's work."""

    def __init__(self, player: PlayerBackend) -> None:
        self._player = player

    async def Describe(self, request: pb.DescribeRequest, context: _Context) -> pb.DescribeResponse:  # noqa: N802
        """The game, and the models there are."""
        return codec.encode_description(await self._player.describe())

    async def Predict(self, request: pb.PredictRequest, context: _Context) -> pb.PredictResponse:  # noqa: N802
        """The network's opinion."""
        return codec.encode_prediction(
            await self._player.predict(
                request.position.game,
                codec.decode_actions(request.position),
                run=request.model.run,
                version=request.model.version or BEST,
            )
        )

    async def Search(self, request: pb.SearchRequest, context: _Context) -> pb.SearchResponse:  # noqa: N802
        """A whole search."""
        return codec.encode_table(
            await self._player.search(
                request.position.game,
                codec.decode_actions(request.position),
                run=request.model.run,
                version=request.model.version or BEST,
                options=codec.decode_options(request.options),
            )
        )

    async def Analyze(self, request: pb.AnalyzeRequest, context: _Context) -> None:  # noqa: N802
        """A search that shows its table while it runs, as long as the client reads."""
        search = request.search
        tables = self._player.analyze(
            search.position.game,
            codec.decode_actions(search.position),
            run=search.model.run,
            version=search.model.version or BEST,
            options=codec.decode_options(search.options),
            every_simulations=request.every_simulations,
            every_seconds=request.every_seconds,
        )
        # Closed here and now: a client that goes away must not leave its search behind.
        async with contextlib.aclosing(tables):
            async for table in tables:
                try:
                    async with asyncio.timeout(_UNREAD_SECONDS):
                        await context.write(codec.encode_table(table))
                except TimeoutError as error:
                    raise OverloadedError(
                        f"no table was read for {_UNREAD_SECONDS:g} s: read, or ask for fewer"
                    ) from error

    async def Play(self, request: pb.PlayRequest, context: _Context) -> pb.PlayResponse:  # noqa: N802
        """An action."""
        return codec.encode_played(
            await self._player.play(
                request.position.game,
                codec.decode_actions(request.position),
                run=request.model.run,
                version=request.model.version or BEST,
                options=codec.decode_options(request.options),
                temperature=request.temperature,
            )
        )
