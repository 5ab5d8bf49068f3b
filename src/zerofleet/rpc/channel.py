"""How clients connect: limits, keepalive, quick reconnection; and the pause between two tries."""

from __future__ import annotations

import json
import random

import grpc.aio

from zerofleet.rpc.codec import MAX_MESSAGE_BYTES

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # gRPC waits up to two minutes before it tries a lost server again, unless told otherwise.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Retries are this package's work, once, with a deadline over all tries.
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    # A name of several addresses (a headless service) is spread over, not pinned to the first.
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
)


def open_channel(address: str) -> grpc.aio.Channel:
    """A channel to ``host:port``, ``unix:path`` or any gRPC target; must be made in its loop."""
    return grpc.aio.insecure_channel(address, options=_OPTIONS)


def back_off(failures: int) -> float:
    """Seconds to wait after so many failures in a row: 0.05 doubling to 2, jittered by half.

    Jitter keeps a thousand workers from coming back to a restarted server in one instant.
    """
    return min(2.0, 0.05 * 2.0 ** min(failures, 10)) * random.uniform(0.5, 1.0)  # nosec B311
