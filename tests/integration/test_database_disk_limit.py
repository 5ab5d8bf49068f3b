"""At the disk limit the oldest searches go, down to what training needs, and nothing else does."""

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import psycopg2
import pytest

from tests.integration.kept_searches import DAY, NOW, ask, make_day, new_record
from tests.support.databases import undo_migrations
from zerofleet import games
from zerofleet.config import run_from_values
from zerofleet.database import Database, Submission, migrate
from zerofleet.records import GameRecord

FOREVER = timedelta(days=1000)


def register(database: Database, name: str = "test", **retention: object) -> None:
    values = {"name": name, "game": {"name": "tic_tac_toe"}, "retention": retention}
    database.register_run(run_from_values(values))


def play(database: Database, began_at: datetime, run: str = "test") -> GameRecord:
    """A game that began, and was stored, at a time."""
    record = new_record(began_at)
    assert database.submit_games(run, "w", [Submission(record)]) == ["stored"]
    stored_at = f"ingested_at = '{began_at}', began_at = '{began_at}'"
    ask(database, f"UPDATE games SET {stored_at} WHERE game_uid = '{record.game_uid}'")
    return record


def a_game_a_day(database: Database, days: int, run: str = "test") -> list[GameRecord]:
    """Games of the days before today, the oldest first, in a partition for each day."""
    for ago in range(days, 0, -1):
        if not ask(database, f"SELECT FROM position_partitions WHERE partition = 'ago_{ago}'"):
            make_day(database, f"ago_{ago}", ago)
    return [play(database, NOW - ago * DAY, run) for ago in range(days, 0, -1)]


def newest_tx(database: Database) -> int:
    [(tx,)] = ask(database, "SELECT max(tx::text::bigint) FROM games")
    return tx


def state(database: Database, epoch: int, *, held: int | None, run: str = "test") -> None:
    """State the needs of a run that keeps its searches forever where no limit is reached."""
    database.state_needs(
        run,
        window_games=2,
        played_on_games=1,
        margin=FOREVER,
        epoch=epoch,
        held_games=held,
        read_tx=newest_tx(database),
    )


def drop_all(database: Database, *, at_limit: bool) -> list[str]:
    """The partitions that can be dropped, in the order in which they went."""
    dropped: list[str] = []
    while (drop := database.drop_partition(at_limit=at_limit)) is not None:
        assert drop.is_done
        dropped.append(drop.partition)
    return dropped


@pytest.fixture
def epoch(database: Database) -> int:
    return database.acquire_fence("test", "trainer")


def test_the_oldest_searches_go_and_games_and_the_window_stay(
    database: Database, epoch: int
) -> None:
    records = a_game_a_day(database, 6)
    before = ask(database, "SELECT * FROM games ORDER BY game_uid")
    state(database, epoch, held=3)
    assert drop_all(database, at_limit=False) == []
    assert drop_all(database, at_limit=True) == ["ago_6", "ago_5", "ago_4"]
    assert ask(database, "SELECT * FROM games ORDER BY game_uid") == before
    read = {game.game_uid for game in database.read_games("test", 0, 100).games}
    assert read == {record.game_uid for record in records[-3:]}


def test_a_game_replays_without_its_searches(database: Database, epoch: int) -> None:
    [oldest, _] = a_game_a_day(database, 2)
    state(database, epoch, held=1)
    assert drop_all(database, at_limit=True) == ["ago_2"]
    [(moves, result)] = ask(
        database, f"SELECT moves, result FROM games WHERE game_uid = '{oldest.game_uid}'"
    )
    actions = games.parse_actions("tic_tac_toe", moves)
    assert actions == list(oldest.columns.action)
    assert result == oldest.result


def test_games_that_the_trainer_has_not_read_stay(database: Database, epoch: int) -> None:
    a_game_a_day(database, 4)
    [(read_tx,)] = ask(database, "SELECT min(tx::text::bigint) FROM games")
    database.state_needs(
        "test",
        window_games=1,
        played_on_games=1,
        margin=FOREVER,
        epoch=epoch,
        held_games=1,
        read_tx=read_tx,
    )
    assert drop_all(database, at_limit=True) == []


def test_a_window_of_more_games_than_there_are_keeps_all(database: Database, epoch: int) -> None:
    a_game_a_day(database, 4)
    state(database, epoch, held=5)
    assert drop_all(database, at_limit=True) == []


def test_a_run_without_a_limit_keeps_its_searches_beside_one_with(
    database: Database, epoch: int
) -> None:
    register(database, "two")
    a_game_a_day(database, 4)
    a_game_a_day(database, 4, "two")
    second = database.acquire_fence("two", "trainer")
    state(database, epoch, held=1)
    state(database, second, held=None, run="two")
    assert drop_all(database, at_limit=True) == []
    state(database, second, held=2, run="two")
    assert drop_all(database, at_limit=True) == ["ago_4", "ago_3"]


def test_a_run_that_forgets_nothing_keeps_all_at_any_limit(database: Database, epoch: int) -> None:
    a_game_a_day(database, 4)
    database.state_needs(
        "test", window_games=1, played_on_games=1, margin=None, epoch=epoch, held_games=1
    )
    assert drop_all(database, at_limit=True) == []


