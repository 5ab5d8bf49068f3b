"""Trained models that come with zerofleet, and the data folders in which they are served.

``zerofleet/trained/NAME`` holds ``model.onnx``, ``weights.safetensors`` with the same weights for
the trainer, ``run.toml``, and ``model.toml``, which says how the model was made and how it did in
its exam. ``scripts/trained_model.py`` writes such a folder from a run.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from zerofleet_core import GameSpec

from zerofleet import games
from zerofleet.config import INITIAL_WEIGHTS, Overrides, RunConfig, load_run
from zerofleet.database import Database, migrate
from zerofleet.errors import ConfigError
from zerofleet.local.data_folder import DataFolder, full_disk_named
from zerofleet.local.start import (
    OWN,
    LastCheckpoint,
    Start,
    input_planes,
    network_keys,
    tensor_shapes,
    toml_text,
)
from zerofleet.local.stores import Stores
from zerofleet.models.folder import ModelFolder

MODELS = Path(__file__).parents[1] / "trained"
"""The folder of the trained models."""

_ACTOR = "zerofleet"
_READY = "served.toml"
"""File of a data folder whose model is complete: a copy of ``model.toml``."""


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A trained model of the package."""

    name: str
    """Name of its run file, such as ``connect_four``."""

    @property
    def folder(self) -> Path:
        """The folder with its files."""
        return MODELS / self.name

    @property
    def run_file(self) -> Path:
        """The run file with which it was trained."""
        return self.folder / "run.toml"

    @property
    def weights(self) -> Path:
        """The weights from which ``zerofleet up --from`` starts."""
        return self.folder / "weights.safetensors"

    def about(self) -> dict[str, Any]:
        """Return the contents of ``model.toml``."""
        return tomllib.loads((self.folder / "model.toml").read_text(encoding="utf-8"))

    def data_folder(self) -> DataFolder:
        """Return the data folder that serves the model; make it at the first use.

        It lies in the user's cache. Its name has the first digits of the model's SHA-256, so a
        later zerofleet with another model makes another folder.

        Raises:
            ConfigError: the folder cannot be written, or another process is making it.
        """
        model_bytes = (self.folder / "model.onnx").read_bytes()
        digest = hashlib.sha256(model_bytes).hexdigest()
        root = _cache() / f"{self.name}-{digest[:12]}"
        if not (root / _READY).exists():
            self._make(root, model_bytes)
        return DataFolder.open(root)

    def _make(self, root: Path, model_bytes: bytes) -> None:
        run = load_run(self.run_file, Overrides())
        with Start(root, run, self.run_file, Overrides()) as start:
            start.write(run)
            folder = start.folder
            folder.models.mkdir(mode=0o700, exist_ok=True)
            with Stores(folder) as stores:
                owner = stores.urls.database["owner"]
                migrate(owner)
                with Database(owner, pool_size=1) as database:
                    database.register_run(run)
                    _publish(database, ModelFolder(folder.models, run.name), model_bytes, run)
            (root / _READY).write_bytes((self.folder / "model.toml").read_bytes())
            start.succeeded()


def trained_models() -> dict[str, TrainedModel]:
    """Return the trained models of this zerofleet by name."""
    found = sorted(path.parent.name for path in MODELS.glob("*/model.onnx"))
    return {name: TrainedModel(name) for name in found}


