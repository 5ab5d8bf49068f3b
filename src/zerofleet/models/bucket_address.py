"""Which bucket, at which server, with whose credentials: settings read and judged."""

from __future__ import annotations

import configparser
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from zerofleet.errors import ConfigError

_VARIABLE = "ZEROFLEET_MODEL_STORE"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key to a bucket; its text shows nothing of it."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None
    region: str | None

    def __repr__(self) -> str:
        return "Credentials(...)"


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """A folder of a bucket."""

    bucket: str
    prefix: str  # without slashes at its ends; may be empty
    endpoint: str | None  # URL of the server; None: AWS
    credentials: Path | None  # None: the identity that the machine or pod has

    def __str__(self) -> str:
        return "/".join(filter(None, ("s3:/", self.bucket, self.prefix)))

    def credentials_hint(self) -> str:
        """Where the credentials come from, for errors."""
        if self.credentials is None:
            return "the machine's own identity (AWS_*, web identity, instance metadata)"
        return f"{_VARIABLE}_CREDENTIALS = {self.credentials}"


def bucket_address(
    url: str,
    endpoint: str | None = None,
    credentials: Path | None = None,
    *,
    allow_plaintext: bool = False,
) -> BucketAddress:
    """Read what the settings say.

    Args:
        url: ``s3://bucket/prefix``.
        endpoint: URL of an S3-compatible server; None: AWS.
        credentials: file in the format of AWS' shared credentials; None: the machine's identity.
        allow_plaintext: let ``http`` be used with other hosts than this machine.

    Raises:
        ConfigError: one of them cannot be used; the message repeats no part that may be a secret.
    """
    bucket, prefix = _read_url(url)
    if endpoint is not None:
        _check_endpoint(endpoint, allow_plaintext=allow_plaintext)
        endpoint = endpoint.rstrip("/")
    if credentials is not None:
        read_credentials(credentials)
    return BucketAddress(bucket, prefix, endpoint, credentials)


def _read_url(url: str) -> tuple[str, str]:
    parts = _split(_VARIABLE, url)
    if parts.scheme != "s3" or not parts.netloc:
        raise ConfigError(
            f"{_VARIABLE} = '{url}': give s3://bucket/prefix, or leave it unset to use "
            "ZEROFLEET_MODEL_FOLDER"
        )
    segments = [segment for segment in parts.path.split("/") if segment]
    if parts.query or parts.fragment or {".", ".."}.intersection(segments) or ":" in parts.netloc:
        raise ConfigError(
            f"{_VARIABLE} = '{url}': give a bucket and a prefix and nothing else; an S3-compatible "
            f"server is named by {_VARIABLE}_ENDPOINT"
        )
    return parts.netloc, "/".join(segments)


def _check_endpoint(endpoint: str, *, allow_plaintext: bool) -> None:
    parts = _split(f"{_VARIABLE}_ENDPOINT", endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(
            f"{_VARIABLE}_ENDPOINT = '{endpoint}': give the URL of a server, https://host:port"
        )
    if parts.scheme == "http" and not allow_plaintext and not _is_loopback(parts.hostname):
        raise ConfigError(
            f"{_VARIABLE}_ENDPOINT = '{endpoint}' is plain http to another machine: give https, or "
            "set ZEROFLEET_ALLOW_PLAINTEXT=true where the network between them is private"
        )


def _split(variable: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_user = "@" in parts.netloc
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"{variable} is not a URL: {error}") from None
    if has_user:  # not repeated: what stands there may be a secret
        raise ConfigError(
            f"{variable} has a user name or password in it: put credentials into a file and name "
            f"it by {_VARIABLE}_CREDENTIALS"
        )
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_credentials(path: Path) -> Credentials:
    """Read a file in the format of AWS' shared credentials: its default or only profile.

    Raises:
        ConfigError: it cannot be read, or lacks a key; nothing of its content is repeated.
    """
    where = f"{_VARIABLE}_CREDENTIALS = {path}"
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from None
    except (configparser.Error, UnicodeDecodeError):
        raise ConfigError(
            f"{where}: is not in the format of AWS' shared credentials; begin it with [default]"
        ) from None
    names = parser.sections()
    name = "default" if "default" in names or not names else names[0]
    if name not in names or (name != "default" and len(names) > 1):
        raise ConfigError(f"{where}: has no profile [default]")
    profile = parser[name]
    for key in ("aws_access_key_id", "aws_secret_access_key"):
        if not profile.get(key):
            raise ConfigError(f"{where}: its profile [{name}] has no {key}")
    return Credentials(
        profile["aws_access_key_id"],
        profile["aws_secret_access_key"],
        profile.get("aws_session_token"),
        profile.get("region"),
    )
