"""A match is its rows: stored once for each place, counted again by whoever asks."""

from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import exc

from zerofleet.database import Database, Grounds, MatchGame, MatchRow, MatchTest, Pair
from zerofleet.errors import RecordRejectedError, StaleEpochError
from zerofleet.records import GameRecord
from zerofleet.testing.records import changed, random_record

FIRST_WINS = next(r for s in range(99) if (r := random_record(s)).result == 1)
SECOND_WINS = next(r for s in range(99) if (r := random_record(s)).result == -1)
DRAWN = next(r for s in range(99) if (r := random_record(s)).result == 0)


@pytest.fixture
def epoch(database: Database) -> int:
    trainer = database.acquire_fence("test", "trainer")
    for version in (1, 2, 3):
        database.insert_model("test", version, f"{version:064x}", 10 * version, {}, "m", trainer)
    epoch = database.acquire_fence("test", "evaluator")
    database.promote("test", 1, None, "e", 0, epoch=epoch)
    return epoch


def begin(database: Database, epoch: int, candidate: int = 2) -> MatchRow:
    return database.create_match(
        "test", candidate, 1, games=4, threshold=0.55, num_simulations=50, seed=7, epoch=epoch
    )


def play(database: Database, match: MatchRow, *games: tuple[int, int, GameRecord]) -> None:
    database.record_match_games("test", "e", match.match_id, [MatchGame(*game) for game in games])


def test_the_score_is_the_candidates(database: Database, epoch: int) -> None:
    match = begin(database, epoch)
    play(
        database,
        match,
        (0, 0, FIRST_WINS),  # the candidate is the first player and wins
        (0, 1, SECOND_WINS),  # it is the second player and wins
        (1, 0, DRAWN),
    )
    score = database.match_score(match.match_id)
    assert (score.wins, score.draws, score.losses) == (2, 1, 0)
    assert score.score == pytest.approx(2.5 / 3)
    assert database.match_places(match.match_id) == {(0, 0), (0, 1), (1, 0)}
    assert database.count_games("test", "match") == 3
    assert database.count_games("test") == 0


def test_a_place_keeps_its_first_game(database: Database, epoch: int) -> None:
    match = begin(database, epoch)
    for _ in range(2):
        play(database, match, (0, 0, FIRST_WINS))
    play(database, match, (0, 0, SECOND_WINS))
    score = database.match_score(match.match_id)
    assert (score.wins, score.losses) == (1, 0)
    assert database.match_game_uids(match.match_id) == {(0, 0): FIRST_WINS.game_uid}


def test_a_match_goes_on_after_a_restart(database: Database, epoch: int) -> None:
    match = begin(database, epoch)
    newer = database.acquire_fence("test", "evaluator")
    assert begin(database, newer) == match
    assert database.matches("test") == [match]


def test_a_verdict_is_written_once(database: Database, epoch: int) -> None:
    match = begin(database, epoch)
    play(database, match, (0, 0, SECOND_WINS), (0, 1, DRAWN))
    for _ in range(2):
        database.decide_match(match.match_id, "rejected", epoch=epoch)
    with pytest.raises(StaleEpochError, match="decided otherwise: rejected"):
        database.decide_match(match.match_id, "promoted", epoch=epoch)
    [decided] = database.matches("test")
    assert (decided.verdict, decided.candidate_score) == ("rejected", 0.25)
    assert decided.decided_at is not None
    again = begin(database, epoch)
    assert again.match_id != match.match_id


