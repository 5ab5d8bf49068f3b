"""Trains the runs of a comparison, examines their models, and plays their games.

The runs of one seed take turns, so that a slow phase of the machine slows all of them equally. A
training is stored when its budget is used up. Exams and games do not count towards the budget.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
import shutil
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TextIO, TypeVar

from zerofleet import games
from zerofleet.comparison.compared_runs import Comparison, code_digest, seed_words
from zerofleet.comparison.comparison_folder import ComparisonFolder, ExamAnswers, FinishedTraining
from zerofleet.comparison.learning_loop import LearningLoop, LoopModel, PlayFigures
from zerofleet.comparison.whole_games import (
    PairScores,
    Results,
    play_anchors,
    play_gnugo,
    play_pairs,
    play_perfect,
)
from zerofleet.config import RunConfig
from zerofleet.cpus import usable_cpus
from zerofleet.errors import ConfigError, ZerofleetError
from zerofleet.exam import examine, position_kinds
from zerofleet.learning.build import missing_targets_hint
from zerofleet.learning.learner import LostWeightsError
from zerofleet.models.session import ModelSession
from zerofleet.prediction import Predictor

_LINE_EVERY = 0.05  # share of all work between two lines, without a terminal
_SHOW_SECONDS = 1.0  # between two updates of the terminal's last line

_Result = TypeVar("_Result")


class ComparisonProgress:
    """Progress of a comparison: one line that changes on a terminal, or a few lines in a log.

    Args:
        stream: where the lines go.
        shares: number of trainings that are left.
        scope: what the remaining time is for, such as ``for this seed``; empty: for everything.
    """

    def __init__(self, stream: TextIO, shares: float, scope: str = "") -> None:
        self._stream = stream
        self._left_words = f"left {scope}".rstrip()
        self._terminal = stream.isatty()
        self._left = shares
        self._all = shares
        self._began = time.monotonic()
        self._shown_at = -math.inf
        self._line_at = 0.0
        self._shown = ""

    def say(self, words: str) -> None:
        """Write a line that stays."""
        self._clear()
        print(words, file=self._stream, flush=True)

    def learned(self, heading: str, shares: dict[str, float], gain: float) -> None:
        """Report how far the trainings of a seed are.

        Args:
            heading: the seed, for the line.
            shares: share of the budget that each run has used.
            gain: shares that were used since the last report.
        """
        self._left -= gain
        now, done = time.monotonic(), self._all - self._left
        parts = ", ".join(f"{name} {min(share, 1):.0%}" for name, share in shares.items())
        line = f"{heading}: {parts}"
        if done > 0:
            seconds = (now - self._began) / done * max(self._left, 0)
            line += f"; {duration(seconds)} {self._left_words}"
        if self._terminal:
            if now - self._shown_at >= _SHOW_SECONDS:
                self._shown_at = now
                self._clear()
                self._shown = line[: shutil.get_terminal_size().columns - 1]
                print(self._shown, end="", file=self._stream, flush=True)
        elif done >= self._line_at:
            self._line_at = done + _LINE_EVERY * self._all
            self.say(line)

    def _clear(self) -> None:
        if self._shown:
            print(f"\r{' ' * len(self._shown)}\r", end="", file=self._stream)
            self._shown = ""


def duration(seconds: float) -> str:
    """Return a time span in words, such as ``about 12 min``."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 90 else f"about {minutes / 60:.1f} h"


@dataclass(slots=True)
class _Learner:
    """A run that learns with one seed, and what is known about its models."""

    name: str
    loop: LearningLoop
    examiner: RunConfig
    """The first run with this seed, whose search and openings all exams and games have."""
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    exams: int = 0
    """Number of the next mark along the budget at which a model is examined."""
    share: float = 0.0


