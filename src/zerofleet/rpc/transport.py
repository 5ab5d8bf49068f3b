"""Where gRPC connects and listens: the only calls that could do it in plaintext.

Plaintext stays on this machine (loopback, unix sockets) unless a setting says otherwise. The probe
and the health port are plaintext on purpose: they say no more than SERVING.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from zerofleet.rpc.credentials import ServerCredentials

# An address with a port: its host is in brackets or has no colon.
_PORT = re.compile(r"(?:\[[^\]]*\]|[^:]*):([0-9]+)")
_HIGHEST_PORT = 65535
_Options = Sequence[tuple[str, Any]]


def dial(
    address: str,
    options: _Options,
    tls: grpc.ChannelCredentials | None,
    *,
    allow_plaintext: bool,
) -> grpc.aio.Channel:
    """A channel to any gRPC target; must be made in its loop.

    Raises:
        ConfigError: it is no target, or it would be plaintext to another machine.
    """
    require_target(address)
    if tls is not None:
        return grpc.aio.secure_channel(address, tls, options=options)
    if not allow_plaintext and not is_local(address):
        raise ConfigError(
            f"{address} is another machine, and without TLS others could read along: set "
            "ZEROFLEET_TLS_FOLDER (--tls), or ZEROFLEET_ALLOW_PLAINTEXT=true in a network that you "
            "trust"
        )
    return grpc.aio.insecure_channel(address, options=options)


def listen(
    server: grpc.aio.Server,
    address: str,
    credentials: ServerCredentials,
    tls: grpc.ServerCredentials | None,
) -> int:
    """Bind a server to an address; the port (0 for a unix socket).

    Raises:
        ConfigError: it is no address, or it would be plaintext for other machines.
        RuntimeError: gRPC cannot bind it.
    """
    require_target(address)
    if tls is not None:
        return server.add_secure_port(address, tls)
    if not credentials.allow_plaintext and not is_local(address):
        raise ConfigError(
            f"{address} can be reached from other machines, and without TLS others could read "
            "along: set ZEROFLEET_TLS_FOLDER, listen on 127.0.0.1, or set "
            "ZEROFLEET_ALLOW_PLAINTEXT=true in a network that you trust"
        )
    return server.add_insecure_port(address)


def listen_for_probes(server: grpc.Server, address: str) -> int:
    """Bind a server that has nothing but health; the port."""
    return server.add_insecure_port(address)


def probing_channel(address: str) -> grpc.Channel:
    """A blocking channel to a health port."""
    return grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])


def require_target(target: str) -> None:
    """Refuse a target that gRPC would misread.

    gRPC takes a port modulo 65536, ends a path at a NUL, and ignores a line break at the end.

    Raises:
        ConfigError: the target has such a port or character.
    """
    is_path = target.startswith(("unix:", "unix-abstract:"))
    if not target or not target.isprintable() or (" " in target and not is_path):
        raise ConfigError(f"{target[:80]!r} is not an address: give HOST:PORT or unix:PATH")
    for each in () if is_path else _without_scheme(target).split(","):
        found = _PORT.fullmatch(each)
        if found is not None and int(found[1].lstrip("0")[:6] or "0") > _HIGHEST_PORT:
            raise ConfigError(
                f"'{target[:80]}' is not an address: the highest port is {_HIGHEST_PORT}"
            )


def is_local(target: str) -> bool:
    """Whether a gRPC target stays on this machine; a name other than localhost may be anywhere."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    return all(_is_loopback(_host(each)) for each in _without_scheme(target).split(","))


def _without_scheme(target: str) -> str:
    rest = target
    for scheme in ("dns:", "passthrough:", "ipv4:", "ipv6:"):
        if target.startswith(scheme):
            rest = target.removeprefix(scheme)
    if rest.startswith("//"):  # an authority, such as the name server to ask
        rest = rest[2:].partition("/")[2]
    return rest.removeprefix("/")


def _host(address: str) -> str:
    if address.startswith("["):
        return address[1:].partition("]")[0]
    host, _, _ = address.rpartition(":")
    return host if address.count(":") == 1 else address


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