def test_a_match_keeps_its_rule_and_its_verdict_its_grounds(database: Database, epoch: int) -> None:
    rule = MatchTest(sprt_elo=(0.0, 35.0), sprt_error=0.05, draws_only="promote")
    arguments = {"games": 4, "threshold": 0.5, "num_simulations": 50, "seed": 7, "epoch": epoch}
    match = database.create_match("test", 2, 1, **arguments, test=rule)
    assert (match.test, match.sprt_elo0, match.sprt_elo1) == ("sprt", 0.0, 35.0)
    assert (match.sprt_error, match.draws_only, match.decided_by) == (0.05, "promote", None)
    assert database.create_match("test", 2, 1, **arguments) == match
    play(database, match, (0, 0, FIRST_WINS), (0, 1, DRAWN))
    grounds = Grounds("sprt", 0.25, -3.0, 2, 2, (0, 1, 0, 0, 0))
    database.decide_match(match.match_id, "rejected", epoch=epoch, grounds=grounds)
    [decided] = database.matches("test")
    assert (decided.decided_by, decided.llr, decided.candidate_score) == ("sprt", -3.0, 0.25)
    assert (decided.games_counted, decided.duplicates) == (2, 2)
    with database._transaction() as connection:
        row = connection.exec_driver_sql(
            "SELECT games, wins, draws, pentanomial, score_percent, llr, llr_bound, decided_by "
            "FROM match_history"
        ).one()
    assert tuple(row[:4]) == (2, 1, 1, [0, 1, 0, 0, 0])
    assert [float(value) for value in row[4:7]] == [25.0, -3.0, 2.944]


@pytest.mark.parametrize(
    "columns",
    ["test = 'sprt'", "sprt_elo0 = 0", "sprt_error = 0.7", "draws_only = 'maybe'", "test = 'x'"],
)
def test_half_a_rule_is_refused(database: Database, epoch: int, columns: str) -> None:
    match = begin(database, epoch)
    with pytest.raises(exc.IntegrityError), database._transaction() as connection:
        connection.exec_driver_sql(
            f"UPDATE matches SET {columns} WHERE match_id = {match.match_id}"
        )


def test_pairs_are_complete_in_order_and_know_what_they_repeat(
    database: Database, epoch: int
) -> None:
    """The same actions, of an earlier opening, with the candidate in the same colour."""

    def again(record: GameRecord, number: int) -> GameRecord:
        return changed(record, game_uid=UUID(int=number))

    match = begin(database, epoch)
    play(
        database,
        match,
        (4, 1, again(FIRST_WINS, 5)),  # repeats opening 2 as opening 2 repeats nothing of its own
        (4, 0, again(FIRST_WINS, 6)),
        (3, 0, again(FIRST_WINS, 4)),  # half a pair
        (0, 0, FIRST_WINS),
        (0, 1, DRAWN),
        (1, 0, again(FIRST_WINS, 1)),  # repeats opening 0 ...
        (1, 1, SECOND_WINS),  # ... and this does not
        (2, 0, again(FIRST_WINS, 2)),  # repeats opening 0
        (2, 1, again(FIRST_WINS, 3)),  # the same actions, but the other colour is the candidate's
    )
    assert database.match_pairs(match.match_id) == [
        Pair(0, (1.0, 0.5), False),
        Pair(1, (1.0, 1.0), False),
        Pair(2, (1.0, 0.0), False),
        Pair(4, (1.0, 0.0), True),
    ]


def test_a_promotion_decides_its_match(database: Database, epoch: int) -> None:
    match = begin(database, epoch)
    play(database, match, (0, 0, FIRST_WINS))
    database.promote("test", 2, match.match_id, "e", 1, epoch=epoch)
    [decided] = database.matches("test")
    assert (decided.verdict, decided.candidate_score) == ("promoted", 1.0)


def test_a_refused_promotion_decides_nothing(database: Database, epoch: int) -> None:
    match = begin(database, epoch)
    play(database, match, (0, 0, FIRST_WINS))
    with pytest.raises(StaleEpochError):
        database.promote("test", 2, match.match_id, "e", 0, epoch=epoch)
    [undecided] = database.matches("test")
    assert undecided.verdict is None


def test_a_former_evaluator_decides_nothing(database: Database, epoch: int) -> None:
    match = begin(database, epoch)
    database.acquire_fence("test", "evaluator")
    with pytest.raises(StaleEpochError):
        database.decide_match(match.match_id, "rejected", epoch=epoch)
    with pytest.raises(StaleEpochError):
        begin(database, epoch, candidate=3)


def test_a_bad_game_stores_nothing(database: Database, epoch: int) -> None:
    match = begin(database, epoch)
    bad = changed(DRAWN, root_value=np.full(DRAWN.length, 9, np.float32))
    with pytest.raises(RecordRejectedError, match="a value is not in"):
        play(database, match, (0, 0, FIRST_WINS), (0, 1, bad))
    assert database.match_places(match.match_id) == set()
    assert database.count_games("test", "match") == 0
