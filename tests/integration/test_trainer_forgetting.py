"""The trainer's part of forgetting: real rows, real files, a run file's settings."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg2
import pytest

from tests.integration.kept_searches import DAY, NOW, ask, make_day, new_record
from zerofleet.best_pointer import BestPointer
from zerofleet.config import RetentionSection, RunConfig, run_from_values
from zerofleet.database import Database, Submission, TrainerDatabase, Variant
from zerofleet.errors import ModelNotFoundError, StaleEpochError
from zerofleet.fleet.disk import FULL_SHARE
from zerofleet.games import spec
from zerofleet.models.folder import ModelFolder
from zerofleet.prediction import FP32
from zerofleet.services.inference.served_models import StoredModels
from zerofleet.services.trainer.forgetting import (
    EVERY_SECONDS,
    GRACE,
    LIMIT_SECONDS,
    REMOVED_AT_ONCE,
    RETRY_SECONDS,
    Forgetting,
    HeldGames,
)

SHAPE = spec("tic_tac_toe")


@pytest.fixture(autouse=True)
def no_other_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetentionSection, "models_every", 0)


def a_run(**settings: object) -> RunConfig:
    return run_from_values({
        "name": "test",
        "game": {"name": "tic_tac_toe"},
        "retention": {"models_newest": 2, **settings},
    })  # fmt: skip


class Published:
    """A folder of models, each with an int8 variant, and their rows."""

    def __init__(self, database: Database, root: Path) -> None:
        self.database = database
        self.folder = ModelFolder(root, "test")
        self.epoch = database.acquire_fence("test", "trainer")

    def publish(self, *versions: int) -> None:
        for version in versions:
            fp32, int8 = (self._file(f"{kind} {version}") for kind in ("fp32", "int8"))
            self.folder.expose(fp32, version, SHAPE)
            variant = Variant(
                "int8",
                sha256=int8,
                location=self.folder.location(int8),
                policy_kl=0.0,
                value_difference=0.0,
            )
            location = self.folder.location(fp32)
            self.database.insert_model(
                "test", version, fp32, 0, {}, location, self.epoch, [variant]
            )

    def _file(self, content: str) -> str:
        staged = self.folder.stage(content.encode())
        self.folder.publish(staged)
        return staged.sha256

    def promote(self, *versions: int) -> None:
        evaluator = self.database.acquire_fence("test", "evaluator")
        for seq, version in enumerate(versions):
            self.database.promote("test", version, None, "e", seq, epoch=evaluator)

    def blobs(self) -> int:
        return len(list((self.folder.root / "blobs").iterdir()))

    def triton(self) -> list[int]:
        folders = (self.folder.root / "test").iterdir()
        return sorted(int(folder.name) for folder in folders if folder.is_dir())

    def retention(self, run: RunConfig, grace: timedelta = timedelta(0)) -> Forgetting:
        return Forgetting(run, self.database, self.folder, self.epoch, grace)


@pytest.fixture
def published(database: Database, tmp_path: Path) -> Published:
    return Published(database, tmp_path)


def test_files_of_old_models_go_with_their_variants_and_tritons_entries(
    published: Published, valkey_url: str
) -> None:
    published.publish(1, 2, 3, 4, 5)
    published.promote(2)
    published.retention(a_run()).carry_out()
    assert published.triton() == [2, 4, 5]
    assert published.blobs() == 6
    with closing(BestPointer(valkey_url, "test")) as pointer:
        source = StoredModels("test", published.database, pointer)
        assert source.versions() == [2, 4, 5]
        assert published.folder.read_verified(source.files(2)[FP32].sha256) == b"fp32 2"
        with pytest.raises(
            ModelNotFoundError, match=r"version 3 is not kept any more: .*\[retention\]"
        ):
            source.files(3)
        with pytest.raises(ModelNotFoundError, match="has no version 6"):
            source.files(6)


def test_files_stay_as_long_as_a_match_may_have_begun_with_them(published: Published) -> None:
    published.publish(1, 2, 3, 4)
    published.retention(a_run(), GRACE).carry_out()
    assert [row.version for row in published.database.models("test")] == [3, 4]
    assert published.triton() == [1, 2, 3, 4]
    published.promote(1)
    published.retention(a_run(), GRACE).carry_out()
    assert [row.version for row in published.database.models("test")] == [1, 3, 4]


def test_with_forget_off_every_file_stays(published: Published) -> None:
    published.publish(1, 2, 3, 4)
    published.retention(a_run(forget=False)).carry_out()
    assert published.triton() == [1, 2, 3, 4]
    assert len(published.database.models("test")) == 4


def test_a_store_that_is_away_is_tried_again(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    published.publish(1, 2, 3)
    kept = published.retention(a_run())

    def refuse(version: int, sha256s: object) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(published.folder, "remove", refuse)
        kept.carry_out(now=0.0)
    assert published.triton() == [1, 2, 3]
    assert not kept.due(EVERY_SECONDS - 1)
    assert kept.due(EVERY_SECONDS)
    kept.carry_out()
    assert published.triton() == [2, 3]


def test_a_new_trainer_removes_what_the_one_before_had_only_given_up(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    published.publish(1, 2, 3)
    with monkeypatch.context() as patched:
        patched.setattr(published.folder, "remove", lambda version, sha256s: None)
        published.retention(a_run()).carry_out()
    assert published.triton() == [1, 2, 3]
    published.retention(a_run()).carry_out()
    assert published.triton() == [2, 3]


def test_many_files_go_a_few_at_a_time(published: Published) -> None:
    published.publish(*range(1, REMOVED_AT_ONCE + 4))
    kept = published.retention(a_run())
    kept.carry_out(now=0.0)
    assert published.triton() == [REMOVED_AT_ONCE + 1, REMOVED_AT_ONCE + 2, REMOVED_AT_ONCE + 3]
    assert kept.due(RETRY_SECONDS)
    kept.carry_out(now=0.0)
    assert published.triton() == [REMOVED_AT_ONCE + 2, REMOVED_AT_ONCE + 3]
    assert not kept.due(RETRY_SECONDS)


def test_partitions_of_the_run_files_size_are_made_ahead(
    published: Published, role_url: Callable[[str], str]
) -> None:
    run = a_run(partition_hours=48)
    published.database.register_run(run)
    with TrainerDatabase(role_url("trainer")) as trainer:
        Forgetting(run, trainer, published.folder, published.epoch).carry_out()
    connection = psycopg2.connect(role_url("console"))
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(
            "SELECT max(until) > now() + interval '4 days', max(until - since) = '48 hours' "
            "FROM position_partitions"
        )
        assert cursor.fetchall() == [(True, True)]
        cursor.execute("SELECT run, since = '-infinity', limit_since, epoch FROM position_needs")
        assert cursor.fetchall() == [("test", True, None, published.epoch)]


class Filled:
    """A database with some megabytes of searches in a partition for each of ten days.

    The window holds the games of the newest two days.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        for ago in range(10, 0, -1):
            make_day(database, f"ago_{ago}", ago)
            record = new_record(NOW - ago * DAY)
            database.submit_games("test", "w", [Submission(record)])
            ask(
                database,
                f"UPDATE games SET ingested_at = '{NOW - ago * DAY}' "
                f"WHERE game_uid = '{record.game_uid}'",
            )
            ask(
                database,
                f"INSERT INTO ago_{ago} SELECT game_uid, 1000 + n, action, to_play, "
                "model_version, root_value, network_value, best_child_value, simulations, "
                "full_search, legal_actions, visit_counts, priors, policy_weights "
                f"FROM ago_{ago}, generate_series(1, 8000) AS n WHERE ply = 0",
            )
        [(read_tx,)] = ask(database, "SELECT max(tx::text::bigint) FROM games")
        self.held = HeldGames(2, read_tx)

    @property
    def days(self) -> list[int]:
        """Which have their searches still, as days before today."""
        rows = ask(self.database, "SELECT partition FROM position_partitions ORDER BY since")
        return [int(name[4:]) for (name,) in rows if name.startswith("ago_")]

    @property
    def bytes(self) -> int:
        return self.database.database_use().bytes


