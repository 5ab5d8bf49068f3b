"""The wire: the Open Inference Protocol for tensors, ``zerofleet.v1.Player`` for positions.

Messages stay inside this package; what comes out are arrays and frozen dataclasses. A name is
imported when it is first used: a probe and a client for people need little of all this.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zerofleet.rpc.backend import (
        BatchTimes,
        Duration,
        InferenceBackend,
        ModelCounters,
        ModelState,
    )
    from zerofleet.rpc.client import InferenceClient
    from zerofleet.rpc.codec import (
        BEST,
        MAX_MESSAGE_BYTES,
        PRECISIONS,
        ModelShape,
        parse_version,
    )
    from zerofleet.rpc.credentials import ClientCredentials, ServerCredentials
    from zerofleet.rpc.health import HealthServer
    from zerofleet.rpc.limits import Limits
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
    "ClientCredentials",
    "Duration",
    "HealthServer",
    "InferenceBackend",
    "InferenceClient",
    "Limits",
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
    "ServerCredentials",
    "Sgf",
    "check_free",
    "parse_version",
    "serve",
]

_MODULES = {
    "backend": ("BatchTimes", "Duration", "InferenceBackend", "ModelCounters", "ModelState"),
    "client": ("InferenceClient",),
    "codec": ("BEST", "MAX_MESSAGE_BYTES", "PRECISIONS", "ModelShape", "parse_version"),
    "credentials": ("ClientCredentials", "ServerCredentials"),
    "health": ("HealthServer",),
    "limits": ("Limits",),
    "player": (
        *("Actions", "PlayedAction", "Player", "PlayerDescription", "PositionPrediction"),
        *("SearchChild", "SearchOptions", "SearchTable", "Sgf"),
    ),
    "player_client": ("PlayerClient",),
    "prediction_stream": ("PredictionStream",),
    "server": ("Server", "check_free", "serve"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found
