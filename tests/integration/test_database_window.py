"""The trainer's window skips no game, however late it commits."""

import numpy as np
from sqlalchemy import text

from tests.support.random_records import changed, random_record, resigned_record
from zerofleet.database import Database, StoredGame, Submission
from zerofleet.database.finished_games import encode_submissions


def submissions(*seeds: int) -> list[Submission]:
    return [Submission(random_record(seed)) for seed in seeds]


def read_all(database: Database, limit: int) -> list[StoredGame]:
    games: list[StoredGame] = []
    tx = 0
    while (window := database.read_games("test", tx, limit)).games:
        games += window.games
        tx = window.next_tx
    return games


def test_games_come_back_column_by_column(database: Database) -> None:
    stored = submissions(*range(20))
    database.submit_games("test", "w", stored)
    games = {game.game_uid: game for game in read_all(database, 7)}
    assert len(games) == 20
    for record in (submission.record for submission in stored):
        game = games[record.game_uid]
        assert game.result == record.result
        assert game.reason == "rules"
        for name in (
            "action",
            "full_search",
            "offsets",
            "legal_actions",
            "visit_counts",
            "policy_weights",
        ):
            expected, column = getattr(record.columns, name), getattr(game, name)
            assert column.dtype == expected.dtype, name
            assert column.flags.writeable, name
            assert np.array_equal(column, expected), name


def test_targets_are_pruned_at_some_plies_only(database: Database) -> None:
    records = [random_record(seed) for seed in range(6)]
    for number, record in enumerate(records):
        weights = record.columns.visit_counts.copy()
        weights[: record.columns.offsets[number % 3]] //= 2
        records[number] = changed(record, policy_weights=weights)
    database.submit_games("test", "w", [Submission(record) for record in records])
    games = {game.game_uid: game for game in read_all(database, 10)}
    for record in records:
        weights = games[record.game_uid].policy_weights
        assert np.array_equal(weights, record.columns.policy_weights)


def test_targets_without_any_of_their_own_are_the_visit_counts(database: Database) -> None:
    database.submit_games("test", "w", submissions(2, 4))
    for game in read_all(database, 10):
        assert np.array_equal(game.policy_weights, game.visit_counts)


def test_the_trainer_hears_who_resigned(database: Database) -> None:
    database.submit_games("test", "w", [Submission(resigned_record(1, 3)), *submissions(2)])
    games = read_all(database, 10)
    assert {game.reason for game in games} == {"resign", "rules"}


def test_a_transaction_is_read_as_a_whole(database: Database) -> None:
    for seeds in ((1, 2, 3), (4,), (5, 6)):
        database.submit_games("test", "w", submissions(*seeds))
    sizes = []
    tx = 0
    while (window := database.read_games("test", tx, 2)).games:
        assert {game.tx for game in window.games} <= set(range(tx + 1, window.next_tx + 1))
        sizes.append(len(window.games))
        tx = window.next_tx
    assert sizes == [3, 3]
    assert database.read_games("test", tx, 2).next_tx == tx


def test_nothing_is_skipped_while_an_earlier_transaction_is_open(
    database: Database, database_url: str
) -> None:
    with Database(database_url) as slow, slow._transaction() as held_open:
        held_open.execute(
            text("SELECT submit_games('test', 'slow', CAST(:games AS json))"),
            {"games": encode_submissions(submissions(1))},
        )
        database.submit_games("test", "fast", submissions(2))
        # The later game is committed, but it must wait: reading on from it would skip the earlier.
        window = database.read_games("test", 0, 10)
        assert (window.games, window.next_tx) == ([], 0)
        assert database.window_start("test", 1) == 0
    window = database.read_games("test", window.next_tx, 10)
    assert [game.game_uid for game in window.games] == [
        random_record(1).game_uid,
        random_record(2).game_uid,
    ]


def test_matches_and_rejected_games_are_not_for_training(database: Database) -> None:
    database.submit_games("test", "w", submissions(1, 2))
    database.submit_games("test", "w", [Submission(random_record(3), kind="match")])
    database.reject_game("test", random_record(1).game_uid, "it does not replay")
    database.reject_game("test", random_record(1).game_uid, "again")
    [game] = read_all(database, 10)
    assert game.game_uid == random_record(2).game_uid
    # A page of nothing but rejected games still moves on.
    database.reject_game("test", random_record(2).game_uid, "this one too")
    window = database.read_games("test", 0, 10)
    assert window.games == []
    assert window.next_tx > 0


def test_the_newest_games_are_found_for_a_resumed_trainer(database: Database) -> None:
    assert database.window_start("test", 3) == 0
    for seed in range(10):
        database.submit_games("test", "w", submissions(seed))
    start = database.window_start("test", 3)
    newest = database.read_games("test", start, 100).games
    assert [game.game_uid for game in newest] == [random_record(s).game_uid for s in (7, 8, 9)]
    assert database.window_start("test", 11) == 0
    assert database.count_games("test") == 10


def test_transactions_are_numbers_not_words(database: Database) -> None:
    for seed, tx in enumerate((9, 10, 11, 100)):
        [submission] = submissions(seed)
        database.submit_games("test", "w", [submission])
        database._run(
            "UPDATE games SET tx = CAST(CAST(:tx AS text) AS xid8) "
            "WHERE game_uid = CAST(:uid AS uuid)",
            tx=tx,
            uid=str(submission.record.game_uid),
        )
    assert [game.tx for game in read_all(database, 1)] == [9, 10, 11, 100]
    assert database.window_start("test", 2) == 10
    assert [game.tx for game in database.read_games("test", 9, 10).games] == [10, 11, 100]
