"""Query a health port: ``python -m zerofleet.rpc.probe ADDRESS [--service NAME]``.

The exit status is 0 if it answers SERVING. Container engines run this every few seconds, so it
imports little: no messages are parsed, because the answer is two bytes.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, cast

import grpc

from zerofleet.rpc.tls import probing_channel

_CHECK = "/grpc.health.v1.Health/Check"
_MOST_NAME_BYTES = 127  # its length is one byte on the wire
_SERVING = b"\x08\x01"  # field 1, status: 1


def main() -> int:
    """Query once and return the exit status of the process."""
    parser = argparse.ArgumentParser(prog="zerofleet.rpc.probe", description=__doc__)
    parser.add_argument("address", help="host:port of ZEROFLEET_HEALTH_ADDRESS")
    parser.add_argument("--service", default="", help="such as live; by default the whole server")
    parser.add_argument("--timeout", type=float, default=5.0, metavar="SECONDS")
    chosen = parser.parse_args()
    if len(chosen.service.encode()) > _MOST_NAME_BYTES:
        parser.error(f"--service {chosen.service}: no service has a name that long")
    complaint = probe(chosen.address, chosen.service, chosen.timeout)
    if complaint:
        sys.stderr.write(f"{chosen.address}: {complaint}\n")
    return 1 if complaint else 0


def probe(address: str, service: str = "", timeout: float = 5.0) -> str:
    """Return the problem of a service; empty if it is SERVING.

    Args:
        address: address of its health port.
        service: name of the service; empty: the whole server.
        timeout: seconds to wait.
    """
    name = service.encode()
    request = bytes([10, len(name)]) + name if name else b""
    with probing_channel(address) as channel:
        check = cast("Any", channel).unary_unary(_CHECK)
        try:
            answer: bytes = check(request, timeout=timeout)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
    return "" if answer == _SERVING else "NOT_SERVING"


if __name__ == "__main__":
    sys.exit(main())
