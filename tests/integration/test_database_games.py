"""A finished game is stored exactly once, whatever happens around it."""

import dataclasses
import json
import threading
from collections import Counter
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import text

from zerofleet.config import run_from_values
from zerofleet.database import Database, Submission
from zerofleet.database.submission import encode_submissions
from zerofleet.errors import ConfigError, RecordRejectedError
from zerofleet.records import GameRecord
from zerofleet.testing.records import random_record, resigned_record


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

    positions = rows(
        database,
        "SELECT game_uid, ply, action, to_play, model_version, root_value, network_value, "
        "simulations, full_search, actions, visit_counts, priors, best_child_value, "
        "policy_weights FROM positions ORDER BY ply",
    )
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
        assert np.float32(position[12]) == record.best_child_values[ply]
        assert position[13] == record.child_policy_weights[children].tolist()


def test_targets_that_are_the_visit_counts_are_stored_once(database: Database) -> None:
    database.submit_games("test", "w", [Submission(random_record(2))])
    assert rows(database, "SELECT DISTINCT policy_weights FROM positions") == [(None,)]
    part = random_record(4)
    ply = next(ply for ply in range(part.length) if part.child_visit_counts[part.offsets[ply]] > 0)
    weights = part.child_visit_counts.copy()
    weights[part.offsets[ply]] -= 1
    database.submit_games("test", "w", [Submission(changed(part, child_policy_weights=weights))])
    assert rows(database, "SELECT ply FROM positions WHERE policy_weights IS NOT NULL") == [(ply,)]


def test_a_resigned_game_says_how_and_when_it_began(database: Database) -> None:
    record = resigned_record(1, 4)
    played_on = changed(random_record(2), resign_threshold=-0.5, plays_on=True)
    never = random_record(3)
    for each in (record, played_on, never):
        assert database.submit_game("test", "w", Submission(each)) == "stored"
    stored = rows(
        database,
        "SELECT reason, result, length, resign_threshold, plays_on, "
        "extract(epoch FROM ingested_at - began_at)::int FROM games ORDER BY tx",
    )
    assert stored == [
        ("resign", record.result, 4, -0.5, False, 4),
        ("rules", played_on.result, played_on.length, -0.5, True, played_on.length),
        ("rules", never.result, never.length, None, False, never.length),
    ]


def test_a_worker_of_the_version_before_may_go_on(database: Database) -> None:
    [whole] = json.loads(encode_submissions([Submission(random_record(1))]))
    for name in NEW:
        del whole[name]
    assert database._submit("test", "w", json.dumps([whole])) == [("stored", None)]
    assert rows(database, "SELECT DISTINCT plays_on, resign_threshold, reason FROM games") == [
        (False, None, "rules")
    ]
    assert rows(database, "SELECT DISTINCT best_child_value, policy_weights FROM positions") == [
        (None, None)
    ]


def test_rules_in_a_games_name_are_part_of_it(database: Database) -> None:
    name = "go(size=9,komi=7.5)"
    database.register_run(run_from_values({"name": "go9", "game": name}))
    [whole] = json.loads(encode_submissions([Submission(nine_plies())]))
    other = whole | {"game": "go(size=9)", "game_uid": str(UUID(int=1))}
    answers = database._submit("go9", "w", json.dumps([whole | {"game": name}, other]))
    assert answers == [("stored", None), ("rejected", f"the run plays {name}")]


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


