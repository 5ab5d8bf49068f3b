"""Partitions are made during submissions and the trainer's reads, and block neither."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import pytest
from sqlalchemy import exc

from tests.integration.kept_searches import DAY, NOW, ask, drop_partitions, make_day, new_record
from zerofleet.config import run_from_values
from zerofleet.database import Database, Submission, TrainerDatabase, migrate
from zerofleet.errors import StoreUnavailableError
from zerofleet.records import GameRecord, game_uid_of

MAKE = "SELECT make_partitions(24, now() + interval '9 days')"


def submit(database: Database, record: GameRecord) -> str:
    [answer] = database.submit_games("test", "w", [Submission(record)])
    return answer


def where(database: Database, record: GameRecord) -> list[str]:
    rows = ask(
        database,
        "SELECT DISTINCT tableoid::regclass::text FROM positions "
        f"WHERE game_uid = '{record.game_uid}'",
    )
    return [name for (name,) in rows]


def partition(began_at: datetime) -> str:
    return f"positions_{began_at:%Y%m%d}_00"


@pytest.fixture
def maker(database_url: str) -> Iterator[Any]:
    """A session in whose transaction a test makes partitions."""
    with closing(psycopg2.connect(database_url)) as session:
        yield session


def beside(
    database: Database, maker: Any, begun: Callable[[], object], waits_for: str
) -> "Future[Any]":
    """Return the result of a call that waits until the maker's transaction is committed."""
    with ThreadPoolExecutor(1) as pool:
        future: Future[Any] = pool.submit(begun)
        waiting = f"SELECT FROM pg_locks WHERE NOT granted AND {waits_for}"
        pause = threading.Event()
        while not ask(database, waiting) and not future.done():
            pause.wait(0.01)
        maker.commit()
    return future


def test_rows_on_their_way_to_the_default_partition_are_delivered_again(
    database: Database, database_url: str, maker: Any
) -> None:
    ahead = new_record(NOW + 5 * DAY)  # from a worker whose clock is ahead
    with Database(database_url) as worker, maker.cursor() as cursor:
        cursor.execute(MAKE)
        future = beside(
            database,
            maker,
            lambda: submit(worker, ahead),
            "relation = 'positions_default'::regclass",
        )
        with pytest.raises(StoreUnavailableError, match="made a partition"):
            future.result()
        assert submit(worker, ahead) == "stored"
    assert where(database, ahead) == [partition(NOW + 5 * DAY)]


def test_after_a_pause_a_submission_waits_for_the_session_that_makes_todays_partition(
    database: Database, database_url: str, maker: Any
) -> None:
    drop_partitions(database)
    game = new_record(datetime.now(UTC))
    with Database(database_url) as worker, maker.cursor() as cursor:
        cursor.execute(MAKE)
        future = beside(
            database, maker, lambda: submit(worker, game), "relation = 'partition_tries'::regclass"
        )
        assert future.result() == "stored"
    assert where(database, game) not in ([], ["positions_default"])


def test_a_row_that_breaks_a_rule_of_a_table_is_not_delivered_again(database: Database) -> None:
    with pytest.raises(exc.IntegrityError):
        ask(database, "UPDATE position_partitions SET until = since")


def test_a_migration_without_news_makes_the_partitions_of_today(
    database: Database, database_url: str
) -> None:
    drop_partitions(database)
    migrate(database_url)
    assert ask(database, "SELECT has_partition(now()), has_partition(now() + interval '1 hour')")[
        0
    ] == (True, True)


def test_the_window_finds_a_game_whose_searches_are_moved_meanwhile(
    database: Database, role_url: Callable[[str], str], maker: Any
) -> None:
    ahead = new_record(NOW + 5 * DAY)
    submit(database, ahead)
    with TrainerDatabase(role_url("trainer")) as trainer, maker.cursor() as cursor:
        cursor.execute(MAKE)
        future = beside(database, maker, lambda: trainer.read_games("test", 0, 10), "true")
        # The maker has a transaction number, so the page may end before the game. The next page has
        # it then.
        first = future.result()
        then = trainer.read_games("test", first.next_tx, 10)
    assert [game.game_uid for game in first.games + then.games] == [ahead.game_uid]
    assert where(database, ahead) == [partition(NOW + 5 * DAY)]


def test_while_the_window_is_read_no_rows_move_and_games_come_in(
    database: Database, database_url: str
) -> None:
    drop_partitions(database)
    with closing(psycopg2.connect(database_url)) as reader, reader.cursor() as cursor:
        cursor.execute("LOCK TABLE positions_default IN ACCESS SHARE MODE")  # as read_games does
        game = new_record(datetime.now(UTC))
        assert submit(database, game) == "stored"
        assert where(database, game) == ["positions_default"]
        assert database.make_partitions(24, DAY) == 0
        reader.rollback()  # the server may close a connection a moment later
    assert database.make_partitions(24, DAY) > 0
    assert where(database, game) not in ([], ["positions_default"])


def test_a_console_that_holds_all_that_it_may_stops_neither_games_nor_window(
    database: Database, role_url: Callable[[str], str]
) -> None:
    # Any session may take advisory locks, even in a read-only transaction.
    ours = "pronamespace = 'public'::regnamespace"
    assert ask(database, f"SELECT FROM pg_proc WHERE {ours} AND prosrc ~ 'pg_.*advisory'") == []
    drop_partitions(database)
    with closing(psycopg2.connect(role_url("console"))) as console, console.cursor() as cursor:
        for table in ("partition_tries", "positions", "position_partitions", "games"):
            cursor.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
            with pytest.raises(psycopg2.Error), closing(psycopg2.connect(role_url("console"))) as b:
                b.cursor().execute(f"LOCK TABLE {table} IN ROW SHARE MODE")
        game = new_record(datetime.now(UTC))
        with (
            Database(role_url("worker")) as worker,
            TrainerDatabase(role_url("trainer")) as trainer,
        ):
            assert submit(worker, game) == "stored"
            assert [read.game_uid for read in trainer.read_games("test", 0, 10).games] == [
                game.game_uid
            ]


