"""Old data is deleted, the rest stays, and new games can be stored meanwhile."""

import re
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import psycopg2
import pytest

from tests.integration.kept_searches import DAY, NOW, ask, drop_partitions, make_day, new_record
from zerofleet.config import run_from_values
from zerofleet.database import Database, Submission
from zerofleet.errors import StaleEpochError
from zerofleet.records import GameRecord, game_uid_of

BACKUP_PAGE = Path(__file__).parents[2] / "docs/how-to/backup.md"
MOST_RANDOM = (1 << 74) - 1


def partitions(database: Database) -> list[str]:
    rows = ask(database, "SELECT partition FROM position_partitions ORDER BY since")
    return [name for (name,) in rows]


def make_past(database: Database, days: int) -> None:
    """Make partitions for the days before today."""
    for ago in range(days, 0, -1):
        make_day(database, f"positions_ago_{ago}", ago)


def play(
    database: Database, began_at: datetime, *, run: str = "test", games: int = 2
) -> list[GameRecord]:
    """Store games that began at a time and were stored then."""
    records = [new_record(began_at) for _ in range(games)]
    answers = database.submit_games(run, "w", [Submission(record) for record in records])
    assert answers == ["stored"] * games
    uids = ", ".join(f"'{record.game_uid}'" for record in records)
    ask(database, f"UPDATE games SET ingested_at = '{began_at}' WHERE game_uid IN ({uids})")
    return records


def where(database: Database, record: GameRecord) -> str | None:
    """Return the partition that has a game's searches; None if they were deleted."""
    rows = ask(
        database,
        "SELECT DISTINCT tableoid::regclass::text FROM positions "
        f"WHERE game_uid = '{record.game_uid}'",
    )
    return rows[0][0] if rows else None


def state(database: Database, epoch: int, run: str = "test", games: int = 2) -> None:
    database.state_needs(run, window_games=games, played_on_games=1, margin=DAY, epoch=epoch)


@pytest.fixture
def epoch(database: Database) -> int:
    return database.acquire_fence("test", "trainer")


def test_searches_are_kept_by_when_their_game_began(database: Database) -> None:
    make_past(database, 2)
    [today] = play(database, NOW, games=1)
    [yesterday] = play(database, NOW - DAY, games=1)
    [long_ago] = play(database, NOW - 90 * DAY, games=1)
    [ahead] = play(database, NOW + 90 * DAY, games=1)
    assert where(database, today) == f"positions_{NOW:%Y%m%d}_00"
    assert where(database, yesterday) == "positions_ago_1"
    assert where(database, long_ago) == where(database, ahead) == "positions_default"


@pytest.mark.parametrize(
    "began_at",
    [
        NOW.replace(microsecond=123_000),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2525, 6, 7, 8, 9, 10, 999_000, UTC),
    ],
)
def test_a_time_and_the_uids_of_games_that_began_then(
    database: Database, began_at: datetime
) -> None:
    least, most = game_uid_of(began_at, 0), game_uid_of(began_at, MOST_RANDOM)
    after = began_at + timedelta(milliseconds=1)
    assert ask(
        database,
        f"SELECT first_game_uid('{began_at}') <= '{least}', first_game_uid('{after}') > '{most}', "
        f"game_began('{least}'), game_began('{most}')",
    ) == [(True, True, began_at, began_at)]


def test_partitions_are_made_ahead_each_once(database: Database) -> None:
    before = partitions(database)
    assert database.make_partitions(24, timedelta(hours=1)) == 0
    assert database.make_partitions(6, 4 * DAY) > 0
    assert partitions(database)[: len(before)] == before
    assert database.make_partitions(6, 4 * DAY - timedelta(hours=6)) == 0
    stretches = ask(database, "SELECT since, until FROM position_partitions ORDER BY since")
    assert all(one[1] == following[0] for one, following in pairwise(stretches))
    assert stretches[-1][1] - stretches[-1][0] == timedelta(hours=6)
    assert stretches[-1][1] > NOW + 4 * DAY
    [after] = play(database, NOW + 3 * DAY, games=1)
    assert where(database, after) not in (None, "positions_default")


