"""Certificates in a folder laid out like a Kubernetes TLS secret, checked before gRPC has them.

gRPC says little about a certificate that is no good, and says it late; so Python's own TLS looks at
the files first.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from zerofleet.errors import ConfigError
from zerofleet.secrets.files import Followed, read_bytes

_CHAIN, _KEY, _AUTHORITY = "tls.crt", "tls.key", "ca.crt"


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of a folder, as PEM."""

    chain: bytes | None
    key: bytes | None = field(repr=False)
    authority: bytes | None


def followed_certificates(folder: Path, *, server: bool) -> Followed[Certificates]:
    """The certificates of a folder, read again when they are replaced.

    Args:
        folder: with ``tls.crt``, ``tls.key`` and ``ca.crt``.
        server: all three must be there; a client can do without its own two, or without ``ca.crt``.

    Raises:
        ConfigError: a file is missing or no good; the message says which.
    """
    paths = [folder / name for name in (_CHAIN, _KEY, _AUTHORITY)]
    return Followed(paths, lambda: _read(folder, whole=server))


def server_credentials(
    certificates: Followed[Certificates], *, require_client: bool
) -> grpc.ServerCredentials:
    """For gRPC: each handshake is made with the certificates of its moment.

    Without ``require_client`` no client is asked for a certificate: gRPC for Python cannot ask for
    one and do without.
    """
    used = certificates.get()

    def fetch() -> Any:  # noqa: ANN401 - the stubs do not know of None: nothing has changed
        nonlocal used
        now = certificates.get()
        if now is used:
            return None
        used = now
        return _configuration(now)

    return grpc.dynamic_ssl_server_credentials(_configuration(used), fetch, require_client)


def channel_credentials(certificates: Certificates) -> grpc.ChannelCredentials:
    """For gRPC: fixed for the life of a channel, which cannot change them."""
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
