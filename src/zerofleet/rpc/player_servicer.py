"""The service ``zerofleet.v1.Player`` over a ``Player``."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from zerofleet.rpc import player_codec as codec
from zerofleet.rpc.codec import BEST
from zerofleet.rpc.player import Player
from zerofleet.rpc.schema import player as pb

_Context = grpc.aio.ServicerContext[Any, Any]


class PlayerServicer:
    """Methods are named as the schema names them; errors are the interceptor's work."""

    def __init__(self, player: Player) -> None:
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

    async def Analyze(  # noqa: N802
        self, request: pb.AnalyzeRequest, context: _Context
    ) -> AsyncIterator[pb.SearchResponse]:
        """A search that shows its table while it runs."""
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
                yield codec.encode_table(table)

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