@dataclass(frozen=True, slots=True)
class StartingWeights:
    """Weights of another run, from which a new run starts."""

    source: str
    """The trained model's name, or the data folder of the other run."""
    game: str
    content: bytes
    """A safetensors file; names of the network's tensors begin with ``network.``."""

    @classmethod
    def find(cls, source: str) -> StartingWeights:
        """Return the weights of a trained model, or of the newest checkpoint of a data folder.

        Args:
            source: name of the trained model, or path of the data folder.

        Raises:
            ConfigError: there is no such model and no such folder, or the folder has no checkpoint.
        """
        models = trained_models()
        if source in models and not Path(source).exists():
            model = models[source]
            content = model.weights.read_bytes()
            return cls(source, str(model.about()["game"]), content)
        if not Path(source).is_dir():
            raise ConfigError(
                f"--from {source}: give a trained model ({', '.join(models)}) or the data folder "
                "of another run"
            )
        folder = DataFolder.open(Path(source))
        checkpoint = LastCheckpoint.read(folder.checkpoints / folder.run)
        if checkpoint is None:
            raise ConfigError(f"--from {source}: this run has no checkpoint yet")
        content = published_weights(checkpoint.path.with_suffix(".safetensors").read_bytes())
        return cls(source, checkpoint.game, content)

    def check(self, run: RunConfig, spec: GameSpec) -> None:
        """Refuse a run whose network these weights do not fit.

        Raises:
            ConfigError: one line for each key that needs another value.
        """
        if self.game != run.game.name:
            raise ConfigError(
                f"--from {self.source} is a model of {self.game}, and the run plays "
                f"{run.game.name}: give a model of the same game"
            )
        wanted, shapes = dict(run.network), tensor_shapes(BytesIO(self.content))
        if run.network.is_own:
            wanted["name"] = OWN
        mistakes = [
            f"network.{key} = {toml_text(wanted[key])}, but the model of --from {self.source} has "
            f"{toml_text(value)}: set that value in the run file"
            for key, value in network_keys(shapes).items()
            if wanted[key] != value
        ]
        is_ours = not run.network.is_own and not mistakes
        if is_ours and input_planes(shapes) != spec.observation_shape[0]:
            mistakes = [
                f"the model of --from {self.source} has other input planes than this version of "
                f"{self.game}: it is of another zerofleet"
            ]
        if mistakes:
            raise ConfigError(*mistakes)

    def keep(self, folder: DataFolder) -> None:
        """Write the weights to the place where the trainer of a new run looks for them.

        Raises:
            ConfigError: the run has begun with other weights.
        """
        path = folder.checkpoints / folder.run / INITIAL_WEIGHTS
        if path.exists() and path.read_bytes() == self.content:
            return
        if LastCheckpoint.read(path.parent) is not None:
            raise ConfigError(
                f"--from {self.source}: the run in {folder.root} has begun with other weights. "
                "Leave --from out to resume it, or give another --data"
            )
        with full_disk_named(folder.root):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(self.content)


def published_weights(checkpoint: bytes) -> bytes:
    """Return the weights that a checkpoint's trainer would publish, and what only training needs.

    Args:
        checkpoint: the safetensors file of a checkpoint.
    """
    from safetensors.numpy import load, save

    tensors = load(checkpoint)
    start = "average." if any(name.startswith("average.") for name in tensors) else "network."
    published = {
        f"network.{name.removeprefix(start)}": each
        for name, each in tensors.items()
        if name.startswith(start)
    }
    trained = {name: each for name, each in tensors.items() if name.startswith("network.")}
    return save(trained | published)


def _publish(database: Database, models: ModelFolder, model_bytes: bytes, run: RunConfig) -> None:
    """Make the model the best of a run that has none; a repetition changes nothing."""
    staged = models.stage(model_bytes)
    models.publish(staged)
    models.expose(staged.sha256, 1, games.spec(run.game.name))
    epoch = database.acquire_fence(run.name, "trainer")
    location = models.location(staged.sha256)
    database.insert_model(run.name, 1, staged.sha256, 0, {}, location, epoch)
    if database.promotion_head(run.name) is None:
        epoch = database.acquire_fence(run.name, "evaluator")
        database.promote(run.name, 1, None, _ACTOR, 0, epoch=epoch)


def _cache() -> Path:
    """Return the folder of served models in the user's cache (XDG Base Directory Specification).

    Raises:
        ConfigError: the user has no home.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    if Path(given).is_absolute():
        return Path(given) / "zerofleet"
    try:
        return Path.home() / ".cache" / "zerofleet"
    except RuntimeError as error:
        raise ConfigError(
            "the trained model needs a folder, and this user has no home: set XDG_CACHE_HOME"
        ) from error
