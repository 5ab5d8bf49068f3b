"""Settings of a process: addresses, folders and secrets."""

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
INITIAL_WEIGHTS = "initial.safetensors"
"""File of a run's checkpoints with the weights that a new run starts from."""

_DATABASE_URL = "postgresql://zerofleet@127.0.0.1:5432/zerofleet"
_REDIS_URL = "redis://127.0.0.1:6379/0"


class ProcessSettings(BaseSettings):
    """Addresses, folders and secrets of a process, from ``ZEROFLEET_*`` or the command line.

    Secrets stay in files, which are read again when they change (docs/how-to/security.md).
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
    """URL of Postgres, for SQLAlchemy or libpq."""
    database_password_file: Path | None = None
    """File whose first line is the password for Postgres."""
    redis_url: str = _REDIS_URL
    """URL of Redis or Valkey. ``redis://USER@host`` logs in as a user, ``rediss://`` uses TLS."""
    redis_password_file: Path | None = None
    """File whose first line is the password for Redis."""
    inference_address: str = "127.0.0.1:8001"
    """Address of the inference service: ``host:port`` or any gRPC target."""
    listen_address: str = "127.0.0.1:8001"
    """Address on which the inference service listens."""
    metrics_address: str | None = None
    """Address that serves Prometheus metrics over HTTP: ``host:port``, or ``:port`` for all
    addresses of the machine. Unset: no metrics are served."""
    health_address: str | None = None
    """Address of a plaintext gRPC server that only answers health checks (``grpc.health.v1``)."""
    tls_folder: Path | None = None
    """Folder with ``tls.crt``, ``tls.key`` and ``ca.crt``. With it, this process uses TLS for all
    gRPC, as a server and as a client. Unset: plaintext."""
    client_certificates: Literal["required", "optional"] = "required"
    """Whether a server with TLS requires a client certificate."""
    token_file: Path | None = None
    """File whose first line is the bearer token that this process sends."""
    token_roles_file: Path | None = None
    """TOML file of the tokens that a server accepts: ``[[tokens]]`` with ``name``, ``role`` and
    ``sha256``. Unset: no token is required."""
    allow_plaintext: bool = False
    """Allow gRPC without TLS beyond this machine, where others may read the traffic."""
    model_folder: Path = Path("models")
    """Folder of published models."""
    model_store: str | None = None
    """URL of a bucket of published models, ``s3://bucket/prefix``. Unset: ``model_folder``."""
    model_store_credentials: Path | None = None
    """File with the bucket's credentials, in the format of AWS' shared credentials file."""
    model_store_endpoint: str | None = None
    """URL of an S3-compatible server other than AWS."""
    checkpoint_folder: Path = Path("checkpoints")
    """Folder of the trainer's checkpoints."""
    worker: str | None = None
    """Name of this process in records and heartbeats. Unset: host name and process id."""
    trials_only: bool = False
    """Let the evaluator play only test matches (``zerofleet match``). It promotes no model."""
    engines: str = ""
    """Programs and classes that the evaluator may start for the anchors ``uci:``, ``gtp:`` and
    ``python:``. Write a program as in the anchor's name, and a class with ``python:``. Separate
    them by semicolons: ``stockfish;gnugo --mode gtp;python:mine:Greedy``."""
    reflection: bool = False
    """Offer gRPC server reflection."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest severity that is logged."""

    @property
    def worker_name(self) -> str:
        """The name of this process in records, leases and heartbeats."""
        return self.worker or f"{socket.gethostname()}-{os.getpid()}"

    @property
    def allowed_engines(self) -> frozenset[str]:
        """The commands of ``engines``."""
        commands = (command.strip() for command in self.engines.split(";"))
        return frozenset(command for command in commands if command)

    _stores: ClassVar[Mapping[str, str]] = {"database": _DATABASE_URL, "redis": _REDIS_URL}

    @model_validator(mode="before")
    @classmethod
    def _name_password_files(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Put the password files into the URLs, so that a URL is enough to log in."""
        given = dict(values)
        for store, default in cls._stores.items():
            path = given.get(f"{store}_password_file")
            if path:
                url = given.get(f"{store}_url", default)
                given[f"{store}_url"] = with_password_file(url, Path(path))
        return given
