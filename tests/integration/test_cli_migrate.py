"""``zerofleet migrate`` while Postgres is down: it waits for the configured time."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from zerofleet.cli import app
from zerofleet.database import Database
from zerofleet.errors import StoreUnavailableError
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.local.processes import free_port


@pytest.fixture
def stopped_server(store_folder: Path) -> Iterator[EmbeddedPostgres]:
    """A stopped server without our tables; it starts again on the same port."""
    with EmbeddedPostgres(store_folder / "stopped_server", {"fsync": "off"}) as server:
        server.stop()
        yield server


@pytest.mark.slow
def test_a_postgres_that_comes_up_meanwhile_is_migrated(stopped_server: EmbeddedPostgres) -> None:
    url = stopped_server.url()
    command = [sys.executable, "-m", "zerofleet.cli", "migrate", "--wait", "300"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        env={**os.environ, "ZEROFLEET_DATABASE_URL": url},
        stdout=pipe,
        stderr=pipe,
        text=True,
    ) as process:
        assert process.stderr is not None
        away = f"waiting for Postgres: Postgres at 127.0.0.1:{stopped_server.port} does not answer"
        assert process.stderr.readline().startswith(away)
        stopped_server.start()
        output, complaints = process.communicate()
    assert (process.returncode, output) == (0, "the database is up to date\n"), complaints
    with Database(url) as database:
        database.wait_ready(0)


@pytest.mark.parametrize("options", [[], ["--wait", "0.01"]])
def test_a_postgres_that_stays_away_ends_it(options: list[str]) -> None:
    url = f"postgresql://zerofleet@127.0.0.1:{free_port()}/zerofleet"
    result = CliRunner().invoke(app, ["migrate", "--database-url", url, *options])
    assert isinstance(result.exception, StoreUnavailableError)
    assert "waiting for Postgres" not in result.stderr
