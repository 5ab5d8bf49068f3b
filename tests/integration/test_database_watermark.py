"""The trainer's window waits for open transactions, and the error names the one that blocks it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import psycopg2
import pytest
from psycopg2 import errors

from tests.support.random_records import random_record
from zerofleet.config import RunConfig, run_from_values
from zerofleet.database import Database, Submission, TrainerDatabase, migrate
from zerofleet.database.finished_games import encode_submissions
from zerofleet.database.schema import script
from zerofleet.games import spec
from zerofleet.learning.learner import Learner
from zerofleet.learning.overfit import OverfitWatch
from zerofleet.learning.window import TrainBucket, Training, Window
from zerofleet.local.monitor import Monitor

RUN = "test"


def training(run: RunConfig) -> Training:
    bucket = TrainBucket(run.trainer.samples_per_position)
    return Training(Learner(spec("tic_tac_toe"), run), bucket, OverfitWatch(run.overfit))


@contextmanager
def open_transaction(url: str, *statements: str) -> Iterator[Any]:
    """Yield a cursor in a transaction that has a number of its own."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = off")
        connection.commit()
        for statement in statements or ("SELECT pg_current_xact_id()",):
            cursor.execute(statement)
        yield cursor
        connection.rollback()  # after a mere close the server would notice some time later


def submit(database: Database, *seeds: int) -> None:
    database.submit_games(RUN, "w", [Submission(random_record(seed)) for seed in seeds])


def read(database: TrainerDatabase) -> int:
    return len(database.read_games(RUN, 0, 100).games)


def other_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@pytest.fixture
def trainer(database: Database, role_url: Callable[[str], str]) -> Iterator[TrainerDatabase]:
    """The trainer's own role, with the same rights as in a fleet."""
    with TrainerDatabase(role_url("trainer")) as opened:
        yield opened


def test_status_and_the_trainer_name_what_keeps_the_games(
    database: Database, trainer: TrainerDatabase, role_url: Callable[[str], str], valkey_url: str
) -> None:
    run = run_from_values({"name": RUN, "game": {"name": "tic_tac_toe"}})
    window = Window(run, trainer, training(run))
    submit(database, 1)
    with open_transaction(role_url("worker")) as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
        submit(database, 2)
        assert window.read_page()
        database._run("UPDATE games SET ingested_at = ingested_at - interval '40 s'")
        assert not window.read_page()
        assert f"pid {pid}" in str(window.blocker)
        with Monitor(run, role_url("console"), valkey_url) as monitor:
            assert f"pid {pid}" in str(monitor.figures().window_blocker)
    assert window.read_page()
    assert window.blocker is None


# Statements that assign a number to a console session's read-only transaction.
NUMBERED = [
    "SELECT pg_current_xact_id()",
    "SELECT txid_current()",
]


@pytest.mark.parametrize("statement", NUMBERED)
def test_a_console_session_keeps_no_game_from_the_trainer(
    database: Database, trainer: TrainerDatabase, role_url: Callable[[str], str], statement: str
) -> None:
    with open_transaction(role_url("console"), statement) as console:
        console.execute("SELECT pg_current_xact_id_if_assigned() IS NOT NULL")
        assert console.fetchone() == (True,)
        submit(database, 1)
        assert read(trainer) == 1
        assert trainer.window_start(RUN, 1) > 0
        assert trainer.window_blocker(RUN) is None


WRITING = [
    "CREATE TEMP TABLE t (a int)",
    "SELECT * FROM games FOR UPDATE",
    "SELECT * FROM games FOR SHARE",
    "LOCK TABLE games IN ROW EXCLUSIVE MODE",
    "DELETE FROM games",
    "SELECT submit_games('test', 'w', '[]')",
]


@pytest.mark.parametrize("statement", WRITING)
def test_a_console_session_may_not_write_or_lock(
    database_url: str, role_url: Callable[[str], str], statement: str
) -> None:
    # The tests' databases are copies, which do not inherit revoked rights of the database.
    with closing(psycopg2.connect(database_url)) as owner, owner, owner.cursor() as cursor:
        cursor.execute(script("rights/roles.sql"))
    with (
        pytest.raises(errors.InsufficientPrivilege),
        open_transaction(role_url("console"), statement),
    ):
        pass


def test_a_console_session_stores_no_game_whatever_it_was_granted(
    database: Database, database_url: str, role_url: Callable[[str], str]
) -> None:
    """The window does not wait for such a transaction, so it could skip its game."""
    with closing(psycopg2.connect(database_url)) as owner, owner, owner.cursor() as cursor:
        cursor.execute("GRANT EXECUTE ON FUNCTION submit_games TO zerofleet_console")
        cursor.execute("GRANT INSERT, SELECT ON games TO zerofleet_console")
    game = encode_submissions([Submission(random_record(1))])
    with closing(psycopg2.connect(role_url("console"))) as console, console.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = off")
        console.commit()
        for statement, values in (
            ("SELECT submit_games('test', 'w', %s)", (game,)),
            ("INSERT INTO games SELECT * FROM games", ()),
        ):
            with pytest.raises(errors.InsufficientPrivilege, match="stores no games"):
                cursor.execute(statement, values)
            console.rollback()