def sizes(database: Database) -> set[timedelta]:
    """Return the sizes of the partitions that are made ahead."""
    rows = ask(database, "SELECT until - since FROM position_partitions WHERE since > now()")
    return {size for (size,) in rows}


def stretches(database: Database) -> list[tuple[datetime, datetime]]:
    rows = ask(database, "SELECT since, until FROM position_partitions ORDER BY since")
    return [(since, until) for since, until in rows]


def test_a_disk_limit_makes_partitions_shorter(database: Database) -> None:
    assert sizes(database) == {DAY}
    register(database, max_disk_gb=20)
    assert database.make_partitions() > 0  # the empty ones of a day are gone
    assert sizes(database) == {timedelta(minutes=10)}
    play(database, datetime.now(UTC))
    register(database, max_disk_gb=1e-6)
    database.make_partitions()
    assert sizes(database) <= {timedelta(minutes=1), timedelta(minutes=10)}
    assert timedelta(minutes=1) in sizes(database)
    found = stretches(database)
    assert all(one[1] == following[0] for one, following in pairwise(found))
    assert found[-1][1] > datetime.now(UTC) + timedelta(hours=1)
    # At a high limit for its rate a run has the partitions that it asks for.
    register(database, max_disk_gb=1e6)
    assert ask(database, "SELECT partition_size()") == [(DAY,)]
    register(database, max_disk_gb=1e6, partition_hours=3)
    assert ask(database, "SELECT partition_size()") == [(timedelta(hours=3),)]


def test_partitions_are_no_shorter_than_what_is_stored_asks_for(database: Database) -> None:
    """Training may need far more than the limit; too many partitions are slow to plan with."""
    register(database, max_disk_gb=1e-6)
    play(database, datetime.now(UTC))
    [(shortest,)] = ask(database, "SELECT partition_size()")
    make_day(database, "ago_1", 1)
    game = play(database, NOW - DAY)
    ask(
        database,
        "INSERT INTO ago_1 SELECT game_uid, 1000 + n, action, to_play, model_version, root_value, "
        "network_value, best_child_value, simulations, full_search, legal_actions, visit_counts, "
        f"priors FROM ago_1, generate_series(1, 20000) AS n WHERE game_uid = '{game.game_uid}' "
        "AND ply = 0",
    )
    ask(database, f"UPDATE games SET length = length + 20000 WHERE game_uid IN ('{game.game_uid}')")
    assert ask(database, "SELECT partition_size() > '" + str(shortest) + "'::interval") == [(True,)]


@pytest.mark.parametrize("retention", [{}, {"max_disk_gb": 0}, {"max_disk_gb": 1, "forget": False}])
def test_without_a_limit_partitions_have_the_size_of_the_run_file(
    database: Database, retention: dict[str, object]
) -> None:
    register(database, **retention)
    assert database.make_partitions() == 0
    assert sizes(database) == {DAY}


def test_a_partition_with_searches_stays_as_it_is(database: Database) -> None:
    """As in a database of before there was a limit."""
    game = play(database, datetime.now(UTC))
    before = stretches(database)[0]
    register(database, max_disk_gb=1)
    database.make_partitions()
    assert stretches(database)[0] == before
    assert len(stretches(database)) == 1 or DAY not in sizes(database)
    assert database.read_games("test", 0, 10).games[0].game_uid == game.game_uid


def test_a_partition_that_is_being_read_is_left_alone(
    database: Database, database_url: str
) -> None:
    register(database, max_disk_gb=1)
    before = stretches(database)
    reader = psycopg2.connect(database_url)
    reader.cursor().execute("SELECT count(*) FROM positions")
    assert database.make_partitions() == 0
    assert stretches(database) == before
    reader.close()
    assert database.submit_games("test", "w", [Submission(new_record(datetime.now(UTC)))]) == [
        "stored"
    ]


def test_the_rate_is_that_of_the_last_hour_of_play(database: Database) -> None:
    assert database.kept("test").bytes_per_day is None
    make_day(database, "ago_2", 2)
    play(database, NOW - 2 * DAY)
    now = datetime.now(UTC)
    for _ in range(4):
        play(database, now - timedelta(minutes=30))
    last = play(database, now)
    kept = database.kept("test")
    plies = sum(
        length
        for (length,) in ask(
            database, f"SELECT length FROM games WHERE ingested_at > '{now - DAY}'"
        )
    )
    [(stored,)] = ask(database, "SELECT sum(length) FROM games")
    expected = kept.bytes / stored * plies * 48  # half an hour of play
    assert kept.bytes_per_day is not None
    assert math.isclose(kept.bytes_per_day, expected, rel_tol=0.5)  # empty partitions are in bytes
    assert kept.game_bytes > 0
    assert kept.database_bytes > kept.bytes + kept.game_bytes
    assert last.length > 0


def test_a_database_of_the_revision_before_gets_the_columns(database_url: str) -> None:
    with Database(database_url) as database:
        register(database)
        epoch = database.acquire_fence("test", "trainer")
        a_game_a_day(database, 3)
        ask(database, f"INSERT INTO position_needs VALUES ('test', '-infinity', {epoch})")
        for statement in undo_migrations(1002):
            ask(database, statement)
    migrate(database_url)
    with Database(database_url) as database:
        assert drop_all(database, at_limit=True) == []
        state(database, epoch, held=1)
        assert drop_all(database, at_limit=True) == ["ago_3", "ago_2"]