def test_a_day_with_too_much_of_clocks_ahead_gets_its_partition_later(database: Database) -> None:
    began = (NOW + 5 * DAY).replace(hour=3)
    ask(
        database,
        "INSERT INTO positions SELECT CAST('" + str(game_uid_of(began, 1)) + "' AS uuid), "
        "ply, 0, 0, 1, 0, 0, 0, 1, true, '{0}', '{1}', '{1}' FROM generate_series(-32768, 32767) "
        "AS ply",
    )
    ask(
        database,
        f"INSERT INTO positions SELECT CAST('{game_uid_of(began, 2)}' AS uuid), ply, action, "
        "to_play, model_version, root_value, network_value, best_child_value, simulations, "
        "full_search, legal_actions, visit_counts, priors FROM positions_default",
    )
    database.make_partitions(24, 9 * DAY)

    def made() -> list[str]:
        return [name for (name,) in ask(database, "SELECT partition FROM position_partitions")]

    assert partition(began) not in made()
    assert {partition(began - DAY), partition(began + DAY)} <= set(made())
    ask(database, f"DELETE FROM positions_default WHERE game_uid = '{game_uid_of(began, 2)}'")
    assert database.make_partitions(24, 9 * DAY) == 1
    assert partition(began) in made()
    assert ask(database, "SELECT count(*) FROM positions_default") == [(0,)]


def test_submissions_try_to_make_a_partition_once_a_minute(
    database: Database, database_url: str
) -> None:
    drop_partitions(database)
    with closing(psycopg2.connect(database_url)) as reader, reader.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM positions_default")
        submit(database, new_record(datetime.now(UTC)))
        [tried] = ask(database, "SELECT at FROM partition_tries")
        submit(database, new_record(datetime.now(UTC)))
        assert ask(database, "SELECT at FROM partition_tries") == [tried]
        reader.rollback()  # the server may close a connection a moment later
    assert ask(database, "SELECT partition FROM position_partitions") == []
    ask(database, "UPDATE partition_tries SET at = at - interval '1 minute'")
    submit(database, new_record(datetime.now(UTC)))
    assert ask(database, "SELECT has_partition(now())") == [(True,)]


def test_a_table_in_the_way_hinders_only_its_own_day(database: Database) -> None:
    ask(database, f"CREATE TABLE {partition(NOW + 5 * DAY)} (mine integer)")
    assert database.make_partitions(24, 9 * DAY) > 0
    made = [name for (name,) in ask(database, "SELECT partition FROM position_partitions")]
    assert partition(NOW + 5 * DAY) not in made
    assert partition(NOW + 6 * DAY) in made


def test_old_games_outside_partitions_go_in_the_order_in_which_they_began(
    database: Database,
) -> None:
    epoch = database.acquire_fence("test", "trainer")
    records = [new_record(NOW - ago * DAY) for ago in (40, 60, 50)]
    for record in records:
        submit(database, record)
    ask(database, "UPDATE games SET ingested_at = now() - interval '30 days'")
    assert database.delete_old_positions(1) == 0  # no trainer has stated its needs
    ask(database, f"INSERT INTO position_needs VALUES ('test', 'infinity', {epoch})")
    assert database.delete_old_positions(1) == 1
    assert [bool(where(database, record)) for record in records] == [True, False, True]
    assert database.delete_old_positions(5) == 2


def test_the_partition_of_a_game_that_was_adopted_late_stays_while_the_window_needs_it(
    database: Database,
) -> None:
    epoch = database.acquire_fence("test", "trainer")
    adopted = new_record(NOW - 5 * DAY)
    for ago in (6, 5):
        make_day(database, f"ago_{ago}", ago)
    long_ago = new_record(NOW - 900 * DAY)  # from a wrong clock; it is in positions_default
    for record in (adopted, long_ago):
        submit(database, record)
    database.state_needs(
        "test", window_games=2, played_on_games=1, margin=timedelta(0), epoch=epoch
    )
    assert database.drop_partition() is not None
    assert database.drop_partition() is None
    assert where(database, adopted) == ["ago_5"]
    submit(database, new_record(datetime.now(UTC)))
    submit(database, new_record(datetime.now(UTC)))
    database.state_needs(
        "test", window_games=2, played_on_games=1, margin=timedelta(0), epoch=epoch
    )
    assert database.drop_partition() is not None
    assert where(database, adopted) == []


def test_without_a_trainer_partitions_are_made_as_long_as_a_run_of_the_database_asks_for(
    database: Database, database_url: str
) -> None:
    def hours() -> list[int]:
        rows = ask(database, "SELECT extract(hour FROM until - since) FROM position_partitions")
        return sorted({int(of) for (of,) in rows})

    for name, partition_hours in (("test", 6), ("two", 12)):
        values = {"name": name, "game": {"name": "tic_tac_toe"}}
        run = run_from_values(values | {"retention": {"partition_hours": partition_hours}})
        database.register_run(run)
    drop_partitions(database)
    game = new_record(datetime.now(UTC))
    submit(database, game)
    assert where(database, game) not in ([], ["positions_default"])
    assert hours() == [6]
    drop_partitions(database)
    migrate(database_url)
    assert hours() == [6]


def test_a_machines_clock_is_compared_with_that_of_postgres(database: Database) -> None:
    assert abs(database.clock_ahead()) < timedelta(minutes=1)  # both clocks are the same here
