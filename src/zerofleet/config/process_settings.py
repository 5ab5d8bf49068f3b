"""Where a process finds the others, and the environment over a run file."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from pydantic import model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from zerofleet.secrets.files import with_password_file

ENV_PREFIX = "ZEROFLEET_"

_DATABASE_URL = "postgresql://zerofleet@127.0.0.1:5432/zerofleet"
_REDIS_URL = "redis://127.0.0.1:6379/0"


class ProcessSettings(BaseSettings):
    """Where a process finds the others; from ``ZEROFLEET_*`` or the command line.

    Secrets stay in files, which are read again where they change (docs/security.md).
    """

    model_config = SettingsConfigDict(
        frozen=True,
        env_prefix=ENV_PREFIX,
        env_ignore_empty=True,
        use_attribute_docstrings=True,
        extra="ignore",
    )

    run_file: Path
    """The run file."""
    database_url: str = _DATABASE_URL
    """Postgres, as an SQLAlchemy or libpq URL."""
    database_password_file: Path | None = None
    """File whose first line is Postgres' password."""
    redis_url: str = _REDIS_URL
    """Redis or Valkey; ``redis://USER@host`` for a user of its own, ``rediss://`` for TLS."""
    redis_password_file: Path | None = None
    """File whose first line is the password of Redis' user."""
    inference_address: str = "127.0.0.1:8001"
    """The inference service, ``host:port`` or any gRPC target."""
    listen_address: str = "127.0.0.1:8001"
    """Where the inference service listens."""
    metrics_address: str | None = None
    """Where Prometheus metrics are served over HTTP: ``host:port``, or ``:port`` for that port on
    every address of the machine; unset: nowhere."""
    health_address: str | None = None
    """Where a plaintext gRPC server answers probes (``grpc.health.v1``, nothing else)."""
    tls_folder: Path | None = None
    """Folder with ``tls.crt``, ``tls.key`` and ``ca.crt``: all gRPC of this process is TLS, as a
    server and as a client; unset: plaintext."""
    client_certificates: Literal["required", "optional"] = "required"
    """Whether a server with TLS insists on a certificate of the client."""
    token_file: Path | None = None
    """File whose first line is the bearer token that this process sends."""
    token_roles_file: Path | None = None
    """Tokens that a server accepts: TOML, ``[[tokens]]`` with ``name``, ``role`` and ``sha256``;
    unset: no token is asked for."""
    allow_plaintext: bool = False
    """Listen and dial without TLS also where others than this machine could read along."""
    model_folder: Path = Path("models")
    """The folder of published models."""
    model_store: str | None = None
    """URL of a bucket of published models, ``s3://bucket/prefix``; unset: ``model_folder``."""
    model_store_credentials: Path | None = None
    """Credentials for the bucket, a file in the format of AWS' shared credentials."""
    model_store_endpoint: str | None = None
    """URL of an S3-compatible server other than AWS."""
    checkpoint_folder: Path = Path("checkpoints")
    """The folder of the trainer's checkpoints."""
    worker: str | None = None
    """Name of this process in records and heartbeats; unset: host name and process id."""
    trials_only: bool = False
    """The evaluator plays trials (``zerofleet match``) and nothing else: no model is promoted."""
    reflection: bool = False
    """Offer gRPC server reflection."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe record that is logged."""

    @property
    def worker_name(self) -> str:
        """The name of this process in records, leases and heartbeats."""
        return self.worker or f"{socket.gethostname()}-{os.getpid()}"

    _stores: ClassVar[Mapping[str, str]] = {"database": _DATABASE_URL, "redis": _REDIS_URL}

    @model_validator(mode="before")
    @classmethod
    def _name_password_files(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Let the URLs name the files, so that a process that is given a URL can log in with it."""
        given = dict(values)
        for store, default in cls._stores.items():
            path = given.get(f"{store}_password_file")
            if path:
                url = given.get(f"{store}_url", default)
                given[f"{store}_url"] = with_password_file(url, Path(path))
        return given


class Environment(EnvSettingsSource):
    """Lists and whole sections are JSON; a game may be its name alone, as in a run file.

    Args:
        settings_class: the settings.
        options: options of the command that set a variable, by variable, as the user gave them.
    """

    def __init__(
        self, settings_class: type[BaseSettings], options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(settings_class)
        self._options = options or {}

    def __call__(self) -> dict[str, Any]:
        """Return the values that the environment gives; ``mistakes`` lists what is not JSON."""
        self.mistakes: list[str] = []
        return super().__call__()

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: str) -> object:
        """Decode the JSON of a list or a section; note a value that is not JSON."""
        try:
            return super().decode_complex_value(field_name, field, value)
        except (ValueError, RecursionError):
            if field_name == "game":
                return value
            variable = self._holding(field_name, value)
            default = cast("object", field.default)
            option = self._options.get(variable)
            if isinstance(default, tuple):
                hint = f"such as {json.dumps(default)}"
            elif option is not None:
                hint = f"or one key of it, as {option.partition('=')[0]}.KEY=VALUE"
            else:
                hint = f"or one key of it, as {variable}__KEY=VALUE"
            given = f"{variable} = {value!r}" if option is None else option
            self.mistakes.append(f"{given}: give JSON, {hint}")
            return cast("object", default)

    def _holding(self, key: str, value: str) -> str:
        """The variable that was read last: it ends with the key, and has this value."""
        names = (name for name, held in self.env_vars.items() if held == value)
        prefix = self.env_prefix.lower()
        found = (n for n in names if n.startswith(prefix) and n.split("__")[-1].endswith(key))
        return next(found, key).upper()


def variable_of(location: Sequence[str]) -> str | None:
    """The variable that gives a run's value; None where none does.

    Args:
        location: the value's path, such as ``("rating", "anchors", "0")``.
    """
    present = {name.upper(): value for name, value in os.environ.items()}
    for length in range(len(location), 0, -1):
        name = ENV_PREFIX + "__".join(location[:length]).upper()
        if name in present and _holds(present[name], location[length:]):
            return name
    return None


def _holds(text: str, path: Sequence[str]) -> bool:
    """Whether a variable's JSON has a value at this path."""
    if not path:
        return True
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return False
    for part in path:
        if isinstance(value, dict) and part in value:
            value = cast("dict[str, object]", value)[part]
        elif isinstance(value, list) and part.isdecimal():
            items = cast("list[object]", value)
            if int(part) >= len(items):
                return False
            value = items[int(part)]
        else:
            return False
    return True
