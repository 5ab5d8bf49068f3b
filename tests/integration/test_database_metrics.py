"""Measurements come back, and the summary adds them up."""

from dataclasses import asdict, replace

import pytest

from tests.support.random_records import changed, random_record
from zerofleet.config import run_from_values
from zerofleet.database import (
    Database,
    ExamFigures,
    GroupErrors,
    RecentPlay,
    Submission,
    WrongAnswer,
)
from zerofleet.errors import ConfigError

LOSSES = {"policy_loss": 1.5, "value_loss": 0.5, "policy_agreement": 0.25}


@pytest.fixture
def epoch(database: Database) -> int:
    epoch = database.acquire_fence("test", "trainer")
    for version in (1, 2):
        metrics = {"train_policy_loss": 1.25}
        database.insert_model("test", version, f"{version:064x}", 9, metrics, "where", epoch)
    return epoch


def test_models(database: Database, epoch: int) -> None:
    [first, second] = database.models("test")
    assert first.sha256 == f"{1:064x}"
    assert (first.step, first.metrics, first.location) == (9, {"train_policy_loss": 1.25}, "where")
    assert database.model("test", 2) == second
    assert database.model("test", 3) is None
    assert database.models("other") == []


def test_a_repeated_measurement_replaces_the_first(database: Database, epoch: int) -> None:
    database.insert_train_metrics("test", 100, "train", LOSSES, epoch)
    newer = database.acquire_fence("test", "trainer")
    database.insert_train_metrics("test", 100, "train", LOSSES | {"policy_loss": 1.0}, newer)
    database.insert_train_metrics("test", 50, "train", LOSSES, newer)
    database.insert_train_metrics("test", 100, "held_out", LOSSES, newer)
    summary = database.summary("test")
    assert (summary.step, summary.policy_loss, summary.held_out_policy_loss) == (100, 1.0, 1.5)


def test_a_metric_that_nobody_knows(database: Database, epoch: int) -> None:
    with pytest.raises(ValueError, match=r"unknown metrics .'loss'"):
        database.insert_train_metrics("test", 1, "train", {**LOSSES, "loss": 1.0}, epoch)


def test_exams_and_ratings(database: Database, epoch: int) -> None:
    database.insert_exam("test", 1, 50, 300, 30, kind="random")
    database.insert_exam("test", 2, 50, 300, 0, kind="random")
    wrong = [WrongAnswer(f"4 {number}", "1", ("2", "3")) for number in range(130)]
    database.insert_exam("test", 2, 50, 300, 150, kind="good", wrong_answers=wrong)
    [[kept, first]] = database._rows(
        "SELECT jsonb_array_length(wrong_answers), wrong_answers -> 0 FROM exams "
        "WHERE wrong_answers IS NOT NULL"
    )
    assert (kept, first) == (100, {"moves": "4 0", "played": "1", "right": ["2", "3"], "start": ""})
    assert [(row.version, row.errors, row.error_rate) for row in database.exams("test")] == [
        (1, 30, 0.1),
        (2, 0, 0.0),
        (2, 150, 0.5),
    ]
    groups = [GroupErrors("KQK", 9, 2), GroupErrors("KRKB", 10, 3)]
    database.insert_exam("test", 2, 50, 19, 5, kind="endgames", groups=groups)
    database.insert_exam("test", 2, 50, 10, 1, kind="won:KBBK")
    stored = database._rows("SELECT groups FROM exams ORDER BY exam_id DESC LIMIT 2")
    assert [row[0] for row in stored] == [None, [asdict(each) for each in groups]]
    database.upsert_ratings("test", [])
    database.upsert_ratings("test", [("1", 0.0, 0.0), ("2", 55.0, 12.5)])
    rows = [(row.version, row.elo, row.elo_error, row.games) for row in database.ratings("test")]
    assert rows == [(1, 0.0, 0.0, 0), (2, 55.0, 12.5, 0)]


def test_an_exam_told_twice_is_one(database: Database, epoch: int) -> None:
    """As after a commit whose answer was lost; what differs is another exam."""
    for errors in (30, 30, 29):
        database.insert_exam("test", 1, 50, 300, errors, kind="random")
    good = ExamFigures(prior_errors=60, value_error=0.25)
    lost = ExamFigures(wins=0, draws=0, given_away=4, margin=-30.5, even_komi=28.0)
    others = [
        replace(lost, wins=1),
        replace(lost, draws=1),
        replace(lost, given_away=5),
        replace(lost, margin=-20.5),
        replace(lost, even_komi=None),
    ]
    for figures in (lost, lost, *others, *others):
        database.insert_exam("test", 1, 50, 20, 20, kind="gnugo:1", figures=figures)
    database.insert_exam("test", 1, 50, 300, 30, kind="good", figures=good)
    assert [(row.kind, row.errors, row.figures) for row in database.exams("test")] == [
        ("random", 30, ExamFigures()),
        ("random", 29, ExamFigures()),
        *(("gnugo:1", 20, figures) for figures in (lost, *others)),
        ("good", 30, good),
    ]
    [shown] = database._rows(
        "SELECT error_percent, prior_error_percent FROM exam_results WHERE kind = 'good'"
    )
    assert tuple(map(float, shown)) == (10.0, 20.0)


