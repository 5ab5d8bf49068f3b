"""Ratings as rows, and the match results of all kinds that they are computed from."""

from collections.abc import Callable
from uuid import UUID

import pytest

from tests.support.random_records import changed, random_record
from zerofleet.database import Database, MatchGame, MatchKind, PlayerResult
from zerofleet.records import GameRecord
from zerofleet.verdict import GateRule

FIRST_WINS = next(r for s in range(99) if (r := random_record(s)).result == 1)
DRAWN = next(r for s in range(99) if (r := random_record(s)).result == 0)


@pytest.fixture
def epoch(database: Database) -> int:
    trainer = database.acquire_fence("test", "trainer")
    for version in (1, 2, 10):
        database.insert_model("test", version, f"{version:064x}", version, {}, "m", trainer)
    return database.acquire_fence("test", "evaluator")


def again(record: GameRecord, number: int) -> GameRecord:
    return changed(record, game_uid=UUID(int=number))


def with_anchor(record: GameRecord, anchor_first: bool) -> GameRecord:
    versions = record.columns.model_version.copy()
    versions[0 if anchor_first else 1 :: 2] = 0
    return changed(record, model_version=versions)


def store(
    database: Database,
    epoch: int,
    player: str,
    opponent: str,
    *games: MatchGame,
    kind: MatchKind = "rating",
) -> None:
    match = database.open_match(
        "test",
        kind,
        player,
        opponent,
        games=4,
        num_simulations=50,
        seed=7,
        epoch=epoch,
        rule=GateRule(0.55) if kind == "gate" else None,
    )
    database.record_match_games("test", "e", match.match_id, games, epoch=epoch)


def test_the_places_of_the_pool_keep_their_first_game(database: Database, epoch: int) -> None:
    store(database, epoch, "2", "1", MatchGame(0, 0, FIRST_WINS))
    for _ in range(2):
        store(database, epoch, "2", "1", MatchGame(0, 0, DRAWN), MatchGame(0, 1, again(DRAWN, 1)))
    assert database.rating_places("test") == {("2", "1", 0, 0), ("2", "1", 0, 1)}
    assert database.player_results("test") == [
        PlayerResult("1", "2", 0, 1, 0),
        PlayerResult("2", "1", 1, 0, 0),
    ]
    assert database.count_games("test") == 0
    assert database.rating_places("other") == set()


def test_an_anchors_plies_have_no_model(database: Database, epoch: int) -> None:
    game = MatchGame(0, 1, with_anchor(FIRST_WINS, anchor_first=True), "a remark of its own")
    store(database, epoch, "2", "random", game)
    with database._transaction() as connection:
        row = connection.exec_driver_sql(
            "SELECT g.first_model, g.kind, r.remark FROM match_games AS r "
            "JOIN games AS g USING (game_uid)"
        ).one()
        match_id = connection.exec_driver_sql("SELECT match_id FROM match_games").scalar_one()
    assert tuple(row) == (0, "match", "a remark of its own")
    assert database.match_remarks(match_id) == ["a remark of its own"]


def test_matches_rate_too_and_a_game_again_does_not(database: Database, epoch: int) -> None:
    gate = [MatchGame(0, 0, FIRST_WINS), MatchGame(0, 1, DRAWN)]
    store(database, epoch, "2", "1", *gate, kind="gate")
    in_pool = [
        MatchGame(0, 0, again(FIRST_WINS, 1)),  # as in the gate's match
        MatchGame(1, 0, again(DRAWN, 2)),  # in the gate's match, model 1 moved first
    ]
    store(database, epoch, "2", "1", *in_pool)
    # equal games against a random opponent are a coincidence
    for opponent, uid in (("search", 3), ("random", 5)):
        twice = [MatchGame(i, 0, again(FIRST_WINS, uid + i)) for i in (0, 1)]
        store(database, epoch, "2", opponent, *twice)
    # a game of one precision does not rate the version
    alike = MatchGame(0, 0, again(FIRST_WINS, 7))
    store(database, epoch, "2/int8", "1", alike, kind="trial")
    loss = MatchGame(0, 1, again(FIRST_WINS, 8))  # a trial of two versions counts
    store(database, epoch, "2", "10", loss, kind="trial")
    assert database.player_results("test") == [
        PlayerResult("1", "2", 0, 1, 0),
        PlayerResult("10", "2", 1, 0, 0),
        PlayerResult("2", "1", 1, 1, 0),
        PlayerResult("2", "random", 2, 0, 0),
        PlayerResult("2", "search", 1, 0, 0),
    ]
    database.upsert_ratings("test", [])
    for elo in (-100.0, -200.0):
        database.upsert_ratings(
            "test",
            [("search", elo, 50.0), ("10", 90.0, 5.0), ("1", 0.0, 0.0), ("2", 40.0, 10.0)],
        )
    rows = database.ratings("test")
    assert [(row.player, row.version, row.elo, row.elo_error, row.games) for row in rows] == [
        ("1", 1, 0.0, 0.0, 3),
        ("2", 2, 40.0, 10.0, 7),
        ("10", 10, 90.0, 5.0, 1),
        ("search", None, -200.0, 50.0, 1),
    ]
    with database._transaction() as connection:
        rows = connection.exec_driver_sql(
            "SELECT player, elo, low, high, games FROM ratings_with_interval ORDER BY elo"
        ).all()
    assert [(player, *map(float, rest)) for player, *rest in rows] == [
        ("search", -200.0, -298.0, -102.0, 1),
        ("1", 0.0, 0.0, 0.0, 3),
        ("2", 40.0, 20.4, 59.6, 7),
        ("10", 90.0, 80.2, 99.8, 1),
    ]


def test_the_roles_have_what_they_need_and_no_more(
    database: Database, epoch: int, role_url: Callable[[str], str]
) -> None:
    with Database(role_url("evaluator")) as evaluator:
        store(evaluator, epoch, "2", "1", MatchGame(0, 0, FIRST_WINS))
        assert len(evaluator.player_results("test")) == 1
        for elo in (0.0, 1.0):
            evaluator.upsert_ratings("test", [("1", elo, 0.0), ("random", elo, 1.0)])
        assert evaluator.evaluator_epoch("test") == epoch
    with Database(role_url("console")) as console:
        for view in ("rated_games", "ratings_with_interval", "match_history"):
            assert console._rows(f"SELECT * FROM {view}") is not None
