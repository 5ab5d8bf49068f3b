"""Harm that one role could do to others: functions that PUBLIC may call, databases, limits."""

import contextlib
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2
import pytest
from psycopg2 import errors

from tests.conftest import FAST
from tests.support.random_records import random_record
from zerofleet.database import Database, Submission, SubmitStatus, migrate
from zerofleet.database.schema import script
from zerofleet.errors import StoreUnavailableError
from zerofleet.local.postgres import EmbeddedPostgres

ROLES = ("worker", "trainer", "evaluator", "console", "visitor")
TAKEN = (
    # the lock table
    "pg_advisory_lock(1)",
    "pg_advisory_lock(1, 2)",
    "pg_advisory_lock_shared(1)",
    "pg_advisory_xact_lock(1)",
    "pg_advisory_xact_lock_shared(1, 2)",
    "pg_try_advisory_lock(1)",
    "pg_try_advisory_lock_shared(1)",
    "pg_try_advisory_xact_lock(1, 2)",
    "pg_try_advisory_xact_lock_shared(1)",
    "pg_lock_status()",
    "pg_blocking_pids(1)",
    "pg_safe_snapshot_blocking_pids(1)",
    "pg_isolation_test_session_is_blocked(1, '{2}')",
    # the write-ahead log, and files
    "pg_logical_emit_message(false, 'x', 'y')",
    "pg_logical_emit_message(true, 'x', 'y'::bytea)",
    "pg_export_snapshot()",
    "pg_notify('a', 'b')",
    "lo_create(0)",
    "lo_from_bytea(0, 'x')",
    # other sessions
    "pg_terminate_backend(1)",
    "pg_cancel_backend(1)",
    # a query that is a value
    "query_to_xml('SELECT 1', true, true, '')",
    "query_to_xmlschema('SELECT 1', true, true, '')",
    "query_to_xml_and_xmlschema('SELECT 1', true, true, '')",
    "table_to_xml('runs', true, true, '')",
    "schema_to_xml('public', true, true, '')",
    "database_to_xml(true, true, '')",
    "cursor_to_xml('c', 1, true, true, '')",
    "ts_stat('SELECT to_tsvector(name) FROM runs')",
    "ts_stat('SELECT to_tsvector(name) FROM runs', 'a')",
    "ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery')",
)
# Volatile functions that every role may call: why each does no harm.
KEPT = {
    r"binary_upgrade_\w+|pg_stop_making_pinned_objects": "refused but in pg_upgrade and initdb",
    r"\w*handler|plpgsql_\w+|dsnowball_\w+|amvalidate|bernoulli|system":
        "take arguments that no query has",
    r"random|random_normal|setseed|array_sample|array_shuffle|gen_random_uuid|uuidv[47]": "compute",
    r"clock_timestamp|timeofday|current_query|pg_jit_available|pg_collation_actual_version": "read",
    r"pg_sleep(_for|_until)?": "keep the connection busy that they run in, as any query can",
    r"set_config|pg_stat_clear_snapshot|pg_stat_force_next_flush": "change the own session",
    r"currval|lastval|nextval|setval|pg_sequence_last_value|pg_get_sequence_data":
        "need a right on the sequence, and no role has one",
    r"currtid2|pg_partition_\w+": "need a right on the table",
    r"brin_\w+|gin_clean_pending_list|pg_(clear|restore)_\w+_stats": "need the owner's rights",
    r"pg_nextoid|pg_import_system_collations|pg_extension_config_dump": "need a superuser",
    r"pg_\w*replication_slot\w*|pg_logical_slot_\w+": "need REPLICATION",
    r"pg_control_\w+|pg_current_wal_\w+|pg_last_\w+|pg_is_\w+|pg_get_wal_\w+|pg_wal_summary_contents"
    r"|pg_available_wal_summaries": "read numbers of the server",
    r"pg_(database|tablespace|table|relation|total_relation|indexes)_size"
    r"|pg_database_collation_actual_version": "read sizes, which the pages show",
    r"pg_xact_\w+|txid_status|pg_get_multixact_members|pg_prepared_xact": "read of transactions",
    r"pg_stat_get_\w+|pg_get_wait_events|pg_get_loaded_modules|pg_notification_queue_usage":
        "read counts",
}  # fmt: skip


def ask(url: str, *statements: str) -> list[tuple]:
    with contextlib.closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


@pytest.mark.parametrize("role", ROLES)
def test_no_role_may_call_what_burdens_the_others(
    role_url: Callable[[str], str], role: str
) -> None:
    connection = psycopg2.connect(role_url(role))
    connection.autocommit = True
    with contextlib.closing(connection), connection.cursor() as cursor:
        for call in TAKEN:
            with pytest.raises(errors.InsufficientPrivilege, match="permission denied for func"):
                cursor.execute(f"SELECT {call}")


