"""Where a process finds the others."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic_settings import BaseSettings, SettingsConfigDict

ENV_PREFIX = "ZEROFLEET_"


class ProcessSettings(BaseSettings):
    """Where a process finds the others; from ``ZEROFLEET_*`` or the command line.

    Secrets stay in files: give Postgres' password by ``?passfile=`` in the URL.
    """

    model_config = SettingsConfigDict(
        frozen=True, env_prefix=ENV_PREFIX, use_attribute_docstrings=True, extra="ignore"
    )

    run_file: Path
    """The run file."""
    database_url: str = "postgresql://zerofleet@127.0.0.1:5432/zerofleet"
    """Postgres, as an SQLAlchemy or libpq URL."""
    redis_url: str = "redis://127.0.0.1:6379/0"
    """Redis or Valkey."""
    inference_address: str = "127.0.0.1:8001"
    """The inference service, ``host:port`` or any gRPC target."""
    listen_address: str = "127.0.0.1:8001"
    """Where the inference service listens."""
    metrics_address: str | None = None
    """Where Prometheus metrics are served over HTTP (``host:port``); unset: nowhere."""
    model_folder: Path = Path("models")
    """The folder of published models."""
    checkpoint_folder: Path = Path("checkpoints")
    """The folder of the trainer's checkpoints."""
    worker: str | None = None
    """Name of this process in records and heartbeats; unset: host name and process id."""
    reflection: bool = False
    """Offer gRPC server reflection."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe record that is logged."""
