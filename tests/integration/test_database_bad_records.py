"""Records that contradict themselves: none is accepted, harms another one, or stops a reader."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.support.random_records import changed, random_record, resigned_record
from zerofleet.database import Database, Submission, window_games
from zerofleet.database.finished_games import encode_submissions
from zerofleet.database.unfinished_games import encode_unfinished
from zerofleet.errors import RecordRejectedError
from zerofleet.records import COLUMNS, DTYPES, GameRecord

Json = dict[str, Any]

PLY_COLUMNS = {column.name for column in COLUMNS if column.entry == "ply"}
UNFINISHED = random_record(3, plies=5)
FINISHED = next(record for seed in range(99) if (record := random_record(seed)).length == 9)


def rows(database: Database, query: str) -> list[tuple[Any, ...]]:
    with database._transaction() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def literal(values: list[object]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def damaged_columns(record: Json) -> Iterator[tuple[str, Json]]:
    """Yield records in which one column is broken, in every way that its type allows."""
    for name, dtype in DTYPES.items():
        whole = record[name] or record["visit_counts"]
        values = whole[1:-1].replace(" ", "").split(",")
        count = len(values)
        ways = {
            "lower bound 0": f"[0:{count - 1}]={whole}",
            "lower bound 2": f"[2:{count + 1}]={whole}",
            "lower bound -5": f"[-5:{count - 6}]={whole}",
            "two dimensions": "{" + whole + "}",
            "two dimensions as one": f"[1:1][1:{count}]=" + "{" + whole + "}",
            "a null": literal(["NULL", *values[1:]]),
            "one too few": literal(values[1:]),
            "one too many": literal([*values, values[-1]]),
            "none": "{}",
            "a word": literal(["two", *values[1:]]),
            "an open brace": whole[:-1],
            "a number": 7,
            "an object": {"1": 1},
            "nested lists": [[1], [2]],
            "true": True,
        }
        if dtype.kind == "i":
            ways["beyond its type"] = literal(["99999999999", *values[1:]])
            ways["a fraction"] = literal(["1.5", *values[1:]])
            ways["negative"] = literal(["-1", *values[1:]])
        if dtype.kind == "f":
            ways |= {each: literal([each, *values[1:]]) for each in ("nan", "inf", "-inf", "1.5")}
        if name == "offsets":
            ways["not from 0"] = literal(["1", *values[1:]])
            ways["going back"] = literal([*values[:3], values[4], values[3], *values[5:]])
            ways["an empty table"] = literal([*values[:3], values[2], *values[4:]])
        if name == "to_play":
            ways["a third player"] = literal(["2", *values[1:]])
        if name == "model_version":
            ways["no version"] = literal(["0", *values[1:]])
        for way, value in ways.items():
            yield f"{name}: {way}", record | {name: value}
        if name != "policy_weights":  # null: the visit counts are the target
            yield f"{name}: null", record | {name: None}


def damaged_facts(record: Json) -> Iterator[tuple[str, Json]]:
    ways: dict[str, list[Any]] = {
        "game_uid": [None, "somewhere", 7, {}],
        "game": [None, "connect_four", ""],
        "reason": [None, "boredom", ""],
        "plays_on": [None, "perhaps"],
        "resign_threshold": [-1.5, 2, "nan", "low"],
        "next_full_search": ["perhaps"],
        "start": ["x" * 1001, "\u0000"],
        "restarted": ["perhaps"],
        "started_at": [None, "some day", "infinity", "-infinity", "40000-01-01Z", "0001-01-01Z"],
    }
    for name, values in ways.items():
        for value in values:
            yield f"{name}: {value}", record | {name: value}
    for name in record:
        optional = ("policy_weights", "resign_threshold", "next_full_search", "start", "restarted")
        if name not in (*optional, "result", "finished_at"):
            yield f"{name} is missing", {each: record[each] for each in record if each != name}
    yield "a resignation", record | {"reason": "resign"}


def damaged_records(record: GameRecord) -> list[tuple[str, Json]]:
    whole = record.to_json()
    return [*damaged_columns(whole), *damaged_facts(whole), ("nothing", {})]


def bad_submissions() -> Iterator[tuple[str, Json]]:
    [whole] = json.loads(encode_submissions([Submission(FINISHED)]))
    for way, record in damaged_records(FINISHED):
        yield way, whole | {"record": record}
    record = whole["record"]
    for name, value in (
        ("result", None),
        ("result", 2),
        ("finished_at", None),
        ("finished_at", "infinity"),
        ("finished_at", "300000-01-01Z"),
    ):
        yield f"{name}: {value}", whole | {"record": record | {name: value}}
    resigned = resigned_record(1, 4).to_json() | {"plays_on": True}
    yield "resigned while playing on", whole | {"record": resigned}
    for name, values in {
        "epoch": [None, "two", 1 << 40],
        "kind": [None, "exam"],
        "moves": [None],
        "content_sha256": [None, "\\x00", "no bytes"],
        "record": [None, 7, [], "{}"],
    }.items():
        for value in values:
            yield f"{name}: {value}", whole | {name: value}
        yield f"no {name}", {each: whole[each] for each in whole if each != name}
    yield from (("no object", each) for each in ({}, {"record": {}}))


def bad_saves() -> Iterator[tuple[str, Any]]:
    [whole] = json.loads(encode_unfinished([(UNFINISHED, 0)]))
    for way, record in damaged_records(UNFINISHED):
        yield way, whole | {"record": record}
    finished = FINISHED.to_json()
    yield "a finished game", whole | {"record": finished}
    yield "a result", whole | {"record": whole["record"] | {"result": 0}}
    yield "an end", whole | {"record": whole["record"] | {"finished_at": finished["finished_at"]}}
    for epoch in (None, -1, 2_147_483_647, 1 << 40, "two", 1.5, {}):
        yield f"epoch: {epoch}", whole | {"epoch": epoch}
    for record in (None, 7, [], [1], "{}", {"record": {}}):
        yield f"record: {record}", whole | {"record": record}
    yield from (("no object", each) for each in ({}, None, 7, "x", [], [[]]))


def named(delivery: Any, number: int) -> Any:
    """Return the delivery with a uid of its own if it has a valid one."""
    record = delivery.get("record") if isinstance(delivery, dict) else None
    if not isinstance(record, dict) or record.get("game_uid") not in (
        str(FINISHED.game_uid),
        str(UNFINISHED.game_uid),
    ):
        return delivery
    return delivery | {"record": record | {"game_uid": str(UUID(int=number))}}


def numbered(record: GameRecord, number: int) -> GameRecord:
    return changed(record, game_uid=UUID(int=number))


def test_no_bad_game_is_stored_and_no_good_one_refused(database: Database) -> None:
    bad = list(bad_submissions())
    accepted, crashed = [], []
    for number, (way, delivery) in enumerate(bad):
        good = json.loads(encode_submissions([Submission(numbered(FINISHED, 10_000 + number))]))
        try:
            answers = database._submit(
                "test", "w", json.dumps([*good, named(delivery, number + 1)])
            )
        # the whole delivery is rejected; the worker then sends its records one by one
        except RecordRejectedError:
            answers = [*database._submit("test", "w", json.dumps(good)), ("rejected", way)]
        except Exception as error:
            crashed.append((way, repr(error)))
            continue
        assert answers[0] == ("stored", None), way
        if answers[1][0] != "rejected" or not answers[1][1]:
            accepted.append((way, answers[1]))
    assert (accepted, crashed) == ([], [])
    assert database.count_games("test") == len(bad)
    page = database.read_games("test", 0, 10_000)
    assert (len(page.games), page.unreadable) == (len(bad), [])
    assert len(bad) > 250


def test_no_bad_unfinished_game_is_saved_and_no_good_one_refused(database: Database) -> None:
    bad = [(way, named(delivery, number + 1)) for number, (way, delivery) in enumerate(bad_saves())]
    deliveries: list[Any] = []
    for number, (_, delivery) in enumerate(bad):
        good = numbered(UNFINISHED, 10_000 + number)
        deliveries += [*json.loads(encode_unfinished([(good, number)])), delivery]
    answers = rows(
        database,
        f"SELECT status, reason FROM save_unfinished('test', 'w', "
        f"$record${json.dumps(deliveries)}$record$, 0) WITH ORDINALITY ORDER BY ordinality",
    )
    assert answers[::2] == [("saved", None)] * len(bad)
    accepted = [
        way
        for (way, _), (status, reason) in zip(bad, answers[1::2], strict=True)
        if status != "rejected" or not reason
    ]
    assert accepted == []
    adopted: list[tuple[GameRecord, int]] = []
    while more := database.adopt_unfinished("test", "heir", 10_000, 60):
        assert len(more) <= 8
        adopted += more
    assert {record.game_uid for record, _ in adopted} == {
        UUID(int=10_000 + number) for number in range(len(bad))
    }
    assert len(bad) > 250
    content = numbered(adopted[0][0], 1).digest()
    assert content == numbered(UNFINISHED, 1).digest()


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("root_value is no plain array", lambda r: {"root_value": "[0:8]=" + r["root_value"]}),
        ("to_play has 8 entries, not 9", lambda r: {"to_play": "{0,1,0,1,0,1,0,1}"}),
        ("priors is missing", lambda r: {"priors": None}),
        ("simulations holds a null", lambda r: {"simulations": "{NULL,1,1,1,1,1,1,1,1}"}),
        ("the run plays tic_tac_toe", lambda r: {"game": "connect_four"}),
        ("a value is not in [-1, 1]", lambda r: {"best_child_value": literal(["nan"] * 9)}),
        ("offsets do not divide the search tables", lambda r: {"offsets": "{0,1,2,3,4,5,6,7,8,9}"}),
        ("action has no plies, or too many", lambda r: {"action": "{}"}),
    ],
)
def test_a_record_that_contradicts_itself_is_kept_with_the_reason(
    database: Database, reason: str, change: Callable[[Json], Json]
) -> None:
    [whole] = json.loads(encode_submissions([Submission(FINISHED)]))
    bad = whole | {"record": whole["record"] | change(whole["record"])}
    for _ in range(2):
        assert database._submit("test", "w", json.dumps([bad])) == [("rejected", reason)]
    assert rows(database, "SELECT reason, worker FROM refused_games") == [(reason, "w")]
    assert database.submit_game("test", "w", Submission(FINISHED)) == "stored"


def test_the_one_who_sends_a_bad_record_is_told(database: Database) -> None:
    bad = Submission(changed(FINISHED, root_value=np.full(9, 9, np.float32)))
    assert database.submit_games("test", "w", [bad]) == ["rejected"]
    with pytest.raises(RecordRejectedError, match=f"game {FINISHED.game_uid}: a value is not in"):
        database.submit_game("test", "w", bad)
    worse = changed(UNFINISHED, model_version=np.zeros(5, np.int32))
    saved = [(numbered(UNFINISHED, 1), 0), (worse, 0)]
    assert database.save_unfinished("test", "w", saved, 60) == ["saved", "rejected"]
    assert rows(database, "SELECT reason FROM refused_games ORDER BY reason DESC") == [
        ("a value is not in [-1, 1]",),
        ("a model version is not positive",),
    ]


BAD_ROWS = {
    "a table of another length": "visit_counts = visit_counts[2:]",
    "a longer table": "policy_weights = visit_counts || 1",
    "an empty table": "legal_actions = '{}', visit_counts = '{}'",
    "another lower bound": "visit_counts = ('[0:' || cardinality(visit_counts) - 1 || ']=' || "
    "visit_counts::text)::integer[]",
    "two dimensions": "legal_actions = ARRAY[legal_actions]",
    "a null": "visit_counts[1] = NULL",
    "weights of another lower bound": "policy_weights = ('[0:' || cardinality(visit_counts) - 1 "
    "|| ']=' || visit_counts::text)::integer[]",
}


@pytest.mark.parametrize("way", [*BAD_ROWS, "a ply that is gone"])
def test_one_unreadable_game_costs_a_page_itself_alone(
    database: Database, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the cause of the bad rows, the other games are read and the bad game is named."""
    records = [random_record(seed) for seed in range(32)]
    database.submit_games("test", "w", [Submission(record) for record in records])
    bad = records[3].game_uid
    if way in BAD_ROWS:
        query = f"UPDATE positions SET {BAD_ROWS[way]} WHERE ply = 2 AND game_uid = '{bad}'"
    else:
        query = f"DELETE FROM positions WHERE ply = 2 AND game_uid = '{bad}'"
    with database._transaction() as connection:
        connection.execute(text(query.replace(":", r"\:")))
    reads: list[Any] = []
    rows_read = window_games._games
    monkeypatch.setattr(
        window_games, "_games", lambda *given: (reads.append(given), rows_read(*given))[1]
    )
    page = database.read_games("test", 0, 100)
    assert len(reads) <= 2 + 2 * 5  # the reader halves the page
    assert [uid for uid, _ in page.unreadable] == [bad]
    order = [(game.tx, game.game_uid) for game in page.games]
    assert order == sorted(order)
    assert page.unreadable[0][1]
    games = {game.game_uid: game for game in page.games}
    assert set(games) == {record.game_uid for record in records} - {bad}
    for record in records:
        if record.game_uid != bad:
            for name in ("action", "offsets", "legal_actions", "visit_counts", "policy_weights"):
                stored = getattr(games[record.game_uid], name)
                assert np.array_equal(stored, getattr(record.columns, name)), name
    database.reject_game("test", bad, page.unreadable[0][1])
    again = database.read_games("test", 0, 100)
    assert (len(again.games), again.unreadable) == (31, [])


