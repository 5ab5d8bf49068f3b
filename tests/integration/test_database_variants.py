"""Variants of models as rows: written with their model, never changed, judged by matches."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg2
import pytest
from psycopg2 import errors

from zerofleet.database import Database, MatchGame, MatchScore, Pair, VariantVerdict
from zerofleet.errors import ConfigError, RecordRejectedError, StaleEpochError
from zerofleet.models.variant import Variant
from zerofleet.records import GameRecord
from zerofleet.testing.records import changed, random_record

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


@pytest.fixture
def evaluator(database: Database, trainer: int) -> int:
    assert trainer
    return database.acquire_fence("test", "evaluator")


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


def test_a_repeated_publication_writes_nothing_more(database: Database, trainer: int) -> None:
    before = database.variants("test", 1)
    for variants in ([INT8, FP16], [named(INT8, 9), FP16], []):
        database.insert_model("test", 1, f"{1:064x}", 10, {}, "m", trainer, variants)
    assert database.variants("test", 1) == before


def test_model_and_variants_are_one_transaction(database: Database, trainer: int) -> None:
    """A variant that the tables refuse takes the model's row with it."""
    nameless = replace(INT8, sha256=None)
    taken = replace(INT8, precision="fp16")  # the file of another model
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


def a_match() -> list[MatchGame]:
    """Two openings, both colours, four different games."""
    places = [(opening, color) for opening in (0, 1) for color in (0, 1)]
    return [MatchGame(*place, random_record(seed)) for seed, place in enumerate(places)]


def record(database: Database, games: list[MatchGame], epoch: int) -> None:
    database.record_variant_games("test", "e", 1, "int8", games, epoch=epoch)


def points(record: GameRecord, color: int) -> float:
    assert record.result is not None
    return (1 + (record.result if color == 0 else -record.result)) / 2


def test_games_of_a_match_become_pairs(database: Database, evaluator: int) -> None:
    games = a_match()
    record(database, games[:3], evaluator)
    assert database.variant_places("test", 1, "int8") == {(0, 0), (0, 1), (1, 0)}
    scores = [points(game.record, game.candidate_color) for game in games]
    assert database.variant_pairs("test", 1, "int8") == [Pair(0, (scores[0], scores[1]), False)]
    record(database, games, evaluator)  # again, with what was missing
    first, second = database.variant_pairs("test", 1, "int8")
    assert (first.scores, second.scores) == ((scores[0], scores[1]), (scores[2], scores[3]))
    kinds = query(database, "SELECT kind, count(*) FROM games GROUP BY kind")
    assert kinds == [("match", 4)]
    assert database.variant_places("test", 1, "fp16") == set()


def test_a_place_keeps_its_first_game(database: Database, evaluator: int) -> None:
    record(database, [MatchGame(0, 0, random_record(1))], evaluator)
    record(database, [MatchGame(0, 0, random_record(2))], evaluator)
    [(uid,)] = query(database, "SELECT game_uid::text FROM variant_games")
    assert uid == str(random_record(1).game_uid)


def test_a_game_that_repeats_another_is_told(database: Database, evaluator: int) -> None:
    games = a_match()
    again = [
        replace(game, record=replace(first.record, game_uid=game.record.game_uid))
        for first, game in zip(games[:2], games[2:], strict=True)
    ]
    record(database, [*games[:2], *again], evaluator)
    pairs = database.variant_pairs("test", 1, "int8")
    assert [pair.repeated for pair in pairs] == [False, True]


def test_these_games_rate_nobody(database: Database, evaluator: int) -> None:
    record(database, a_match(), evaluator)
    assert database.player_results("test") == []


def test_a_game_that_contradicts_itself_is_not_stored(database: Database, evaluator: int) -> None:
    bad = changed(random_record(1), reason="boredom")
    with pytest.raises(RecordRejectedError, match="reason"):
        record(database, [MatchGame(0, 0, bad)], evaluator)
    assert database.variant_places("test", 1, "int8") == set()


def decide(
    database: Database, version: int, precision: str, *, accepted: bool, epoch: int
) -> VariantVerdict:
    score = MatchScore(wins=10, draws=4, losses=6)
    return database.decide_variant(
        "test", version, precision, score, (0.4, 0.8), accepted=accepted, epoch=epoch
    )


