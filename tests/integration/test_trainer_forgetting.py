"""The trainer's part of forgetting: real rows, real files, a run file's settings."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg2
import pytest

from services.inference.stored_models import StoredModels
from services.trainer.forgetting import (
    EVERY_SECONDS,
    GRACE,
    REMOVED_AT_ONCE,
    RETRY_SECONDS,
    Forgetting,
)
from zerofleet.best_pointer import BestPointer
from zerofleet.config import RunConfig, run_from_values
from zerofleet.database import Database
from zerofleet.errors import ModelNotFoundError, StaleEpochError
from zerofleet.games import spec
from zerofleet.models.folder import ModelFolder
from zerofleet.models.variant import Variant

SHAPE = spec("tic_tac_toe")


def a_run(**settings: object) -> RunConfig:
    return run_from_values({
        "name": "test",
        "game": {"name": "tic_tac_toe"},
        "retention": {"models_newest": 2, "models_every": 0, **settings},
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
        assert published.folder.read_verified(source.sha256(2)) == b"fp32 2"
        with pytest.raises(
            ModelNotFoundError, match=r"version 3 is not kept any more: .*\[retention\]"
        ):
            source.sha256(3)
        with pytest.raises(ModelNotFoundError, match="has no version 6"):
            source.sha256(6)


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
    with Database(role_url("trainer")) as trainer:
        kept = Forgetting(a_run(partition_hours=48), trainer, published.folder, published.epoch)
        kept.carry_out()
    connection = psycopg2.connect(role_url("console"))
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(
            "SELECT max(until) > now() + interval '4 days', max(until - since) = '48 hours' "
            "FROM position_partitions"
        )
        assert cursor.fetchall() == [(True, True)]
        cursor.execute("SELECT run, since = '-infinity', epoch FROM position_needs")
        assert cursor.fetchall() == [("test", True, published.epoch)]


def test_a_trainer_that_was_replaced_forgets_nothing(published: Published) -> None:
    published.publish(1, 2, 3)
    kept = published.retention(a_run())
    published.database.acquire_fence("test", "trainer")
    with pytest.raises(StaleEpochError):
        kept.carry_out()
    assert len(published.database.models("test")) == 3


def test_training_goes_on_where_forgetting_fails(published: Published) -> None:
    with Database("postgresql://nobody@127.0.0.1:1/nothing") as away:
        kept = Forgetting(a_run(), away, published.folder, published.epoch)
        kept.carry_out(now=0.0)
    assert not kept.due(EVERY_SECONDS - 1)
    assert kept.due(EVERY_SECONDS)