class Trainings:
    """Trains, examines and plays until everything that a comparison asks for is in its folder.

    Args:
        comparison: what is compared.
        folder: finished trainings; they are not repeated.
        stream: where the progress goes.
    """

    def __init__(self, comparison: Comparison, folder: ComparisonFolder, stream: TextIO) -> None:
        self._comparison = comparison
        self._folder = folder
        self.missing = {
            seed: [name for name in comparison.runs if folder.training(name, seed) is None]
            for seed in comparison.request.seeds
        }
        """The runs without a finished training, by seed."""
        shares, is_job = sum(map(len, self.missing.values())), comparison.request.parent is not None
        self._progress = ComparisonProgress(stream, shares, "for this seed" if is_job else "")

    def go(self) -> list[list[FinishedTraining]]:
        """Train and play what is missing; return the trainings of each seed, in the order of runs.

        Raises:
            ConfigError: a run cannot be trained as it is.
            EngineError, GtpError: another program cannot play.
        """
        found: list[list[FinishedTraining]] = []
        for seed in self._comparison.request.seeds:
            if self.missing[seed]:
                self._learn(seed, self.missing[seed])
            trainings = [self._folder.training(name, seed) for name in self._comparison.runs]
            complete = [each for each in trainings if each is not None]
            self._play(seed, complete)
            found.append(complete)
        return found

    def announce(self) -> None:
        """Write what is compared, and how many trainings that takes."""
        comparison, request = self._comparison, self._comparison.request
        names = list(comparison.runs)
        trainings = len(names) * len(request.seeds)
        kept = trainings - sum(map(len, self.missing.values()))
        seeds = seed_words(request.seeds)
        at_once = min(request.jobs, sum(map(bool, self.missing.values())))
        where = "in turns on one core" if at_once < 2 else f"{at_once} seeds at once"
        say = self._progress.say
        say(f"{comparison.game}: {' | '.join(names)}")
        say(
            f"{trainings} trainings of {comparison.budget.words} ({seeds}), {where}"
            f"{f'; {kept} of them are finished' if kept else ''}"
        )
        if not position_kinds(comparison.game):
            say("no exam: perfect play of this game is not known")
        if len(names) == 1:
            say("one run only: name a second run file or give --set KEY=VALUE to compare it")
        if at_once > (cpus := usable_cpus()):
            say(f"{at_once} seeds share {cpus} CPUs: each takes longer, and may learn less")
        say(f"results: {self._folder.path}")

    def _learn(self, seed: int, names: Sequence[str]) -> None:
        """Train these runs in turns, and keep each one when its budget is used up."""
        comparison = self._comparison
        examiner = _seeded(comparison.first, seed)
        learners = [self._begin(name, seed, examiner) for name in names]
        heading = self._heading(seed)
        shares = dict.fromkeys(names, 0.0)
        while learners:
            learner = min(learners, key=lambda each: each.share)
            loop = learner.loop
            is_new = _own_fault(learner, loop.turn)
            share = comparison.budget.share(loop)
            minutes = loop.run.trainer.budget_minutes or 0.0
            loop.learner.seconds = 60 * minutes * min(share, 1.0)
            gain = min(share, 1.0) - learner.share
            learner.share = shares[learner.name] = min(share, 1.0)
            self._progress.learned(heading, shares, gain)
            if share >= 1:
                learners.remove(learner)
                self._finish(learner)
            elif is_new:
                self._note(learner)

    def _begin(self, name: str, seed: int, examiner: RunConfig) -> _Learner:
        run = _seeded(self._comparison.runs[name], seed)
        try:
            loop = LearningLoop(run, self._comparison.request.precision)
        except ConfigError as error:
            raise ConfigError(*(f"{name}: {each}" for each in error.mistakes)) from error
        learner = _Learner(name, loop, examiner)
        self._note(learner)
        return learner

    def _note(self, learner: _Learner, *, is_last: bool = False) -> dict[str, ExamAnswers]:
        """Add a row about the newest model; return its exam, which only some models have."""
        loop, request = learner.loop, self._comparison.request
        row: dict[str, Any] = {
            "model": loop.model.version,
            "precision": loop.model.precision,
            "evaluations": loop.evaluations,
            "cpu_seconds": round(loop.cpu_seconds, 3),
            **{f"cpu_{part}": round(seconds, 3) for part, seconds in loop.cpu.items()},
            "games": loop.games,
            "positions": loop.bucket.received,
            "steps": loop.learner.step,
            "samples": loop.learner.samples,
            "learning_rate": loop.learner.learning_rate,
            "v_resign": loop.resignation.threshold,
            **loop.figures.row(),
            **_losses(learner),
        }
        loop.figures = PlayFigures()
        answers: dict[str, ExamAnswers] = {}
        if is_last or (request.exams and learner.share * request.exams >= learner.exams):
            learner.exams = math.floor(learner.share * request.exams) + 1
            answers = asyncio.run(
                exam_answers(learner.examiner, loop.model, request.simulations, request.positions)
            )
            for question, each in answers.items():
                row[question] = round(each.error_rate, 5)
                if each.value_error is not None:
                    row[f"{question}_mse"] = round(each.value_error, 4)
        learner.rows.append(row)
        return answers

    def _finish(self, learner: _Learner) -> None:
        loop = learner.loop
        if not loop.learner.step:
            settings = loop.run.trainer
            raise ConfigError(
                f"{learner.name}: {self._comparison.budget.words} are not enough for one step of "
                f"training. Self-play made {loop.games} games with {loop.bucket.received} "
                f"positions; training starts at {settings.first_step_positions} "
                "(trainer.min_positions). Give a larger budget"
            )
        _own_fault(learner, loop.finish)
        exam = self._note(learner, is_last=True)
        training = FinishedTraining(
            run=learner.name,
            seed=loop.run.seed,
            precision=loop.model.precision,
            models=loop.model.version,
            games=loop.games,
            positions=loop.bucket.received,
            steps=loop.learner.step,
            samples=loop.learner.samples,
            evaluations=loop.evaluations,
            cpu={part: round(seconds, 3) for part, seconds in loop.cpu.items()},
            rows=learner.rows,
            exam=exam,
        )
        self._folder.keep(training, loop.model.content)
        errors = ", ".join(f"{name} {each.error_rate:.1%}" for name, each in exam.items())
        self._progress.say(
            f"{self._heading(loop.run.seed)}: {learner.name} finished with {training.games:,} "
            f"games and {training.steps:,} steps{f'; errors {errors}' if errors else ''}"
        )

    def _heading(self, seed: int) -> str:
        seeds = self._comparison.request.seeds
        number = f" ({seeds.index(seed) + 1} of {len(seeds)})" if len(seeds) > 1 else ""
        return f"seed {seed}{number}"

    def _play(self, seed: int, trainings: Sequence[FinishedTraining]) -> None:
        """Play the games of a seed that are not played yet, and keep each result.

        The key of a result ends with the digest of the opponent, if the opponent can change: the
        first run's model, or a player of your own. A result against an old opponent is forgotten.
        """
        request, first = self._comparison.request, trainings[0]
        run = _seeded(self._comparison.first, seed)
        digests = {name: code_digest(name) for name in request.anchors if _is_own(name)}
        if request.match and len(trainings) > 1:
            digests["match"] = hashlib.sha256(self._folder.model(first)).hexdigest()[:12]
        for training in trainings:
            wanted: dict[tuple[str, int], Callable[[], Coroutine[Any, Any, Any]]] = {}
            if request.match and training is not first:
                wanted["match", request.match] = partial(self._match, run, training, first)
            for kind, number, play in (
                ("perfect play", request.perfect_play, play_perfect),
                ("GNU Go", request.gnugo, play_gnugo),
            ):
                if number:
                    wanted[kind, number] = partial(self._alone, run, training, play, number)
            for name in request.anchors:
                play = partial(play_anchors, names=[name])
                number = request.anchor_games
                wanted[name, number] = partial(self._alone, run, training, play, number)
            for (opponent, number), play in wanted.items():
                words, digest = f"{opponent} {number}", digests.get(opponent, "")
                key = f"{words} {digest}" if digest else words
                if key not in training.played:
                    say = self._progress.say
                    say(f"{self._heading(seed)}: {training.run} plays: {words} games")
                    result = asyncio.run(play())
                    if digest:
                        training.played = {
                            old: kept
                            for old, kept in training.played.items()
                            if old != words and old.rpartition(" ")[0] != words
                        }
                    training.played[key] = result
                    self._folder.keep(training)

    async def _match(
        self, run: RunConfig, training: FinishedTraining, first: FinishedTraining
    ) -> PairScores:
        players = (self._model(training), self._model(first))
        return await play_pairs(run, players, self._comparison.request.match)

    async def _alone(
        self,
        run: RunConfig,
        training: FinishedTraining,
        play: Callable[..., Coroutine[Any, Any, Results]],
        games: int,
    ) -> Results:
        return await play(run, self._model(training), games=games)

    def _model(self, training: FinishedTraining) -> LoopModel:
        content = self._folder.model(training)
        session = ModelSession(content, games.spec(self._comparison.game))
        return LoopModel(training.models, training.precision, content, session)