def test_summary(database: Database, epoch: int) -> None:
    games = [Submission(random_record(seed)) for seed in range(5)]
    database.submit_games("test", "w", games)
    database.save_unfinished("test", "w", [(random_record(9, plies=2), 0)], 60)
    evaluator = database.acquire_fence("test", "evaluator")
    database.promote("test", 1, None, "e", 0, epoch=evaluator)
    database.insert_exam("test", 1, 50, 300, 30, kind="random")
    database.insert_exam("test", 1, 50, 300, 60, kind="good")  # no goal is about these
    database.upsert_ratings("test", [("1", 5.0, 1.0)])
    database.insert_train_metrics("test", 100, "train", LOSSES, epoch)

    summary = database.summary("test")
    assert (summary.games, summary.games_last_hour, summary.workers_last_hour) == (5, 5, 1)
    assert summary.positions == sum(game.record.length for game in games)
    assert (summary.models, summary.newest_model) == (2, 2)
    assert (summary.promotions, summary.best_model) == (1, 1)
    assert (summary.elo, summary.elo_error, summary.error_rate) == (5.0, 1.0, 0.1)
    database.promote("test", 2, None, "e", 1, epoch=evaluator)  # which rating.every may leave out
    summary = database.summary("test")
    assert (summary.best_model, summary.rated_model, summary.elo) == (2, 1, 5.0)
    database.upsert_ratings("test", [("2", 7.0, 1.0), ("random", -9.0, 1.0)])
    summary = database.summary("test")
    assert (summary.rated_model, summary.elo) == (2, 7.0)
    assert (summary.unfinished_games, summary.rejected_games) == (1, 0)
    assert summary.held_out_policy_loss is None
    empty = database.summary("other")
    assert (empty.games, empty.positions, empty.best_model, empty.elo) == (0, 0, None, None)


def test_recent_play_is_known(database: Database, epoch: int) -> None:
    assert database.recent_play("test") == RecentPlay(0)
    assert database.recent_play("other") == RecentPlay()
    record = random_record(1)
    again = changed(record, game_uid=random_record(2).game_uid)
    games = (record, again, random_record(3))
    database.submit_games("test", "w", [Submission(game) for game in games])
    for step, prior in ((10, 1.5), (20, 1.25), (30, 0.25)):
        values = LOSSES | {"policy_entropy": prior, "target_entropy": prior / 2}
        database.insert_train_metrics("test", step, "train", values, epoch)
    play = database.recent_play("test")
    drawn = sum(game.result == 0 for game in games) / 3
    assert (play.games, play.distinct_game_share, play.drawn_game_share) == (
        3,
        pytest.approx(2 / 3),
        pytest.approx(drawn),
    )
    entropies = (play.policy_entropy, play.target_entropy, play.first_policy_entropy)
    assert entropies == (0.25, 0.125, 1.5)


def test_a_run_that_narrows_says_what_to_do() -> None:
    wide = RecentPlay(1_000, 0.8, 0.1, 0.5, 0.4, 1.9)
    assert wide.narrows(42, was_narrow=False) is None
    told = replace(wide, distinct_game_share=0.5).narrows(42, was_narrow=False)
    assert told is not None
    assert told.startswith(
        "50.0% of the last 1,000 games differ, less than 75%: raise selfplay.random_op"
    )
    told = wide.narrows(42, was_narrow=True)
    assert told is not None
    assert "80.0% of the last 1,000 games differ, less than 85%" in told
    assert replace(wide, distinct_game_share=0.85).narrows(42, was_narrow=True) is None
    for unjudged, max_length in (
        (replace(wide, policy_entropy=0.01), 42),  # shown, and not judged
        (replace(wide, distinct_game_share=0.5, games=999), 42),  # too few to tell
        (replace(wide, distinct_game_share=0.5), 9),  # a short game has few lines
    ):
        assert unjudged.narrows(max_length, was_narrow=False) is None


def test_a_run_keeps_its_game_and_takes_new_settings(database: Database) -> None:
    changed = {"name": "test", "game": {"name": "tic_tac_toe"}, "seed": 77}
    database.register_run(run_from_values(changed))
    with database._transaction() as connection:
        config = connection.exec_driver_sql("SELECT config FROM runs").scalar_one()
    assert config["seed"] == 77
    with pytest.raises(ConfigError, match="plays tic_tac_toe, not connect_four"):
        database.register_run(run_from_values({"name": "test", "game": {"name": "connect_four"}}))
