"""Client for programs that use a trained player: positions in, predictions and actions out.

::

    from zerofleet.client import Player

    with Player("127.0.0.1:8001") as player:
        print(player.play(["4", "4", "3"]).action_string)

``Player`` and ``Model`` block and may be shared by many threads; ``AsyncPlayer`` and ``AsyncModel``
are the same for asyncio. A player answers about positions, a model about batches of observations.
Errors are the classes of ``zerofleet.errors``.
"""

from zerofleet.client.async_model import AsyncModel
from zerofleet.client.async_player import AsyncPlayer, Position
from zerofleet.client.blocking import Model, Player
from zerofleet.prediction import Prediction
from zerofleet.rpc.player_service import (
    PlayedAction,
    PlayerDescription,
    PositionPrediction,
    SearchChild,
    SearchOptions,
    SearchTable,
    Sgf,
)

__all__ = [
    "AsyncModel",
    "AsyncPlayer",
    "Model",
    "PlayedAction",
    "Player",
    "PlayerDescription",
    "Position",
    "PositionPrediction",
    "Prediction",
    "SearchChild",
    "SearchOptions",
    "SearchTable",
    "Sgf",
]