def test_another_databases_transaction_keeps_no_game_from_the_trainer(
    database: Database, trainer: TrainerDatabase, database_url: str
) -> None:
    with open_transaction(other_database(database_url, "postgres")):
        submit(database, 1)
        assert read(trainer) == 1


def test_the_owners_open_transaction_is_waited_for_and_named(
    database: Database, trainer: TrainerDatabase, database_url: str, role_url: Callable[[str], str]
) -> None:
    url = f"{database_url}{'&' if '?' in database_url else '?'}application_name=a%20psql"
    with open_transaction(url) as cursor, Database(role_url("console")) as console:
        cursor.execute("SELECT pg_backend_pid(), current_user::text")
        pid, role = cursor.fetchone()
        submit(database, 1, 2)
        assert read(trainer) == 0
        # the transaction is not older than one of ours may be
        assert trainer.window_blocker(RUN) is None
        database._run("UPDATE games SET ingested_at = ingested_at - interval '40 s'")
        for reader in (trainer, console):
            blocker = reader.window_blocker(RUN)
            assert blocker is not None
            assert (blocker.pid, blocker.role, blocker.application) == (pid, role, "a psql")
            assert (blocker.games, blocker.waits_for) == (2, "its client")
            assert blocker.since is not None
            assert blocker.waiting_seconds >= 40
            assert f"a transaction of {role} (a psql, pid {pid}, open since" in str(blocker)
    assert read(trainer) == 2
    assert trainer.window_blocker(RUN) is None


@pytest.mark.parametrize("seed", range(4))
def test_no_order_of_commits_skips_a_game(
    database: Database,
    trainer: TrainerDatabase,
    database_url: str,
    role_url: Callable[[str], str],
    seed: int,
) -> None:
    """Writers begin, store and commit in any order, among other sessions, while pages are read."""
    draw = random.Random(seed)
    expected: set[Any] = set()
    found: list[Any] = []
    tx, number = 0, 0
    urls = {
        "worker": role_url("worker"),
        "owner": database_url,
        "console": role_url("console"),
        "elsewhere": other_database(database_url, "postgres"),
    }
    with ExitStack() as stack:
        sessions: list[tuple[str, Any, list[Any]]] = []
        for name in ("worker", "worker", "worker", "owner", "console", "elsewhere"):
            session = stack.enter_context(closing(psycopg2.connect(urls[name])))
            with session.cursor() as cursor:
                cursor.execute("SET default_transaction_read_only = off")
            session.commit()
            sessions.append((name, session, []))
        for _ in range(120):
            name, session, games = draw.choice(sessions)
            what = draw.random()
            with session.cursor() as cursor:
                if what < 0.2:
                    session.commit()
                    expected |= set(games)
                    games.clear()
                elif what < 0.25:
                    session.rollback()
                    games.clear()
                # A transaction stores one delivery.
                elif games or name in ("console", "elsewhere") or what < 0.4:
                    cursor.execute("SELECT pg_current_xact_id()")
                else:
                    first, number = number, number + draw.randint(1, 3)
                    records = [random_record(seed) for seed in range(first, number)]
                    cursor.execute(
                        "SELECT submit_games('test', 'w', %s)",
                        (encode_submissions([Submission(record) for record in records]),),
                    )
                    games += [record.game_uid for record in records]
            page = trainer.read_games(RUN, tx, draw.randint(1, 3))
            found += [game.game_uid for game in page.games]
            tx = page.next_tx
        for _, session, games in sessions:
            session.commit()
            expected |= set(games)
        while (page := trainer.read_games(RUN, tx, 5)).games:
            found += [game.game_uid for game in page.games]
            tx = page.next_tx
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert len(expected) > 10


def test_role_passwords_end_what_a_role_has_set_for_itself(
    database: Database, database_url: str, role_url: Callable[[str], str], tmp_path: Path
) -> None:
    def settings() -> dict[str, str]:
        with closing(psycopg2.connect(role_url("console"))) as session, session.cursor() as cursor:
            cursor.execute(
                "SELECT name, setting FROM pg_settings WHERE name IN ('statement_timeout', "
                "'default_transaction_read_only', 'work_mem')"
            )
            return dict(cursor.fetchall())

    migrate(database_url)
    ours = settings()
    name = urlsplit(database_url).path.lstrip("/")
    with closing(psycopg2.connect(role_url("console"))) as session:
        session.autocommit = True
        with session.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = off")
            for where in ("", f'IN DATABASE "{name}" '):
                cursor.execute(f"ALTER ROLE zerofleet_console {where}SET statement_timeout = 0")
                cursor.execute(
                    f"ALTER ROLE zerofleet_console {where}SET default_transaction_read_only = off"
                )
            cursor.execute("ALTER ROLE zerofleet_console SET work_mem = '1GB'")
    assert settings() != ours
    [passfile] = parse_qs(urlsplit(role_url("console")).query)["passfile"]
    password = Path(passfile).read_text().strip().rpartition(":")[2]
    (tmp_path / "zerofleet_console").write_text(password)
    migrate(database_url, tmp_path)
    assert settings() == ours
    assert ours["statement_timeout"] == "30000"
    assert ours["default_transaction_read_only"] == "on"
