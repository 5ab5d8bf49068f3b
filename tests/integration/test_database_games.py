"""A finished game is stored exactly once, whatever happens around it."""

import json
import threading
from collections import Counter
from datetime import timedelta
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import text

from tests.support.random_records import changed, random_record, resigned_record
from zerofleet.config import run_from_values
from zerofleet.database import Database, Submission
from zerofleet.database.finished_games import encode_submissions
from zerofleet.errors import ConfigError, RecordRejectedError
from zerofleet.records import COLUMNS, GameRecord


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

    columns = record.columns
    assert rows(database, "SELECT count(*) FROM positions") == [(record.length,)]
    for column in COLUMNS:
        stored = rows(database, f"SELECT ply, {column.name} FROM positions ORDER BY ply")
        for ply, value in stored:
            entries = slice(columns.offsets[ply], columns.offsets[ply + 1])
            place = ply if column.entry == "ply" else entries
            expected = getattr(columns, column.name)[place]
            assert np.array_equal(np.asarray(value, column.dtype), expected), column.name


def test_the_database_has_the_columns_of_the_list(database: Database) -> None:
    sql = {"int8": "smallint", "int16": "smallint", "int32": "integer"}
    sql |= {"float32": "real", "bool": "boolean"}

    def types(relation: str) -> dict[str, str]:
        query = (
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            f"WHERE attrelid = '{relation}'::regclass AND attnum > 0"
        )
        return dict(rows(database, query))

    positions, record = types("positions"), types("game_record")
    listed = {column.name: sql[column.dtype.name] for column in COLUMNS}
    tables = {column.name for column in COLUMNS if column.entry == "legal action"}
    assert positions == {"game_uid": "uuid", "ply": "smallint"} | {
        name: f"{element}[]" if name in tables else element for name, element in listed.items()
    }
    arrays = {name: element for name, element in record.items() if element.endswith("[]")}
    assert arrays == {"offsets": "integer[]"} | {
        name: f"{element}[]" for name, element in listed.items()
    }
    assert set(record) == set(random_record(1).to_json())


def test_targets_that_are_the_visit_counts_are_stored_once(database: Database) -> None:
    database.submit_games("test", "w", [Submission(random_record(2))])
    assert rows(database, "SELECT DISTINCT policy_weights FROM positions") == [(None,)]
    part = random_record(4)
    ply = next(
        ply
        for ply in range(part.length)
        if part.columns.visit_counts[part.columns.offsets[ply]] > 0
    )
    weights = part.columns.visit_counts.copy()
    weights[part.columns.offsets[ply]] -= 1
    database.submit_games("test", "w", [Submission(changed(part, policy_weights=weights))])
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


def test_rules_in_a_games_name_are_part_of_it(database: Database) -> None:
    name = "go(size=9,komi=7.5)"
    database.register_run(run_from_values({"name": "go9", "game": name}))
    [whole] = json.loads(encode_submissions([Submission(nine_plies())]))
    good = whole | {"record": whole["record"] | {"game": name}}
    uid = {"game_uid": str(UUID(int=1))}
    other = whole | {"record": whole["record"] | {"game": "go(size=9)"} | uid}
    answers = database._submit("go9", "w", json.dumps([good, other]))
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
    began = record.started_at - timedelta(seconds=1)
    other = changed(random_record(2), game_uid=record.game_uid, started_at=began)
    assert database.submit_games("test", "w", [Submission(record)]) == ["stored"]
    for _ in range(3):
        assert database.submit_games("test", "v", [Submission(other)]) == ["conflict"]
    [(reason, worker, kept)] = rows(database, "SELECT reason, worker, record FROM refused_games")
    assert (reason, worker) == ("the uid belongs to another record", "v")
    assert kept["content_sha256"] == f"\\x{other.digest().hex()}"


def test_a_game_twice_in_one_batch_is_stored_once(database: Database) -> None:
    record = Submission(random_record(1))
    assert database.submit_games("test", "w", [record, record]) == ["stored", "duplicate"]
    assert rows(database, "SELECT count(*) FROM positions") == [(record.record.length,)]


def nine_plies() -> GameRecord:
    return next(record for seed in range(99) if (record := random_record(seed)).length == 9)


def test_a_player_may_move_twice(database: Database) -> None:
    record = changed(nine_plies(), to_play=np.array([0, 0, 1, 0, 1, 1, 0, 1, 0], np.int8))
    assert database.submit_games("test", "w", [Submission(record)]) == ["stored"]
    stored = rows(database, "SELECT to_play FROM positions ORDER BY ply")
    assert [row[0] for row in stored] == [0, 0, 1, 0, 1, 1, 0, 1, 0]


def test_a_record_that_cannot_be_written_down_is_named(database: Database) -> None:
    unfinished = Submission(random_record(1, plies=3))
    with pytest.raises(RecordRejectedError, match="is not finished"):
        database.submit_games("test", "w", [unfinished])
    unknown = Submission(changed(nine_plies(), action=np.full(9, 77, np.int16)))
    with pytest.raises(RecordRejectedError, match=str(unknown.record.game_uid)):
        database.submit_games("test", "w", [unknown])
    with pytest.raises(RecordRejectedError, match="invalid input syntax"):
        database._submit("test", "w", '[{"record": {"action": "{1,two}"}}]')


class Chess:
    """Writes a move by what was played before it, with a space, as games from elsewhere may."""

    def __init__(self, game: str, actions: list[int], start: str) -> None:
        assert (game, actions, start) == ("python:chess:Chess", [], "")
        self._plies = 0

    def action_to_san(self, action: int) -> str:
        return f"{self._plies + 1}. {action}"

    def apply(self, action: int) -> None:
        if action > 50:
            raise ValueError(f"action {action} is illegal")
        self._plies += 1


def test_games_from_elsewhere_are_written_down_by_playing_them(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerofleet.database.finished_games.State", Chess)
    name = "python:chess:Chess"
    database.register_run(run_from_values({"name": "chess", "game": name}))
    record = changed(random_record(1, plies=3), result=0, game=name)
    record = changed(record, finished_at=record.started_at, action=np.int16([7, 50, 8]))
    assert database.submit_game("chess", "w", Submission(record)) == "stored"
    assert rows(database, "SELECT moves FROM games") == [("1.7 2.50 3.8",)]
    illegal = Submission(changed(record, action=np.int16([7, 51, 8])))
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
