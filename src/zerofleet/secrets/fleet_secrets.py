"""All secrets of one fleet, in a folder: existing ones stay, missing ones are made.

    postgres/ROLE                   a password for the owner and for each role
    redis/USER  redis/users.acl     a password for each user, and the server's ACL file
    tokens/ROLE  tokens/roles.toml  a token for each role, and the file with which servers check it
    tls/ca.crt  tls/ca.key          an authority
    tls/NAME/{tls.crt,tls.key,ca.crt}   a certificate for each service and for clients

Give each consumer only its own files, and give ``tls/ca.key`` to none of them.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zerofleet.errors import ConfigError
from zerofleet.secrets.files import read_bytes, read_secret
from zerofleet.secrets.redis_users import RULES, acl_file
from zerofleet.secrets.tokens import ROLES, Role, Token, digest_of, new_token, read_tokens

if TYPE_CHECKING:
    from zerofleet.secrets.authority import CertifiedKey

POSTGRES = (
    "zerofleet",
    "zerofleet_worker",
    "zerofleet_trainer",
    "zerofleet_evaluator",
    "zerofleet_console",
    "zerofleet_visitor",
)
_NAMESPACE = "zerofleet"
# Host names of each server for clients, in Compose and in a Kubernetes namespace.
SERVERS = {"inference": ("inference", "inference-headless"), "autoscaler": ("autoscaler",)}
CLIENTS = ("selfplay", "evaluator", "dashboard", "keda", "client", "tools")
_HERE = ("localhost", "127.0.0.1", "::1")


class FleetSecrets:
    """Makes the missing secrets.

    Args:
        folder: made if absent.
        hosts: further DNS names and IP addresses of the servers, for clients.
        mode: mode of each file; folders get the same with the right to enter.

    Raises:
        ConfigError: on making, if a file cannot be written, or an existing one is invalid.
    """

    def __init__(self, folder: Path, hosts: Sequence[str] = (), mode: int = 0o440) -> None:
        self._folder = folder
        self._hosts = tuple(hosts)
        self._mode = mode
        self.made: list[str] = []
        """The files made, by their paths in the folder."""

    def make(self) -> None:
        """Make everything that is missing, and update the files that depend on it."""
        if importlib.util.find_spec("cryptography") is None:
            raise ConfigError(
                "certificates are made by the package cryptography, which is missing: "
                "pip install 'zerofleet[secrets]', or make setup in a checkout"
            )
        try:
            self._passwords()
            self._tokens()
            self._certificates()
        except OSError as error:
            raise ConfigError(
                f"cannot write secrets to {error.filename or self._folder}: {error.strerror}"
            ) from error

    def _passwords(self) -> None:
        for role in POSTGRES:
            self._once(f"postgres/{role}", _password)
        for user in RULES:
            self._once(f"redis/{user}", _password)
        acl = acl_file(self._folder / "redis").encode()
        self._replace("redis/users.acl", acl)

    def _tokens(self) -> None:
        path = self._folder / "tokens" / "roles.toml"
        absent: list[Role] = [role for role in ROLES if not (path.parent / role).exists()]
        made = {role: new_token() for role in absent}
        # Only missing ones: a person who deletes an entry revokes its token, wherever the token
        # still is.
        added = [
            Token(role, role, digest_of(made.get(role) or read_secret(path.parent / role)))
            for role in (absent if path.exists() else ROLES)
        ]
        if added:
            known = read_tokens(path) if path.exists() else ()
            # The owner may write: `zerofleet token` appends to it.
            self._replace("tokens/roles.toml", _toml((*known, *added)), self._mode | 0o200)
        for role, token in made.items():
            self._replace(f"tokens/{role}", token.encode() + b"\n")

    def _certificates(self) -> None:
        from zerofleet.secrets.authority import CertifiedKey, make_authority

        paths = [self._folder / "tls" / name for name in ("ca.crt", "ca.key")]
        if not paths[0].exists():
            pair = make_authority("zerofleet")
            self._replace("tls/ca.key", pair.key, mode=0o400)
            self._replace("tls/ca.crt", pair.certificate)
        ca = CertifiedKey(read_bytes(paths[0]), read_bytes(paths[1]) if paths[1].exists() else b"")
        for name, places in SERVERS.items():
            hosts = (*_HERE, *(host for place in places for host in _names(place)), *self._hosts)
            self._certificate(ca, name, hosts, server=True)
        for name in CLIENTS:
            self._certificate(ca, name, (name,), server=False)

    def _certificate(
        self, ca: CertifiedKey, name: str, hosts: Sequence[str], *, server: bool
    ) -> None:
        from zerofleet.secrets.authority import is_good_for, make_certificate

        folder = self._folder / "tls" / name
        self._replace(f"tls/{name}/ca.crt", ca.certificate)
        paths = folder / "tls.crt", folder / "tls.key"
        if all(path.exists() for path in paths) and is_good_for(
            read_bytes(paths[0]), ca.certificate, hosts
        ):
            return
        if not ca.key:
            raise ConfigError(
                f"{folder} has no certificate that lasts, and {self._folder}/tls/ca.key, which "
                "would sign one, is missing: restore the key or the certificate"
            )
        pair = make_certificate(ca, name, hosts, server=server, client=True)
        self._replace(f"tls/{name}/tls.key", pair.key)
        self._replace(f"tls/{name}/tls.crt", pair.certificate)

    def _once(self, name: str, content: Callable[[], bytes]) -> None:
        if not (self._folder / name).exists():
            self._replace(name, content())

    def _replace(self, name: str, content: bytes, mode: int | None = None) -> None:
        """Write a file in one step, unless it is up to date; other users can never read it."""
        path = self._folder / name
        if path.exists() and read_bytes(path) == content:
            return
        self._enter(path.parent)
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), self._mode if mode is None else mode)
            os.fsync(file.fileno())
        temporary.replace(path)
        self.made.append(name)

    def _enter(self, folder: Path) -> None:
        """Make a folder that readers of its files may enter; an existing one stays as it is."""
        if folder.is_dir():
            return
        if folder != self._folder:
            self._enter(folder.parent)
        folder.mkdir(parents=True)
        folder.chmod(0o700 | (self._mode & 0o044) | (self._mode & 0o044) >> 2)


def _password() -> bytes:
    return secrets.token_urlsafe(32).encode() + b"\n"


def _toml(tokens: Sequence[Token]) -> bytes:
    entries = [
        f'[[tokens]]\nname = "{token.name}"\nrole = "{token.role}"\nsha256 = "{token.sha256}"\n'
        for token in tokens
    ]
    return "\n".join(entries).encode()


def _names(place: str) -> tuple[str, ...]:
    inside = f"{place}.{_NAMESPACE}"
    return (place, inside, f"{inside}.svc", f"{inside}.svc.cluster.local")