def test_the_statements_of_the_docs_show_what_was_set_aside(database: Database) -> None:
    bad = Submission(changed(FINISHED, root_value=np.full(9, 9, np.float32)))
    assert database.submit_games("test", "w", [bad]) == ["rejected"]
    stored = random_record(1)
    database.submit_games("test", "v", [Submission(stored)])
    database.reject_game("test", stored.game_uid, "it does not replay")
    page = (Path(__file__).parents[2] / "docs/how-to/troubleshooting.md").read_text()
    shown = [
        rows(database, statement)
        for statement in re.findall(
            r"`(SELECT [^`]*(?:refused_games|unreadable_games)[^`]*)`", page
        )
    ]
    [[conflict], [rejection]] = shown
    assert conflict[1:] == ("test", "w", "a value is not in [-1, 1]", FINISHED.game_uid)
    assert rejection[1:4] == ("test", "v", "it does not replay")
    [forget] = re.findall(r"`(DELETE FROM unreadable_games [^`]*)`", page)
    database._run(forget.replace("NAME", "test"))
    assert rows(database, "SELECT * FROM unreadable_games") == []


def test_two_tables_that_differ_by_the_same_are_both_found(database: Database) -> None:
    records = [random_record(2 * seed) for seed in range(3)]
    database.submit_games("test", "w", [Submission(record) for record in records])
    with database._transaction() as connection:
        for record, change in zip(
            records, ("visit_counts[2\\:]", "visit_counts || 1"), strict=False
        ):
            connection.execute(
                text(
                    f"UPDATE positions SET visit_counts = {change} "
                    f"WHERE ply = 1 AND game_uid = '{record.game_uid}'"
                )
            )
    page = database.read_games("test", 0, 100)
    assert {uid for uid, _ in page.unreadable} == {record.game_uid for record in records[:2]}
    assert [game.game_uid for game in page.games] == [records[2].game_uid]


