"""v_resign on games small enough to reckon by hand, and against a slower reckoning."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import psycopg2
import pytest
from psycopg2 import errors

from tests.support.random_records import changed, random_record
from zerofleet.comparison.resignation_rule import ResignationRule
from zerofleet.config import ResignSection, run_from_values
from zerofleet.database import Database, ResignRow, Submission
from zerofleet.records import GameRecord

START = datetime(2026, 1, 1, tzinfo=UTC)
LATER = 1_000.0  # seconds; longer than any game here takes
SECOND_LOSES, SECOND_WINS, DRAW = 1, -1, 0


def played_on(
    number: int,
    values: Sequence[float],
    result: int,
    best_child_value: Sequence[float] | None = None,
) -> GameRecord:
    """A game with these values at its plies; the second player moves at odd ones."""
    plies = len(values)
    return changed(
        random_record(number),
        game_uid=UUID(int=number + 1),
        action=np.arange(plies, dtype=np.int16),
        to_play=np.arange(plies, dtype=np.int8) % 2,
        model_version=np.ones(plies, np.int32),
        root_value=np.asarray(values, np.float32),
        network_value=np.zeros(plies, np.float32),
        best_child_value=np.asarray(best_child_value or values, np.float32),
        simulations=np.ones(plies, np.int32),
        full_search=np.ones(plies, np.bool_),
        offsets=np.arange(plies + 1, dtype=np.int32),
        legal_actions=np.arange(plies, dtype=np.int16),
        visit_counts=np.ones(plies, np.int32),
        priors=np.ones(plies, np.float32),
        policy_weights=np.ones(plies, np.int32),
        result=result,
        plays_on=True,
    )


def store(
    database: Database, games: Sequence[GameRecord], began: Sequence[float], took: Sequence[float]
) -> None:
    """Store games as if they had begun at these seconds and taken that long."""
    assert set(database.submit_games("test", "w", [Submission(game) for game in games])) == {
        "stored"
    }
    database._run(
        "UPDATE games AS g SET began_at = timestamptz '2026-01-01Z' + make_interval(secs => b), "
        "ingested_at = timestamptz '2026-01-01Z' + make_interval(secs => b + t) "
        "FROM unnest(CAST(:uids AS uuid[]), CAST(:began AS float8[]), CAST(:took AS float8[])) "
        "AS s (uid, b, t) WHERE g.game_uid = s.uid",
        uids=[str(game.game_uid) for game in games],
        began=[float(each) for each in began],
        took=[float(each) for each in took],
    )


def store_settled(database: Database, games: Sequence[GameRecord]) -> None:
    """Store games that ended long ago, and the late one that shows it."""
    store(database, games, range(len(games)), [1.0] * len(games))
    store(database, [played_on(10**6, [0.0], DRAW)], [LATER], [1.0])


def compute(
    database: Database,
    share: float = 0.2,
    min_games: int = 1,
    window_games: int = 1000,
    highest: float = -0.01,
) -> ResignRow:
    return database.compute_v_resign(
        "test",
        false_positive_share=share,
        min_games=min_games,
        window_games=window_games,
        highest=highest,
    )


def by_rule(
    games: Sequence[GameRecord], began: Sequence[float], took: Sequence[float], share: float
) -> float | None:
    """Return the result of the loop without stores for the same games."""
    rule = ResignationRule(ResignSection(false_positive_share=share, highest=-0.01), min_games=1)
    ends = [start + length for start, length in zip(began, took, strict=True)]
    for end, start, game in sorted(zip(ends, began, games, strict=True), key=lambda each: each[:2]):
        rule.add(game.columns, start, end)
    return rule.compute()


def answer(row: ResignRow) -> tuple[float | None, int, int, int]:
    threshold = None if row.threshold is None else round(row.threshold, 6)
    return threshold, row.games, row.would_resign, row.wrong


def simple(*outcomes: tuple[float, int]) -> list[GameRecord]:
    """Games in which the second player's value at ply 1 and the result say all."""
    return [played_on(i, [0.0, value, 0.9], result) for i, (value, result) in enumerate(outcomes)]


