"""Rows that the trainer writes: figures, events, and the views that combine them."""

from collections.abc import Callable
from typing import Any

import psycopg2
import pytest
from psycopg2 import errors

from zerofleet.database import Database
from zerofleet.errors import ConfigError, StaleEpochError

FIGURES: dict[str, Any] = {
    "policy_loss": 1.5,
    "value_loss": 0.5,
    "policy_error": 0.01,
    "value_error": None,
    "search_kl": 0.25,
    "explained_variance": None,
    "value_bias": -0.125,
    "distinct_share": 0.75,
    "age_games": 12.5,
    "gradient_norm": 2.0,
    "soft_policy_loss": 1.5,
    "opponent_policy_loss": 1.25,
    "final_planes_loss": 0.5,
    "final_score_loss": 0.75,
    "window_limit": 250_000,
    "policy_gap": 0.25,
    "value_gap": None,
    "overfit": True,
    "calibration": [
        {"stage": 1, "positions": 7, "predicted": 0.5, "actual": 0.25, "squared_error": 0.125},
        {"stage": 4, "positions": 9, "predicted": -0.5, "actual": -1.0, "squared_error": 0.5},
    ],
    "own_losses": {"stones": 0.25},
}


@pytest.fixture
def epoch(database: Database) -> int:
    return database.acquire_fence("test", "trainer")


def query(database: Database, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in database._rows(statement)]


def test_every_figure_comes_back(database: Database, epoch: int) -> None:
    database.insert_train_metrics("test", 100, "train", FIGURES, epoch)
    [row] = database._rows("SELECT * FROM train_metrics")
    assert {name: getattr(row, name) for name in FIGURES if name != "policy_error"} == {
        name: value for name, value in FIGURES.items() if name != "policy_error"
    }
    assert row.policy_error == pytest.approx(0.01)


def test_a_repeated_step_replaces_the_tables_too(database: Database, epoch: int) -> None:
    for calibration in (FIGURES["calibration"], [], None):
        figures = {**FIGURES, "calibration": calibration}
        database.insert_train_metrics("test", 100, "train", figures, epoch)
        [(found,)] = query(database, "SELECT calibration FROM train_metrics")
        assert found == calibration


def test_training_and_held_out_figures_side_by_side(database: Database, epoch: int) -> None:
    database.insert_train_metrics("test", 100, "train", FIGURES, epoch)
    held_out = {**FIGURES, "policy_loss": 1.75, "gradient_norm": None}
    database.insert_train_metrics("test", 100, "held_out", held_out, epoch)
    database.insert_train_metrics("test", 50, "held_out", held_out, epoch)
    rows = query(
        database,
        "SELECT step, train_policy_loss, held_out_policy_loss, policy_gap, overfit, gradient_norm, "
        "window_limit FROM training_curve ORDER BY step",
    )
    assert rows == [
        (50, None, 1.75, 0.25, True, None, None),
        (100, 1.5, 1.75, 0.25, True, 2.0, 250_000),
    ]


def test_entropies_agreement_and_bias_stand_beside_the_losses(
    database: Database, epoch: int
) -> None:
    figures = {"policy_entropy": 1.25, "target_entropy": 1.0, "policy_agreement": 0.5}
    database.insert_train_metrics("test", 100, "train", FIGURES | figures, epoch)
    held_out = FIGURES | figures | {"policy_entropy": 1.5, "value_bias": 0.25}
    database.insert_train_metrics("test", 100, "held_out", held_out, epoch)
    [row] = database._rows("SELECT * FROM training_curve")
    assert (row.train_policy_entropy, row.held_out_policy_entropy) == (1.25, 1.5)
    assert (row.train_target_entropy, row.held_out_target_entropy) == (1.0, 1.0)
    assert (row.train_policy_agreement, row.held_out_policy_agreement) == (0.5, 0.5)
    assert (row.train_value_bias, row.held_out_value_bias) == (-0.125, 0.25)


def test_calibration_by_stage(database: Database, epoch: int) -> None:
    database.insert_train_metrics("test", 100, "train", FIGURES, epoch)
    plain = {"policy_loss": 1.0, "value_loss": 1.0}
    database.insert_train_metrics("test", 100, "held_out", plain, epoch)
    rows = query(
        database,
        "SELECT step, split, stage, positions, predicted::float8, actual::float8, "
        "squared_error::float8 FROM value_by_stage ORDER BY stage",
    )
    assert rows == [
        (100, "train", 1, 7, 0.5, 0.25, 0.125),
        (100, "train", 4, 9, -0.5, -1.0, 0.5),
    ]


def test_an_event_is_written_once(database: Database, epoch: int) -> None:
    database.insert_train_event("test", 30, "overfit_begins", "a gap of 0.3", epoch)
    newer = database.acquire_fence("test", "trainer")
    database.insert_train_event("test", 30, "overfit_begins", "said again", newer)
    database.insert_train_event("test", 70, "overfit_ends", "a gap of 0.1", newer)
    events = database.train_events("test")
    assert [(event.step, event.event, event.detail) for event in events] == [
        (30, "overfit_begins", "a gap of 0.3"),
        (70, "overfit_ends", "a gap of 0.1"),
    ]
    assert database.train_events("other") == []


def test_a_trainer_that_was_replaced_writes_no_event(database: Database, epoch: int) -> None:
    database.acquire_fence("test", "trainer")
    with pytest.raises(StaleEpochError):
        database.insert_train_event("test", 30, "overfit_begins", "", epoch)


def test_events_stay_as_they_are(database: Database, epoch: int, database_url: str) -> None:
    database.insert_train_event("test", 30, "overfit_begins", "", epoch)
    connection = psycopg2.connect(database_url)
    for statement in ("UPDATE train_events SET step = 1", "DELETE FROM train_events"):
        with connection.cursor() as cursor, pytest.raises(errors.InsufficientPrivilege):
            cursor.execute(statement)
        connection.rollback()
    connection.close()


def test_who_may_write_and_who_may_look(
    database: Database, epoch: int, role_url: Callable[[str], str]
) -> None:
    with Database(role_url("trainer")) as trainer:
        trainer.insert_train_event("test", 30, "overfit_begins", "", epoch)
        trainer.insert_train_metrics("test", 30, "train", FIGURES, epoch)
    with Database(role_url("console")) as console:
        assert len(query(console, "SELECT * FROM training_curve")) == 1
        assert len(query(console, "SELECT * FROM value_by_stage")) == 2
        assert len(console.train_events("test")) == 1
    with Database(role_url("worker")) as worker, pytest.raises(ConfigError):
        worker.train_events("test")


def test_every_column_of_the_metrics_explains_itself(database: Database) -> None:
    silent = query(
        database,
        "SELECT c.table_name, c.column_name FROM information_schema.columns AS c "
        "WHERE c.table_name = 'train_metrics' "
        "AND col_description('train_metrics'::regclass, c.ordinal_position) IS NULL",
    )
    assert silent == []
    undescribed = query(
        database,
        "SELECT relname FROM pg_class WHERE relname IN "
        "('train_events', 'training_curve', 'value_by_stage') "
        "AND obj_description(oid) IS NULL",
    )
    assert undescribed == []