@pytest.fixture
def filled(database: Database) -> Filled:
    return Filled(database)


def limited(bytes_: float) -> RunConfig:
    return a_run(max_disk_gb=bytes_ / 1e9, searches_days=1000)


def test_at_the_disk_limit_the_oldest_searches_go_until_there_is_room(
    filled: Filled, published: Published
) -> None:
    one = filled.database.kept("test").bytes / 10
    before, games = filled.bytes, filled.database.count_games("test")
    limit = (before - 2.5 * one) / FULL_SHARE  # room for all but three days
    published.retention(limited(limit)).carry_out(filled.held)
    assert filled.days == [7, 6, 5, 4, 3, 2, 1]
    assert filled.bytes < FULL_SHARE * limit
    assert filled.database.count_games("test") == games
    assert filled.database.training_warnings("test") == []
    published.retention(limited(limit)).carry_out(filled.held)
    assert filled.days == [7, 6, 5, 4, 3, 2, 1]


def test_what_training_needs_stays_and_the_limit_is_said_to_be_passed(
    filled: Filled, published: Published, role_url: Callable[[str], str]
) -> None:
    with TrainerDatabase(role_url("trainer")) as trainer:
        kept = Forgetting(limited(1e6), trainer, published.folder, published.epoch)
        kept.carry_out(filled.held, now=0.0)
        assert filled.days == [2, 1]
        [warning] = trainer.training_warnings("test")
        assert warning.warning == "over the disk limit"
        assert "of retention.max_disk_gb = 0.001: " in warning.words
        assert warning.detail.endswith(" Raise the limit.")  # other data alone exceeds it
        assert kept.due(LIMIT_SECONDS)
        assert not kept.due(LIMIT_SECONDS - 1)
        kept.carry_out(filled.held)
        [again] = trainer.training_warnings("test")
        assert again.at == warning.at
        # A run that is started again with more room has kept to it.
        kept = Forgetting(limited(1e9), trainer, published.folder, published.epoch)
        kept.carry_out(filled.held, now=0.0)
        assert trainer.training_warnings("test") == []


