"""Options of commands that name the files of secrets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from zerofleet.rpc.tls import ClientCredentials

PasswordFile = Annotated[
    Path | None,
    typer.Option(
        envvar="ZEROFLEET_DATABASE_PASSWORD_FILE",
        metavar="FILE",
        help="Its first line is the password for --database-url.",
    ),
]
RedisPasswordFile = Annotated[
    Path | None,
    typer.Option(
        envvar="ZEROFLEET_REDIS_PASSWORD_FILE",
        metavar="FILE",
        help="Its first line is the password for --redis-url.",
    ),
]
TlsFolder = Annotated[
    Path | None,
    typer.Option(
        "--tls",
        envvar="ZEROFLEET_TLS_FOLDER",
        metavar="DIR",
        help="With --address: TLS by the ca.crt (and tls.crt, tls.key) of this folder.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        envvar="ZEROFLEET_TOKEN_FILE",
        metavar="FILE",
        help="With --address: its first line is the token to send.",
    ),
]
AllowPlaintext = Annotated[
    bool,
    typer.Option(
        "--allow-plaintext",
        envvar="ZEROFLEET_ALLOW_PLAINTEXT",
        help="With --address: no TLS, even to another machine.",
    ),
]


def logged_in(url: str, password_file: Path | None) -> str:
    """A store's URL that names its password file."""
    from zerofleet.secrets.urls import with_password_file

    return with_password_file(url, password_file)


def client_credentials(
    tls: Path | None, token_file: Path | None, allow_plaintext: bool
) -> ClientCredentials:
    """What a command shows to an inference service elsewhere."""
    return {"tls_folder": tls, "token_file": token_file, "allow_plaintext": allow_plaintext}