def test_every_other_function_that_does_something_is_known(role_url: Callable[[str], str]) -> None:
    """A new Postgres may bring one that burdens the others: decide, then write it here."""
    left = ask(
        role_url("visitor"),
        "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace "
        "AND provolatile = 'v' AND prokind = 'f' AND has_function_privilege(oid, 'EXECUTE') "
        "AND prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)",
    )
    known = re.compile("|".join(KEPT))
    assert [name for (name,) in left if not known.fullmatch(name)] == []


def test_the_owner_keeps_what_migrations_and_dumps_use(database_url: str) -> None:
    assert ask(database_url, "SELECT count(pg_advisory_xact_lock(1))") == [(1,)]
    assert ask(database_url, "SELECT count(pg_export_snapshot()), lo_create(0) > 0") == [(1, True)]


def test_a_superuser_who_migrates_forbids_them(
    postgres: EmbeddedPostgres, database_url: str
) -> None:
    """As in a container of Postgres, whose first user is one; the embedded one comes so."""
    name = urlsplit(database_url).path.lstrip("/")
    calls = (
        "lo_create(oid)",
        "pg_advisory_lock(bigint)",
        "pg_logical_emit_message(bool,text,text,bool)",
    )
    asked = " AND ".join(
        f"has_function_privilege('zerofleet_worker', '{call}', 'EXECUTE')" for call in calls
    )
    connection = psycopg2.connect(postgres.url("superuser", name))
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(f"GRANT EXECUTE ON FUNCTION {', '.join(calls)} TO PUBLIC; SELECT {asked}")
        assert cursor.fetchone() == (True,)
        cursor.execute(script("rights/server.sql"))
        cursor.execute(f"SELECT {asked.replace(' AND ', ' OR ')}")
        assert cursor.fetchone() == (False,)
        connection.rollback()


def test_an_owner_who_cannot_forbid_them_is_told(
    postgres: EmbeddedPostgres, database_url: str
) -> None:
    superuser = postgres.url("superuser", urlsplit(database_url).path.lstrip("/"))
    ask(superuser, "GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO PUBLIC")
    ask(database_url, "UPDATE definitions SET digest = 'other'")
    said: list[str] = []
    migrate(database_url, say=said.append)
    [line] = said
    assert "every role may fill the lock table of this server" in line
    assert '"What a superuser must forbid" of docs/how-to/security.md' in line


@pytest.mark.parametrize("name", ["postgres", "template1"])
def test_no_role_logs_in_to_another_database(postgres: EmbeddedPostgres, name: str) -> None:
    """There everybody may call these functions, and the server has one lock table."""
    for role in ROLES:
        with pytest.raises(psycopg2.OperationalError, match="permission denied for database"):
            psycopg2.connect(postgres.url(role, name))