RIGHT = [(-0.9, SECOND_LOSES), (-0.8, SECOND_LOSES), (-0.7, SECOND_LOSES), (-0.6, SECOND_LOSES)]


def test_the_highest_value_that_keeps_the_share(database: Database) -> None:
    games = [*RIGHT, (-0.5, SECOND_LOSES), (-0.4, SECOND_WINS)]
    store_settled(database, simple(*games, (-0.3, SECOND_LOSES), (-0.2, SECOND_LOSES)))
    # Below -0.4: 5, none wrong, 1/6. Below -0.3: 6, one wrong, 2/7. Below -0.2: 2/8.
    assert answer(compute(database)) == (-0.4, 8, 5, 0)
    assert answer(compute(database, share=0.26)) == (-0.2, 8, 7, 1)
    assert answer(compute(database, share=0.1)) == (None, 8, 0, 0)
    assert database.last_v_resign("test") is None  # the newest counts


def test_a_draw_is_not_lost(database: Database) -> None:
    store_settled(database, simple(*RIGHT, (-0.5, DRAW), (-0.4, SECOND_LOSES)))
    assert answer(compute(database)) == (-0.5, 6, 4, 0)


def test_equal_values_resign_together(database: Database) -> None:
    store_settled(database, simple(*RIGHT[:3], *[(-0.6, SECOND_LOSES)] * 2, (-0.6, SECOND_WINS)))
    # Nobody is below -0.6 but the three; above it there is no value that somebody could be below.
    assert answer(compute(database, share=0.25)) == (-0.6, 6, 3, 0)
    assert answer(compute(database, share=0.2)) == (None, 6, 0, 0)


def test_the_first_ply_that_is_low_enough_decides(database: Database) -> None:
    """At -0.3 the second player gives up a won game; lower, it is the first, who has lost."""
    turning = [played_on(i, [0.0, -0.3, -0.8 - i / 100, 0.9], SECOND_WINS) for i in range(4)]
    store_settled(database, [*turning, played_on(9, [0.0, -0.1], SECOND_LOSES)])
    assert answer(compute(database)) == (-0.3, 5, 4, 0)
    rows = database._rows(
        "SELECT * FROM resign_curve('test', 10, 1) ORDER BY threshold DESC LIMIT 2"
    )
    assert [(round(row.threshold, 6), row.would_resign, row.wrong) for row in rows] == [
        (-0.1, 4, 4),
        (-0.3, 4, 0),
    ]


def test_both_values_must_be_low(database: Database) -> None:
    games = simple(*RIGHT)
    hopeful = played_on(7, [0.0, -0.95, 0.9], SECOND_WINS, [0.0, -0.05, 0.9])
    blind = played_on(8, [0.0, -0.02, 0.9], SECOND_WINS, [0.0, -0.95, 0.9])
    store_settled(database, [*games, hopeful, blind])
    assert answer(compute(database)) == (-0.05, 6, 4, 0)


def test_nobody_resigns_the_empty_board(database: Database) -> None:
    store_settled(database, [played_on(i, [-0.9 + i / 100, 0.5], SECOND_WINS) for i in range(9)])
    assert answer(compute(database, share=0.9)) == (None, 9, 0, 0)


def test_too_few_games_give_none(database: Database) -> None:
    store_settled(database, simple(*RIGHT, (-0.5, SECOND_LOSES)))
    assert answer(compute(database, min_games=6)) == (None, 5, 0, 0)
    assert answer(compute(database, min_games=5)) == (-0.5, 5, 4, 0)


def test_few_games_for_a_while_do_not_take_a_threshold_away(database: Database) -> None:
    """After an outage the games that it made long hide all those before them."""
    store_settled(database, simple(*RIGHT, (-0.5, SECOND_LOSES)))
    known = compute(database, min_games=5)
    assert known.threshold is not None
    long = simple(*[(-0.9, SECOND_WINS)] * 9)[5:]
    store(database, long, [0.0] * 4, [2 * LATER] * 4)
    assert compute(database, min_games=5) == known