def test_the_newest_verdict_on_a_precision_holds(
    database: Database, trainer: int, evaluator: int
) -> None:
    assert database.variant_verdict("test", "int8") is None
    first = decide(database, 1, "int8", accepted=False, epoch=evaluator)
    assert (first.games, first.wins, first.draws, first.losses) == (20, 10, 4, 6)
    assert (first.score, first.low, first.high) == (0.6, 0.4, 0.8)
    assert database.variant_verdict("test", "int8") == first
    assert database.variant_verdict("test", "fp16") is None
    assert database.variant_verdict("other", "int8") is None
    database.insert_model("test", 3, f"{3:064x}", 30, {}, "m", trainer, [named(INT8, 9)])
    second = decide(database, 3, "int8", accepted=True, epoch=evaluator)
    assert second.seq > first.seq
    assert database.variant_verdict("test", "int8") == second
    assert database.variant_verdicts("test") == [first, second]


def test_a_match_that_is_decided_stays_so(database: Database, evaluator: int) -> None:
    first = decide(database, 1, "int8", accepted=True, epoch=evaluator)
    assert decide(database, 1, "int8", accepted=True, epoch=evaluator) == first
    with pytest.raises(StaleEpochError, match="decided otherwise"):
        decide(database, 1, "int8", accepted=False, epoch=evaluator)
    assert database.variant_verdicts("test") == [first]


def test_an_evaluator_that_was_replaced_judges_nothing(database: Database, evaluator: int) -> None:
    database.acquire_fence("test", "evaluator")
    with pytest.raises(StaleEpochError):
        decide(database, 1, "int8", accepted=True, epoch=evaluator)
    with pytest.raises(StaleEpochError):
        record(database, a_match(), evaluator)
    assert database.variant_verdict("test", "int8") is None
    assert query(database, "SELECT count(*) FROM games") == [(0,)]


def test_rows_stay_as_they_are(database: Database, evaluator: int, database_url: str) -> None:
    decide(database, 1, "int8", accepted=True, epoch=evaluator)
    connection = psycopg2.connect(database_url)
    for table in ("model_variants", "variant_verdicts"):
        for statement in (f"UPDATE {table} SET accepted = false", f"DELETE FROM {table}"):
            with connection.cursor() as cursor, pytest.raises(errors.InsufficientPrivilege):
                cursor.execute(statement)
            connection.rollback()
    connection.close()


def test_a_person_sees_figures_and_verdict_side_by_side(database: Database, evaluator: int) -> None:
    decide(database, 1, "int8", accepted=True, epoch=evaluator)
    rows = query(
        database,
        "SELECT model, step, precision, accepted, policy_kl, reason, games, score_percent::float8, "
        "low_percent::float8, high_percent::float8, match_accepted "
        "FROM variant_history ORDER BY precision",
    )
    assert rows == [
        (1, 10, "fp16", False, 0.5, FP16.reason, None, None, None, None, None),
        (1, 10, "int8", True, 4e-5, "", 20, 60.0, 40.0, 80.0, True),
    ]


def test_who_may_write_and_who_may_look(database: Database, role_url: Callable[[str], str]) -> None:
    with Database(role_url("trainer")) as trainer:
        epoch = trainer.acquire_fence("test", "trainer")
        trainer.insert_model("test", 1, f"{1:064x}", 10, {}, "m", epoch, [INT8])
        assert trainer.names_file("test", f"{8:064x}")
        with pytest.raises(ConfigError, match="permission denied"):
            decide(trainer, 1, "int8", accepted=True, epoch=epoch)
    with Database(role_url("evaluator")) as evaluator:
        epoch = evaluator.acquire_fence("test", "evaluator")
        record(evaluator, a_match(), epoch)
        assert len(evaluator.variant_pairs("test", 1, "int8")) == 2
        verdict = decide(evaluator, 1, "int8", accepted=True, epoch=epoch)
    with Database(role_url("worker")) as inference:
        assert len(inference.variants("test", 1)) == 1
        assert inference.variant_verdict("test", "int8") == verdict
        with pytest.raises(ConfigError, match="permission denied"):
            inference.variant_places("test", 1, "int8")
    with Database(role_url("console")) as console:
        assert len(query(console, "SELECT * FROM variant_history")) == 1


def test_every_table_and_column_that_is_not_plain_explains_itself(database: Database) -> None:
    undescribed = query(
        database,
        "SELECT relname FROM pg_class WHERE relname IN "
        "('model_variants', 'variant_games', 'variant_verdicts', 'variant_history') "
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
