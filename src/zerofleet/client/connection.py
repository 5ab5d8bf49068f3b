"""How a client reaches its server: the settings that all clients have alike."""

from __future__ import annotations

from pathlib import Path

from zerofleet.rpc.credentials import ClientCredentials


def credentials(
    tls_folder: str | Path | None, token_file: str | Path | None, *, allow_plaintext: bool
) -> ClientCredentials:
    """What is shown to the server; files are read when the first call is made."""
    return ClientCredentials(
        tls_folder=None if tls_folder is None else Path(tls_folder),
        token_file=None if token_file is None else Path(token_file),
        allow_plaintext=allow_plaintext,
    )
