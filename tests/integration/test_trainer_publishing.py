"""When a model is due, what it is checked with, and what a replaced trainer leaves behind."""

from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch

from zerofleet.config import NetworkSection
from zerofleet.database import Database
from zerofleet.errors import IncompatibleModelError, StaleEpochError
from zerofleet.games import spec
from zerofleet.learning import make_network
from zerofleet.learning.export import GOLDEN_POSITIONS, golden_observations
from zerofleet.models.folder import ModelFolder
from zerofleet.models.session import ModelSession
from zerofleet.models.variant import Bounds, Positions, VariantRequest
from zerofleet.network import Network
from zerofleet.services.trainer import publishing
from zerofleet.services.trainer.checkpoints import CheckpointFolder, TrainerStores
from zerofleet.services.trainer.publishing import Publisher
from zerofleet.waiting import StoppedError, Waits

SPEC = spec("tic_tac_toe")


def a_publisher(folder: Path, database: Database, epoch: int) -> Publisher:
    stores = TrainerStores(
        database,
        ModelFolder(folder, "test"),
        CheckpointFolder(folder / "checkpoints"),
        Waits(),
        Event(),
        lambda: None,
    )
    return Publisher("test", SPEC, stores, epoch, 10, database.models("test"))


@pytest.fixture
def epoch(database: Database) -> int:
    return database.acquire_fence("test", "trainer")


def publish(publisher: Publisher, network: Network, step: int, metrics: dict[str, float]) -> None:
    publisher.begin(network, step, metrics)
    publisher.finish()


def a_network(seed: int = 1) -> Network:
    return make_network(SPEC, NetworkSection(blocks=1, channels=8), seed)


def test_a_model_is_due_at_once_and_then_at_each_interval(
    tmp_path: Path, database: Database, epoch: int
) -> None:
    publisher = a_publisher(tmp_path, database, epoch)
    assert publisher.due(0)
    publish(publisher, a_network(), 0, {})
    assert [publisher.due(step) for step in (0, 9, 10, 11, 20)] == [False, False, True, True, True]
    publish(publisher, a_network(2), 11, {"train_policy_loss": 2.0})
    assert [publisher.due(step) for step in (11, 19, 20)] == [False, False, True]
    publisher.pass_over(20)
    assert not publisher.due(29)
    assert publisher.due(30)
    assert [(row.version, row.step) for row in database.models("test")] == [(1, 0), (2, 11)]
    assert database.models("test")[1].metrics == {"train_policy_loss": 2.0}


def test_a_restarted_publisher_knows_what_was_published(
    tmp_path: Path, database: Database, epoch: int
) -> None:
    publish(a_publisher(tmp_path, database, epoch), a_network(), 30, {})
    again = a_publisher(tmp_path, database, epoch)
    assert not again.due(20)  # the checkpoint may be older than the newest model
    assert not again.due(30)
    assert again.due(40)
    publish(again, a_network(2), 40, {})
    assert [row.version for row in database.models("test")] == [1, 2]


def test_equal_weights_of_two_versions_are_two_files(
    tmp_path: Path, database: Database, epoch: int
) -> None:
    publisher = a_publisher(tmp_path, database, epoch)
    network = a_network()
    publish(publisher, network, 0, {})
    publish(publisher, network, 10, {})
    assert database.models("test")[0].sha256 != database.models("test")[1].sha256
    folder = ModelFolder(tmp_path, "test")
    for row in database.models("test"):
        ModelSession(folder.read_verified(row.sha256), SPEC)


def test_a_network_that_cannot_be_used_is_not_published(
    tmp_path: Path, database: Database, epoch: int
) -> None:
    publisher = a_publisher(tmp_path, database, epoch)
    network = a_network()
    for parameter in network.policy_head.parameters():
        parameter.data.mul_(1e6)  # logits beyond float16
    with pytest.raises(IncompatibleModelError):
        publish(publisher, network, 0, {})
    assert database.models("test") == []
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
    publish(publisher, a_network(), 1, {})
    assert [row.version for row in database.models("test")] == [1]


