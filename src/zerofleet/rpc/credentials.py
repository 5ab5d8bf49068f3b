"""What each side of a connection shows of itself, and which peers it accepts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypedDict

if TYPE_CHECKING:
    from zerofleet.config import ProcessSettings


class ClientCredentials(TypedDict, total=False):
    """What a client shows of itself and which servers it accepts: every client's keywords.

    All are files, followed when replaced. Without any, servers on this machine are reached, in
    plaintext and without a token.
    """

    tls_folder: str | Path | None
    """``ca.crt`` signs the servers that are believed (absent: the public authorities);
    ``tls.crt`` and ``tls.key`` are shown to them (absent: nothing is)."""
    token_file: str | Path | None
    """Its first line is sent as the bearer token."""
    allow_plaintext: bool
    """Without a ``tls_folder``, reach other machines too."""


def client_credentials(settings: ProcessSettings) -> ClientCredentials:
    """Those of a process."""
    return ClientCredentials(
        tls_folder=settings.tls_folder,
        token_file=settings.token_file,
        allow_plaintext=settings.allow_plaintext,
    )


@dataclass(frozen=True, slots=True)
class ServerCredentials:
    """What a server shows of itself and which clients it accepts; files, followed when replaced.

    The default serves this machine, in plaintext, without asking for anything.
    """

    tls_folder: Path | None = None
    """``tls.crt`` and ``tls.key`` are shown; ``ca.crt`` signs the clients that are believed."""
    client_certificates: Literal["required", "optional"] = "required"
    """With ``optional`` no client is asked for its certificate."""
    token_roles_file: Path | None = None
    """The tokens that are accepted, and their roles; unset: no token is asked for."""
    allow_plaintext: bool = False
    """Without a ``tls_folder``, listen where other machines can connect."""

    @classmethod
    def of(cls, settings: ProcessSettings) -> Self:
        """Those of a process."""
        return cls(
            settings.tls_folder,
            settings.client_certificates,
            settings.token_roles_file,
            settings.allow_plaintext,
        )
