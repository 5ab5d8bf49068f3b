"""TLS: the credentials of each side, the certificate files, and the calls that connect and listen.

Certificates are in a folder laid out like a Kubernetes TLS secret. gRPC reports a bad certificate
late and with little detail, so Python's own TLS checks the files first.

Plaintext stays on this machine (loopback, unix sockets) unless a setting allows more. The probe and
the health port are always plaintext: they answer only SERVING or NOT_SERVING.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict

import grpc
import grpc.aio

from zerofleet.errors import ConfigError
from zerofleet.secrets.files import Followed, read_bytes

if TYPE_CHECKING:
    from zerofleet.config import ProcessSettings


_CHAIN, _KEY, _AUTHORITY = "tls.crt", "tls.key", "ca.crt"
# An address with a port: its host is in brackets or has no colon.
_PORT = re.compile(r"(?:\[[^\]]*\]|[^:]*):([0-9]+)")
_HIGHEST_PORT = 65535
_Options = Sequence[tuple[str, Any]]


class ClientCredentials(TypedDict, total=False):
    """Keywords of every client: its own credentials, and the servers it trusts.

    Files are read again when they are replaced. Without any, a client reaches servers on this
    machine, in plaintext and without a token.
    """

    tls_folder: str | Path | None
    """Folder of certificates.

    ``ca.crt`` signs the trusted servers (absent: the public authorities). ``tls.crt`` and
    ``tls.key`` are the client's own (absent: none is sent).
    """
    token_file: str | Path | None
    """File whose first line is sent as the bearer token."""
    allow_plaintext: bool
    """Allow other machines without a ``tls_folder``."""


def client_credentials(settings: ProcessSettings) -> ClientCredentials:
    """Return the client credentials of a process."""
    return ClientCredentials(
        tls_folder=settings.tls_folder,
        token_file=settings.token_file,
        allow_plaintext=settings.allow_plaintext,
    )


@dataclass(frozen=True, slots=True)
class ServerCredentials:
    """Files of a server: its own credentials, and the clients it accepts.

    Files are read again when they are replaced. The default serves this machine in plaintext and
    requires neither certificates nor tokens.
    """

    tls_folder: Path | None = None
    """Folder with the server's ``tls.crt`` and ``tls.key``; ``ca.crt`` signs the trusted clients.
    """
    client_certificates: Literal["required", "optional"] = "required"
    """With ``optional`` no client is asked for its certificate."""
    token_roles_file: Path | None = None
    """File of the accepted tokens and their roles; unset: no token is required."""
    allow_plaintext: bool = False
    """Listen where other machines can connect, without a ``tls_folder``."""

    @classmethod
    def of(cls, settings: ProcessSettings) -> Self:
        """Return the server credentials of a process."""
        return cls(
            settings.tls_folder,
            settings.client_certificates,
            settings.token_roles_file,
            settings.allow_plaintext,
        )


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of a folder, as PEM."""

    chain: bytes | None
    key: bytes | None = field(repr=False)
    authority: bytes | None


def followed_certificates(folder: Path, *, server: bool) -> Followed[Certificates]:
    """Return the certificates of a folder, read again when they are replaced.

    Args:
        folder: folder with ``tls.crt``, ``tls.key`` and ``ca.crt``.
        server: all three are required; a client needs only its own two, or only ``ca.crt``.

    Raises:
        ConfigError: a file is missing or invalid; the message says which.
    """
    paths = [folder / name for name in (_CHAIN, _KEY, _AUTHORITY)]
    return Followed(paths, lambda: _read(folder, whole=server))


def server_credentials(
    certificates: Followed[Certificates], *, require_client: bool
) -> grpc.ServerCredentials:
    """Return gRPC credentials that use the current certificates for each handshake.

    Without ``require_client`` no client is asked for a certificate, because gRPC for Python cannot
    make one optional.
    """
    used = certificates.get()

    def fetch() -> Any:  # noqa: ANN401 - the stubs omit None: nothing has changed
        nonlocal used
        now = certificates.get()
        if now is used:
            return None
        used = now
        return _configuration(now)

    return grpc.dynamic_ssl_server_credentials(_configuration(used), fetch, require_client)


