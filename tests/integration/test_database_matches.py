"""A match is its rows: stored once for each place, counted again by whoever asks."""

import functools
from datetime import timedelta
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import exc

from tests.support.random_records import changed, random_record
from zerofleet.config import check_anchor, run_from_values
from zerofleet.database import Database, MatchGame, MatchRow
from zerofleet.errors import (
    IncompatibleModelError,
    RecordRejectedError,
    StaleEpochError,
)
from zerofleet.records import GameRecord
from zerofleet.verdict import GateRule, MatchStatistics, Pair

FIRST_WINS = next(r for s in range(99) if (r := random_record(s)).result == 1)
SECOND_WINS = next(r for s in range(99) if (r := random_record(s)).result == -1)
DRAWN = next(r for s in range(99) if (r := random_record(s)).result == 0)

PLACES = [(opening, color) for opening in (0, 1) for color in (0, 1)]


def again(record: GameRecord, number: int) -> GameRecord:
    return changed(record, game_uid=UUID(int=number))


@pytest.fixture
def epoch(database: Database) -> int:
    trainer = database.acquire_fence("test", "trainer")
    for version in (1, 2, 3):
        database.insert_model("test", version, f"{version:064x}", 10 * version, {}, "m", trainer)
    epoch = database.acquire_fence("test", "evaluator")
    database.promote("test", 1, None, "e", 0, epoch=epoch)
    return epoch


def begin(database: Database, epoch: int, candidate: int = 2) -> MatchRow:
    return database.open_match(
        "test",
        "gate",
        str(candidate),
        "1",
        games=4,
        num_simulations=50,
        seed=7,
        epoch=epoch,
        rule=GateRule(0.55),
    )


def play(database: Database, match: MatchRow, *games: tuple[int, int, GameRecord]) -> None:
    database.record_match_games(
        "test",
        "e",
        match.match_id,
        [MatchGame(*game) for game in games],
        epoch=database.evaluator_epoch("test"),
    )


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
    [row] = database._rows("SELECT opening, color, game_uid::text AS uid FROM match_games")
    assert tuple(row) == (0, 0, str(FIRST_WINS.game_uid))


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
    assert (decided.verdict, decided.score) == ("rejected", 0.25)
    assert decided.decided_at is not None
    again = begin(database, epoch)
    assert again.match_id != match.match_id


def test_a_match_keeps_its_rule_and_its_verdict_its_statistics(
    database: Database, epoch: int
) -> None:
    rule = GateRule(0.5, sprt_elo=(0.0, 35.0), sprt_error=0.05, draws_only="promote")
    arguments = {"games": 4, "num_simulations": 50, "seed": 7, "epoch": epoch}
    match = database.open_match("test", "gate", "2", "1", **arguments, rule=rule)
    assert (match.rule, match.decided_by) == (rule, None)
    again = database.open_match("test", "gate", "2", "1", **arguments, rule=GateRule(0.9))
    assert again == match
    play(database, match, (0, 0, FIRST_WINS), (0, 1, DRAWN))
    statistics = MatchStatistics("sprt", 0.25, -3.0, 2, 2, (0, 1, 0, 0, 0))
    database.decide_match(match.match_id, "rejected", epoch=epoch, statistics=statistics)
    [decided] = database.matches("test")
    assert (decided.decided_by, decided.llr, decided.score) == ("sprt", -3.0, 0.25)
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
    [
        "test = 'sprt'",
        "sprt_elo0 = 0",
        "sprt_error = 0.7",
        "draws_only = 'maybe'",
        "test = 'x'",
        "threshold = NULL",
        "kind = 'trial'",
    ],
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
    assert (decided.verdict, decided.score) == ("promoted", 1.0)


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
    with pytest.raises(StaleEpochError):
        database.record_match_games(
            "test", "e", match.match_id, [MatchGame(0, 0, FIRST_WINS)], epoch=epoch
        )
    assert database.count_games("test", "match") == 0


