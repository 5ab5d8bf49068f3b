"""Rows of another role or version: refused where stored, passed over where read."""

import contextlib
import json
from collections.abc import Callable
from datetime import timedelta

import psycopg2
import pytest
from psycopg2 import errors

from tests.integration.kept_searches import ask
from tests.support.databases import undo_migrations
from tests.support.random_records import random_record
from zerofleet.config import run_from_values
from zerofleet.database import Database, Submission, migrate
from zerofleet.database.finished_games import encode_submissions
from zerofleet.errors import ConfigError, RunNotRegisteredError
from zerofleet.waiting import awaited

FAULTY_CONFIGS = {
    '{"retention": {"partition_hours": 0}}': "retention.partition_hours is no integer from 1",
    '{"retention": {"partition_hours": -5}}': "retention.partition_hours is no integer from 1",
    '{"retention": {"partition_hours": "x"}}': "retention.partition_hours is no integer from 1",
    '{"retention": {"partition_hours": 1.5}}': "retention.partition_hours is no integer from 1",
    '{"retention": {"partition_hours": 1e30}}': "retention.partition_hours is no integer from 1",
    '{"retention": {"partition_hours": [1]}}': "retention.partition_hours is no integer from 1",
    '{"retention": {"max_disk_gb": "x"}}': "retention.max_disk_gb is no number from 0",
    '{"retention": {"max_disk_gb": 1e300}}': "retention.max_disk_gb is no number from 0",
    '{"retention": {"forget": "perhaps"}}': "retention.forget is neither true nor false",
    '{"retention": 7}': "retention is no section",
    "[]": "its configuration is no object",
    "null": "its configuration is no object",
    json.dumps({"x": "y" * 100_000}): "its configuration is larger than 100 kB",
}
FAULTY_NAMES = ("", "n" * 49, "a b", "a\nb", "a<b>", "x'")
FAULTY_GAMES = ("", "g" * 257, "tic\ntac")


def register(url: str, name: str, game: str, config: str) -> None:
    with contextlib.closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT register_run(%s, %s, %s)", (name, game, config))
        connection.commit()


def forge(database: Database, name: str, config: str) -> None:
    """A row as a worker of 1.0 could store it."""
    quoted = config.replace("'", "''")
    ask(
        database,
        f"INSERT INTO runs (name, game, config) VALUES ('{name}', 'tic_tac_toe', '{quoted}')",
    )


def test_a_run_is_checked_where_it_is_stored(
    database: Database, role_url: Callable[[str], str]
) -> None:
    url = role_url("trainer")
    for config, fault in FAULTY_CONFIGS.items():
        with pytest.raises(errors.InvalidParameterValue, match=fault):
            register(url, "forged", "tic_tac_toe", config)
    for name in FAULTY_NAMES:
        with pytest.raises(errors.InvalidParameterValue, match="its name"):
            register(url, name, "tic_tac_toe", "{}")
    for game in FAULTY_GAMES:
        with pytest.raises(errors.InvalidParameterValue, match="the name of its game"):
            register(url, "forged", game, "{}")
    assert ask(database, "SELECT name FROM runs") == [("test",)]
    for name in ("n" * 48, "schöne_partie-2", "test"):
        register(
            url, name, "go(size=9)", '{"retention": {"partition_hours": 8760, "max_disk_gb": 0.5}}'
        )


def test_a_worker_waits_for_its_run_and_stores_none(
    database: Database, role_url: Callable[[str], str]
) -> None:
    run = run_from_values({"name": "mine", "game": {"name": "tic_tac_toe"}})
    with Database(role_url("worker")) as worker:
        with pytest.raises(ConfigError, match="permission denied for function register_run"):
            worker.register_run(run)
        with pytest.raises(
            RunNotRegisteredError, match=r"is not registered .* its trainer"
        ) as found:
            worker.require_run(run)
        assert awaited(found.value) == "the trainer or evaluator to register the run"
        database.register_run(run)
        worker.require_run(run)
        other = run_from_values({"name": "mine", "game": {"name": "connect_four"}})
        with pytest.raises(ConfigError, match="plays tic_tac_toe, not connect_four"):
            worker.require_run(other)


