"""The learning loop in one process, from the parts of the services, without stores and wall clock.

Self-play, window, train bucket, learner and models are the same as in a fleet. A position is
trained on as soon as it is paid for, and the newest model plays on. The loop has no gate, no
overfit watch, and none of the time that services spend on messages and commits.

One seed gives one run on one machine, however busy it is, if the precision is given. With ``run``,
the loop times fp32 and int8 as the inference service does. The clock of ``trainer.budget_minutes``
is the caller's (``learner.seconds``).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import GameColumns, GameSpec, ReplayBuffer, SelfPlay

from zerofleet import games
from zerofleet.comparison.resignation_rule import ResignationRule
from zerofleet.config import RunConfig
from zerofleet.database import add_to_buffer
from zerofleet.database.metrics import Split
from zerofleet.errors import IncompatibleModelError
from zerofleet.fleet.figures import Measurement
from zerofleet.learning import export_onnx
from zerofleet.learning.export import random_positions
from zerofleet.learning.learner import Learner
from zerofleet.learning.restarts import RestartBuffer
from zerofleet.learning.schedule import held_out_limit, window_limit
from zerofleet.learning.window import TrainBucket, draw, empty_buffer, sample_seed, trace
from zerofleet.models.fastest import fastest_model
from zerofleet.models.quantize import quantize_int8
from zerofleet.models.session import ModelSession
from zerofleet.models.variant import Bounds, measure
from zerofleet.prediction import FP32, Prediction
from zerofleet.records import is_held_out
from zerofleet.search_configs import selfplay_search

WantedPrecision = Literal["run", "fp32", "int8"]
"""Precision of the models that play: the run file's choice, or always this one."""

_INT8 = "int8"
_COMPUTED_EVERY = 100  # games played on, for v_resign
_RESTARTS_EVERY = 100  # games
_ROWS = 64  # rows of one run of a session: how rows are split must not depend on speed
_TIMED_ROWS = 256


