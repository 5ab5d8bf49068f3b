"""The trained models of the package: complete, playable at once, and a start for new runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.numpy import load
from safetensors.torch import save as save_tensors

from zerofleet import games
from zerofleet.config import INITIAL_WEIGHTS, Overrides, RunConfig, load_run, run_from_values
from zerofleet.errors import ConfigError
from zerofleet.learning.learner import Learner
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.trained_models import StartingWeights, published_weights, trained_models
from zerofleet.models.graph import check_graph
from zerofleet.models.session import ModelSession
from zerofleet.services.trainer.checkpoints import CheckpointFolder, TrainerState

MODELS = trained_models()
MOST_BYTES = 1_500_000
TIC_TAC_TOE = run_from_values({
    "name": "mine", "game": "tic_tac_toe", "network": {"blocks": 2, "channels": 32},
})  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_trained_model_is_complete(name: str) -> None:
    model = MODELS[name]
    run = load_run(model.run_file, Overrides())
    about = model.about()
    assert run.name == name
    assert about["game"] == run.game.name
    assert about.keys() >= {"seed", "zerofleet", "revision", "licence", "steps", "exam"}
    assert all(path.stat().st_size < MOST_BYTES for path in model.folder.iterdir())
    spec = games.spec(run.game.name)
    content = (model.folder / "model.onnx").read_bytes()
    check_graph(content)
    ModelSession(content, spec)
    StartingWeights.find(name).check(run, spec)


def test_the_weights_are_those_of_the_model() -> None:
    run = load_run(MODELS["tictactoe"].run_file, Overrides())
    spec = games.spec(run.game.name)
    learner = Learner(spec, run)
    weights = load(MODELS["tictactoe"].weights.read_bytes())
    learner.start_from({name: torch.from_numpy(each) for name, each in weights.items()})
    observation = torch.zeros((1, spec.observation_bytes), dtype=torch.uint8)
    with torch.no_grad():
        policy, value = learner.network.eval().predict(observation)
    session = ModelSession((MODELS["tictactoe"].folder / "model.onnx").read_bytes(), spec)
    exported = session.run(observation.numpy())
    assert exported[0] == pytest.approx(policy.numpy(), abs=1e-2)
    assert exported[1] == pytest.approx(value.numpy(), abs=1e-4)


def test_weights_of_another_game_or_network_are_refused() -> None:
    weights = StartingWeights.find("tictactoe")
    other = run_from_values({"name": "mine", "game": "connect_four"})
    with pytest.raises(ConfigError, match="is a model of tic_tac_toe, and the run plays connect_"):
        weights.check(other, games.spec("connect_four"))
    larger = run_from_values({"name": "mine", "game": "tic_tac_toe"})
    with pytest.raises(ConfigError, match=r"network.blocks = 4, but the model of --from tictactoe"):
        weights.check(larger, games.spec("tic_tac_toe"))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("no_such_model", r"give a trained model \(.*tictactoe.*\) or the data folder"),
        (str(Path(__file__).parent), "is not a data folder"),
    ],
)
def test_a_source_that_is_none_is_refused(source: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        StartingWeights.find(source)


def a_data_folder(root: Path, run: RunConfig, learner: Learner | None = None) -> DataFolder:
    folder = DataFolder.for_run(root, run)
    if learner is not None:
        state = TrainerState(run.name, run.game.name, run.seed, 5, 0.0, 0, 0, 0)
        CheckpointFolder(folder.checkpoints / run.name).write(state, learner.state(), 1)
    return folder


def test_a_run_starts_from_the_checkpoint_of_another(tmp_path: Path) -> None:
    learner = Learner(games.spec("tic_tac_toe"), TIC_TAC_TOE)
    a_data_folder(tmp_path / "one", TIC_TAC_TOE, learner)
    weights = StartingWeights.find(str(tmp_path / "one"))
    weights.check(TIC_TAC_TOE, games.spec("tic_tac_toe"))
    fresh = a_data_folder(tmp_path / "two", TIC_TAC_TOE)
    weights.keep(fresh)
    weights.keep(fresh)  # the same command again
    kept = (fresh.checkpoints / "mine" / INITIAL_WEIGHTS).read_bytes()
    average = learner.published.state_dict()
    assert all((load(kept)[f"network.{name}"] == average[name].numpy()).all() for name in average)


def test_a_run_without_a_checkpoint_is_no_start(tmp_path: Path) -> None:
    a_data_folder(tmp_path, TIC_TAC_TOE)
    with pytest.raises(ConfigError, match="has no checkpoint yet"):
        StartingWeights.find(str(tmp_path))


def test_a_run_that_has_begun_keeps_its_weights(tmp_path: Path) -> None:
    learner = Learner(games.spec("tic_tac_toe"), TIC_TAC_TOE)
    folder = a_data_folder(tmp_path, TIC_TAC_TOE, learner)
    with pytest.raises(ConfigError, match="has begun with other weights"):
        StartingWeights.find("tictactoe").keep(folder)


def test_without_an_average_the_network_itself_is_published() -> None:
    plain = run_from_values({"name": "mine", "game": "tic_tac_toe", "preset": "plain"})
    learner = Learner(games.spec("tic_tac_toe"), plain)
    published = load(published_weights(save_tensors(learner.state())))
    assert published.keys() == {f"network.{name}" for name in learner.network.state_dict()}


@pytest.fixture
def cache(store_folder: Path, tmp_path: Path) -> Iterator[Path]:
    """A cache that Postgres' user may enter."""
    folder = store_folder / f"cache-{tmp_path.name}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def play(name: str, typed: str, cache: Path, here: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zerofleet.cli", "play", name],
        input=typed,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=here,
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
    )


@pytest.mark.slow
def test_a_trained_model_plays_without_a_run(cache: Path, tmp_path: Path) -> None:
    for _ in range(2):  # the second time its data folder exists
        game = play("tictactoe", "b2\nquit\n", cache, tmp_path)
        assert game.returncode == 0, game.stderr
        assert "model 1 plays" in game.stdout
        assert "using the trained model that comes with zerofleet" in game.stderr
    assert len(list((cache / "zerofleet").iterdir())) == 1


def test_an_unknown_name_lists_the_models_and_the_runs(cache: Path, tmp_path: Path) -> None:
    a_data_folder(tmp_path / "zerofleet-data" / "mine", TIC_TAC_TOE)
    game = play("no_such_name", "", cache, tmp_path)
    assert game.returncode != 0
    assert "no trained model 'no_such_name'" in game.stderr
    assert ", ".join(MODELS) in game.stderr
    assert "runs in zerofleet-data/: mine" in game.stderr
