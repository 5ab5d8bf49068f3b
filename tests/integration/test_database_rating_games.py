"""Rating games as rows, and what is rated from them together with the games of matches."""

from collections.abc import Callable
from uuid import UUID

import numpy as np
import pytest

from zerofleet.database import Database, PlayerResult, RatingGame, RatingPlace
from zerofleet.errors import RecordRejectedError, StaleEpochError
from zerofleet.records import GameRecord
from zerofleet.testing.records import changed, random_record

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


def store(database: Database, epoch: int, *games: tuple[RatingPlace, GameRecord]) -> None:
    rows = [RatingGame(place, record) for place, record in games]
    database.record_rating_games("test", "e", rows, epoch=epoch)


def test_a_place_keeps_its_first_game(database: Database, epoch: int) -> None:
    store(database, epoch, (("2", "1", 0), FIRST_WINS))
    for _ in range(2):
        store(database, epoch, (("2", "1", 0), DRAWN), (("1", "2", 0), again(DRAWN, 1)))
    assert database.rating_places("test") == {("2", "1", 0), ("1", "2", 0)}
    assert database.player_results("test") == [
        PlayerResult("1", "2", 0, 1, 0),
        PlayerResult("2", "1", 1, 0, 0),
    ]
    assert database.count_games("test") == 0
    assert database.rating_places("other") == set()


def test_an_anchors_plies_have_no_model(database: Database, epoch: int) -> None:
    game = RatingGame(
        ("random", "2", 0), with_anchor(FIRST_WINS, anchor_first=True), "a remark of its own"
    )
    database.record_rating_games("test", "e", [game], epoch=epoch)
    with database._transaction() as connection:
        row = connection.exec_driver_sql(
            "SELECT g.first_model, g.kind, r.remark FROM rating_games AS r "
            "JOIN games AS g USING (game_uid)"
        ).one()
    assert tuple(row) == (0, "match", "a remark of its own")


def test_matches_rate_too_and_a_game_again_does_not(database: Database, epoch: int) -> None:
    match = database.create_match(
        "test", 2, 1, games=4, threshold=0.55, num_simulations=50, seed=7, epoch=epoch
    )
    database.record_match_game("test", "e", match.match_id, 0, 0, FIRST_WINS)
    database.record_match_game("test", "e", match.match_id, 0, 1, DRAWN)
    store(
        database,
        epoch,
        (("2", "1", 0), again(FIRST_WINS, 1)),  # as in the match
        (("2", "1", 1), again(DRAWN, 2)),  # model 1 moved first in the match's
        (("2", "search", 0), again(FIRST_WINS, 3)),
        (("2", "search", 1), again(FIRST_WINS, 4)),
        (("2", "random", 0), again(FIRST_WINS, 5)),  # chance alone made these the same
        (("2", "random", 1), again(FIRST_WINS, 6)),
    )
    assert database.player_results("test") == [
        PlayerResult("1", "2", 0, 1, 0),
        PlayerResult("2", "1", 1, 1, 0),
        PlayerResult("2", "random", 2, 0, 0),
        PlayerResult("2", "search", 1, 0, 0),
    ]
    database.upsert_ratings("test", [(1, 0.0, 0.0), (2, 40.0, 10.0)])
    database.upsert_anchor_ratings("test", [])
    for elo in (-100.0, -200.0):
        database.upsert_anchor_ratings("test", [("search", elo, 50.0)])
    assert [(row.version, row.elo, row.games) for row in database.ratings("test")] == [
        (1, 0.0, 3),
        (2, 40.0, 6),
    ]
    [anchor] = database.anchor_ratings("test")
    assert (anchor.anchor, anchor.elo, anchor.elo_error, anchor.games) == ("search", -200, 50, 1)
    with database._transaction() as connection:
        rows = connection.exec_driver_sql(
            "SELECT player, elo, low, high, games FROM ratings_with_interval ORDER BY elo"
        ).all()
    assert [(player, *map(float, rest)) for player, *rest in rows] == [
        ("search", -200.0, -298.0, -102.0, 1),
        ("1", 0.0, 0.0, 0.0, 3),
        ("2", 40.0, 20.4, 59.6, 6),
    ]


def test_a_former_evaluator_stores_nothing(database: Database, epoch: int) -> None:
    database.acquire_fence("test", "evaluator")
    with pytest.raises(StaleEpochError):
        store(database, epoch, (("2", "1", 0), FIRST_WINS))
    assert database.count_games("test", "match") == 0


def test_a_bad_game_stores_nothing(database: Database, epoch: int) -> None:
    bad = changed(DRAWN, root_value=np.full(DRAWN.length, 9, np.float32))
    with pytest.raises(RecordRejectedError, match="a value is not in"):
        store(database, epoch, (("2", "1", 0), FIRST_WINS), (("1", "2", 0), bad))
    assert database.rating_places("test") == set()


def test_the_roles_have_what_they_need_and_no_more(
    database: Database, epoch: int, role_url: Callable[[str], str]
) -> None:
    with Database(role_url("evaluator")) as evaluator:
        store(evaluator, epoch, (("2", "1", 0), FIRST_WINS))
        assert len(evaluator.player_results("test")) == 1
        evaluator.upsert_ratings("test", [(1, 0.0, 0.0)])
        evaluator.upsert_anchor_ratings("test", [("random", 0.0, 1.0)])
        evaluator.upsert_anchor_ratings("test", [("random", 1.0, 1.0)])
        assert evaluator.evaluator_epoch("test") == epoch
    with Database(role_url("console")) as console:
        for view in ("rated_games", "ratings_with_interval", "match_history", "rating_games"):
            assert console._rows(f"SELECT * FROM {view}") is not None
