"""Real stores for a benchmark, in a folder that goes with it."""

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
    """The benchmark's Postgres has ended."""


@contextlib.contextmanager
def bench_folder() -> Generator[Path]:
    """A temporary folder that the servers' user may enter."""
    with tempfile.TemporaryDirectory(prefix="zerofleet-bench-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextlib.contextmanager
def postgres_of(run: RunConfig, folder: Path) -> Generator[EmbeddedPostgres]:
    """Postgres as ``zerofleet up`` starts it, every commit synced to disk, with the run's tables.

    Args:
        run: is registered.
        folder: the server's goes inside.
    """
    with EmbeddedPostgres(folder / "postgres") as server:
        migrate(server.url("owner"))
        with Database(server.url("owner")) as database:
            database.register_run(run)
        yield server


def pid_of(server: EmbeddedPostgres) -> int:
    """Return the PID of its parent process, for CPU times.

    Raises:
        PostgresGoneError: it does not run.
    """
    if server.process is None:
        raise PostgresGoneError("the benchmark's Postgres has ended")
    return server.process.pid
