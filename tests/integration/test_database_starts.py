"""A game's start position: stored with it, learnt from, shown, and judged by the functions."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta

import numpy as np
import psycopg2

from tests.support.random_records import changed, random_record
from zerofleet.config import run_from_values
from zerofleet.database import Database, MatchGame, Submission
from zerofleet.database.finished_games import encode_submissions
from zerofleet.database.played_games import PlayedGames, actions_of, sgf_of_game
from zerofleet.games import State, sgf
from zerofleet.records import GameRecord

START = "x1o/1x1/3 o"
GO = "go(size=5,komi=7.5,suicide=false)"


def query(url: str, statement: str) -> list[tuple]:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def test_the_trainer_reads_the_start(database: Database) -> None:
    records = [random_record(1), random_record(2, start=START), random_record(3)]
    assert database.submit_games("test", "w", [Submission(record) for record in records]) == (
        ["stored"] * 3
    )
    games = {game.game_uid: game for game in database.read_games("test", 0, 10).games}
    assert [games[record.game_uid].start for record in records] == ["", START, ""]
    for record in records:
        assert np.array_equal(games[record.game_uid].action, record.columns.action)


def test_a_worker_of_an_earlier_version_sends_no_start(database: Database) -> None:
    [submission] = json.loads(encode_submissions([Submission(random_record(1))]))
    del submission["record"]["start"]
    answer = database._rows(
        "SELECT status FROM submit_games('test', 'w', CAST(:games AS json))",
        games=json.dumps([submission]),
    )
    assert answer[0].status == "stored"
    assert [game.start for game in database.read_games("test", 0, 10).games] == [""]


def test_models_belong_to_the_players_who_moved(database: Database, database_url: str) -> None:
    """The second player moves first from this position."""
    record = random_record(2, start=START)
    versions = np.array([7 + ply % 2 for ply in range(record.length)], np.int32)
    epoch = database.acquire_fence("test", "trainer")
    for version in (7, 8):
        database.insert_model("test", version, f"{version:064x}", version, {}, "m", epoch)
    database.submit_game("test", "w", Submission(changed(record, model_version=versions)))
    database.submit_game("test", "w", Submission(changed(random_record(1), start="")))
    models = "SELECT first_model, second_model, start FROM games ORDER BY start"
    assert query(database_url, models) == [(1, 1, ""), (8, 7, START)]
    # Openings from the usual start only.
    assert query(database_url, "SELECT sum(games) FROM openings") == [(1,)]


def test_a_start_that_is_too_long_is_refused(database: Database) -> None:
    record = changed(random_record(1), start="x" * 1001)
    assert database.submit_games("test", "w", [Submission(record)]) == ["rejected"]


def test_an_unfinished_game_keeps_its_start(database: Database) -> None:
    record = random_record(5, start=START, plies=2)
    assert record.result is None
    [saved] = database.save_unfinished("test", "w", [(record, 0)], 60.0)
    assert saved == "saved"
    assert database.release_unfinished("test", "w") == 1
    [(adopted, _)] = database.adopt_unfinished("test", "v", 1, 60.0)
    assert adopted.columns.start == START


def test_a_stored_game_is_read_from_its_start(database: Database, database_url: str) -> None:
    start = "X4/1O3/5/5/5 O"
    record = random_record(1, GO, start=start)
    database.register_run(run_from_values({"name": "go5", "game": {"name": GO}}))
    database.submit_game("go5", "w", Submission(record))
    with PlayedGames(database_url) as games:
        played = games.played_game("go5", record.game_uid)
    assert played is not None
    assert played.start == start
    actions = record.columns.action.tolist()
    assert actions_of(played) == actions
    read = sgf.read(sgf_of_game("go5", played), GO)
    assert (read.start, read.actions) == (start, actions)
    assert State(GO, read.actions, read.start).is_terminal


def test_a_match_with_a_book_is_another_match(database: Database) -> None:
    epoch = database.acquire_fence("test", "evaluator")
    trainer = database.acquire_fence("test", "trainer")
    database.insert_model("test", 1, f"{1:064x}", 1, {}, "m", trainer)
    book = [START, "x2/3/3 o"]

    def begun(openings: list[str], games: int = 4) -> int:
        match = database.open_match(
            "test", "trial", "1", "random", games=games, num_simulations=5, seed=1, epoch=epoch,
            openings=openings,
        )  # fmt: skip
        assert (list(match.openings), match.games) == (openings, games)
        return match.match_id

    drawn, booked = begun([]), begun(book)
    assert drawn != booked
    assert (begun([], 6), begun(book, 8)) == (drawn, booked)
    short = begun(book[:1])
    assert short not in (drawn, booked)
    waiting = [match.match_id for match in database.unfinished_trials("test")]
    assert waiting == [short, drawn, booked]  # the one with the fewest games left first


def test_games_from_two_starts_are_not_repeated(database: Database) -> None:
    """The same moves from another position are another game."""
    epoch = database.acquire_fence("test", "evaluator")
    trainer = database.acquire_fence("test", "trainer")
    database.insert_model("test", 1, f"{1:064x}", 1, {}, "m", trainer)
    match = database.open_match(
        "test", "trial", "1", "search", games=4, num_simulations=5, seed=1, epoch=epoch
    )
    first, second = (_moves_from(start) for start in ("xo1/3/3 x", "ox1/3/3 x"))
    games = [
        MatchGame(opening, color, _again(record, 2 * opening + color))
        for opening, record in enumerate((first, second))
        for color in (0, 1)
    ]
    database.record_match_games("test", "e", match.match_id, games, epoch=epoch)
    assert [pair.repeated for pair in database.match_pairs(match.match_id)] == [False, False]


def _moves_from(start: str) -> GameRecord:
    """A game of the same moves from either start, which complete the first player's middle row."""
    moves = np.array([3, 6, 4, 7, 5], np.int16)
    seeds = (random_record(seed, start=start, plies=5) for seed in range(99))
    record = next(each for each in seeds if each.length == 5)
    finished_at = record.started_at + timedelta(seconds=5)
    return changed(record, action=moves, result=1, finished_at=finished_at)


def _again(record: GameRecord, number: int) -> GameRecord:
    return changed(record, game_uid=random_record(1000 + number).game_uid)
