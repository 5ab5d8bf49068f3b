"""Bearer tokens: clients send them, and servers check them against a file of digests.

    [[tokens]]
    name = "ann"
    role = "client"
    sha256 = "..."

The digests need no salt, because tokens are random and as long as the digests. A reader of the file
cannot use it to log in.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from zerofleet.errors import ConfigError
from zerofleet.secrets.files import read_bytes

Role = Literal["worker", "viewer", "client", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PREFIX = "zf_"  # lets scanners for leaked secrets recognise a token


@dataclass(frozen=True, slots=True)
class Token:
    """A token that is accepted."""

    name: str
    role: Role
    sha256: str


def new_token() -> str:
    """Return a token of 256 random bits."""
    return _PREFIX + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    """Return the digest that is stored for a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def find_token(tokens: Iterable[Token], presented: str) -> Token | None:
    """Return the presented token, or None; the time taken reveals nothing about any token."""
    digest = digest_of(presented)
    found = None
    for token in tokens:
        if hmac.compare_digest(token.sha256, digest):
            found = token
    return found


def read_tokens(path: Path) -> tuple[Token, ...]:
    """Return the accepted tokens of a file.

    Raises:
        ConfigError: it cannot be read, or an entry is wrong; the message says which.
    """
    try:
        content = tomllib.loads(read_bytes(path).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the tokens in {path} are not TOML: {error}") from error
    entries = content.get("tokens", [])
    if content.keys() - {"tokens"} or not isinstance(entries, list):
        raise ConfigError(f"{path} must hold only [[tokens]], each with name, role and sha256")
    return tuple(
        _token(entry, f"{path}, token {number}")
        for number, entry in enumerate(cast("list[Any]", entries), start=1)
    )


def add_token(path: Path, name: str, role: Role) -> str:
    """Make a token, append it to the file of accepted ones, and return it.

    A second token of the same name is accepted together with the first, so that tokens can be
    rotated.

    Raises:
        ConfigError: the name or the file cannot be used.
    """
    token = new_token()
    entry = {"name": name, "role": role, "sha256": digest_of(token)}
    _token(entry, f"the token '{name}'")
    if path.exists():
        read_tokens(path)  # do not append to a file that is already broken
    text = "".join(f'{key} = "{value}"\n' for key, value in entry.items())
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n[[tokens]]\n{text}")  # the file may not end with a line break
    except OSError as error:
        raise ConfigError(f"cannot write to {path}: {error.strerror}") from error
    return token


def _token(entry: object, where: str) -> Token:
    values = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    name, role, sha256 = values.get("name"), values.get("role"), values.get("sha256")
    if values.keys() != {"name", "role", "sha256"}:
        raise ConfigError(f"{where}: give name, role and sha256")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: the name may have 64 letters, digits, '.', '_' and '-'")
    if role not in ROLES:
        raise ConfigError(f"{where}: role = {role!r}: give one of {', '.join(ROLES)}")
    if not isinstance(sha256, str) or not _DIGEST.fullmatch(sha256):
        # The message does not repeat the value, which may be the token itself by mistake.
        raise ConfigError(f"{where}: sha256 must be 64 hexadecimal digits, in lower case")
    return Token(name, role, sha256)