def assert_the_entry_is_that_of_the_row(folder: Path, database: Database) -> None:
    entry = folder / "test" / "1" / "model.onnx"
    assert entry.read_bytes() == ModelFolder(folder, "test").read_verified(
        database.models("test")[0].sha256
    )


def test_a_replaced_trainer_leaves_its_successors_entry_in_place(
    tmp_path: Path, database: Database, epoch: int
) -> None:
    replaced = a_publisher(tmp_path, database, epoch)
    successor = a_publisher(tmp_path, database, database.acquire_fence("test", "trainer"))
    publish(successor, a_network(1), 0, {})
    with pytest.raises(StaleEpochError):
        publish(replaced, a_network(2), 0, {})
    assert_the_entry_is_that_of_the_row(tmp_path, database)


def test_a_model_is_made_while_its_network_trains_on(
    tmp_path: Path, database: Database, epoch: int
) -> None:
    publisher, network = a_publisher(tmp_path, database, epoch), a_network()
    publisher.begin(network, 0, {})
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(torch.nan)
    assert publisher.is_busy
    assert not publisher.due(9)
    assert publisher.due(10)
    assert publisher.version == 0
    published = publisher.finish()
    assert not publisher.is_busy
    assert not publisher.is_ready
    [model] = database.models("test")
    assert (model.version, model.step, model.sha256) == (1, 0, published.sha256)
    content = ModelFolder(tmp_path, "test").read_verified(model.sha256)
    assert np.isfinite(ModelSession(content, SPEC).run(np.zeros((1, 4), np.uint8))[1]).all()


def test_after_an_error_of_the_disk_the_same_model_is_made_again(
    tmp_path: Path, database: Database, epoch: int
) -> None:
    publisher = a_publisher(tmp_path, database, epoch)
    (tmp_path / "blobs").write_text("no folder")
    publisher.begin(a_network(), 0, {})
    with pytest.raises(OSError, match="blobs"):
        publisher.finish()
    assert publisher.is_busy
    (tmp_path / "blobs").unlink()
    publisher.finish()
    assert [row.version for row in database.models("test")] == [1]


def test_a_stop_gives_up_the_variant_that_is_being_made(
    tmp_path: Path, database: Database, epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = a_publisher(tmp_path, database, epoch)
    publisher._stores.stop.set()
    drawn = np.zeros((1, SPEC.observation_bytes), np.uint8)
    wanted = VariantRequest(("int8",), Positions(drawn, drawn), Bounds(1.0, 1.0))
    # As the real one does after a second.
    monkeypatch.setattr(publishing, "publish", lambda *_, wanted, waiting: waiting("int8"))  # pyright: ignore
    publisher.begin(a_network(), 0, {}, wanted)
    with pytest.raises(StoppedError):
        publisher.finish()
    assert publisher.is_busy  # it is still due from its own step
    publisher.close()
    publisher.close()
    assert database.models("test") == []


def test_a_replaced_trainer_that_ends_leaves_its_successors_entry_in_place(
    tmp_path: Path, database: Database, epoch: int
) -> None:
    replaced = a_publisher(tmp_path, database, epoch)
    successor = a_publisher(tmp_path, database, database.acquire_fence("test", "trainer"))
    publish(successor, a_network(1), 0, {})
    replaced.begin(a_network(2), 0, {})
    replaced.close()
    assert_the_entry_is_that_of_the_row(tmp_path, database)


@pytest.mark.parametrize("game", ["connect_four", "tic_tac_toe"])
def test_golden_positions_are_played_and_random(game: str) -> None:
    observations = golden_observations(spec(game))
    assert observations.shape == (2 * GOLDEN_POSITIONS, spec(game).observation_bytes)
    np.testing.assert_array_equal(observations, golden_observations(spec(game)))
    assert len(np.unique(observations[:GOLDEN_POSITIONS], axis=0)) > GOLDEN_POSITIONS // 3
