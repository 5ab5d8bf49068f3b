"""Migrations: safe to repeat, safe to run concurrently, and clear about what they cannot do."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg2
import pytest
from alembic.script import ScriptDirectory
from psycopg2 import errors, sql

from tests.support.databases import undo_migrations
from tests.support.random_records import random_record
from zerofleet.config import run_from_values
from zerofleet.database import Database, Submission, migrate, schema
from zerofleet.errors import ConfigError, StoreUnavailableError
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.local.postgres_cluster import find_programs
from zerofleet.secrets.files import with_password_file

SCRIPTS = Path(schema.__file__).with_name("migrations")
ROLES = {f"zerofleet_{name}" for name in ("worker", "trainer", "evaluator", "console", "visitor")}


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
    assert directory.get_heads() == [schema.REVISION]


def test_tables_of_the_first_revision_get_what_they_lack(database_url: str) -> None:
    with Database(database_url) as database:
        database.register_run(run_from_values({"name": "test", "game": {"name": "tic_tac_toe"}}))
        epoch = database.acquire_fence("test", "trainer")
        measured = {"policy_loss": 1.5, "value_loss": 0.5}
        database.insert_train_metrics("test", 100, "train", measured, epoch)
        database.submit_game("test", "w", Submission(random_record(1)))
    run(database_url, *undo_migrations(1000))
    migrate(database_url)
    with Database(database_url) as database:
        database.record_progress("test", 7.0, 0, epoch)
        measured["soft_policy_loss"] = 1.25
        database.insert_train_metrics("test", 200, "train", measured, epoch)
        database.submit_game("test", "w", Submission(random_record(2)))
    told_plies = "SELECT opening_plies FROM games ORDER BY ingested_at"
    assert run(database_url, told_plies) == [(None,), (0,)]
    assert run(database_url, "SELECT DISTINCT start FROM games") == [("",)]
    query = "SELECT step, train_policy_loss, soft_policy_loss FROM training_curve ORDER BY step"
    assert run(database_url, query) == [(100, 1.5, None), (200, 1.5, 1.25)]


def test_a_running_trainer_of_1_0_still_notes_unreadable_games(
    database: Database, role_url: Callable[[str], str]
) -> None:
    """Version 1.0 uses the table's former name."""
    insert = "INSERT INTO rejected_games (run, game_uid, reason) VALUES ('test', '{}', 'r')"
    uid = random_record(1).game_uid
    with closing(psycopg2.connect(role_url("trainer"))) as trainer, trainer.cursor() as cursor:
        for _ in range(2):
            cursor.execute(insert.format(uid) + " ON CONFLICT DO NOTHING")
        trainer.commit()
        cursor.execute("SELECT game_uid FROM rejected_games WHERE run = 'test'")
        assert cursor.fetchall() == [(str(uid),)]
    assert database.summary("test").rejected_games == 1


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


@pytest.fixture
def empty_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """Owner's URL of an empty database."""
    admin, name = postgres.url("superuser", "postgres"), "without_anything"
    run(admin, f"CREATE DATABASE {name} OWNER zerofleet")
    yield postgres.url("owner", name)
    run(admin, f"DROP DATABASE {name} WITH (FORCE)")


def test_an_empty_database_becomes_one_that_games_are_stored_in(empty_database: str) -> None:
    with Database(empty_database) as database:
        with pytest.raises(StoreUnavailableError, match="its tables are not made yet"):
            database.wait_ready(0)
        migrate(empty_database)
        database.wait_ready(1)
        run(empty_database, "SELECT register_run('test', 'tic_tac_toe', '{}')")
        assert database.submit_games("test", "w", [Submission(random_record(1))]) == ["stored"]