def trial(database: Database, epoch: int, player: str, opponent: str, games: int = 4) -> MatchRow:
    return database.open_match(
        "test", "trial", player, opponent, games=games, num_simulations=50, seed=7, epoch=epoch
    )


def test_two_players_have_one_trial_that_may_grow(database: Database, epoch: int) -> None:
    first = trial(database, epoch, "2/int8", "2/fp32")
    assert (first.kind, first.rule, first.games) == ("trial", None, 4)
    assert database.unfinished_trials("test") == [first]
    play(database, first, *((i, color, again(DRAWN, 2 * i + color)) for i, color in PLACES))
    assert database.unfinished_trials("test") == []
    assert trial(database, epoch, "2/int8", "2/fp32", games=2) == first  # it has more already
    more = trial(database, epoch, "2/int8", "2/fp32", games=6)
    assert (more.match_id, more.games) == (first.match_id, 6)
    assert database.unfinished_trials("test") == [more]
    database.shorten_match(first.match_id, 4, epoch=epoch)
    assert database.unfinished_trials("test") == []
    assert database.matches("test") == []
    assert len(database.matches("test", "trial")) == 1


def test_a_trial_with_other_simulations_is_another_match(database: Database, epoch: int) -> None:
    first = trial(database, epoch, "2", "1")
    deep = functools.partial(
        database.open_match,
        *("test", "trial", "2", "1"),
        num_simulations=80,
        seed=7,
        epoch=epoch,
        rated=False,
    )
    second = deep(games=2)
    assert second.num_simulations == 80
    longer = deep(games=4)
    assert (longer.match_id, longer.games) == (second.match_id, 4)
    assert database.matches("test", "trial") == [first, longer]
    assert database.unfinished_trials("test") == [first, longer]  # the shorter one first
    assert deep(games=4, rated=True).match_id not in (first.match_id, second.match_id)
    play(database, longer, *((i, color, again(DRAWN, 2 * i + color)) for i, color in PLACES))
    assert database.player_results("test") == []
    play(database, first, *((i, color, again(DRAWN, 8 + 2 * i + color)) for i, color in PLACES))
    players = [(each.player, each.opponent) for each in database.player_results("test")]
    assert players == [("1", "2"), ("2", "1")]


@pytest.mark.parametrize(
    ("player", "opponent"),
    [
        *(("2", "2"), ("2", "9"), ("2", "gnugo:11"), ("2/int4", "2"), ("02", "1")),
        *(("2", "somebody"), ("2", "uci:"), ("2", "uci:a;b"), ("gtp: a", "2"), ("2", "gtp:a\nb")),
        *(("2", "uci:\u00e4"), ("2", "uci:" + "x" * 196)),
        *(("2", "python:mine"), ("2", "python:a;b:C"), ("python:a b:C", "2")),
    ],
)
def test_players_that_there_are_not_play_no_match(
    database: Database, epoch: int, player: str, opponent: str
) -> None:
    with pytest.raises(exc.IntegrityError):
        trial(database, epoch, player, opponent)


@pytest.mark.parametrize(
    "name",
    [
        "uci:fairy-stockfish?Skill Level=-10&nodes=500",
        "gtp:/usr/games/gnugo --mode gtp",
        "uci:" + "x" * 195,
        "python:my.players:Greedy_2",
        "python:" + "x" * 120 + ":" + "X" * 60,
    ],
)
def test_a_program_is_a_player_whose_games_are_rated(
    database: Database, epoch: int, name: str
) -> None:
    """A slash in its name does not make it a model in one precision."""
    check_anchor(name)
    match = trial(database, epoch, "2", name)
    assert match.versions == [2]
    play(database, match, (0, 0, FIRST_WINS))
    assert {name} <= {
        player for row in database.player_results("test") for player in (row.player, row.opponent)
    }


def test_a_match_without_simulations_is_none(database: Database, epoch: int) -> None:
    with pytest.raises(exc.IntegrityError, match="num_simulations"):
        database.open_match(
            "test", "trial", "2", "1", games=8, num_simulations=0, seed=7, epoch=epoch
        )


