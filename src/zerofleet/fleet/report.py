"""The report of a run: its figures, the status of each service, and both in words.

``zerofleet up``, ``zerofleet status`` and the dashboard show the same words.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, cast

from zerofleet.database import RecentPlay, RestartList
from zerofleet.fleet.figures import (
    Z_95,
    DashboardFigures,
    DemandFigures,
    EvaluatorFigures,
    Figures,
    InferenceFigures,
    SelfplayFigures,
    TrainerFigures,
)
from zerofleet.fleet.heartbeat import Heartbeat
from zerofleet.printable import printable, shortened
from zerofleet.redis_connection import UP, RedisState
from zerofleet.waiting import WorkStatus

_BEHIND = re.compile(r"the trainer, \d+ positions behind")  # the wait of paced self-play
_LACKS = re.compile(r"[\d,]+ positions")  # the wait of a paced trainer
_NO_MODEL = ("a new model", "the first model")  # the waits of an idle evaluator
_PACED_SHARE = 0.05  # share of a stage's time in which it lets another catch up
_STARVED_SHARE = 0.95
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400

POSITION_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "lines": "lines of play",
        "random": "random positions",
        "good": "good-play positions",
        "endgames": "endgames",
        "mates": "mates",
    }
)
"""Words for the kinds of an exam's positions; good play is near perfect play."""
MOST_OWN_LOSSES = 12
"""Largest number of losses of your own network that are shown."""
_WARNINGS = {
    "narrows": "Self-play is repeating itself",
    "overfits": "The network is overfitting",
}


@dataclass(frozen=True, slots=True)
class Loss:
    """The parts of the loss: cross-entropy of the policy, squared error of the value, and yours."""

    policy: float
    value: float
    own: Mapping[str, float] = field(default_factory=dict[str, float])
    """Losses of your own network, by name; only on training games."""


@dataclass(frozen=True, slots=True)
class Exam:
    """One promoted model's exam."""

    version: int
    simulations: int
    positions: int
    errors: int
    error_rate: float
    kind: str = ""
    """Kind of its positions."""
    prior_error_rate: float | None = None
    """Error rate of the prior alone; None: not measured."""
    value_error: float | None = None
    """Mean squared error of the value; None: not known."""


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of a run."""

    run: str
    game: str
    games: int
    positions: int
    games_last_hour: int
    games_per_hour: float
    """Games per hour, from the last half minute, by all workers."""
    positions_per_second: float
    """Positions predicted for self-play per second, by all workers."""
    models: int
    promotions: int
    has_exam: bool
    exams: tuple[Exam, ...] = ()
    """Exams of promoted models, oldest first, in the positions of the goal."""
    newest_exams: tuple[Exam, ...] = ()
    """Exams of the model that was examined last, one for each kind of positions."""
    train: Loss | None = None
    held_out: Loss | None = None
    learning_rate: float | None = None
    """Learning rate of the next step; None: no trainer reports it."""
    budget_used: float | None = None
    """Share of the trainer's budget that is used; None: no trainer reports it, or it has none."""
    given_games: int = 0
    """Games that the run learns from and did not play."""
    origin: str | None = None
    """Where the given games come from; None: there are none."""
    steps: int | None = None
    """Training steps in total; None: no trainer responds."""
    steps_to_next_model: int | None = None
    """Training steps until the next model; None: no trainer responds."""
    until: str | None = None
    """Progress toward the condition of ``--until``; None: it has no measure."""
    best_version: int | None = None
    best_age_s: float | None = None
    refused_variants: str | None = None
    """Refused variants of the best model, and why: without int8 a CPU with VNNI is three times
    slower.
    """
    rated_version: int | None = None
    """The newest promoted model that has a rating."""
    elo: float | None = None
    """Elo rating of that model."""
    elo_error: float | None = None
    """Standard error of that rating."""
    play: RecentPlay = field(default_factory=RecentPlay)
    """Whether self-play still explores."""
    warnings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Warnings by name, ``narrows`` or ``overfits``: since when, and why."""
    restarts: RestartList | None = None
    """Positions at which games of self-play begin; None: ``selfplay.restart_share`` is 0."""
    window_blocker: str | None = None
    """The open transaction that keeps stored games from the trainer."""
    disk: str | None = None
    """Message that the disk of the run's data folder is full."""
    redis: RedisState = UP
    """Status of Redis. While it is not up, heartbeats are missing."""

    def exam_at(self, goal: float | None, *, after: int = 0) -> Exam | None:
        """Return the newest exam at or under an error rate, preferably the best model's.

        Args:
            goal: the error rate; None is never reached.
            after: ignore this many of the first exams, except the best model's.
        """
        if goal is None:
            return None
        reached = [
            exam
            for number, exam in enumerate(self.exams)
            if exam.error_rate <= goal and (number >= after or exam.version == self.best_version)
        ]
        of_best = [exam for exam in reached if exam.version == self.best_version]
        return next(reversed(of_best or reached), None)