def test_what_came_before_its_partition_moves_into_it(database: Database) -> None:
    """A worker's clock is ahead: its game is in the default partition until its own one exists."""
    [early] = play(database, NOW + 5 * DAY, games=1)
    assert where(database, early) == "positions_default"
    database.make_partitions(24, 7 * DAY)
    assert where(database, early) == f"positions_{NOW + 5 * DAY:%Y%m%d}_00"


def test_a_reader_of_the_default_partition_hinders_no_submission(
    database: Database, database_url: str
) -> None:
    drop_partitions(database)
    with closing(psycopg2.connect(database_url)) as reader, reader.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM positions_default")
        [game] = play(database, datetime.now(UTC), games=1)
        assert where(database, game) == "positions_default"
        reader.rollback()  # the server may close a connection a moment later
    ask(database, "UPDATE partition_tries SET at = at - interval '1 minute'")
    play(database, datetime.now(UTC), games=1)
    assert where(database, game) not in (None, "positions_default")  # the game has moved


def test_old_searches_go_and_everything_else_stays(database: Database, epoch: int) -> None:
    make_past(database, 6)
    [oldest] = play(database, NOW - 6 * DAY, games=1)
    [old] = play(database, NOW - 5 * DAY, games=1)
    [stray] = play(database, NOW - 50 * DAY, games=1)
    window = play(database, NOW - 2 * DAY)
    state(database, epoch)
    while (drop := database.drop_partition()) is not None:
        assert drop.is_done
    assert database.delete_old_positions(10) == 1
    assert database.delete_old_positions(10) == 0
    assert [where(database, record) for record in (oldest, old, stray)] == [None] * 3
    assert all(where(database, record) for record in window)
    assert partitions(database)[0] == "positions_ago_3"
    games = ask(database, "SELECT game_uid::text, length, moves <> '' FROM games")
    assert len(games) == 5
    assert (str(oldest.game_uid), oldest.length, True) in games
    # A restarted trainer resumes at the oldest searches that are kept.
    read = database.read_games("test", 0, 10)
    assert {game.game_uid for game in read.games} == {record.game_uid for record in window}
    lengths = {game.game_uid: len(game.action) for game in read.games}
    assert lengths == {record.game_uid: record.length for record in window}
    assert ask(database, "SELECT count(DISTINCT game_uid) FROM game_moves") == [(2,)]
    assert ask(database, "SELECT DISTINCT all_games FROM resign_audit") == [(2,)]


def test_as_long_as_the_window_is_not_full_nothing_goes(database: Database, epoch: int) -> None:
    make_past(database, 5)
    [old] = play(database, NOW - 5 * DAY, games=1)
    state(database, epoch, games=2)
    assert database.drop_partition() is None
    assert database.delete_old_positions(10) == 0
    assert where(database, old) == "positions_ago_5"


def test_games_that_v_resign_is_computed_from_keep_their_searches(
    database: Database, epoch: int
) -> None:
    make_past(database, 5)
    play(database, NOW - 5 * DAY)
    play(database, NOW)
    ask(database, "UPDATE games SET plays_on = true")
    database.state_needs("test", window_games=2, played_on_games=3, margin=DAY, epoch=epoch)
    assert database.drop_partition() is None
    database.state_needs("test", window_games=2, played_on_games=2, margin=DAY, epoch=epoch)
    assert database.drop_partition() is not None


def test_a_run_that_forgets_nothing_keeps_the_searches_of_all(
    database: Database, epoch: int
) -> None:
    make_past(database, 3)
    play(database, NOW - 3 * DAY)
    play(database, NOW)
    database.state_needs("test", window_games=2, played_on_games=1, margin=None, epoch=epoch)
    assert database.drop_partition() is None


