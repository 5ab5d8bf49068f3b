"""Variants of models as rows, which are stored with their model and never change."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg2
import pytest
from psycopg2 import errors

from tests.support.random_records import random_record
from zerofleet.database import Database, MatchGame, Variant
from zerofleet.errors import ConfigError, StaleEpochError

INT8 = Variant("int8", f"{8:064x}", f"blobs/{8:064x}.onnx", 4e-5, 0.003)
FP16 = Variant("fp16", policy_kl=0.5, value_difference=0.25, reason="policy_kl 0.5 is above 0.001")
DEAD = Variant("fp16", reason="the tool ended with status -11")


def named(variant: Variant, number: int) -> Variant:
    return replace(variant, sha256=f"{number:064x}")


@pytest.fixture
def trainer(database: Database) -> int:
    """The trainer's epoch, with a model that has variants and one that has none."""
    epoch = database.acquire_fence("test", "trainer")
    database.insert_model("test", 1, f"{1:064x}", 10, {}, "m", epoch, [INT8, FP16])
    database.insert_model("test", 2, f"{2:064x}", 20, {}, "m", epoch)
    return epoch


def query(database: Database, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in database._rows(statement)]


def test_variants_come_back_by_precision(database: Database, trainer: int) -> None:
    fp16, int8 = database.variants("test", 1)
    assert (int8.precision, int8.sha256, int8.location) == ("int8", INT8.sha256, INT8.location)
    assert (int8.policy_kl, int8.value_difference) == (4e-5, 0.003)
    assert (int8.accepted, int8.reason) == (True, "")
    assert (fp16.sha256, fp16.location, fp16.accepted) == (None, None, False)
    assert (fp16.policy_kl, fp16.reason) == (0.5, FP16.reason)
    assert database.variants("test", 2) == []
    assert database.variants("other", 1) == []
    database.insert_model("test", 3, f"{3:064x}", 30, {}, "m", trainer, [DEAD])
    [dead] = database.variants("test", 3)
    assert (dead.policy_kl, dead.value_difference, dead.reason) == (None, None, DEAD.reason)


def test_the_summary_has_the_refused_ones_of_the_best_model(
    database: Database, trainer: int
) -> None:
    del trainer
    assert database.summary("test").refused_variants is None  # there is no best model yet
    evaluator = database.acquire_fence("test", "evaluator")
    database.promote("test", 1, None, "e", 0, epoch=evaluator)
    assert database.summary("test").refused_variants == f"fp16: {FP16.reason}"
    database.promote("test", 2, None, "e", 1, epoch=evaluator)
    assert database.summary("test").refused_variants is None


def test_a_repeated_publication_writes_nothing_more(database: Database, trainer: int) -> None:
    before = database.variants("test", 1)
    for variants in ([INT8, FP16], [named(INT8, 9), FP16], []):
        database.insert_model("test", 1, f"{1:064x}", 10, {}, "m", trainer, variants)
    assert database.variants("test", 1) == before


def test_model_and_variants_are_one_transaction(database: Database, trainer: int) -> None:
    """If the tables refuse a variant, the model's row is not stored either."""
    nameless = replace(INT8, sha256=None)
    taken = replace(INT8, precision="fp16")  # another model's file
    for variants in ([nameless], [FP16, taken], [named(INT8, 9), named(INT8, 10)]):
        with pytest.raises(StaleEpochError, match="cannot be published"):
            database.insert_model("test", 3, f"{3:064x}", 30, {}, "m", trainer, variants)
    assert database.model("test", 3) is None
    assert query(database, "SELECT count(*) FROM model_variants") == [(2,)]


def test_a_trainer_that_was_replaced_publishes_none(database: Database, trainer: int) -> None:
    database.acquire_fence("test", "trainer")
    with pytest.raises(StaleEpochError):
        database.insert_model("test", 3, f"{3:064x}", 30, {}, "m", trainer, [named(INT8, 9)])
    assert database.variants("test", 3) == []


def test_which_files_are_known(database: Database, trainer: int) -> None:
    assert trainer
    assert database.names_file("test", f"{1:064x}")
    assert database.names_file("test", f"{8:064x}")
    assert not database.names_file("test", f"{9:064x}")
    assert not database.names_file("other", f"{8:064x}")


def test_rows_stay_as_they_are(trainer: int, database_url: str) -> None:
    assert trainer
    connection = psycopg2.connect(database_url)
    for statement in ("UPDATE model_variants SET accepted = false", "DELETE FROM model_variants"):
        with connection.cursor() as cursor, pytest.raises(errors.InsufficientPrivilege):
            cursor.execute(statement)
        connection.rollback()
    connection.close()


def test_a_person_sees_figures_and_trial_side_by_side(database: Database, trainer: int) -> None:
    assert trainer
    epoch = database.acquire_fence("test", "evaluator")
    match = database.open_match(
        "test", "trial", "1/int8", "1/fp32", games=4, num_simulations=8, seed=1, epoch=epoch
    )
    games = [MatchGame(0, color, random_record(color)) for color in (0, 1)]
    database.record_match_games("test", "e", match.match_id, games, epoch=epoch)
    score = database.match_score(match.match_id)
    rows = query(
        database,
        "SELECT model, step, precision, accepted, policy_kl, reason, games, "
        "score_percent::float8 FROM variant_history ORDER BY precision",
    )
    assert rows == [
        (1, 10, "fp16", False, 0.5, FP16.reason, None, None),
        (1, 10, "int8", True, 4e-5, "", 2, 100 * score.score),
    ]


def test_who_may_write_and_who_may_look(database: Database, role_url: Callable[[str], str]) -> None:
    with Database(role_url("trainer")) as trainer:
        epoch = trainer.acquire_fence("test", "trainer")
        trainer.insert_model("test", 1, f"{1:064x}", 10, {}, "m", epoch, [INT8])
        assert trainer.names_file("test", f"{8:064x}")
    with Database(role_url("worker")) as inference:
        assert len(inference.variants("test", 1)) == 1
        with pytest.raises(ConfigError, match="permission denied"):
            inference.matches("test", "trial")
    with Database(role_url("console")) as console:
        assert len(query(console, "SELECT * FROM variant_history")) == 1


def test_every_table_and_column_that_is_not_plain_explains_itself(database: Database) -> None:
    undescribed = query(
        database,
        "SELECT relname FROM pg_class WHERE relname IN "
        "('model_variants', 'variant_history') "
        "AND obj_description(oid) IS NULL",
    )
    assert undescribed == []
    silent = query(
        database,
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'model_variants' "
        "AND column_name NOT IN ('run', 'version', 'created_at') "
        "AND col_description('model_variants'::regclass, ordinal_position) IS NULL",
    )
    assert silent == []
