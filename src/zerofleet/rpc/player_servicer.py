"""The service ``zerofleet.v1.Player`` over a ``Player``."""

from __future__ import annotations

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
        async for table in self._player.analyze(
            search.position.game,
            codec.decode_actions(search.position),
            run=search.model.run,
            version=search.model.version or BEST,
            options=codec.decode_options(search.options),
            every_simulations=request.every_simulations,
        ):
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
