"""The chain of promotions: it only grows, at one end, by one writer."""

import threading

import psycopg2
import pytest
from psycopg2 import errors

from zerofleet.database import Database, Promotion
from zerofleet.errors import ModelNotFoundError, StaleEpochError


@pytest.fixture
def epoch(database: Database) -> int:
    """The evaluator's epoch, with three models to promote."""
    trainer = database.acquire_fence("test", "trainer")
    for version in (1, 2, 3):
        database.insert_model("test", version, f"{version:064x}", 10 * version, {}, "m", trainer)
    return database.acquire_fence("test", "evaluator")


def test_a_chain_of_two(database: Database, epoch: int) -> None:
    assert database.promotion_head("test") is None
    first = database.promote("test", 1, None, "an evaluator", 0, epoch=epoch)
    assert first == Promotion(1, 1, f"{1:064x}")
    second = database.promote("test", 2, None, "an evaluator", 1, epoch=epoch)
    assert database.promotion_head("test") == second
    assert database.promotions("test") == [second, first]
    history = database.promotion_history("test")
    assert [row.promotion for row in history] == [second, first]
    assert {(row.match_id, row.actor) for row in history} == {(None, "an evaluator")}


def test_going_back_is_another_promotion(database: Database, epoch: int) -> None:
    for seq, version in enumerate((1, 2, 1)):
        database.promote("test", version, None, "a person", seq, epoch=epoch)
    assert [p.version for p in database.promotions("test")] == [1, 2, 1]


def test_who_promotes_with_the_present_epoch_leaves_the_evaluator_in_office(
    database: Database, epoch: int
) -> None:
    """As a rollback does: of two promotions on the same end the first wins, and that is all."""
    assert database.evaluator_epoch("other") == 0
    assert database.evaluator_epoch("test") == epoch
    database.promote("test", 1, None, "e", 0, epoch=epoch)
    database.promote("test", 2, None, "rollback", 1, epoch=database.evaluator_epoch("test"))
    with pytest.raises(StaleEpochError, match="does not end at 1"):
        database.promote("test", 3, None, "e", 1, epoch=epoch)
    database.promote("test", 3, None, "e", 2, epoch=epoch)


@pytest.mark.parametrize("expected_seq", [0, 2, 7])
def test_who_saw_another_end_is_refused(database: Database, epoch: int, expected_seq: int) -> None:
    database.promote("test", 1, None, "e", 0, epoch=epoch)
    with pytest.raises(StaleEpochError, match=f"does not end at {expected_seq}"):
        database.promote("test", 2, None, "e", expected_seq, epoch=epoch)
    assert len(database.promotions("test")) == 1


def test_a_model_that_does_not_exist(database: Database, epoch: int) -> None:
    with pytest.raises(ModelNotFoundError, match="the run test has no model 9"):
        database.promote("test", 9, None, "e", 0, epoch=epoch)


def test_of_writers_at_the_same_moment_one_wins(
    database: Database, database_url: str, epoch: int
) -> None:
    outcomes: list[Promotion | StaleEpochError] = []
    start = threading.Barrier(4)

    def promote(version: int) -> None:
        with Database(database_url) as own:
            start.wait()
            try:
                outcomes.append(own.promote("test", version, None, "e", 0, epoch=epoch))
            except StaleEpochError as error:
                outcomes.append(error)

    threads = [threading.Thread(target=promote, args=(1 + i % 3,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [winner] = [outcome for outcome in outcomes if isinstance(outcome, Promotion)]
    assert database.promotions("test") == [winner]


def test_a_former_holder_is_refused_by_the_database(database: Database, epoch: int) -> None:
    newer = database.acquire_fence("test", "evaluator")
    assert newer == epoch + 1
    with pytest.raises(StaleEpochError, match=f"taken over since epoch {epoch}"):
        database.promote("test", 1, None, "the former", 0, epoch=epoch)
    database.promote("test", 1, None, "the newer", 0, epoch=newer)


def test_a_former_trainer_publishes_nothing(database: Database, epoch: int) -> None:
    with pytest.raises(StaleEpochError):
        database.insert_model("test", 4, f"{4:064x}", 40, {}, "m", epoch + 1)
    newer = database.acquire_fence("test", "trainer")
    with pytest.raises(StaleEpochError):
        database.insert_model("test", 4, f"{4:064x}", 40, {}, "m", newer - 1)
    values = {"policy_loss": 1.0, "value_loss": 1.0}
    with pytest.raises(StaleEpochError):
        database.insert_train_metrics("test", 1, "train", values, newer - 1)
    # Its own row again, however, is no harm: the answer to the first try may have been lost.
    database.insert_model("test", 3, f"{3:064x}", 30, {}, "m", newer)
    with pytest.raises(StaleEpochError, match="cannot be published"):
        database.insert_model("test", 3, f"{9:064x}", 30, {}, "m", newer)
    assert [row.version for row in database.models("test")] == [1, 2, 3]


def test_a_takeover_waits_for_a_write_in_progress(
    database: Database, database_url: str, epoch: int
) -> None:
    taken: list[int] = []
    with Database(database_url) as other:
        with database._transaction() as connection:
            connection.exec_driver_sql(
                "INSERT INTO promotions (run, seq, version, actor, epoch) "
                f"VALUES ('test', 1, 1, 'e', {epoch})"
            )
            thread = threading.Thread(
                target=lambda: taken.append(other.acquire_fence("test", "evaluator"))
            )
            thread.start()
            thread.join(0.3)
            assert taken == []  # the fence is locked until the promotion is decided
        thread.join()
    assert taken == [epoch + 1]
    assert database.promotion_head("test") is not None


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE promotions SET version = 2",
        "DELETE FROM promotions",
        "TRUNCATE promotions",
        "INSERT INTO promotions (run, seq, prev_seq, version, actor, epoch) "
        "VALUES ('test', 3, 1, 2, 'x', {epoch})",
        "INSERT INTO promotions (run, seq, prev_seq, version, actor, epoch) "
        "VALUES ('test', 2, NULL, 2, 'x', {epoch})",
        "INSERT INTO promotions (run, seq, prev_seq, version, actor, epoch) "
        "VALUES ('test', 3, 2, 2, 'x', {epoch})",
    ],
)
def test_not_even_the_owner_rewrites_the_chain(
    database: Database, database_url: str, epoch: int, statement: str
) -> None:
    database.promote("test", 1, None, "e", 0, epoch=epoch)
    connection = psycopg2.connect(database_url)
    with (
        connection.cursor() as cursor,
        pytest.raises((errors.InsufficientPrivilege, errors.IntegrityError)),
    ):
        cursor.execute(statement.format(epoch=epoch))
    connection.close()