@pytest.mark.parametrize("record", ["{}", "[]", "7", "null", '"x"', '{"game_uid": "\\u0000"}'])
def test_an_unfinished_game_that_no_worker_can_read_is_put_aside(
    database: Database, record: str
) -> None:
    database.save_unfinished("test", "w", [(UNFINISHED, 0)], 0)
    bad = UUID(int=7)
    with database._transaction() as connection:
        connection.execute(
            text(
                "INSERT INTO unfinished_games "
                "VALUES (:uid, 'test', 4, 3, CAST(:record AS json), 'w', now())"
            ),
            {"uid": str(bad), "record": record},
        )
    [(adopted, epoch)] = database.adopt_unfinished("test", "heir", 10, 60)
    assert (adopted.game_uid, epoch) == (UNFINISHED.game_uid, 1)
    assert rows(database, "SELECT game_uid FROM unfinished_games") == [(UNFINISHED.game_uid,)]
    [(uid, reason, worker)] = rows(database, "SELECT game_uid, reason, worker FROM refused_games")
    assert (uid, worker) == (bad, "heir")
    assert reason.startswith("this is not a record of a game")
    assert database.adopt_unfinished("test", "third", 10, 60) == []


def test_a_record_of_another_game_is_put_aside(database: Database) -> None:
    database.save_unfinished("test", "w", [(UNFINISHED, 0)], 0)
    with database._transaction() as connection:
        connection.execute(text(f"UPDATE unfinished_games SET game_uid = '{UUID(int=7)}'"))
    assert database.adopt_unfinished("test", "heir", 10, 60) == []
    [(reason,)] = rows(database, "SELECT reason FROM refused_games")
    assert reason == f"the record is of game {UNFINISHED.game_uid}"


