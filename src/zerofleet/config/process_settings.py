"""Where a process finds the others: addresses, folders and secrets."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

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
