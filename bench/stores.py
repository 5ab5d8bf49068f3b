"""Real Postgres servers for benchmarks, in temporary folders."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path

from zerofleet.config import RunConfig
from zerofleet.database import Database, migrate
from zerofleet.errors import ZerofleetError
from zerofleet.local.postgres import EmbeddedPostgres


class PostgresGoneError(ZerofleetError):
    """The Postgres of the benchmark has ended."""


@contextlib.contextmanager
def bench_folder() -> Generator[Path]:
    """Create a temporary folder that the user of the servers can enter; delete it afterwards."""
    with tempfile.TemporaryDirectory(prefix="zerofleet-bench-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextlib.contextmanager
def postgres_of(run: RunConfig, folder: Path) -> Generator[EmbeddedPostgres]:
    """Run Postgres as ``zerofleet up`` does, with all tables and every commit synced to disk.

    Args:
        run: run to register.
        folder: folder in which the server gets a folder of its own.
    """
    with EmbeddedPostgres(folder / "postgres") as server:
        migrate(server.url("owner"))
        with Database(server.url("owner")) as database:
            database.register_run(run)
        yield server


def pid_of(server: EmbeddedPostgres) -> int:
    """Return the PID of the server's parent process, to measure its CPU time.

    Raises:
        PostgresGoneError: the server is not running.
    """
    if server.process is None:
        raise PostgresGoneError("the Postgres of the benchmark has ended")
    return server.process.pid