Status = WorkStatus | Literal["down"]
"""The status of a process; down: it has ended or does not respond."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """One process of a service: its status, and what it does in words."""

    name: str
    doing: str
    status: Status = "running"
    waiting_for: str = ""
    restarts: int = 0
    figures: Figures | None = None
    """Figures of its heartbeat."""


def all_up(services: Iterable[ServiceState]) -> bool:
    """Return whether every service sends heartbeats, and the trainer has resumed."""
    return all(
        has_resumed(each.figures)
        if isinstance(each.figures, TrainerFigures)
        else each.figures is not None
        for each in services
    )


def has_resumed(figures: TrainerFigures) -> bool:
    """Return whether a trainer has taken over the run; before that it has no window."""
    return figures.window_limit > 0


def states_of(beats: Iterable[Heartbeat], redis: RedisState = UP) -> list[ServiceState]:
    """Return the state of each process with a heartbeat.

    Args:
        redis: status of Redis when they were read.
    """
    return [state_of(beat.service, beat, 0, redis) for beat in beats]


def why_no_beat(redis: RedisState) -> str:
    """Return why heartbeats are missing while Redis is not up."""
    return "Redis takes no writes" if redis.status == "half up" else "Redis is down"


def state_of(name: str, beat: Heartbeat, restarts: int, redis: RedisState) -> ServiceState:
    """Return the state of a process that has a heartbeat.

    Args:
        restarts: how often the process was restarted.
        redis: status of Redis when the heartbeat was read.
    """
    status: Status = beat.work_status
    waits = beat.waiting_for
    if beat.is_late and redis.status != "up":
        age = f"last heartbeat {beat.age_seconds:.0f} s ago"
        words, status, waits = f"Not known: {why_no_beat(redis)} ({age})", "blocked", ""
    elif beat.is_late:
        words = f"Not responding (last heartbeat {beat.age_seconds:.0f} s ago)"
        status, waits = "down", ""
    elif pace := _pace(beat):
        words, status, waits = f"Running (paced to {pace})", "running", ""
    elif waits and status == "idle":
        words = f"Idle: {_no_work(beat)}"
    elif waits:
        words = f"{'Running: waiting' if status == 'running' else 'Waiting'} for {waits}"
    else:
        words = work_words(beat.figures)
    return ServiceState(name, words, status, waits, restarts, beat.figures)


def _no_work(beat: Heartbeat) -> str:
    """Return why a process is idle."""
    if isinstance(beat.figures, EvaluatorFigures) and beat.waiting_for in _NO_MODEL:
        return "no new model to evaluate"
    return f"waiting for {beat.waiting_for}"


def _pace(beat: Heartbeat) -> str:
    """Return the service that a process is paced to, even if it is not waiting now; or ""."""
    match beat.figures:
        case SelfplayFigures(pause_share=share):
            paced = _BEHIND.fullmatch(beat.waiting_for) is not None
            if paced or (share >= _PACED_SHARE and not beat.waiting_for):
                return "the trainer"
        case TrainerFigures(demand=DemandFigures(wait_share=share)) if share is not None:
            # One that hardly ever trains is starved: the words then say how many positions it
            # needs.
            paced = _LACKS.fullmatch(beat.waiting_for) is not None and share < _STARVED_SHARE
            if paced or (share >= _PACED_SHARE and not beat.waiting_for):
                return "self-play"
        case _:
            pass
    return ""


def work_words(figures: Figures) -> str:
    """Return the status text of a service that does not wait."""
    match figures:
        case EvaluatorFigures():
            return _judging(figures)
        case InferenceFigures():
            return f"Running on {figures.devices} GPUs" if figures.devices else "Running"
        case DashboardFigures():
            return f"Running ({figures.open_pages} open {_plural('page', figures.open_pages)})"
        case _:
            return "Running"


def _plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"


def _judging(figures: EvaluatorFigures) -> str:
    """Return what is played; a match comes before the games that wait for it."""
    if figures.match_in_play:
        games = _games(figures.match_games, figures.match_most_games, figures.match_score)
        return f"Evaluating model {figures.candidate}: {games}"
    if figures.trial_in_play:
        games = _games(figures.trial_games, figures.trial_most_games, figures.trial_score)
        return f"Playing a test match: {games}"
    if figures.rating_in_play:
        games = _games(figures.rating_player_games, figures.rating_player_most_games, None)
        return f"Rating model {figures.rating_player}: {games}"
    return "Running"


def _games(played: int, most: int, score: float | None) -> str:
    """Return progress, such as ``23 of 64 games, score 0.61``."""
    games = f"{played} of {most} games"
    return games if score is None else f"{games}, score {score:.2f}"


def doing_by_name(services: Sequence[ServiceState]) -> dict[str, str]:
    """Return a text for each service name; several processes are grouped by what they do."""
    found: dict[str, Counter[str]] = {}
    for service in services:
        found.setdefault(service.name, Counter())[doing_text(service)] += 1
    return {
        name: ", ".join(
            f"{count} of {doings.total()}: {doing}" if doings.total() > 1 else doing
            for doing, count in doings.most_common()
        )
        for name, doings in found.items()
    }


def doing_text(service: ServiceState) -> str:
    """Return what a service does; for inference also its precision and execution provider."""
    figures = service.figures
    is_plain = service.doing == "Running"
    if not isinstance(figures, InferenceFigures) or not figures.provider or not is_plain:
        return service.doing
    precision = f" in {figures.precision}" if figures.precision else ""
    return f"{service.doing} on {figures.provider}{precision}"


def redis_text(redis: RedisState) -> str:
    """Return the status of Redis, and what is missing because of it."""
    missing = {
        "up": "",
        "half up": "; heartbeats are missing, and the best pointer stays where it is",
        "down": "; heartbeats are missing",
    }
    return f"{redis.words}{missing[redis.status]}"


def loss_text(loss: Loss | None) -> str:
    """Return the policy and value loss separately: they learn at different speeds."""
    if loss is None:
        return "not measured yet"
    own = (f" {name} {value:.3g}" for name, value in loss.own.items())
    return f"policy {loss.policy:.3f} value {loss.value:.3f}{''.join(own)}"


def own_losses(stored: object) -> dict[str, float]:
    """Return the losses of your own network by name, from ``train_metrics.own_losses``.

    Names come from a class and may be any text: they are made printable and short.
    """
    if not isinstance(stored, Mapping):
        return {}
    pairs = cast("Mapping[object, object]", stored).items()
    return {
        shortened(printable(str(name))): float(value)
        for name, value in itertools.islice(pairs, MOST_OWN_LOSSES)
        if isinstance(value, (int, float)) and math.isfinite(value)
    }


def rate_text(figures: RunFigures) -> str:
    """Return the learning rate, and how much of its schedule is done."""
    used = figures.budget_used or 0.0
    rate = f"{figures.learning_rate or 0.0:.3g}"
    if used >= 1:
        return (
            f"{rate} (schedule finished; raise trainer.budget_minutes or budget_samples to go on)"
        )
    return f"{rate} ({used:.0%} of the schedule)"


def warning_text(warning: str, detail: str) -> str:
    """Return a warning of the training: what happens, and the figures behind it."""
    return f"{_WARNINGS.get(warning, warning)}: {detail}"


def distinct_text(figures: RunFigures) -> str:
    """Return the share of distinct games; a falling share means that self-play repeats itself."""
    return _share_text(figures.play.distinct_game_share, figures)


def draws_text(figures: RunFigures) -> str:
    """Return the share of draws among the same games."""
    return _share_text(figures.play.drawn_game_share, figures)


def _share_text(share: float | None, figures: RunFigures) -> str:
    return "not counted yet" if share is None else f"{share:.1%} of the last {figures.play.games:,}"


def entropy_text(figures: RunFigures) -> str:
    """Return the entropy of the network's policy and of the search that it learns from."""
    play = figures.play
    if play.policy_entropy is None or play.target_entropy is None:
        return "not measured yet"
    first = play.first_policy_entropy
    before = "" if first is None else f" ({first:.2f} at first)"
    return f"network {play.policy_entropy:.2f}{before}, search {play.target_entropy:.2f} nats"


