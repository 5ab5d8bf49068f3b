"""Migrations: safe to repeat, safe beside each other, and honest about what they cannot do."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg2 import sql

import zerofleet.database
from zerofleet.database import Database, Submission, migrate
from zerofleet.database.schema import REVISION, check_revision
from zerofleet.database.submission import encode_submissions
from zerofleet.errors import ConfigError, StoreUnavailableError
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.models.variant import Variant
from zerofleet.secrets.urls import with_password_file
from zerofleet.testing.records import random_record

SCRIPTS = Path(zerofleet.database.__file__).with_name("migrations")
ROLES = {f"zerofleet_{name}" for name in ("worker", "trainer", "evaluator", "console")}


def run(url: str, *statements: str) -> list[tuple]:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        rows = cursor.fetchall() if cursor.description else []
    connection.close()
    return rows


def test_the_code_knows_the_newest_migration() -> None:
    directory = ScriptDirectory(str(SCRIPTS))
    assert directory.get_heads() == [REVISION]


def test_a_second_migration_changes_nothing(database_url: str) -> None:
    before = run(database_url, "SELECT oid, relname FROM pg_class ORDER BY oid")
    migrate(database_url)
    assert run(database_url, "SELECT oid, relname FROM pg_class ORDER BY oid") == before


def test_a_newer_database_is_left_alone(database_url: str) -> None:
    run(database_url, "UPDATE alembic_version SET version_num = '9999'")
    for action in (migrate, lambda url: Database(url).wait_ready(1)):
        with pytest.raises(ConfigError, match=r"migrated by a newer zerofleet \(revision 9999"):
            action(database_url)


def test_tables_that_are_not_made_yet_are_waited_for(database_url: str) -> None:
    run(database_url, "DROP TABLE alembic_version")
    with (
        Database(database_url) as database,
        pytest.raises(StoreUnavailableError, match="run `zerofleet migrate`"),
    ):
        database.wait_ready(0.3)


def test_a_database_without_our_tables_says_so(database_url: str) -> None:
    run(database_url, "DROP TABLE games CASCADE")
    with (
        Database(database_url) as database,
        pytest.raises(ConfigError, match="lacks our tables: run `zerofleet migrate`"),
    ):
        database.summary("test")


@contextlib.contextmanager
def database_at(postgres: EmbeddedPostgres, revision: str) -> Iterator[str]:
    """The owner's URL of a database at an earlier revision."""
    admin, name = postgres.url("superuser", "postgres"), f"at_{revision}"
    run(admin, f"CREATE DATABASE {name} OWNER zerofleet")
    url = postgres.url("owner", name)
    with Database(url) as database, database._engine.connect() as connection:
        configuration = Config()
        configuration.set_main_option("script_location", str(SCRIPTS))
        configuration.attributes["connection"] = connection.execution_options(no_parameters=True)
        command.upgrade(configuration, revision)
        connection.commit()
    yield url
    run(admin, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def first_version(postgres: EmbeddedPostgres) -> Iterator[str]:
    with database_at(postgres, "0001") as url:
        yield url


@pytest.fixture
def second_version(postgres: EmbeddedPostgres) -> Iterator[str]:
    with database_at(postgres, "0002") as url:
        yield url


def test_games_of_the_first_version_live_on(first_version: str) -> None:
    [game] = json.loads(encode_submissions([Submission(random_record(1))]))
    begun = random_record(3, plies=3)
    saved = {"game_uid": str(begun.game_uid), "epoch": 0, "ply": 3, "record": begun.to_json()}
    for name in ("best_child_values", "child_policy_weights", "resign_threshold", "plays_on"):
        del game[name], saved["record"][name]
    run(
        first_version,
        "SELECT register_run('test', 'tic_tac_toe', '{}')",
        f"SELECT submit_games('test', 'w', '{json.dumps([game])}')",
        f"SELECT save_unfinished('test', 'w', '{json.dumps([saved])}', 0)",
    )
    migrate(first_version)
    with Database(first_version) as database:
        database.wait_ready(1)
        [stored] = database.read_games("test", 0, 10).games
        assert stored.child_policy_weights.tolist() == stored.child_visit_counts.tolist()
        assert not stored.resigned
        [(adopted, _)] = database.adopt_unfinished("test", "v", 1, 60)
        assert adopted.best_child_values.tolist() == begun.root_values.tolist()
        assert adopted.child_policy_weights.tolist() == begun.child_visit_counts.tolist()
        assert (adopted.resign_threshold, adopted.plays_on) == (None, False)
        assert database.resign_threshold("test") is None
    [(games,)] = run(first_version, "SELECT DISTINCT all_games FROM resign_audit")
    assert games == 1


@pytest.fixture
def third_version(postgres: EmbeddedPostgres) -> Iterator[str]:
    with database_at(postgres, "0003") as url:
        yield url


def test_the_fences_of_the_third_version_live_on(third_version: str) -> None:
    """Whoever holds one goes on writing, and the next epoch is the next."""
    run(
        third_version,
        "SELECT register_run('test', 'tic_tac_toe', '{}')",
        "SELECT acquire_fence('test', 'trainer')",
    )
    migrate(third_version)
    with Database(third_version) as database:
        database.wait_ready(1)
        database.insert_model("test", 1, f"{1:064x}", 10, {}, "m", 1)
        assert database.acquire_fence("test", "trainer") == 2


def test_the_tables_of_each_version_are_known(postgres: EmbeddedPostgres) -> None:
    """A service that waits for a migration must not take them for a newer version's."""
    for revision in ("0001", "0002", "0003", "0004"):
        check_revision(revision, "here")
    with database_at(postgres, "0004") as url:
        migrate(url)
        with Database(url) as database:
            database.wait_ready(1)
    with pytest.raises(ConfigError, match="migrated by a newer zerofleet"):
        check_revision("0006", "here")


def test_roles_get_the_passwords_of_files(bare_server: EmbeddedPostgres, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.mkdir()
    with pytest.raises(ConfigError, match="has no file that is named like a role"):
        migrate(bare_server.url(), passwords)
    (passwords / "zerofleet").write_text("not ours to set")
    for round_ in ("one", "two"):
        for role in ("zerofleet_worker", "zerofleet_console"):
            (passwords / role).write_text(f"canary-{round_}\n")
        migrate(bare_server.url(), passwords)
        place = f"127.0.0.1:{bare_server.port}/zerofleet"
        for role in ("zerofleet_worker", "zerofleet_console"):
            url = with_password_file(f"postgresql://{role}@{place}", passwords / role)
            with Database(url) as database:
                database.wait_ready(1)
                (passwords / role).write_text("canary-wrong")
                assert database.promotions("test") == []  # over the connection that is open
                with Database(url) as another, pytest.raises(StoreUnavailableError) as caught:
                    another.promotions("test")
                assert "password authentication failed" in str(caught.value)
                assert "canary" not in str(caught.value)
                with Database(url) as another:
                    (passwords / role).unlink()
                    with pytest.raises(
                        StoreUnavailableError, match=r"cannot log in .* cannot read"
                    ):
                        another.promotions("test")
    with pytest.raises(psycopg2.OperationalError, match=r"no password|password authentication"):
        psycopg2.connect(f"postgresql://zerofleet_trainer@{place}")
    assert "canary" not in (bare_server.folder / "server.log").read_text()


def test_models_of_the_second_version_live_on(second_version: str) -> None:
    """They have no variants; the one published next may have some."""
    run(
        second_version,
        "SELECT register_run('test', 'tic_tac_toe', '{}')",
        "SELECT acquire_fence('test', 'trainer')",
        "INSERT INTO models (run, version, sha256, step, metrics, location, epoch) "
        f"VALUES ('test', 1, '{1:064x}', 10, '{{}}', 'm', 1)",
    )
    with Database(second_version) as database:
        with pytest.raises(StoreUnavailableError, match="run `zerofleet migrate`"):
            database.wait_ready(0)
        migrate(second_version)
        database.wait_ready(1)
        # The trainer of the version before, which is still running, has heard of none of this.
        database.insert_model("test", 2, f"{2:064x}", 20, {}, "m", 1)
        assert [database.variants("test", version) for version in (1, 2)] == [[], []]
        refused = Variant("int8", reason="a test")
        database.insert_model("test", 3, f"{3:064x}", 30, {}, "m", 1, [refused])
        assert [row.reason for row in database.variants("test", 3)] == ["a test"]
        assert database.variant_verdict("test", "int8") is None
    assert run(second_version, "SELECT model FROM variant_history") == [(3,)]


@pytest.fixture
def bare_server(store_folder: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    """A server whose roles are not made yet."""
    with EmbeddedPostgres(store_folder / request.node.name, {"fsync": "off"}) as server:
        drop = [sql.SQL("DROP ROLE {}").format(sql.Identifier(role)) for role in ROLES]
        run(server.url("superuser", "postgres"), *drop)
        yield server


@pytest.mark.slow
def test_migrations_beside_each_other(bare_server: EmbeddedPostgres) -> None:
    admin = bare_server.url("superuser", "postgres")
    names = ["zerofleet", "second"]
    for name in names[1:]:
        run(admin, f"CREATE DATABASE {name} OWNER zerofleet")
    code = "import sys; from zerofleet.database import migrate; migrate(sys.argv[1])"
    processes = [
        subprocess.Popen([sys.executable, "-c", code, bare_server.url("owner", name)])
        for name in [*names, names[0]]
    ]
    assert [process.wait() for process in processes] == [0] * 3
    rows = run(admin, "SELECT rolname, rolconfig FROM pg_roles WHERE rolname LIKE 'zerofleet\\_%'")
    assert {name for name, _ in rows} == ROLES
    [limits] = [limits for name, limits in rows if name == "zerofleet_console"]
    assert "default_transaction_read_only=on" in limits
    for name in names:
        with Database(bare_server.url("owner", name)) as database:
            database.wait_ready(1)


@pytest.mark.slow
def test_an_owner_who_may_not_make_roles(bare_server: EmbeddedPostgres) -> None:
    run(bare_server.url("superuser", "postgres"), "ALTER ROLE zerofleet NOCREATEROLE")
    with pytest.raises(ConfigError, match="permission denied to create role"):
        migrate(bare_server.url())
    with Database(bare_server.url()) as database, pytest.raises(StoreUnavailableError):
        database.wait_ready(0)  # nothing of it was done
