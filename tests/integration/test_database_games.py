"""A finished game is stored exactly once, whatever happens around it."""

import dataclasses
import json
import threading
from collections import Counter
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import text

from zerofleet.database import Database, Submission
from zerofleet.database.submission import encode_submissions
from zerofleet.errors import ConfigError, RecordRejectedError
from zerofleet.records import GameRecord
from zerofleet.testing.records import random_record


def changed(record: GameRecord, **columns: object) -> GameRecord:
    return dataclasses.replace(record, **columns)


def rows(database: Database, query: str) -> list[tuple]:
    with database._transaction() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def test_stores_every_column_of_every_ply(database: Database) -> None:
    record = random_record(1)
    assert database.submit_games("test", "w", [Submission(record)]) == ["stored"]

    [(uid, kind, length, result, moves, digest)] = rows(
        database,
        "SELECT game_uid::text, kind, length, result, moves, content_sha256 FROM games",
    )
    assert UUID(uid) == record.game_uid
    assert (kind, length, result) == ("selfplay", record.length, record.result)
    assert len(moves.split()) == record.length
    assert bytes(digest) == record.digest()

    positions = rows(database, "SELECT * FROM positions ORDER BY ply")
    assert len(positions) == record.length
    for ply, position in enumerate(positions):
        children = slice(record.offsets[ply], record.offsets[ply + 1])
        assert position[1:5] == (ply, record.actions[ply], ply % 2, 1)
        assert np.float32(position[5]) == record.root_values[ply]
        assert np.float32(position[6]) == record.network_values[ply]
        assert position[7:9] == (50, record.full_search[ply])
        assert position[9] == record.child_actions[children].tolist()
        assert position[10] == record.child_visit_counts[children].tolist()
        assert np.array_equal(np.asarray(position[11], np.float32), record.child_priors[children])


def test_answers_in_the_order_given(database: Database) -> None:
    first = [Submission(random_record(seed)) for seed in range(4)]
    assert database.submit_games("test", "w", first[1:3]) == ["stored"] * 2
    assert database.submit_games("test", "w", first) == [
        "stored",
        "duplicate",
        "duplicate",
        "stored",
    ]
    assert database.count_games("test") == 4
    assert database.submit_games("test", "w", []) == []


def test_the_same_uid_with_other_content_is_kept_aside(database: Database) -> None:
    record = random_record(1)
    other = changed(random_record(2), game_uid=record.game_uid)
    assert database.submit_games("test", "w", [Submission(record)]) == ["stored"]
    for _ in range(3):
        assert database.submit_games("test", "v", [Submission(other)]) == ["conflict"]
    [(reason, worker, kept)] = rows(database, "SELECT reason, worker, record FROM games_conflict")
    assert (reason, worker) == ("the uid belongs to another record", "v")
    assert kept["content_sha256"] == f"\\x{other.digest().hex()}"


def test_a_game_twice_in_one_batch_is_stored_once(database: Database) -> None:
    record = Submission(random_record(1))
    assert database.submit_games("test", "w", [record, record]) == ["stored", "duplicate"]
    assert rows(database, "SELECT count(*) FROM positions") == [(record.record.length,)]


BAD = {
    "a value is not in [-1, 1]": {"root_values": np.full(9, np.nan, np.float32)},
    "a prior is not in [0, 1]": {"child_priors": np.full(45, np.inf, np.float32)},
    "a visit count is negative": {"child_visit_counts": np.full(45, -1, np.int32)},
    "a model version is not positive": {"model_versions": np.zeros(9, np.int32)},
    "a number of simulations is negative": {"simulations": np.full(9, -5, np.int32)},
    "the columns of plies differ in length": {"full_search": np.ones(8, np.bool_)},
    "the columns of the search tables differ in length": {"child_actions": np.ones(44, np.int16)},
    "offsets do not divide the search tables": {"offsets": np.arange(10, dtype=np.int32)},
    "the run plays tic_tac_toe": {"game": "connect_four", "actions": np.zeros(9, np.int16)},
}


def nine_plies() -> GameRecord:
    return next(record for seed in range(99) if (record := random_record(seed)).length == 9)


@pytest.mark.parametrize("reason", BAD)
def test_a_record_that_contradicts_itself_harms_no_other(database: Database, reason: str) -> None:
    good = [Submission(random_record(seed)) for seed in (1001, 1002)]
    bad = Submission(changed(nine_plies(), **BAD[reason]))
    assert database.submit_games("test", "w", [good[0], bad, good[1]]) == [
        "stored",
        "rejected",
        "stored",
    ]
    assert rows(database, "SELECT reason FROM games_conflict") == [(reason,)]
    assert database.count_games("test") == 2
    with pytest.raises(RecordRejectedError, match=f"{bad.record.game_uid}.*"):
        database.submit_game("test", "w", bad)


def test_offsets_that_go_back_are_rejected(database: Database) -> None:
    record = nine_plies()
    offsets = record.offsets.copy()
    offsets[3], offsets[4] = offsets[4], offsets[3]
    bad = Submission(changed(record, offsets=offsets))
    assert database.submit_games("test", "w", [bad]) == ["rejected"]


def test_nulls_and_missing_fields_are_rejected(database: Database) -> None:
    [whole] = json.loads(encode_submissions([Submission(nine_plies())]))
    for name in whole:
        damaged = [whole | {name: None}]
        if str(whole[name]).startswith("{"):
            damaged.append(whole | {name: "{NULL" + whole[name][whole[name].index(",") :]})
        for record in damaged:
            [(status, _)] = database._submit("test", "w", json.dumps([record]))
            assert status == "rejected", (name, record[name])
    assert database.count_games("test") == 0


def test_a_record_that_cannot_be_written_down_is_named(database: Database) -> None:
    unfinished = Submission(random_record(1, plies=3))
    with pytest.raises(RecordRejectedError, match="is not finished"):
        database.submit_games("test", "w", [unfinished])
    unknown = Submission(changed(nine_plies(), actions=np.full(9, 77, np.int16)))
    with pytest.raises(RecordRejectedError, match=str(unknown.record.game_uid)):
        database.submit_games("test", "w", [unknown])
    with pytest.raises(RecordRejectedError, match="invalid input syntax"):
        database._submit("test", "w", '[{"actions": "{1,two}"}]')


def test_an_unknown_run_is_an_error_of_the_person(database: Database) -> None:
    with pytest.raises(ConfigError, match="there is no run nowhere"):
        database.submit_games("nowhere", "w", [Submission(random_record(1))])


@pytest.mark.slow
def test_each_game_once_when_many_deliver_it_at_once(database: Database, database_url: str) -> None:
    submissions = [Submission(random_record(seed)) for seed in range(60)]
    answers: Counter[str] = Counter()

    def deliver(seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(submissions))
        with Database(database_url) as own:
            for part in np.array_split(order, 6):
                answers.update(own.submit_games("test", f"w{seed}", [submissions[i] for i in part]))

    threads = [threading.Thread(target=deliver, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == {"stored": 60, "duplicate": 180}
    assert database.count_games("test") == 60
    plies = sum(submission.record.length for submission in submissions)
    assert rows(database, "SELECT count(*) FROM positions") == [(plies,)]
