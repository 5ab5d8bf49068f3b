"""Limits on what one role may store: epochs, versions, leases, names and unfinished games."""

import dataclasses
import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import psycopg2
import pytest
from sqlalchemy import exc
from structlog.testing import capture_logs

from tests.support.random_records import changed, random_record
from zerofleet.database import Database, SaveStatus, Submission
from zerofleet.database.finished_games import encode_submissions
from zerofleet.errors import ConfigError, RecordRejectedError
from zerofleet.services.selfplay.game_storage import GamesInPlay, UnfinishedGames
from zerofleet.waiting import Waits

MANY = 2**31 - 1


def insert_model(database: Database, version: int, epoch: int) -> None:
    database.insert_model("test", version, f"{version:064x}", 0, {}, "m", epoch)


def test_an_epoch_leaves_room_for_those_who_follow(database: Database) -> None:
    for above in (2**63 - 2, 10**15 + 1, -1):
        with pytest.raises(ConfigError, match=f"epoch {above} of the trainer of the run test is"):
            database.acquire_fence("test", "trainer", above=above)
    assert database.acquire_fence("test", "trainer", above=7) == 8
    assert database.acquire_fence("test", "trainer", above=10**15) == 10**15 + 1
    assert database.acquire_fence("test", "trainer") == 10**15 + 2


def test_a_model_version_leaves_room_for_those_who_follow(database: Database) -> None:
    epoch = database.acquire_fence("test", "trainer")
    for version in (1, 2, 1002):
        insert_model(database, version, epoch)
    for version in (MANY, 2003):
        with pytest.raises(exc.DataError, match=f"{version} of the run test is far above its newe"):
            insert_model(database, version, epoch)
    insert_model(database, 2002, epoch)


def test_a_game_names_no_model_far_above_the_newest(database: Database) -> None:
    """A worker may be ahead of a restored database, but not by thousands of models."""
    epoch = database.acquire_fence("test", "trainer")
    insert_model(database, 5, epoch)
    database.submit_game("test", "w", Submission(random_record(1, model_version=1005)))
    forged = random_record(2, model_version=1006)
    with pytest.raises(RecordRejectedError, match="a model version is far above the newest, 5"):
        database.submit_game("test", "w", Submission(forged))
    begun = [(random_record(seed, model_version=MANY, plies=3), 0) for seed in (3, 4)]
    assert database.save_unfinished("test", "w", begun, 60) == ["rejected"] * 2


def test_a_lease_lasts_a_day_at_most(database: Database) -> None:
    game = random_record(1, plies=3)
    longest = "SELECT max(lease_until) - now() AS left FROM unfinished_games HAVING count(*) = 1"
    for seconds in (1e9, float("inf"), float("nan")):
        assert database.save_unfinished("test", "w", [(game, 0)], seconds) == ["saved"]
        [row] = database._rows(longest)
        assert row.left <= timedelta(days=1)
        assert database.extend_leases("test", "w", [game.game_uid], seconds) == 1
        [row] = database._rows(longest)
        assert row.left <= timedelta(days=1)
    database._run("UPDATE unfinished_games SET lease_until = now()")
    assert len(database.adopt_unfinished("test", "w", 1, 1e9)) == 1
    [row] = database._rows(longest)
    assert row.left <= timedelta(days=1)


def test_a_workers_name_has_at_most_200_characters(database: Database) -> None:
    """A worker with a longer name can do everything that other workers can."""
    long, cut = "n" * 100_000, "n" * 200
    games = [random_record(seed) for seed in (1, 2)]
    assert database.submit_games("test", long, [Submission(games[0])]) == ["stored"]
    assert database.submit_games("test", long, [Submission(games[0])]) == ["duplicate"]
    other = dataclasses.replace(games[1], game_uid=games[0].game_uid)
    assert database.submit_games("test", long, [Submission(other)]) == ["conflict"]
    begun = random_record(3, plies=3)
    assert database.save_unfinished("test", long, [(begun, 0)], 60) == ["saved"]
    assert database.extend_leases("test", long, [begun.game_uid], 60) == 1
    assert database.release_unfinished("test", long) == 1
    [(_, epoch)] = database.adopt_unfinished("test", long, 1, 60)
    names = database._rows(
        "SELECT worker FROM games UNION SELECT worker FROM unfinished_games "
        "UNION SELECT worker FROM refused_games"
    )
    assert [row.worker for row in names] == [cut]
    assert database.reject_unfinished("test", long, begun.game_uid, epoch, "a test")