async def exam_answers(
    run: RunConfig, predictor: Predictor, simulations: Sequence[int], positions: int
) -> dict[str, ExamAnswers]:
    """Return a network's answers by question, with the run's search.

    Args:
        run: its game and its ``[search]``. With one simulation the network alone chooses.
        predictor: the network.
        simulations: numbers of simulations, each of which is examined.
        positions: most positions of each kind.
    """
    found: dict[str, ExamAnswers] = {}
    prior_alone = run.search.model_copy(update={"decisive_moves": False})
    for kind, number in itertools.product(position_kinds(run.game.name), simulations):
        result = await examine(
            run.game.name,
            predictor,
            num_simulations=number,
            positions=positions,
            kind=kind,
            search=run.search if number > 1 else prior_alone,
        )
        wrong = "".join(str(int(each)) for each in result.wrong)
        found[f"{kind}@{number}"] = ExamAnswers(result.error_rate, result.value_error, wrong)
    return found


def _losses(learner: _Learner) -> dict[str, float]:
    """Return the losses of the newest model; empty before the first game.

    Raises:
        ConfigError: the training has diverged.
    """
    loop = learner.loop
    try:
        measured = loop.measure()
    except LostWeightsError as error:
        raise ConfigError(
            f"{learner.name}, seed {loop.run.seed}: the loss is not finite at step "
            f"{loop.learner.step}: lower trainer.learning_rate (now {loop.learner.learning_rate:g})"
            f"{missing_targets_hint(loop.learner.network)}"
        ) from error
    if measured is None:
        return {}
    return {
        "policy_loss": round(measured.policy_loss, 5),
        "value_loss": round(measured.value_loss, 5),
    }


def _own_fault(learner: _Learner, work: Callable[[], _Result]) -> _Result:
    """Do a part of a training; an error in a class of your own names the run.

    Raises:
        ConfigError: the network's or the game's class fails.
    """
    run = learner.loop.run
    try:
        return work()
    except ConfigError as error:
        raise ConfigError(*(f"{learner.name}: {each}" for each in error.mistakes)) from error
    except ZerofleetError:
        raise
    except Exception as error:
        own = [name for name in (run.network.name, run.game.name) if name.startswith("python:")]
        if not own:
            raise
        raise ConfigError(
            f"{learner.name}: {' or '.join(own)} fails at step {learner.loop.learner.step}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _is_own(anchor: str) -> bool:
    return anchor.startswith("python:")


def _seeded(run: RunConfig, seed: int) -> RunConfig:
    return run.model_copy(update={"seed": seed})
