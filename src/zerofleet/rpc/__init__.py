"""The wire: the Open Inference Protocol for tensors, ``zerofleet.v1.Player`` for positions.

Messages stay inside this package; what comes out are arrays and frozen dataclasses.
"""

from zerofleet.rpc.backend import BatchTimes, Duration, InferenceBackend, ModelCounters, ModelState
from zerofleet.rpc.client import InferenceClient
from zerofleet.rpc.codec import (
    BEST,
    MAX_MESSAGE_BYTES,
    PRECISIONS,
    ModelShape,
    parse_version,
)
from zerofleet.rpc.player import (
    Actions,
    PlayedAction,
    Player,
    PlayerDescription,
    PositionPrediction,
    SearchChild,
    SearchOptions,
    SearchTable,
    Sgf,
)
from zerofleet.rpc.player_client import PlayerClient
from zerofleet.rpc.prediction_stream import PredictionStream
from zerofleet.rpc.server import Server, check_free, serve

__all__ = [
    "BEST",
    "MAX_MESSAGE_BYTES",
    "PRECISIONS",
    "Actions",
    "BatchTimes",
    "Duration",
    "InferenceBackend",
    "InferenceClient",
    "ModelCounters",
    "ModelShape",
    "ModelState",
    "PlayedAction",
    "Player",
    "PlayerClient",
    "PlayerDescription",
    "PositionPrediction",
    "PredictionStream",
    "SearchChild",
    "SearchOptions",
    "SearchTable",
    "Server",
    "Sgf",
    "check_free",
    "parse_version",
    "serve",
]