def test_without_a_limit_or_with_forget_off_nothing_is_dropped_for_it(
    filled: Filled, published: Published
) -> None:
    for settings in ({}, {"max_disk_gb": 0}, {"max_disk_gb": 0.001, "forget": False}):
        run = a_run(**{"searches_days": 1000, **settings})
        published.retention(run).carry_out(filled.held)
        assert len(filled.days) == 10
        assert filled.database.training_warnings("test") == []


def test_files_of_the_data_folder_count_for_its_limit(
    filled: Filled, published: Published, tmp_path: Path
) -> None:
    run = limited(filled.bytes / FULL_SHARE + 5e6)
    in_folder = Forgetting(
        run, published.database, published.folder, published.epoch, folder=tmp_path
    )
    in_folder.carry_out(filled.held)
    assert len(filled.days) == 10
    (tmp_path / "models").mkdir(exist_ok=True)
    with (tmp_path / "models" / "large").open("wb") as file:
        file.truncate(6_000_000)
    in_folder.carry_out(filled.held)
    assert filled.days[0] < 10
    assert (tmp_path / "models" / "large").exists()


def test_a_reader_delays_the_disk_limit(
    filled: Filled, published: Published, database_url: str
) -> None:
    kept = published.retention(limited(1e6))
    with closing(psycopg2.connect(database_url)) as reader:
        reader.cursor().execute("SELECT count(*) FROM ago_10")
        kept.carry_out(filled.held, now=0.0)
        reader.rollback()  # a connection that is closed may end a moment later
    assert len(filled.days) == 10
    assert kept.due(RETRY_SECONDS)
    kept.carry_out(filled.held)
    assert filled.days == [2, 1]


def test_a_trainer_that_was_replaced_forgets_nothing(published: Published) -> None:
    published.publish(1, 2, 3)
    kept = published.retention(a_run())
    published.database.acquire_fence("test", "trainer")
    with pytest.raises(StaleEpochError):
        kept.carry_out()
    assert len(published.database.models("test")) == 3


def test_training_goes_on_where_forgetting_fails(published: Published) -> None:
    with TrainerDatabase("postgresql://nobody@127.0.0.1:1/nothing") as away:
        kept = Forgetting(a_run(), away, published.folder, published.epoch)
        kept.carry_out(now=0.0)
    assert not kept.due(EVERY_SECONDS - 1)
    assert kept.due(EVERY_SECONDS)