NEW = ("best_child_values", "child_policy_weights", "resign_threshold", "plays_on", "to_play")
BAD = {
    "a value is not in [-1, 1]": {"root_values": np.full(9, np.nan, np.float32)},
    "a prior is not in [0, 1]": {"child_priors": np.full(45, np.inf, np.float32)},
    "a visit count is negative": {"child_visit_counts": np.full(45, -1, np.int32)},
    "a model version is not positive": {"model_versions": np.zeros(9, np.int32)},
    "a number of simulations is negative": {"simulations": np.full(9, -5, np.int32)},
    "the columns of plies differ in length": {"full_search": np.ones(8, np.bool_)},
    "the columns of the search tables differ in length": {"child_actions": np.ones(44, np.int16)},
    "offsets do not divide the search tables": {"offsets": np.arange(10, dtype=np.int32)},
    "reason is neither rules nor resign": {"reason": "boredom"},
    "resigned, though nobody could resign": {"reason": "resign"},
    "resign_threshold is not in [-1, 1]": {"resign_threshold": -1.5},
    "a policy weight is negative": {"child_policy_weights": np.full(45, -1, np.int32)},
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


def test_whoever_plays_on_does_not_resign(database: Database) -> None:
    bad = Submission(changed(resigned_record(1, 4), plays_on=True))
    assert database.submit_games("test", "w", [bad]) == ["rejected"]


@pytest.mark.parametrize(
    "columns",
    [
        {"best_child_values": np.zeros(8, np.float32)},
        {"best_child_values": np.full(9, 1.5, np.float32)},
        {"child_policy_weights": np.ones(44, np.int32)},
        {"to_play": np.zeros(8, np.int8)},
        {"to_play": np.full(9, 2, np.int8)},
    ],
)
def test_new_columns_must_fit_too(database: Database, columns: dict[str, np.ndarray]) -> None:
    bad = Submission(changed(nine_plies(), **columns))
    assert database.submit_games("test", "w", [bad]) == ["rejected"]


def test_a_player_may_move_twice(database: Database) -> None:
    record = changed(nine_plies(), to_play=np.array([0, 0, 1, 0, 1, 1, 0, 1, 0], np.int8))
    assert database.submit_games("test", "w", [Submission(record)]) == ["stored"]
    stored = rows(database, "SELECT to_play FROM positions ORDER BY ply")
    assert [row[0] for row in stored] == [0, 0, 1, 0, 1, 1, 0, 1, 0]
    assert GameRecord.from_json(record.to_json()).digest() == record.digest()
    assert changed(record, to_play=None).digest() != record.digest()


def test_offsets_that_go_back_are_rejected(database: Database) -> None:
    record = nine_plies()
    offsets = record.offsets.copy()
    offsets[3], offsets[4] = offsets[4], offsets[3]
    bad = Submission(changed(record, offsets=offsets))
    assert database.submit_games("test", "w", [bad]) == ["rejected"]


def test_nulls_and_missing_fields_are_rejected(database: Database) -> None:
    [whole] = json.loads(encode_submissions([Submission(nine_plies())]))
    whole["child_policy_weights"] = whole["child_visit_counts"]
    whole["to_play"] = "{0,1,0,1,0,1,0,1,0}"
    for name in whole:
        damaged = [] if name in NEW else [whole | {name: None}]
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


class Chess:
    """Writes a move by what was played before it, with a space, as games from elsewhere may."""

    def __init__(self, game: str) -> None:
        assert game == "python:chess:Chess"
        self._plies = 0

    def action_to_string(self, action: int) -> str:
        return f"{self._plies + 1}. {action}"

    def apply(self, action: int) -> None:
        if action > 50:
            raise ValueError(f"action {action} is illegal")
        self._plies += 1


def test_games_from_elsewhere_are_written_down_by_playing_them(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerofleet.database.submission.State", Chess)
    name = "python:chess:Chess"
    database.register_run(run_from_values({"name": "chess", "game": name}))
    record = changed(random_record(1, plies=3), result=0, game=name)
    record = changed(record, finished_at=record.started_at, actions=np.int16([7, 50, 8]))
    assert database.submit_game("chess", "w", Submission(record)) == "stored"
    assert rows(database, "SELECT moves FROM games") == [("1.7 2.50 3.8",)]
    illegal = Submission(changed(record, actions=np.int16([7, 51, 8])))
    with pytest.raises(RecordRejectedError, match=r"ply 1: python:chess:Chess: action 51"):
        database.submit_game("chess", "w", illegal)


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