def test_one_long_game_among_many_hides_nothing(database: Database) -> None:
    games = simple(*[(-0.9 + i / 1000, SECOND_LOSES) for i in range(40)])
    store(database, games, range(40), [1.0] * 39 + [10_000.0])
    store(database, [played_on(10**6, [0.0], DRAW)], [LATER], [1.0])
    assert compute(database, min_games=20).games >= 39


def test_no_threshold_is_above_the_highest(database: Database) -> None:
    store_settled(database, simple(*RIGHT, (-0.5, SECOND_LOSES)))
    assert answer(compute(database, share=0.4)) == (-0.5, 5, 4, 0)
    assert answer(compute(database, share=0.4, highest=-0.65)) == (-0.7, 5, 2, 0)


def test_a_model_with_enough_games_is_judged_by_its_own(database: Database) -> None:
    old = simple(*RIGHT, (-0.5, SECOND_LOSES), (-0.4, SECOND_LOSES), (-0.3, SECOND_LOSES))
    new = [
        changed(game, model_version=game.columns.model_version + 1)
        for game in simple(*[(-0.9, SECOND_LOSES)] * 7, *[(-0.85, SECOND_WINS)] * 4)[7:]
    ]
    store_settled(database, [*old, *new])
    assert compute(database, min_games=5, share=0.5).games == 11  # 4 of model 2 are too few
    assert compute(database, min_games=4, share=0.5).games == 4


def test_a_few_lucky_resignations_open_nothing(database: Database) -> None:
    outcomes = [(-0.9 + i / 100, SECOND_LOSES) for i in range(20)]
    store_settled(database, simple(*outcomes[:19]))
    assert answer(compute(database, share=0.05)) == (None, 19, 0, 0)
    store(database, [played_on(50, [0.0, -0.5, 0.9], SECOND_LOSES)], [50], [1])
    assert answer(compute(database, share=0.05)) == (-0.5, 20, 19, 0)


def test_without_games_there_is_none(database: Database) -> None:
    row = compute(database)
    assert answer(row) == (None, 0, 0, 0)
    assert row.began_before is None


def test_other_games_do_not_count(database: Database) -> None:
    games = simple(*RIGHT, (-0.1, SECOND_LOSES))
    may_resign = changed(games[0], game_uid=UUID(int=100), plays_on=False)
    resigned = changed(
        games[1], game_uid=UUID(int=101), plays_on=False, resign_threshold=-0.5, reason="resign"
    )
    store_settled(database, [*games, may_resign, resigned])
    database.register_run(run_from_values({"name": "other", "game": "tic_tac_toe"}))
    strange = changed(games[2], game_uid=UUID(int=200))
    match = Submission(changed(games[3], game_uid=UUID(int=201)), kind="match")
    database.submit_games("other", "w", [Submission(strange)])
    database.submit_games("test", "w", [match])
    assert answer(compute(database)) == (-0.1, 5, 4, 0)
    assert database.last_v_resign("test") == pytest.approx(-0.1)
    assert database.last_v_resign("other") is None


