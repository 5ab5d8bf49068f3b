"""A rollback is done as a whole, or not at all."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from zerofleet.best_pointer import BestPointer
from zerofleet.cli import app
from zerofleet.database import Database, Promotion
from zerofleet.errors import ConfigError


@pytest.fixture
def run_file(tmp_path: Path, database: Database) -> Path:
    """A run that promoted models 1 and 2."""
    trainer = database.acquire_fence("test", "trainer")
    evaluator = database.acquire_fence("test", "evaluator")
    for version in (1, 2):
        database.insert_model("test", version, f"{version:064x}", 10 * version, {}, "m", trainer)
        database.promote("test", version, None, "e", version - 1, epoch=evaluator)
    path = tmp_path / "run.toml"
    path.write_text('name = "test"\ngame = "tic_tac_toe"\n')
    return path


def roll_back(run_file: Path, database_url: str, redis_url: str) -> Result:
    urls = ["--database-url", database_url, "--redis-url", redis_url]
    return CliRunner().invoke(app, ["rollback", str(run_file), "--yes", *urls])


def versions(database: Database) -> list[int]:
    return [promotion.version for promotion in database.promotions("test")]


@pytest.mark.parametrize("url", ["http://x", "redis://x:99999/0", "redis://x/0?nonsense=1"])
def test_what_is_no_redis_url_promotes_nothing(
    run_file: Path, database: Database, database_url: str, url: str
) -> None:
    result = roll_back(run_file, database_url, url)
    assert isinstance(result.exception, ConfigError)
    assert "the Redis URL is not valid" in str(result.exception)
    assert versions(database) == [2, 1]


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", f"redis://{'a' * 300}:1/0"])
def test_a_redis_that_is_away_is_a_note(
    run_file: Path, database: Database, database_url: str, url: str
) -> None:
    result = roll_back(run_file, database_url, url)
    assert result.exit_code == 0
    assert "the evaluator moves the pointer when it is back" in result.stderr
    assert "model 1 is the best of the run 'test' again" in result.stdout
    assert versions(database) == [1, 2, 1]


def test_the_pointer_follows(
    run_file: Path, database_url: str, database: Database, valkey_url: str
) -> None:
    assert roll_back(run_file, database_url, valkey_url).exit_code == 0
    assert versions(database) == [1, 2, 1]
    pointer = BestPointer(valkey_url, "test")
    assert pointer.get() == Promotion(3, 1, f"{1:064x}")
    pointer.close()


def test_in_a_container_of_the_fleet_nothing_need_be_named(
    run_file: Path,
    role_url: Callable[[str], str],
    database: Database,
    valkey_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ZEROFLEET_DATABASE_URL", role_url("evaluator"))
    monkeypatch.setenv("ZEROFLEET_REDIS_URL", valkey_url)
    monkeypatch.setenv("ZEROFLEET_RUN_FILE", str(run_file))
    result = CliRunner().invoke(app, ["rollback", "--yes"], catch_exceptions=False)
    assert "model 1 is the best of the run 'test' again" in result.stdout
    assert versions(database) == [1, 2, 1]
    with contextlib.closing(BestPointer(valkey_url, "test")) as pointer:
        assert pointer.get() == Promotion(3, 1, f"{1:064x}")