def test_a_role_cannot_lift_its_bound_on_temporary_files(role_url: Callable[[str], str]) -> None:
    for role in ROLES:
        url, name = role_url(role), f"zerofleet_{role}"
        assert ask(url, "SHOW temp_file_limit") == [("1GB",)]
        for statement in (
            "SET temp_file_limit = -1",
            "SELECT set_config('temp_file_limit', '-1', false)",
            f"ALTER ROLE {name} SET temp_file_limit = -1",
            f"ALTER ROLE {name} RESET temp_file_limit",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                ask(url, "SET default_transaction_read_only = off", statement)


def test_visitors_see_neither_each_others_queries_nor_end_the_pages_connections(
    role_url: Callable[[str], str],
) -> None:
    with (
        contextlib.closing(psycopg2.connect(role_url("console"))) as page,
        contextlib.closing(psycopg2.connect(role_url("visitor"))) as visitor,
    ):
        for connection in (page, visitor):
            connection.cursor().execute("SELECT 'a secret'")
        seen = ask(role_url("visitor"), "SELECT usename, query FROM pg_stat_activity")
        assert {"zerofleet_console", "zerofleet_visitor"} <= {name for name, _ in seen}
        assert not any("secret" in (query or "") for _, query in seen)
        with pytest.raises(errors.InsufficientPrivilege):
            ask(role_url("visitor"), f"SELECT pg_terminate_backend({page.info.backend_pid})")


def test_a_cluster_of_an_older_version_gets_roles_and_limits_when_it_starts(
    store_folder: Path,
) -> None:
    with tempfile.TemporaryDirectory(dir=store_folder) as folder:
        Path(folder).chmod(0o755)
        with EmbeddedPostgres(Path(folder) / "postgres", FAST) as server:
            superuser = server.url("superuser")
            ask(superuser, "DROP ROLE zerofleet_visitor")
            ask(superuser, "GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO PUBLIC")
            ask(superuser, "ALTER ROLE zerofleet_console RESET ALL")
            ask(superuser, "GRANT CONNECT ON DATABASE postgres TO PUBLIC")
        (Path(folder) / "postgres/passwords/zerofleet_visitor").unlink()
        with EmbeddedPostgres(Path(folder) / "postgres", FAST) as server:
            migrate(server.url())
            for role in ("console", "visitor"):
                assert ask(server.url(role), "SHOW temp_file_limit") == [("1GB",)]
                assert ask(server.url(role), "SHOW statement_timeout") == [("30s",)]
                assert ask(server.url(role), "SELECT count(*) FROM games") == [(0,)]
                with pytest.raises(errors.InsufficientPrivilege):
                    ask(server.url(role), "SELECT pg_advisory_lock(1)")
            with pytest.raises(psycopg2.OperationalError, match="permission denied for database"):
                psycopg2.connect(server.url("worker", "postgres"))


def test_an_advisory_lock_does_not_hold_up_a_migration(
    postgres: EmbeddedPostgres, database_url: str, role_url: Callable[[str], str]
) -> None:
    """On a server whose superuser has not forbidden them."""
    superuser = postgres.url("superuser", urlsplit(database_url).path.lstrip("/"))
    ask(superuser, "GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO PUBLIC")
    with contextlib.closing(psycopg2.connect(role_url("console"))) as holder:
        holder.cursor().execute("SELECT pg_advisory_lock(2053468783)")
        migrate(database_url)


def test_a_migration_names_the_session_that_it_waits_for_and_gives_up(
    database_url: str, role_url: Callable[[str], str]
) -> None:
    ask(database_url, "UPDATE definitions SET digest = 'other'")
    said: list[str] = []
    with contextlib.closing(psycopg2.connect(role_url("console"))) as reader:
        reader.cursor().execute("SELECT * FROM openings")
        session = f"process {reader.info.backend_pid} of Postgres (role zerofleet_console)"
        with pytest.raises(StoreUnavailableError) as caught:
            migrate(database_url, say=said.append, lock_seconds=5.0)
    assert f"{session} keeps a lock that the migration needs" in str(caught.value)
    assert "pg_terminate_backend" in str(caught.value)
    assert any("waiting for a lock" in line and session in line for line in said)
    migrate(database_url)
    assert ask(database_url, "SELECT digest <> 'other' FROM definitions") == [(True,)]


def test_a_migration_waits_for_another_one(
    database_url: str, role_url: Callable[[str], str]
) -> None:
    with contextlib.closing(psycopg2.connect(database_url)) as other:
        other.cursor().execute("LOCK TABLE alembic_version IN EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailableError, match="keeps a lock that the migration needs"):
            migrate(database_url, lock_seconds=0.1)
    for role in ROLES:  # who may only read it cannot lock it against this
        with (
            contextlib.closing(psycopg2.connect(role_url(role))) as reader,
            pytest.raises(errors.InsufficientPrivilege),
        ):
            reader.cursor().execute("LOCK TABLE alembic_version IN ROW EXCLUSIVE MODE")


def test_each_session_of_the_embedded_server_has_a_bound_on_its_memory(
    postgres: EmbeddedPostgres, role_url: Callable[[str], str]
) -> None:
    with contextlib.closing(psycopg2.connect(role_url("visitor"))) as visitor:
        process = Path(f"/proc/{visitor.info.backend_pid}/limits")
        [limit] = re.findall(r"Max data size +(\S+) +(\S+)", process.read_text())
    assert limit == (str(768 << 20),) * 2
    assert ask(postgres.url("superuser"), "SHOW max_notify_queue_pages") == [("1024",)]


def test_games_are_submitted_in_statements_of_a_bounded_size(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    submit = database._submit

    def counted(run: str, worker: str, games: str) -> list[tuple[SubmitStatus, str | None]]:
        sizes.append(len(json.loads(games)))
        return submit(run, worker, games)

    records = [random_record(seed) for seed in range(1, 8)]
    entries = max(record.columns.legal_actions.size for record in records)
    monkeypatch.setattr("zerofleet.database.finished_games._MOST_ENTRIES", 2 * entries)
    monkeypatch.setattr(database, "_submit", counted)
    submissions = [Submission(record) for record in records]
    assert database.submit_games("test", "w", submissions) == ["stored"] * 7
    assert sum(sizes) == 7
    assert len(sizes) > 1
    monkeypatch.setattr("zerofleet.database.finished_games._MOST_ENTRIES", 1)  # a game of its own
    assert database.submit_games("test", "w", submissions) == ["duplicate"] * 7
    unfinished = [(random_record(seed, plies=3), 0) for seed in range(10, 13)]
    assert database.save_unfinished("test", "w", unfinished, 60) == ["saved"] * 3