@dataclass(frozen=True, slots=True, eq=False)
class LoopModel:
    """A published model as a ``Predictor``."""

    version: int
    precision: str
    content: bytes
    """The ONNX file."""
    session: ModelSession

    def run(
        self, observations: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        """Return policy logits ``[rows, num_actions]`` and values ``[rows]``; at least one row."""
        starts = range(0, len(observations), _ROWS)
        parts = [self.session.run(observations[start : start + _ROWS]) for start in starts]
        logits, values = zip(*parts, strict=True)
        return np.concatenate(logits), np.concatenate(values)

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict packed observations ``[batch, observation_bytes]``, on the calling thread."""
        return Prediction(*self.run(observations), self.version, self.precision)


@dataclass(frozen=True, slots=True, eq=False)
class _Timed:
    """A model as ``fastest_model`` measures it."""

    precision: str
    session: ModelSession

    def run(self, thread: int, observations: NDArray[np.uint8]) -> object:
        return self.session.run(observations)

    def paused(self) -> nullcontext[None]:
        return nullcontext()


class LoopModels:
    """Makes the models of a loop, one after the other.

    Args:
        run: its ``[precision]`` and ``[inference]`` decide whether int8 answers.
        spec: sizes of the game.
        wanted: ``run`` takes int8 if the run publishes it and its inference service would choose
            it. With ``precision = "auto"`` the first int8 model is timed against fp32.
    """

    def __init__(self, run: RunConfig, spec: GameSpec, wanted: WantedPrecision) -> None:
        self._run = run
        self._spec = spec
        self._wanted: str = wanted
        if wanted == "run":
            asked = run.inference.precision
            variants = run.precision.variants  # "auto" is int8 here, on a CPU
            published = bool({"auto", _INT8} & set(variants)) and asked in ("auto", _INT8)
            self._wanted = asked if published else FP32

    def make(
        self, learner: Learner, version: int, trained: ReplayBuffer, held_out: ReplayBuffer
    ) -> LoopModel:
        """Return the model that the learner would publish now.

        Args:
            learner: after any number of steps.
            version: version of the model, from 1.
            trained: positions from which int8 takes its ranges.
            held_out: positions on which int8 is judged, by the bounds of ``[precision]``.
        """
        name = {"version": str(version)}
        content = export_onnx(learner.published, self._spec.observation_bytes, name)
        fp32 = LoopModel(version, FP32, content, ModelSession(content, self._spec))
        if self._wanted == FP32:
            return fp32
        settings = self._run.precision
        calibration = self._draw("train", trained, settings.calibration_positions, learner.step)
        check = self._draw("held_out", held_out, settings.check_positions, learner.step)
        try:
            quantized = quantize_int8(content, calibration)
            int8 = LoopModel(version, _INT8, quantized, ModelSession(quantized, self._spec))
            loss = measure(fp32.session, int8.session, check)
        except IncompatibleModelError:  # this network has no int8 form: a run serves fp32 then
            return fp32
        if loss.why_refused(Bounds(settings.max_policy_kl, settings.max_value_difference)):
            return fp32
        if self._wanted == "auto":
            timed = [_Timed(each.precision, each.session) for each in (fp32, int8)]
            chosen = fastest_model(timed, check[:_TIMED_ROWS], time.thread_time)
            self._wanted = chosen.precision
        return int8 if self._wanted == _INT8 else fp32

    def _draw(
        self, split: Split, buffer: ReplayBuffer, positions: int, step: int
    ) -> NDArray[np.uint8]:
        """Return observations ``[positions, bytes]`` as the trainer draws them.

        They are random positions while the buffer has too few.
        """
        seed = sample_seed(self._run.seed, f"variants/{split}", step)
        if buffer.positions >= positions:
            symmetry = split == "train" and self._run.trainer.augment
            return buffer.sample(positions, seed, symmetry=symmetry)[0]
        return random_positions(self._spec, positions, np.random.default_rng(seed))


class LearningLoop:
    """One run that learns by its own play; each ``turn`` continues it.

    Args:
        run: ``[search]``, ``[selfplay]``, ``[resign]``, ``[network]`` and ``[trainer]`` count. One
            engine plays ``selfplay.games_per_engine`` games.
        precision: precision of the models that play.
    """

    def __init__(self, run: RunConfig, precision: WantedPrecision = "run") -> None:
        self.run = run
        spec, settings = games.spec(run.game.name), run.trainer
        self._models = LoopModels(run, spec, precision)
        self.bucket = TrainBucket(settings.samples_per_position)
        search = selfplay_search(run)
        self.engine = SelfPlay(spec.name, run.selfplay.games_per_engine, search, run.seed)
        self._restarts = RestartBuffer() if run.selfplay.restart_share else None
        self.engine.set_resignation(None, run.resign.play_on_share if run.resign.enabled else 0.0)
        self.resignation = ResignationRule(run.resign)
        self._batches = 0  # batches of self-play: the clock by which games begin and end
        self._began: dict[int, int] = {}  # by game_id
        self._begun = 0  # games
        self.figures = PlayFigures()
        """Figures of the games that ended since the last replacement."""
        self.cpu = {"play": 0.0, "train": 0.0, "export": 0.0}
        """CPU-seconds of this process by part: self-play, gradient steps, and making models."""
        with self._counting("train"):
            self.learner = Learner(spec, run)
        targets = list(self.learner.network.shapes.drawn_targets)
        self._window = empty_buffer(run, settings.window_positions, targets)
        held_out = held_out_limit(settings, settings.window_positions, run.overfit.min_positions)
        self._held_out = empty_buffer(run, held_out)
        self.model: LoopModel = self._publish(1)
        self._begin(run.selfplay.games_per_engine)

    def turn(self) -> bool:
        """Predict one batch of self-play and train what is paid for.

        Returns:
            Whether there is a new model.
        """
        with self._counting("play"):
            observations = self.engine.select()
            if len(observations) > 0:
                self.engine.backup(*self.model.run(observations), self.model.version)
            finished = self.engine.take_finished()
        self._batches += 1
        self._begin(len(finished))
        with self._counting("train"):
            for game in finished:
                self._keep(game)
            is_due = self._train()
        if is_due:
            self.model = self._publish(self.model.version + 1)
        for game in finished:
            self.figures.add(game)
        return is_due

    def finish(self) -> None:
        """Publish the weights as they are now, unless that is done."""
        if self.learner.step != self._published_step:
            self.model = self._publish(self.model.version + 1)

    def measure(self) -> Measurement | None:
        """Measure the published network on validation games, or on the window without them.

        Returns:
            The measurement; None before the first game.

        Raises:
            LostWeightsError: the loss is not finite.
        """
        size = self.run.trainer.batch_size
        seed = sample_seed(self.run.seed, "measure", self.learner.step)
        traced = trace(self._held_out, size, seed) or trace(self._window, size, seed)
        return None if traced is None else self.learner.measure(traced)

    @property
    def cpu_seconds(self) -> float:
        """CPU-seconds of all parts."""
        return sum(self.cpu.values())

    @property
    def games(self) -> int:
        """Number of finished games."""
        return self.engine.statistics.games_finished

    @property
    def evaluations(self) -> int:
        """Number of positions that the network evaluated in self-play."""
        return self.engine.statistics.positions_evaluated

    @contextmanager
    def _counting(self, part: str) -> Generator[None]:
        began = time.process_time()
        try:
            yield
        finally:
            self.cpu[part] += time.process_time() - began

    def _begin(self, new_games: int) -> None:
        """Note when games began; the engine numbers them in this order."""
        for game_id in range(self._begun, self._begun + new_games):
            self._began[game_id] = self._batches
        self._begun += new_games

    def _keep(self, game: GameColumns) -> None:
        """Add a game to the window, where it allows samples, or to the validation games."""
        self._note_resignation(game)
        settings = self.run.trainer
        uid = hashlib.blake2b(f"{self.run.seed}/{game.game_id}".encode(), digest_size=16)
        if is_held_out(UUID(bytes=uid.digest()), settings.held_out_share):
            add_to_buffer(self._held_out, game)
            return
        self._note_regrets(game)
        coming = int(np.count_nonzero(game.full_search))
        self._window.set_max_positions(window_limit(settings, self.bucket.received + coming))
        self.bucket.pay(add_to_buffer(self._window, game))
        self.bucket.limit(self._window.positions, settings.batch_size)

    def _note_regrets(self, game: GameColumns) -> None:
        if self._restarts is None or game.start:
            return
        self._restarts.add(
            game.action, game.to_play, game.root_value, game.full_search, game.result or 0
        )
        if game.game_id % _RESTARTS_EVERY == 0:
            restarts = [list(each.actions) for each in self._restarts.restarts()]
            self.engine.set_restarts(restarts, self.run.selfplay.restart_share)

    def _note_resignation(self, game: GameColumns) -> None:
        began, section = self._began.pop(game.game_id), self.run.resign
        self.resignation.add(game, began, self._batches)
        if section.enabled and game.plays_on and self.resignation.games % _COMPUTED_EVERY == 0:
            self.engine.set_resignation(self.resignation.compute(), section.play_on_share)

    def _train(self) -> bool:
        """Take the steps that are paid for, up to a publication; return whether one is due."""
        settings = self.run.trainer
        size = settings.batch_size
        while self._window.positions >= settings.min_positions and self.bucket.holds(size):
            seed = sample_seed(self.run.seed, "train", self.learner.step)
            self.learner.train(draw(self._window, size, seed, symmetry=settings.augment))
            self.bucket.draw(size)
            if self.learner.step % settings.publish_every_steps == 0:
                return True
        return False

    def _publish(self, version: int) -> LoopModel:
        self._published_step = self.learner.step
        with self._counting("export"):
            return self._models.make(self.learner, version, self._window, self._held_out)


class PlayFigures:
    """Variety, length and certainty of some finished games."""

    def __init__(self) -> None:
        self.games = 0
        self._played: set[bytes] = set()
        self._drawn = self._resigned = self._plies = 0
        self._searches = 0
        self._prior_entropy = self._target_entropy = 0.0

    def add(self, game: GameColumns) -> None:
        """Count a game."""
        self.games += 1
        self._played.add(game.action.tobytes())
        self._drawn += game.result == 0
        self._resigned += game.reason == "resign"
        self._plies += game.plies
        full = game.full_search
        self._searches += int(np.count_nonzero(full))
        self._prior_entropy += _entropy(game.priors, game.offsets)[full].sum()
        self._target_entropy += _entropy(game.policy_weights, game.offsets)[full].sum()

    def row(self) -> dict[str, float | None]:
        """Return shares of the games, their mean length in plies, and mean entropies in nats."""

        def mean(total: float, number: int) -> float | None:
            return round(float(total) / number, 4) if number else None

        return {
            "distinct": mean(len(self._played), self.games),
            "draws": mean(self._drawn, self.games),
            "resigned": mean(self._resigned, self.games),
            "length": mean(self._plies, self.games),
            "prior_entropy": mean(self._prior_entropy, self._searches),
            "target_entropy": mean(self._target_entropy, self._searches),
        }


def _entropy(weights: NDArray[np.generic], offsets: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the entropy of each ply's distribution in nats, ``[plies]``; 0 where there is none.

    Args:
        weights: ``[offsets[-1]]``, of any scale.
        offsets: ``[plies + 1]``.
    """
    w = weights.astype(np.float64)
    total = _sums(w, offsets)
    with np.errstate(divide="ignore", invalid="ignore"):
        w_log_w = _sums(np.where(w > 0, w * np.log(w), 0.0), offsets)
        return np.where(total > 0, np.log(total) - w_log_w / total, 0.0)


def _sums(column: NDArray[np.float64], offsets: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the sum for each ply, ``[plies]``."""
    running = np.concatenate(([0.0], np.cumsum(column)))
    return running[offsets[1:]] - running[offsets[:-1]]