def test_anchors_and_precisions_are_not_promoted(database: Database, epoch: int) -> None:
    for player in ("random", "2/int8"):
        with pytest.raises(exc.IntegrityError):
            database.open_match(
                "test",
                "gate",
                player,
                "1",
                games=4,
                num_simulations=50,
                seed=7,
                epoch=epoch,
                rule=GateRule(0.5),
            )


def test_a_bad_game_stores_nothing(database: Database, epoch: int) -> None:
    match = begin(database, epoch)
    bad = changed(DRAWN, root_value=np.full(DRAWN.length, 9, np.float32))
    with pytest.raises(RecordRejectedError, match="a value is not in"):
        play(database, match, (0, 0, FIRST_WINS), (0, 1, bad))
    assert database.match_places(match.match_id) == set()
    assert database.count_games("test", "match") == 0


def test_files_of_a_model_stay_while_it_plays_a_match(database: Database, epoch: int) -> None:
    """A candidate's files stay until its verdict, a trial player's until all games are played."""
    trainer = database.acquire_fence("test", "trainer")

    def kept() -> list[int]:
        asked = {"newest": 0, "every": 0, "grace": timedelta(days=1)}
        database.give_up_models("test", **asked, epoch=trainer)
        return [row.version for row in database.models("test")]

    match = begin(database, epoch, candidate=2)
    tried = trial(database, epoch, "random", "3/fp32", games=2)
    assert kept() == [1, 2, 3]
    database.decide_match(match.match_id, "skipped", epoch=epoch)
    play(database, tried, (0, 0, FIRST_WINS), (0, 1, DRAWN))
    assert kept() == [1]


def test_a_model_that_a_match_begins_to_need_within_its_grace_is_kept_again(
    database: Database, epoch: int
) -> None:
    trainer = database.acquire_fence("test", "trainer")
    asked = {"newest": 0, "every": 0}
    database.give_up_models("test", **asked, grace=timedelta(days=1), epoch=trainer)
    assert [row.version for row in database.models("test")] == [1]
    begin(database, epoch, candidate=2)  # within the grace
    assert [row.version for row in database.models("test")] == [1, 2]
    # Given up at the very moment when it began, and the grace is over.
    database._run("UPDATE models SET removed_at = now() WHERE version > 1")
    assert [model.version for model in database.removable_files("test")] == [3]
    database.give_up_models("test", **asked, grace=timedelta(days=1), epoch=trainer)
    assert [row.version for row in database.models("test")] == [1, 2]


def test_files_of_a_held_model_belong_to_it_also_when_its_grace_is_over(
    database: Database, epoch: int
) -> None:
    database.register_run(run_from_values({"name": "two", "game": {"name": "tic_tac_toe"}}))
    second = database.acquire_fence("two", "trainer")
    database.insert_model("two", 1, f"{2:064x}", 0, {}, "m", second)  # the same bytes
    begin(database, epoch, candidate=2)
    database._run("UPDATE models SET removed_at = now() WHERE version = 2 OR run = 'two'")
    [removable] = database.removable_files("two")
    assert (removable.version, list(removable.sha256s)) == (1, [])


def test_a_model_whose_files_are_gone_is_not_promoted_and_plays_no_match(
    database: Database, epoch: int
) -> None:
    finished = trial(database, epoch, "3", "random", games=2)
    play(database, finished, (0, 0, FIRST_WINS), (0, 1, DRAWN))
    database._run("UPDATE models SET removed_at = now()")
    for asked in (
        lambda: begin(database, epoch, candidate=2),
        lambda: trial(database, epoch, "random", "2/fp32"),
        lambda: trial(database, epoch, "3", "random", games=4),
        lambda: database.promote("test", 2, None, "e", 1, epoch=epoch),
    ):
        with pytest.raises(IncompatibleModelError, match=r"the files of model [23] of the run"):
            asked()
    trial(database, epoch, "1", "random")  # it was promoted, so its files stay
    assert database.promote("test", 1, None, "e", 1, epoch=epoch).version == 1