def test_of_two_runs_in_one_database_both_must_be_done_with_a_partition(
    database: Database, epoch: int
) -> None:
    make_past(database, 4)
    database.register_run(run_from_values({"name": "two", "game": {"name": "tic_tac_toe"}}))
    [old, _] = play(database, NOW - 4 * DAY)
    play(database, NOW)
    state(database, epoch)
    assert database.drop_partition() is not None  # the other run has no games
    assert where(database, old) is None
    [theirs, _] = play(database, NOW - 3 * DAY, run="two")
    assert database.drop_partition() is None  # its trainer has not stated its needs
    second = database.acquire_fence("two", "trainer")
    state(database, second, run="two")
    assert database.drop_partition() is None
    play(database, NOW, run="two")
    state(database, second, run="two")
    assert database.drop_partition() is not None
    assert where(database, theirs) is None


def test_an_abandoned_run_holds_no_searches_once_its_owner_says_so(
    database: Database, epoch: int
) -> None:
    """The command is from docs/how-to/backup.md."""
    make_past(database, 4)
    play(database, NOW - 4 * DAY)
    state(database, epoch, games=10)
    assert database.drop_partition() is None
    database.acquire_fence("test", "trainer")  # a trainer that stopped before it stated its needs
    [statement] = re.findall(r"`(UPDATE position_needs .*?)`", BACKUP_PAGE.read_text())
    ask(database, statement.replace("NAME", "test"))
    assert database.drop_partition() is not None
    while database.drop_partition() is not None:
        pass
    assert f"positions_{NOW + DAY:%Y%m%d}_00" in partitions(database)


def test_a_trainer_that_was_replaced_states_no_needs(database: Database, epoch: int) -> None:
    database.acquire_fence("test", "trainer")
    with pytest.raises(StaleEpochError):
        state(database, epoch)


def test_a_reader_is_not_waited_for(database: Database, epoch: int, database_url: str) -> None:
    make_past(database, 4)
    play(database, NOW - 4 * DAY)
    play(database, NOW)
    state(database, epoch)
    for read in ("game_moves", "positions_ago_4", "positions_default"):
        with closing(psycopg2.connect(database_url)) as reader, reader.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {read}")
            assert (drop := database.drop_partition())
            assert (drop.partition, drop.is_done) == ("positions_ago_4", False)
            assert "another session is reading" in drop.outcome
            play(database, NOW)
            reader.rollback()  # the server may close a connection a moment later
        # it waits for no lock on a partition
        ask(database, "ALTER FUNCTION drop_partition SET lock_timeout = '1h'")
    assert (drop := database.drop_partition())
    assert drop.is_done


def test_a_persons_view_of_a_partition_keeps_it_and_is_told_of(
    database: Database, epoch: int
) -> None:
    make_past(database, 4)
    play(database, NOW - 4 * DAY)
    play(database, NOW)
    state(database, epoch)
    ask(database, "CREATE VIEW mine AS SELECT * FROM positions_ago_4")
    drop = database.drop_partition()
    assert drop is not None
    assert "other objects depend on it" in drop.outcome


def test_games_come_in_while_partitions_go(
    database: Database, epoch: int, role_url: Callable[[str], str]
) -> None:
    make_past(database, 20)
    for ago in range(20, 2, -1):
        play(database, NOW - ago * DAY)
    stop = threading.Event()
    sent, answers = list[GameRecord](), list[str]()

    def submit() -> None:
        with Database(role_url("worker")) as worker:
            while not stop.is_set():
                sent.append(new_record(datetime.now(UTC)))
                answers.extend(worker.submit_games("test", "w", [Submission(sent[-1])]))

    playing = threading.Thread(target=submit)
    playing.start()
    drops = 0
    try:
        with Database(role_url("trainer")) as trainer:
            while drops < 15:
                state(trainer, epoch)
                drop = trainer.drop_partition()
                drops += drop is not None and drop.is_done
    finally:
        stop.set()
        playing.join()
    assert answers == ["stored"] * len(sent)
    stored = dict(ask(database, "SELECT game_uid::text, count(*) FROM positions GROUP BY 1"))
    assert {str(record.game_uid): record.length for record in sent}.items() <= stored.items()