def test_the_moves_of_a_game_are_as_long_as_its_plies_need(database: Database) -> None:
    [delivery] = json.loads(encode_submissions([Submission(random_record(1))]))
    plies = random_record(1).length
    for size, status in ((256 * plies + 1, "rejected"), (256 * plies, "stored")):
        delivery["moves"] = "m" * size
        [row] = database._rows(
            "SELECT status, reason FROM submit_games('test', 'w', CAST(:games AS json))",
            games=json.dumps([delivery]),
        )
        assert row.status == status
        assert row.reason == (
            "moves has more text than 256 bytes a ply" if status == "rejected" else None
        )


def test_a_call_adopts_few_games_and_few_megabytes(database: Database) -> None:
    begun = [(random_record(seed, plies=3), 0) for seed in range(20)]
    database.save_unfinished("test", "gone", begun, 0)
    calls = [len(database.adopt_unfinished("test", "heir", 100, 60)) for _ in range(4)]
    assert calls == [8, 8, 4, 0]
    database._run(
        "UPDATE unfinished_games SET lease_until = now(), record = json_build_object("
        "'game_uid', game_uid, 'filled', repeat('x', 40000000)) "
        "WHERE game_uid IN (SELECT game_uid FROM unfinished_games ORDER BY game_uid LIMIT 3)"
    )
    taken = [
        len(
            database._rows(
                "SELECT game_uid FROM adopt_unfinished('test', 'heir', 100, :seconds)", seconds=60
            )
        )
        for _ in range(4)
    ]
    assert taken == [1, 1, 1, 0], "two of them are more than 64 MB"


def test_a_run_has_a_bounded_number_of_unfinished_games(
    database: Database, database_url: str
) -> None:
    saved = random_record(1, plies=3)
    assert database.save_unfinished("test", "w", [(saved, 0)], 60) == ["saved"]
    with psycopg2.connect(database_url) as connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO unfinished_games (game_uid, run, epoch, ply, record, worker, lease_until) "
            "SELECT gen_random_uuid(), 'test', 0, 1, '{}', 'forger', now() + interval '1 day' "
            "FROM generate_series(2, 200000)"
        )
    connection.close()
    database._run("ANALYZE unfinished_games")
    finished = random_record(2)
    database.submit_game("test", "w", Submission(finished))
    over = changed(finished, action=finished.columns.action)
    games = [
        (saved, 0),
        (random_record(3, plies=3), 0),
        (dataclasses.replace(random_record(2, plies=3), game_uid=over.game_uid), 0),
    ]
    assert database.save_unfinished("test", "w", games, 60) == ["saved", "full", "lost"]
    database._run("DELETE FROM unfinished_games WHERE worker = 'forger'")
    assert database.save_unfinished("test", "w", games, 60) == ["saved", "saved", "lost"]


def test_a_delivery_of_unfinished_games_is_bounded(database: Database) -> None:
    with pytest.raises(exc.DataError, match="a delivery of 64 MB is too large: save its games one"):
        database._rows(
            "SELECT status FROM save_unfinished('test', 'w', CAST(:games AS json), 60)",
            games=json.dumps(["x" * 64_000_000]),
        )


async def test_a_worker_plays_on_with_a_game_that_is_not_saved() -> None:
    answers: list[list[SaveStatus]] = [["full"], ["full"], ["saved"], ["full"]]
    stores = SimpleNamespace(save_unfinished=lambda *_: answers.pop(0))
    saver = UnfinishedGames(cast("Database", stores), "test", "w", 60.0, Waits())
    saved: list[Any] = []
    in_play = SimpleNamespace(
        knows=lambda _: True,
        unfinished=lambda _: (random_record(1, plies=3), 0),
        saved=saved.append,
    )
    with capture_logs() as logs:
        for _ in range(4):
            assert await saver.save(cast("GamesInPlay", in_play), cast("Any", [object()]))
    assert len(saved) == 4, "it is not given up"
    assert [entry["event"] for entry in logs] == ["games_not_saved"] * 2
    assert "200,000 unfinished games" in logs[0]["reason"]