def restarts_text(restarts: RestartList) -> str:
    """Return how many positions games begin at, and their regret."""
    if restarts.regret is None:
        return "no positions yet"
    words = counted(restarts.positions, "position")
    return f"{words} with a mean regret of {restarts.regret:.2f}"


def best_text(figures: RunFigures) -> str:
    """Return the promoted model and how long it has been the best."""
    if figures.best_version is None:
        return "none promoted yet"
    age = "" if figures.best_age_s is None else f" (promoted {duration(figures.best_age_s)} ago)"
    return f"{figures.best_version}{age}"


def short_best_text(figures: RunFigures) -> str:
    """Return ``best_text`` in few characters, such as ``12, 3 min ago``."""
    if figures.best_version is None:
        return best_text(figures)
    age = figures.best_age_s
    return f"{figures.best_version}" + ("" if age is None else f", {_short_duration(age)} ago")


def elo_text(figures: RunFigures) -> str:
    """Return the rating with half of its 95% interval, and its model if that is not the best."""
    if figures.elo is None:
        return "not rated yet"
    half = None if figures.elo_error is None else Z_95 * figures.elo_error
    rated = figures.rated_version
    return rating_text(figures.elo, half, None if rated == figures.best_version else rated)


def rating_text(elo: float, half: float | None, model: int | None = None) -> str:
    """Return an Elo rating with half of its 95% interval, relative to the oldest model.

    Args:
        elo: relative to the reference.
        half: half of the interval; None: unknown; 0 for the reference alone.
        model: version of the rated model; None: leave it out.
    """
    if half == 0:
        figure, notes = "0", ["reference"]
    else:
        figure, notes = f"{elo:+,.0f}" if half is None else f"{elo:+,.0f} ± {half:,.0f}", []
    if model is not None:
        notes.append(f"model {model}")
    return f"{figure} ({', '.join(notes)})" if notes else figure