@pytest.fixture
def kept_models(database: Database, epoch: int) -> Callable[..., list[int]]:
    """Return a function that gives up some of ten models; the sixth was promoted."""
    for version in range(1, 11):
        database.insert_model("test", version, f"{version:064x}", 0, {}, "m", epoch)
    evaluator = database.acquire_fence("test", "evaluator")
    database.promote("test", 6, None, "e", 0, epoch=evaluator)

    def give_up(*, newest: int, every: int, grace: timedelta = DAY) -> list[int]:
        database.give_up_models("test", newest=newest, every=every, grace=grace, epoch=epoch)
        return [row.version for row in database.models("test")]

    return give_up


def test_files_of_promoted_newest_and_every_kth_models_are_kept(
    kept_models: Callable[..., list[int]], database: Database
) -> None:
    assert kept_models(newest=2, every=4) == [4, 6, 8, 9, 10]
    assert kept_models(newest=2, every=0) == [6, 9, 10]
    assert database.removable_files("test") == []  # within the grace period
    removed = "SELECT version FROM models WHERE removed_at IS NOT NULL ORDER BY version"
    assert ask(database, removed) == [(version,) for version in (1, 2, 3, 4, 5, 7, 8)]


def test_files_go_when_the_grace_is_over_but_those_of_another_model_stay(
    kept_models: Callable[..., list[int]], database: Database
) -> None:
    database.register_run(run_from_values({"name": "two", "game": {"name": "tic_tac_toe"}}))
    second = database.acquire_fence("two", "trainer")
    database.insert_model("two", 1, f"{3:064x}", 0, {}, "m", second)  # the same file
    assert kept_models(newest=6, every=0, grace=timedelta(0)) == [5, 6, 7, 8, 9, 10]
    removable = {model.version: list(model.sha256s) for model in database.removable_files("test")}
    assert removable == {1: [f"{1:064x}"], 2: [f"{2:064x}"], 3: [], 4: [f"{4:064x}"]}


def test_a_model_that_came_to_be_used_within_the_grace_is_kept(
    kept_models: Callable[..., list[int]], database: Database
) -> None:
    assert 3 not in kept_models(newest=2, every=0)
    evaluator = database.acquire_fence("test", "evaluator")
    database.promote("test", 3, None, "e", 1, epoch=evaluator)
    trial = database.open_match(
        "test", "trial", "5", "random", games=2, num_simulations=2, seed=1, epoch=evaluator
    )
    assert {3, 5} <= set(kept_models(newest=2, every=0))
    database.leave_out_trial(trial.match_id, "it cannot be played", epoch=evaluator)
    assert 5 not in kept_models(newest=2, every=0)


def test_a_trainer_that_was_replaced_gives_up_no_model(database: Database, epoch: int) -> None:
    for version in range(1, 5):
        database.insert_model("test", version, f"{version:064x}", 0, {}, "m", epoch)
    database.acquire_fence("test", "trainer")
    with pytest.raises(StaleEpochError):
        database.give_up_models("test", newest=2, every=0, grace=DAY, epoch=epoch)
    assert len(database.models("test")) == 4


def test_what_is_kept_in_figures(database: Database, epoch: int) -> None:
    nothing = database.kept("test")
    assert (nothing.since, nothing.bytes_per_day, nothing.models) == (None, None, 0)
    make_past(database, 2)
    play(database, NOW - 2 * DAY)
    play(database, NOW)
    database.insert_model("test", 1, f"{1:064x}", 0, {}, "m", epoch)
    kept = database.kept("test")
    assert kept.since is not None
    assert abs(kept.since - (NOW - 2 * DAY)) < timedelta(seconds=1)
    assert kept.bytes_per_day is not None
    assert kept.bytes_per_day > 0
    assert kept.models == 1