def test_short_games_that_began_lately_do_not_move_it(database: Database) -> None:
    """Every second a short and a long game begin; of the late long ones nothing is known yet.

    Short games are resigned rightly, long ones wrongly: whoever looked at all finished games would
    find more of the former than there are.
    """
    short, long = 2.0, 100.0
    now = 400.0
    games: list[tuple[GameRecord, float, float]] = []
    for second in range(400):
        resigned = played_on(2 * second, [0.0, -0.9 + second / 1e4, 0.9], SECOND_LOSES)
        survived = played_on(2 * second + 1, [0.0, -0.9 + second / 1e4, 0.9], SECOND_WINS)
        games += [(resigned, second, short), (survived, second + 0.5, long)]
    games.append((played_on(5_000, [0.0, -0.1], SECOND_WINS), 0.0, long))
    finished = [each for each in games if each[1] + each[2] <= now]
    shorts = sum(took == short for _, _, took in finished)
    assert shorts / len(finished) > 0.56
    store(database, *zip(*finished, strict=True))

    # Half of the resignations would be wrong: no threshold for less, a high one for more.
    assert compute(database, share=0.45).threshold is None
    assert by_rule(*zip(*finished, strict=True), share=0.45) is None
    row = compute(database, share=0.55)
    assert answer(row)[0] == -0.1
    assert by_rule(*zip(*finished, strict=True), share=0.55) == pytest.approx(row.threshold)
    assert row.began_before is not None
    until = (row.began_before - START).total_seconds()
    assert until == pytest.approx(400.0 - 2 * long, abs=1.0)
    assert row.games == sum(began < until for _, began, _ in finished)
    # A smaller window is the last ones by their start, whenever they ended.
    [window] = database._rows(
        "SELECT min(began_at) AS first, max(began_at) AS last, "
        "count(*) FILTER (WHERE result = 1) AS resigned "
        "FROM played_on_games('test', 100, 1) JOIN games USING (game_uid, result)"
    )
    assert (window.last - START).total_seconds() == pytest.approx(until, abs=1.0)
    assert (window.first - START).total_seconds() == pytest.approx(until - 50, abs=1.0)
    assert window.resigned == 50


def test_a_run_that_has_just_begun_knows_only_its_short_games(database: Database) -> None:
    """Games that began together: the first to end are the short ones, and no sample."""
    games = simple(*[(-0.9 + i / 100, SECOND_LOSES) for i in range(30)])
    store(database, games, [0.01 * i for i in range(30)], [3.0 + i for i in range(30)])
    assert answer(compute(database)) == (None, 0, 0, 0)


def test_what_has_not_changed_is_not_written_again(database: Database) -> None:
    store_settled(database, simple(*RIGHT, (-0.5, SECOND_LOSES)))
    first = compute(database)
    assert compute(database) == first
    assert compute(database, min_games=2) != first
    assert compute(database).at >= first.at
    [row] = database._rows("SELECT count(*) AS rows FROM resign_thresholds")
    assert row.rows == 3


def test_what_is_written_stays(database: Database, database_url: str) -> None:
    compute(database)
    connection = psycopg2.connect(database_url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        for change in (
            "UPDATE resign_thresholds SET threshold = 0",
            "DELETE FROM resign_thresholds",
        ):
            with pytest.raises(errors.InsufficientPrivilege, match="only grows"):
                cursor.execute(change)
    connection.close()


def test_the_curve_is_that_of_a_slow_reckoning(database: Database) -> None:
    generator = np.random.default_rng(20261121)
    games: list[GameRecord] = []
    for number in range(120):
        plies = int(generator.integers(1, 9))
        # Few different values, so that there are many ties.
        roots, children = np.round(generator.uniform(-1, 1, (2, plies)) * 8) / 8
        result = int(generator.integers(-1, 2))
        games.append(played_on(number, roots.tolist(), result, children.tolist()))
    store_settled(database, games)
    curve = {
        row.threshold: (row.would_resign, row.wrong)
        for row in database._rows("SELECT * FROM resign_curve('test', 1000, 1)")
    }
    assert len(curve) == 8  # -1, -7/8 ... -1/8
    for threshold, counted in curve.items():
        assert counted == reckon(games, threshold)
    # The loop without stores takes the same ones: a late game shows that these are over.
    late = (*games, played_on(10**6, [0.0], DRAW)), (*range(120), LATER), [1.0] * 121
    found = {share: compute(database, share=share).threshold for share in (0.5, 0.55, 0.6, 0.65)}
    assert len(set(found.values())) == 2
    assert found == {share: by_rule(*late, share=share) for share in found}


def reckon(games: Sequence[GameRecord], threshold: float) -> tuple[int, int]:
    would_resign = wrong = 0
    for game in games:
        for ply in range(1, game.length):
            if max(game.columns.root_value[ply], game.columns.best_child_value[ply]) < threshold:
                would_resign += 1
                outcome = game.result if ply % 2 == 0 else -game.result
                wrong += outcome >= 0
                break
    return would_resign, wrong
