"""The models of a learning loop in one process: exported, in the run's precision, loaded."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import GameSpec, ReplayBuffer

from zerofleet.config import RunConfig
from zerofleet.database.metrics import Split
from zerofleet.learning import export_onnx
from zerofleet.learning.export import random_positions
from zerofleet.learning.learner import Learner
from zerofleet.learning.window import sample_seed
from zerofleet.models.quantize import quantize_int8
from zerofleet.models.session import ModelSession
from zerofleet.models.variant import Bounds, measure
from zerofleet.prediction import FP32, ModelFile, Prediction
from zerofleet.services.inference.loaded_models import LoadedModel, fastest_model

WantedPrecision = Literal["run", "fp32", "int8"]
INT8 = "int8"

_ROWS = 64  # rows of one run of a session: how rows are split must not depend on speed
_TIMED_ROWS = 256


@dataclass(frozen=True, slots=True)
class LoopModel:
    """A published model as a ``Predictor``."""

    version: int
    precision: str
    session: ModelSession

    def run(
        self, observations: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        """Policy logits ``[rows, num_actions]`` and values ``[rows]``; at least one row."""
        starts = range(0, len(observations), _ROWS)
        parts = [self.session.run(observations[start : start + _ROWS]) for start in starts]
        logits, values = zip(*parts, strict=True)
        return np.concatenate(logits), np.concatenate(values)

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict packed observations ``[batch, observation_bytes]``, on the calling thread."""
        return Prediction(*self.run(observations), self.version, self.precision)


class LoopModels:
    """Makes them, one after the other.

    Args:
        run: its ``[precision]`` and ``[inference]`` say whether int8 answers.
        spec: of its game.
        wanted: ``run``: int8 where the run publishes it and its inference would take it, for
            which ``precision = "auto"`` measures once; else what to take in any case.
    """

    def __init__(self, run: RunConfig, spec: GameSpec, wanted: WantedPrecision) -> None:
        self._run = run
        self._spec = spec
        self._wanted: str = wanted
        if wanted == "run":
            asked = run.inference.precision
            published = INT8 in run.precision.variants and asked in ("auto", INT8)
            self._wanted = asked if published else FP32

    def make(
        self, learner: Learner, version: int, trained: ReplayBuffer, held_out: ReplayBuffer
    ) -> LoopModel:
        """A model of what the learner would publish now.

        Args:
            learner: after any number of steps.
            version: of the model, from 1.
            trained: from which int8 takes its ranges.
            held_out: on which int8 is judged, by the bounds of ``[precision]``.
        """
        name = {"version": str(version)}
        exported = export_onnx(learner.published, self._spec.observation_bytes, name)
        fp32 = LoopModel(version, FP32, ModelSession(exported, self._spec))
        if self._wanted == FP32:
            return fp32
        settings = self._run.precision
        calibration = self._draw("train", trained, settings.calibration_positions, learner.step)
        check = self._draw("held_out", held_out, settings.check_positions, learner.step)
        quantized = quantize_int8(exported, calibration)
        int8 = LoopModel(version, INT8, ModelSession(quantized, self._spec))
        bounds = Bounds(settings.max_policy_kl, settings.max_value_difference)
        if measure(fp32.session, int8.session, check).why_refused(bounds):
            return fp32
        if self._wanted == "auto":
            self._wanted = _faster(fp32, int8, check[:_TIMED_ROWS])
        return int8 if self._wanted == INT8 else fp32

    def _draw(
        self, split: Split, buffer: ReplayBuffer, positions: int, step: int
    ) -> NDArray[np.uint8]:
        """Observations ``[positions, bytes]`` as the trainer draws them, random while too few."""
        seed = sample_seed(self._run.seed, f"variants/{split}", step)
        if buffer.positions >= positions:
            symmetry = split == "train" and self._run.trainer.augment
            return buffer.sample(positions, seed, symmetry=symmetry)[0]
        return random_positions(self._spec, positions, np.random.default_rng(seed))


def _faster(fp32: LoopModel, int8: LoopModel, observations: NDArray[np.uint8]) -> str:
    """The precision that inference would settle on here."""
    models = [
        LoadedModel(ModelFile(model.version, model.precision, ""), [model.session])
        for model in (fp32, int8)
    ]
    return fastest_model(models, observations, time.thread_time).precision