def test_only_the_worker_that_adopted_a_game_puts_it_aside(database: Database) -> None:
    database.save_unfinished("test", "w", [(UNFINISHED, 0)], 0)
    [(_, epoch)] = database.adopt_unfinished("test", "heir", 10, 0)
    uid = UNFINISHED.game_uid
    assert not database.reject_unfinished("test", "w", uid, epoch, "why")
    assert not database.reject_unfinished("test", "heir", uid, epoch - 1, "why")
    assert database.reject_unfinished("test", "heir", uid, epoch, "why")
    assert not database.reject_unfinished("test", "heir", uid, epoch, "why")
    assert database.adopt_unfinished("test", "third", 10, 60) == []


def test_the_corpus_has_every_column() -> None:
    ways = {way.split(":")[0] for way, _ in damaged_records(UNFINISHED)}
    assert {column.name for column in COLUMNS} <= ways


def long_record(record: Json, plies: int, entries: int) -> Json:
    """Return the record with this many plies and this many entries in each search."""
    columns = {
        name: literal([0] * (plies if name in PLY_COLUMNS else plies * entries)) for name in DTYPES
    }
    columns["model_version"] = literal([1] * plies)
    columns["full_search"] = literal(["t"] * plies)
    columns["offsets"] = literal([entries * ply for ply in range(plies + 1)])
    return record | columns


