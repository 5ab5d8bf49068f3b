"""The learning loop in one process, without stores and wall clock, of the services' own parts.

Self-play, window, train bucket, learner and models are those of the fleet: a position is trained on
as soon as it is paid for, and the newest model plays on. Left out are the gate, the overfit watch,
and what takes a service's time: messages, commits, waits. One seed gives one run on one machine,
however busy that is, where the precision is given (``LoopModels`` times fp32 against int8 where it
is not); the clock of ``trainer.budget_minutes`` is the caller's (``learner.seconds``).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import numpy as np
from zerofleet_core import GameColumns, ReplayBuffer, SelfPlay

from bench.loop_models import LoopModel, LoopModels, WantedPrecision
from bench.play_figures import PlayFigures
from bench.resignation_rule import ResignationRule
from zerofleet import games
from zerofleet.config import RunConfig
from zerofleet.learning.learner import Learner
from zerofleet.learning.schedule import held_out_limit, window_limit
from zerofleet.learning.window import TrainBucket, draw, empty_buffer, sample_seed
from zerofleet.records import is_held_out
from zerofleet.search_configs import selfplay_search

_COMPUTED_EVERY = 100  # games played on, for v_resign


class LearningLoop:
    """One run that learns by its own play; it goes on by ``turn``.

    Args:
        run: ``[search]``, ``[selfplay]``, ``[resign]``, ``[network]`` and ``[trainer]`` count. One
            engine plays ``selfplay.games_per_engine`` games.
        precision: of the models that play.
    """

    def __init__(self, run: RunConfig, precision: WantedPrecision = "run") -> None:
        self.run = run
        spec, settings = games.spec(run.game.name), run.trainer
        self._models = LoopModels(run, spec, precision)
        held_out = held_out_limit(settings, settings.window_positions, run.overfit.min_positions)
        self._window = empty_buffer(run, settings.window_positions)
        self._held_out = empty_buffer(run, held_out, held_out=True)
        self.bucket = TrainBucket(settings.samples_per_position)
        search = selfplay_search(run)
        self.engine = SelfPlay(spec.name, run.selfplay.games_per_engine, search, run.seed)
        self.engine.set_resignation(None, run.resign.play_on_share if run.resign.enabled else 0.0)
        self.resignation = ResignationRule(run.resign)
        self._batches = 0  # batches of self-play: the clock by which games begin and end
        self._began: dict[int, int] = {}  # by game_id
        self._begun = 0  # games
        self.figures = PlayFigures()
        """Figures of the games that ended since the last replacement."""
        self.cpu = {"play": 0.0, "train": 0.0}
        """CPU-seconds of this process; training includes making models."""
        with self._counting("train"):
            self.learner = Learner(spec, run)
            self.model: LoopModel = self._publish(1)
        self._begin(run.selfplay.games_per_engine)

    def turn(self) -> bool:
        """Predict one batch of self-play and train what is paid for; whether a model is new."""
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
            published = self._train()
        for game in finished:
            self.figures.add(game)
        return published

    def finish(self) -> None:
        """Publish the weights as they are now, unless that is done."""
        if self.learner.step != self._published_step:
            with self._counting("train"):
                self.model = self._publish(self.model.version + 1)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of all parts."""
        return sum(self.cpu.values())

    @property
    def evaluations(self) -> int:
        """Positions that self-play had predicted."""
        return self.engine.statistics.positions_evaluated

    @contextmanager
    def _counting(self, part: str) -> Iterator[None]:
        began = time.process_time()
        try:
            yield
        finally:
            self.cpu[part] += time.process_time() - began

    def _begin(self, new_games: int) -> None:
        """Note when games began; the engine numbers them as they do."""
        for game_id in range(self._begun, self._begun + new_games):
            self._began[game_id] = self._batches
        self._begun += new_games

    def _keep(self, game: GameColumns) -> None:
        """Enter a game into the window, where it pays, or among the held-out ones."""
        self._note_resignation(game)
        settings = self.run.trainer
        uid = hashlib.blake2b(f"{self.run.seed}/{game.game_id}".encode(), digest_size=16)
        if is_held_out(UUID(bytes=uid.digest()), settings.held_out_share):
            _add(self._held_out, game)
            return
        coming = int(np.count_nonzero(game.full_search))
        self._window.set_max_positions(window_limit(settings, self.bucket.received + coming))
        self.bucket.pay(_add(self._window, game))
        self.bucket.limit(self._window.positions, settings.batch_size)

    def _note_resignation(self, game: GameColumns) -> None:
        began, section = self._began.pop(game.game_id), self.run.resign
        self.resignation.add(game, began, self._batches)
        if section.enabled and game.plays_on and self.resignation.games % _COMPUTED_EVERY == 0:
            self.engine.set_resignation(self.resignation.compute(), section.play_on_share)

    def _train(self) -> bool:
        """Take the steps that are paid for, up to a publication; whether there was one."""
        settings = self.run.trainer
        size = settings.batch_size
        while self._window.positions >= settings.min_positions and self.bucket.holds(size):
            seed = sample_seed(self.run.seed, "train", self.learner.step)
            self.learner.train(draw(self._window, size, seed, symmetry=settings.augment))
            self.bucket.draw(size)
            if self.learner.step % settings.publish_every_steps == 0:
                self.model = self._publish(self.model.version + 1)
                return True
        return False

    def _publish(self, version: int) -> LoopModel:
        self._published_step = self.learner.step
        return self._models.make(self.learner, version, self._window, self._held_out)


def _add(buffer: ReplayBuffer, game: GameColumns) -> int:
    """Add a game; the positions that it brings."""
    return buffer.add(
        game.action,
        game.result or 0,
        game.full_search,
        game.offsets,
        game.legal_actions,
        game.policy_weights,
        root_value=game.root_value,
        resigned=game.reason == "resign",
    )