def channel_credentials(certificates: Certificates) -> grpc.ChannelCredentials:
    """Return gRPC credentials, which are fixed for the life of a channel."""
    return grpc.ssl_channel_credentials(
        certificates.authority, certificates.key, certificates.chain
    )


def _configuration(certificates: Certificates) -> grpc.ServerCertificateConfiguration:
    pairs: list[Any] = [(certificates.key, certificates.chain)]
    return grpc.ssl_server_certificate_configuration(pairs, certificates.authority)


def _read(folder: Path, *, whole: bool) -> Certificates:
    try:
        names = [name for name in (_CHAIN, _KEY, _AUTHORITY) if (folder / name).exists()]
    except OSError as error:
        raise ConfigError(f"the TLS folder {folder} cannot be read: {error.strerror}") from error
    missing = sorted({_CHAIN, _KEY, _AUTHORITY} - set(names))
    if (whole and missing) or not names or (_CHAIN in names) != (_KEY in names):
        raise ConfigError(
            f"the TLS folder {folder} lacks {', '.join(missing)}: it must be laid out like a "
            "Kubernetes TLS secret (`python -m zerofleet.secrets DIR` makes such folders)"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if _CHAIN in names:
        _check(
            folder / _CHAIN,
            lambda: context.load_cert_chain(folder / _CHAIN, folder / _KEY, _no_password),
        )
    if _AUTHORITY in names:
        _check(folder / _AUTHORITY, lambda: context.load_verify_locations(folder / _AUTHORITY))
    chain, key, authority = (
        read_bytes(folder / name) if name in names else None for name in (_CHAIN, _KEY, _AUTHORITY)
    )
    return Certificates(chain, key, authority)


def _check(path: Path, load: Callable[[], None]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        reason = (error.reason or "it is not PEM").lower().replace("_", " ")
        raise ConfigError(f"{path} cannot be used (or does not fit its key): {reason}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path} or its key cannot be used: {reason}") from error


def _no_password() -> str:
    raise ValueError("the key is encrypted; give it without a password")


def dial(
    address: str,
    options: _Options,
    tls: grpc.ChannelCredentials | None,
    *,
    allow_plaintext: bool,
) -> grpc.aio.Channel:
    """Return a channel to any gRPC target; must be made in its loop.

    Raises:
        ConfigError: it is not a target, or the connection would be plaintext to another machine.
    """
    require_target(address)
    if tls is not None:
        return grpc.aio.secure_channel(address, tls, options=options)
    if not allow_plaintext and not is_local(address):
        raise ConfigError(
            f"{address} is another machine, and without TLS others could read the traffic: set "
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
    """Bind a server to an address; return the port (0 for a unix socket).

    Raises:
        ConfigError: it is not an address, or would be plaintext for other machines.
        RuntimeError: gRPC cannot bind it.
    """
    require_target(address)
    if tls is not None:
        return server.add_secure_port(address, tls)
    if not credentials.allow_plaintext and not is_local(address):
        raise ConfigError(
            f"{address} can be reached from other machines, and without TLS others could read "
            "the traffic: set ZEROFLEET_TLS_FOLDER, listen on 127.0.0.1, or set "
            "ZEROFLEET_ALLOW_PLAINTEXT=true in a network that you trust"
        )
    return server.add_insecure_port(address)


def listen_for_probes(server: grpc.Server, address: str) -> int:
    """Bind a server that only serves health; return the port."""
    return server.add_insecure_port(address)


def probing_channel(address: str) -> grpc.Channel:
    """Return a blocking channel to a health port."""
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
    """Return whether a gRPC target is on this machine; names other than localhost may not be."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    return all(_is_loopback(_host(each)) for each in _without_scheme(target).split(","))


def _without_scheme(target: str) -> str:
    rest = target
    for scheme in ("dns:", "passthrough:", "ipv4:", "ipv6:"):
        if target.startswith(scheme):
            rest = target.removeprefix(scheme)
    if rest.startswith("//"):  # an authority, such as the name server to use
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