@pytest.mark.parametrize("revision", ["0001", "0002", "0003", "0004", "0005"])
def test_a_database_of_0_1_is_refused_with_the_way_to_start_anew(
    empty_database: str, revision: str
) -> None:
    run(
        empty_database,
        "CREATE TABLE alembic_version (version_num text)",
        f"INSERT INTO alembic_version VALUES ('{revision}')",
        "CREATE TABLE games (game_uid uuid PRIMARY KEY)",
    )
    for action in (migrate, lambda url: Database(url).wait_ready(1)):
        with pytest.raises(ConfigError) as caught:
            action(empty_database)
        message = str(caught.value)
        assert "\n" not in message
        assert f"was made by zerofleet 0.1 (revision {revision})" in message
        assert "--data DIR" in message
        assert "CREATE DATABASE" in message
    assert run(empty_database, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [
        (2,)
    ]


def test_a_dump_comes_back_into_a_migrated_database_with_its_rights_and_partitions(
    postgres: EmbeddedPostgres, empty_database: str, database_url: str, tmp_path: Path
) -> None:
    """The commands are those in docs/how-to/backup.md."""
    programs, dump = find_programs().folder, tmp_path / "dump"
    with Database(database_url) as database:
        database.register_run(run_from_values({"name": "test", "game": {"name": "tic_tac_toe"}}))
        database.submit_games("test", "w", [Submission(random_record(1))])
        database.make_partitions(6, timedelta(days=4))
    subprocess.run([programs / "pg_dump", "-Fc", "-f", dump, database_url], check=True)
    migrate(empty_database)
    run(
        empty_database,
        "DROP SCHEMA public CASCADE",
        "CREATE SCHEMA public AUTHORIZATION pg_database_owner",
    )
    restore = [programs / "pg_restore", "--single-transaction", "--exit-on-error"]
    subprocess.run([*restore, "-d", empty_database, dump], check=True)
    with Database(postgres.url("worker", "without_anything")) as database:
        database.wait_ready(1)
        records = [Submission(random_record(seed)) for seed in (1, 2)]
        assert database.submit_games("test", "w", records) == ["duplicate", "stored"]
    partitions = "SELECT count(*) FROM position_partitions"
    assert run(empty_database, partitions) == run(database_url, partitions)
    migrate(empty_database)


def sources(kind: str) -> list[str]:
    """Return each name that our files define, once for each definition."""
    pattern = rf"^\s*\"?CREATE\s+(?:OR\s+REPLACE\s+)?{kind}\s+(\w+)"
    folder = SCRIPTS.parent
    paths = sorted([*folder.rglob("*.sql"), *folder.glob("migrations/versions/*.py")])
    texts = [path.read_text() for path in paths]
    renamed = dict(
        pair for text in texts for pair in re.findall(rf"ALTER {kind} (\w+) RENAME TO (\w+)", text)
    )
    return [
        renamed.get(name, name)
        for text in texts
        for name in re.findall(pattern, text, re.MULTILINE | re.IGNORECASE)
    ]


@pytest.mark.parametrize(
    ("kind", "catalog"),
    [
        ("TABLE", "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND "
         "relname !~ 'alembic_version|positions_[0-9]' AND relnamespace = 'public'::regnamespace"),
        ("VIEW", "SELECT viewname FROM pg_views WHERE schemaname = 'public'"),
        ("FUNCTION", "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"),
    ],
)  # fmt: skip
def test_everything_in_the_database_is_defined_once_in_our_files(
    database_url: str, kind: str, catalog: str
) -> None:
    names = sources(kind)
    assert sorted(names) == sorted(set(names))
    assert sorted(names) == sorted(name for (name,) in run(database_url, catalog))


def test_every_file_of_ours_is_applied() -> None:
    applied = {*schema.TABLES, *schema.BEFORE_TABLES, *schema.AFTER_TABLES}
    folder = SCRIPTS.parent
    assert applied == {str(path.relative_to(folder)) for path in folder.rglob("*.sql")}


def definition(url: str, view: str) -> str:
    [(text,)] = run(url, f"SELECT pg_get_viewdef('{view}')")
    return text


def test_functions_views_and_rights_of_another_version_are_made_again(database_url: str) -> None:
    """The other version has different columns, arguments, rights and names."""
    before = definition(database_url, "openings")
    run(
        database_url,
        "DROP VIEW openings",
        "CREATE VIEW openings AS SELECT 1 AS other",
        "CREATE VIEW given_up AS SELECT other FROM openings",
        "DROP FUNCTION last_v_resign",
        "CREATE FUNCTION last_v_resign(a int, b int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE OR REPLACE FUNCTION forbid_change() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RETURN NULL; END'",
        "GRANT SELECT ON games TO zerofleet_worker",
        "UPDATE definitions SET digest = 'other', views = views || '{given_up}'::text[]",
        # Rights that people granted.
        "GRANT SELECT ON openings, given_up TO pg_monitor WITH GRANT OPTION",
        "GRANT SELECT, INSERT ON game_length TO PUBLIC",
    )
    with Database(database_url) as database:
        awaited = r"function last_v_resign\(.* does not exist.* waiting for `zerofleet migrate`"
        with pytest.raises(StoreUnavailableError, match=awaited):
            database.last_v_resign("test")
        with pytest.raises(StoreUnavailableError, match="another version of zerofleet: run `zero"):
            database.wait_ready(0)
        migrate(database_url)
        database.wait_ready(0)
        assert database.last_v_resign("test") is None
        database.register_run(run_from_values({"name": "test", "game": {"name": "tic_tac_toe"}}))
        epoch = database.acquire_fence("test", "trainer")
        database.insert_model("test", 1, f"{1:064x}", 10, {}, "m", epoch)
        epoch = database.acquire_fence("test", "evaluator")
        database.promote("test", 1, None, "e", 0, epoch=epoch)
    assert definition(database_url, "openings") == before
    assert run(
        database_url,
        "SELECT to_regclass('given_up'), "
        "has_table_privilege('zerofleet_worker', 'games', 'SELECT')",
    ) == [(None, False)]
    assert run(
        database_url,
        "SELECT has_table_privilege('pg_monitor', 'openings', 'SELECT WITH GRANT OPTION'), "
        "array(SELECT privilege_type::text FROM pg_class, aclexplode(relacl) "
        "WHERE relname = 'game_length' AND grantee = 0)",
    ) == [(True, ["INSERT", "SELECT"])]
    with pytest.raises(errors.InsufficientPrivilege, match="promotions only grows"):
        run(database_url, "DELETE FROM promotions")


def test_functions_and_views_of_a_newer_version_are_left_alone(database_url: str) -> None:
    made = "SELECT digest, version, at FROM definitions"
    run(database_url, "UPDATE definitions SET digest = 'other', version = '99.10.0rc1'")
    before = run(database_url, made)
    with pytest.raises(ConfigError, match=r"to a newer zerofleet \(99.10.0rc1, this is .*update"):
        migrate(database_url)
    assert run(database_url, made) == before
    with Database(database_url) as database:
        with pytest.raises(StoreUnavailableError, match=r"to zerofleet 99.10.0rc1, and this is"):
            database.wait_ready(0)
        run(database_url, f"UPDATE definitions SET digest = '{schema.expected().digest}'")
        database.wait_ready(0)  # the definitions are the same
        migrate(database_url)


def test_a_persons_view_on_one_of_ours_is_named_and_kept(database_url: str) -> None:
    run(
        database_url,
        "CREATE VIEW my_openings AS SELECT * FROM openings",
        "CREATE VIEW my_own AS SELECT game_uid FROM games",
        "UPDATE definitions SET digest = 'other'",
    )
    with pytest.raises(ConfigError) as caught:
        migrate(database_url)
    message = str(caught.value)
    assert "\n" not in message
    assert "view my_openings depends on view openings" in message
    assert (
        "save their definitions (`pg_get_viewdef`), drop them, run `zerofleet migrate`" in message
    )
    assert run(
        database_url, "SELECT digest, to_regclass('my_openings') IS NOT NULL FROM definitions"
    ) == [("other", True)]
    run(database_url, "DROP VIEW my_openings")
    migrate(database_url)
    with Database(database_url) as database:
        database.wait_ready(0)
    assert run(database_url, "SELECT count(*) FROM my_own") == [(0,)]


def test_roles_get_the_passwords_of_files(bare_server: EmbeddedPostgres, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.mkdir()
    with pytest.raises(ConfigError, match="has no file named after a role"):
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
                assert database.promotions("test") == []  # the open connection still works
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


@pytest.fixture
def bare_server(store_folder: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    """A server whose roles do not exist yet."""
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
        database.wait_ready(0)  # nothing was done