def test_a_database_that_holds_faulty_runs_starts_and_says_so(
    database: Database, database_url: str
) -> None:
    forge(database, "n" * 60, "{}")
    for number, config in enumerate(FAULTY_CONFIGS):
        forge(database, f"forged-{number}", config)
    ask(database, "DELETE FROM partition_tries")
    for statement in undo_migrations(1003):
        ask(database, statement)
    said: list[str] = []
    migrate(database_url, say=said.append)
    assert any('the run "forged-0" is passed over when partitions are made' in s for s in said)
    assert any("longer than 48 characters" in line for line in said)
    assert ask(database, "SELECT partition_size()") == [(timedelta(days=1),)]
    assert database.submit_games("test", "w", [Submission(random_record(1))]) == ["stored"]


def test_games_are_stored_though_no_partition_can_be_made(database: Database) -> None:
    """An error of another's making is no fault of the record: nothing is dropped for it."""
    ask(
        database,
        "CREATE OR REPLACE FUNCTION partition_size() RETURNS interval LANGUAGE plpgsql AS "
        "$$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'invalid_parameter_value'; END$$",
    )
    ask(database, "DELETE FROM partition_tries")
    ask(database, "DELETE FROM position_partitions")
    assert ask(database, "SELECT partitions_due()") == [(True,)]
    assert database.submit_games("test", "w", [Submission(random_record(1))]) == ["stored"]


def test_a_run_without_a_trainer_stops_retention_for_a_day_only(database: Database) -> None:
    epoch = database.acquire_fence("test", "trainer")
    database.submit_games("test", "w", [Submission(random_record(1))])
    database.state_needs(
        "test", window_games=1, played_on_games=1, margin=timedelta(0), epoch=epoch
    )
    ask(database, "UPDATE position_needs SET since = 'infinity'")
    forge(database, "stuck", "{}")
    database.submit_games("stuck", "w", [Submission(random_record(2))])
    needed = "SELECT positions_needed() = '-infinity'"
    assert ask(database, needed) == [(True,)]
    ask(database, "UPDATE runs SET created_at = now() - interval '25 hours' WHERE name = 'stuck'")
    assert ask(database, needed) == [(False,)]
    # One that had a trainer, which has not said yet what it needs, keeps everything.
    database.acquire_fence("stuck", "trainer")
    assert ask(database, needed) == [(True,)]


@pytest.fixture
def conflicts(database: Database) -> Callable[[], list[str]]:
    def deliver() -> list[str]:
        """A record that contradicts itself; returns who has delivered what is kept."""
        [whole] = json.loads(encode_submissions([Submission(random_record(7))]))
        broken = json.dumps([whole | {"kind": "other"}])
        assert [status for status, _ in database._submit("test", "me", broken)] == ["rejected"]
        return [name for (name,) in ask(database, "SELECT DISTINCT worker FROM refused_games")]

    return deliver


def fill(database: Database, rows: int, age: str) -> None:
    ask(database, "ALTER TABLE refused_games DISABLE TRIGGER bounded")
    ask(
        database,
        "INSERT INTO refused_games (game_uid, content_sha256, run, reason, worker, record, at) "
        "SELECT gen_random_uuid(), 'x', 'test', 'old', 'another', '{}', "
        f"now() - interval '{age}' FROM generate_series(1, {rows})",
    )
    ask(database, "ALTER TABLE refused_games ENABLE TRIGGER bounded")


def test_refused_games_are_bounded(database: Database, conflicts: Callable[[], list[str]]) -> None:
    fill(database, 10_000, "1 day")
    assert conflicts() == ["another"]
    ask(
        database,
        "DELETE FROM refused_games "
        "WHERE conflict_id = (SELECT max(conflict_id) FROM refused_games)",
    )
    assert set(conflicts()) == {"another", "me"}


def test_old_refused_games_make_room(
    database: Database, conflicts: Callable[[], list[str]]
) -> None:
    fill(database, 50, "91 days")
    assert conflicts() == ["me"]


def test_a_refused_delivery_has_a_size(database: Database) -> None:
    ask(
        database,
        "INSERT INTO refused_games (game_uid, run, reason, worker, record) VALUES "
        "(gen_random_uuid(), 'test', repeat('r', 5000), repeat('w', 5000), "
        "to_json(repeat('x', 16000001)))",
    )
    [kept] = ask(
        database,
        "SELECT length(reason), length(worker), record ->> 'left_out_bytes' FROM refused_games",
    )
    assert kept == (1000, 200, "16000003")