def elo_interval(figures: RunFigures) -> tuple[float, float] | None:
    """Return the whole 95% interval of ``elo_text``; None if there is none."""
    if figures.elo is None or figures.elo_error is None:
        return None
    half = Z_95 * figures.elo_error
    return figures.elo - half, figures.elo + half


def exam_unit(kinds: Iterable[str]) -> str:
    """Return the unit in which an exam counts: ``lines`` or ``positions``.

    Args:
        kinds: kinds of positions in the exam.
    """
    return "lines" if set(kinds) == {"lines"} else "positions"


def exam_text(figures: RunFigures) -> str:
    """Return the error rate of the newest examined model, and of the one before it."""
    if not figures.exams:
        return "no exam yet"
    *before, newest = figures.exams[-2:]
    was = f"; was {before[0].error_rate:.2%} for model {before[0].version}" if before else ""
    return f"{newest.error_rate:.2%} (model {newest.version}{was})"


def newest_exam_text(figures: RunFigures) -> str:
    """Return all figures of the newest exam, by kind of positions."""
    if not figures.newest_exams:
        return "no exam yet"
    kinds = [_kind_text(exam) for exam in figures.newest_exams]
    return f"model {figures.newest_exams[0].version}: {'; '.join(kinds)}"


def _kind_text(exam: Exam) -> str:
    text = f"{POSITION_WORDS.get(exam.kind, exam.kind)} {exam.error_rate:.2%}"
    if exam.prior_error_rate is not None:
        text += f", network only {exam.prior_error_rate:.2%}"
    return text if exam.value_error is None else f"{text}, value error {exam.value_error:.3f}"


def counted(number: int, noun: str) -> str:
    """Return a count, such as ``1 model`` and ``2 models``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def next_model_text(steps: int | None) -> str:
    """Return when the trainer publishes the next model.

    Args:
        steps: training steps until then; None: no trainer responds.
    """
    return "not known yet" if steps is None else f"in {counted(steps, 'step')}"


def steps_to_next(step: int, every_steps: int) -> int:
    """Return the steps until the next model, if there is one every ``every_steps``."""
    return every_steps - step % every_steps


def _short_duration(seconds: float) -> str:
    """Return a duration in its largest unit, such as ``2 min``."""
    number, unit = duration(seconds).split()[:2]
    return f"{number} {unit}"


def duration(seconds: float) -> str:
    """Return a duration with its units, such as ``11 s``, ``2 min 3 s`` or ``1 h 2 min``."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"
