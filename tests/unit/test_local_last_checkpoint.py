"""A checkpoint read without torch: it says which keys of a run file may not change."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from examples.domineering import Domineering
from zerofleet import games
from zerofleet.config import RunConfig, run_from_values
from zerofleet.config.fit import network_weights
from zerofleet.errors import ConfigError
from zerofleet.learning import make_network
from zerofleet.learning.learner import Learner
from zerofleet.local.start import LastCheckpoint
from zerofleet.services.trainer.checkpoints import CheckpointFolder, TrainerState

GAME = "go(size=5)"
SMALL = {"blocks": 3, "channels": 8, "value_hidden": 8}


def run(network: dict[str, Any], trainer: dict[str, Any] | None = None) -> RunConfig:
    values = {"name": "r", "preset": "plain", "game": GAME, "trainer": trainer or {}}
    return run_from_values({**values, "network": {**SMALL, **network}})


def checkpoint(folder: Path, trained: RunConfig) -> LastCheckpoint:
    """Write the checkpoint of the trainer of this run and read it back."""
    state = TrainerState(trained.name, trained.game.name, 1, 7, 0.0, 0, 99, 0, seconds=1.5)
    CheckpointFolder(folder).write(state, Learner(games.spec(GAME), trained).state(), 1)
    found = LastCheckpoint.read(folder)
    assert found is not None
    return found


ADAMW = {"optimizer": "adamw", "learning_rate": (0.002,)}


@pytest.mark.parametrize(
    ("network", "trainer"),
    [
        ({}, {}),
        ({"blocks": 0}, {"average_decay": 0.5}),
        ({"blocks": 1, "squeeze_excitation": True, "policy_channels": 3}, ADAMW),
        ({"global_pooling": True, "value_head": "outcome", "value_channels": 2}, {}),
        ({"global_pooling": True, "blocks": 1}, {"soft_policy_weight": 8.0}),
        ({"policy_head": "convolutional"}, {"optimizer": "muon", "learning_rate": (0.1,)}),
        ({"policy_head": "convolutional", "global_pooling": True}, {"final_planes_weight": 1.0}),
        ({"blocks": 2, "policy_head": "convolutional", "global_pooling": True}, {}),
        ({}, {"opponent_policy_weight": 0.1, "final_score_weight": 0.1}),
        ({"name": "attention"}, {"final_planes_weight": 1.0}),
        ({"name": "attention", "channels": 48, "global_pooling": True}, {"average_decay": 0.5}),
        ({"name": "attention", "policy_head": "convolutional"}, ADAMW),
    ],
)
def test_a_network_that_was_trained_is_recognized(
    network: dict[str, Any], trainer: dict[str, Any], tmp_path: Path
) -> None:
    trained = run(network, trainer)
    found = checkpoint(tmp_path, trained)
    assert (found.step, found.samples, found.seconds) == (7, 99, 1.5)
    found.check(trained, games.spec(GAME))


def test_a_checkpoint_of_1_0_has_no_seconds(tmp_path: Path) -> None:
    written = checkpoint(tmp_path, run({})).path
    manifest = json.loads(written.read_text())
    del manifest["state"]["seconds"]
    written.write_text(json.dumps(manifest))
    found = LastCheckpoint.read(tmp_path)
    assert found is not None
    assert (found.step, found.samples, found.seconds) == (7, 99, 0.0)


@pytest.mark.parametrize(
    ("network", "trainer", "words"),
    [
        ({"channels": 16}, {}, "network.channels = 16, but this run was trained with 8: keep"),
        ({"blocks": 2}, {}, "network.blocks = 2, but this run was trained with 3"),
        (
            {"policy_channels": 3},
            {},
            "network.policy_channels = 3, but this run was trained with 2",
        ),
        ({"value_channels": 2}, {}, "network.value_channels = 2, but this run was trained with 1"),
        ({"value_hidden": 9}, {}, "network.value_hidden = 9, but this run was trained with 8"),
        ({"value_head": "outcome"}, {}, "network.value_head = outcome, but"),
        ({"global_pooling": True}, {}, "network.global_pooling = true, but this run was trained w"),
        ({"squeeze_excitation": True}, {}, "network.squeeze_excitation = true, but this run was"),
        ({"policy_head": "convolutional"}, {}, "network.policy_head = convolutional, but this run"),
        ({}, {"soft_policy_weight": 8.0}, "trainer.soft_policy_weight = 8.0, but this run was tra"),
        ({}, {"final_score_weight": 8.0}, "trainer.final_score_weight = 8.0, but this run was tra"),
        ({}, ADAMW, "trainer.optimizer = adamw, but this run was trained with sgd or muon"),
    ],
)
def test_a_key_that_may_not_change_is_named(
    network: dict[str, Any], trainer: dict[str, Any], words: str, tmp_path: Path
) -> None:
    found = checkpoint(tmp_path, run({}))
    with pytest.raises(ConfigError) as refusal:
        found.check(run(network, trainer), games.spec(GAME))
    assert str(refusal.value).startswith(words)
    with pytest.raises(ConfigError, match="2 mistakes"):
        found.check(run({"channels": 5, "blocks": 9}), games.spec(GAME))


def test_another_run_and_other_planes(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, run({}))
    other = run_from_values({"name": "r", "game": "go(size=6)"})
    with pytest.raises(ConfigError, match=r"belongs to the run 'r' of go\(size=5\), not to"):
        found.check(other, games.spec("go(size=6)"))
    with pytest.raises(ConfigError, match="was trained on other input planes"):
        found.check(run({}), games.spec("go(size=5,observation=liberties)"))


@pytest.mark.parametrize("pools", [False, True])
def test_a_class_with_other_actions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, pools: bool
) -> None:
    """The planes are the same, so only the policy shows that the class has changed."""
    name = "python:examples.domineering:Domineering"
    network = {**SMALL, "policy_head": "dense", "global_pooling": pools}
    trained = run_from_values({"name": "r", "preset": "plain", "game": name, "network": network})
    state = TrainerState("r", name, 1, 7, 0.0, 0, 99, 0)
    CheckpointFolder(tmp_path).write(state, Learner(games.spec(name), trained).state(), 1)
    found = LastCheckpoint.read(tmp_path)
    assert found is not None
    found.check(trained, games.spec(name))

    class Passes(Domineering):
        num_actions = 61

        @classmethod
        def action_to_string(cls, action: int) -> str:
            return "pass" if action == 60 else super().action_to_string(action)

        @classmethod
        def symmetric_action(cls, action: int, symmetry: int) -> int:
            return action if action == 60 else super().symmetric_action(action, symmetry)

    module = ModuleType("games_with_a_pass")
    monkeypatch.setattr(module, "Passes", Passes, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    words = "was trained with 60 actions instead of 61: .* has changed; undo the change of the cl"
    with pytest.raises(ConfigError, match=words):
        found.check(trained, games.spec("python:games_with_a_pass:Passes"))


def test_damaged_checkpoints_are_passed_over(tmp_path: Path) -> None:
    assert LastCheckpoint.read(tmp_path / "nowhere") is None
    first = checkpoint(tmp_path, run({}))
    for content in ("{", "[]", "{}", first.path.read_text()):
        (tmp_path / "checkpoint-000002-0000000001.json").write_text(content)
        (tmp_path / "checkpoint-000002-0000000001.safetensors").write_bytes(b"12345678damaged")
        found = LastCheckpoint.read(tmp_path)
        assert found is not None
        assert found.path == first.path


@pytest.mark.parametrize("policy_head", ["dense", "convolutional"])
def test_the_weights_of_a_large_network_are_estimated(policy_head: str) -> None:
    spec = games.spec("go(size=9)")
    network = run({"blocks": 9, "channels": 96, "policy_head": policy_head}).network
    weights = sum(each.numel() for each in make_network(spec, network).parameters())
    assert network_weights(network, spec) == pytest.approx(weights, rel=0.02)


def test_a_network_of_ones_own_is_left_to_the_trainer(tmp_path: Path) -> None:
    own = {"name": "python:examples.networks:Perceptron", "width": 8}
    values = {"name": "r", "preset": "plain", "game": GAME}
    trained, other = (
        run_from_values({**values, "network": network}) for network in (own, {**own, "width": 9})
    )
    found = checkpoint(tmp_path, trained)
    found.check(trained, games.spec(GAME))
    found.check(other, games.spec(GAME))
    with pytest.raises(ConfigError, match=r"network.name = residual, but .* python:MODULE:CLASS"):
        found.check(run({}), games.spec(GAME))
    ours = checkpoint(tmp_path / "ours", run({}))
    with pytest.raises(ConfigError, match=r"network.name = python:.* trained with residual"):
        ours.check(trained, games.spec(GAME))