@pytest.mark.parametrize(
    ("plies", "entries", "reason"),
    [
        (31, 32_768, "its searches have 1015808 entries, more than 1,000,000"),
        (1, 32_769, "a search has more entries than a game can have actions"),
    ],
)
def test_searches_that_no_reader_can_hold_are_refused(
    database: Database, plies: int, entries: int, reason: str
) -> None:
    [finished] = json.loads(encode_submissions([Submission(FINISHED)]))
    finished["record"] = long_record(finished["record"], plies, entries)
    assert database._submit("test", "w", json.dumps([finished])) == [("rejected", reason)]
    [unfinished] = json.loads(encode_unfinished([(UNFINISHED, 0)]))
    unfinished["record"] = long_record(unfinished["record"], plies, entries)
    [(answer, _, fault)] = rows(
        database,
        "SELECT status, ordinality, reason FROM save_unfinished('test', 'w', "
        f"$record${json.dumps([unfinished])}$record$, 0) WITH ORDINALITY",
    )
    assert (answer, fault) == ("rejected", reason)


def test_an_unfinished_game_has_no_room_for_anything_else(database: Database) -> None:
    [delivery] = json.loads(encode_unfinished([(UNFINISHED, 0)]))
    delivery["record"]["note"] = "x" * 200_000
    [answer] = rows(
        database,
        "SELECT status, reason FROM save_unfinished('test', 'w', "
        f"$record${json.dumps([delivery])}$record$, 0)",
    )
    assert answer == ("rejected", "the record has more text than its columns need")


def test_a_transaction_stores_one_delivery_of_self_play(database: Database) -> None:
    """The trainer reads whole transactions, so a worker must not make one larger than memory."""
    deliveries = [encode_submissions([Submission(random_record(seed))]) for seed in range(2)]
    submit = "SELECT count(*) FROM submit_games('test', 'w', $games${}$games$)"
    both = f"SELECT ({submit.format(deliveries[0])}), ({submit.format(deliveries[1])})"
    with pytest.raises(DBAPIError, match="a transaction stores one delivery"):
        rows(database, both.replace(":", r"\:"))
    assert database.count_games("test") == 0
    for games in deliveries:
        assert database._submit("test", "w", games) == [("stored", None)]


def test_a_delivery_has_a_size(database: Database) -> None:
    with pytest.raises(RecordRejectedError, match="a delivery of 64 MB is too large"):
        database._submit("test", "w", json.dumps(["x" * 64_000_000]))
