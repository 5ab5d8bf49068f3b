"""``--until``: the condition at which a run ends by itself."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import typer

from zerofleet.cli.final_report import goal_text
from zerofleet.config import RunConfig
from zerofleet.errors import ConfigError
from zerofleet.fleet.report import Exam, RunFigures, counted, duration
from zerofleet.local.start import LastCheckpoint

_NUMBER = r"(\d{1,12}(?:\.\d{1,12})?)"
_TIME = re.compile(rf"(?:{_NUMBER}h)? ?(?:{_NUMBER}m)? ?(?:{_NUMBER}s)?", re.ASCII)
_SECONDS = (3600, 60, 1)  # of the groups
_COUNT = re.compile(r"(\d{1,3}(?:[_,]\d{3}){1,4}|\d{1,15}) ?(step|game)s?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Until:
    """A condition at which a run ends.

    Seconds count from the start of the services. Steps, games and the budget are totals of the run.
    """

    text: str
    """As it was given."""
    kind: Literal["forever", "goal", "budget", "seconds", "step", "game"]
    amount: float = 0.0
    """The number given; for a goal, the error rate in the run file."""

    @classmethod
    def parse(cls, text: str) -> Until:
        """Read the option's value.

        Raises:
            typer.BadParameter: it is none of the forms, or 0.
        """
        text = text.strip()
        if text in {"forever", "goal", "budget"}:
            return cls(text, cast("Literal['forever', 'goal', 'budget']", text))
        time, count = _TIME.fullmatch(text), _COUNT.fullmatch(text)
        until: Until | None = None
        if time is not None:
            amounts = map(float, time.groups("0"))
            until = cls(text, "seconds", sum(a * b for a, b in zip(amounts, _SECONDS, strict=True)))
        elif count is not None:
            kind: Literal["step", "game"] = "step" if count[2] == "step" else "game"
            until = cls(text, kind, int(re.sub("[_,]", "", count[1])))
        if until is None or not until.amount:
            raise typer.BadParameter(
                f"'{text}': give a time (90s, 10m, 1h30m), 5000steps, 20000games, budget, goal "
                "or forever"
            )
        return until

    def of_run(self, run: RunConfig, run_file: Path) -> Until:
        """Return the condition for a run, with the goal of its run file.

        Raises:
            ConfigError: the run file has no goal, or no budget, or its game has no exam.
        """
        from zerofleet.exam import has_exam

        if self.kind == "budget" and run.trainer.budget_used(0, 0.0) is None:
            raise ConfigError(
                f"{run_file} has no budget: set trainer.budget_minutes or trainer.budget_samples, "
                "or choose another --until"
            )
        if self.kind != "goal":
            return self
        if run.goal is None:
            raise ConfigError(
                f"{run_file} has no goal: add [goal] exam_error_rate = 0.0, or leave out --until"
            )
        if not has_exam(run.game.name):
            raise ConfigError(f"a [goal] needs an exam, and {run.game.name} has none")
        return replace(self, amount=run.goal.exam_error_rate)


class Ending:
    """Tracks how far a run is from the condition that ends it.

    Args:
        until: the condition.
        run: the run.
        checkpoint: the newest one, from which training goes on.
    """

    def __init__(self, until: Until, run: RunConfig, checkpoint: LastCheckpoint | None) -> None:
        self._until = until
        self._step = checkpoint.step if checkpoint else 0
        used = run.trainer.budget_used(
            checkpoint.samples if checkpoint else 0, checkpoint.seconds if checkpoint else 0.0
        )
        self._budget_used = used or 0.0
        self._old_exams: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether there is a condition."""
        return self._until.kind != "forever"

    def exam(self, figures: RunFigures) -> Exam | None:
        """Return the exam that reached the goal; None: no goal is asked for or reached.

        Exams in the first call's figures are from before this start: only the best model's counts.
        """
        if self._old_exams is None:
            self._old_exams = len(figures.exams)
        if self._until.kind != "goal":
            return None
        return figures.exam_at(self._until.amount, after=self._old_exams)

    def is_reached(self, figures: RunFigures, seconds: float) -> bool:
        """Whether the run should end.

        Args:
            figures: of the run.
            seconds: since the services were started.
        """
        if self._until.kind == "goal":
            return self.exam(figures) is not None
        return self.is_set and self._now(figures, seconds) >= self._most

    def seconds_left(self, seconds: float) -> float:
        """Return the time to the end, at least 0; infinite if the end is not a time.

        Args:
            seconds: since the services were started.
        """
        return max(0.0, self._most - seconds) if self._until.kind == "seconds" else math.inf

    def progress(self, figures: RunFigures, seconds: float) -> str | None:
        """Return the progress, such as ``1,234 of 5,000 steps``; None if it has no measure."""
        now, most = self._now(figures, seconds), self._most
        match self._until.kind:
            case "seconds":
                return f"{duration(now)} of {duration(most)}"
            case "budget":
                return f"{now:.0%} of the training budget"
            case "step" | "game" as unit:
                return f"{now:,.0f} of {most:,.0f} {unit}s"
            case _:
                return None

    def report(self, figures: RunFigures, seconds: float, *, at_start: bool) -> str | None:
        """Return what ended the run, or that the condition is not reached yet; None without one.

        Args:
            figures: the last ones.
            seconds: since the services were started.
            at_start: the condition was met before any service was started.
        """
        if self._until.kind == "goal":
            text = goal_text(self.exam(figures), self._until.amount)
            return text if not at_start else f"{text} {self._reached_before(figures)}"
        if not self.is_set:
            return None
        if at_start:
            return f"\nNothing to do. {self._reached_before(figures)}"
        told = f"--until {self._until.text}: {self.progress(figures, seconds)}"
        is_reached = self.is_reached(figures, seconds)
        return f"\nEnded by {told}." if is_reached else f"\nNot reached yet: {told}."

    def _reached_before(self, figures: RunFigures) -> str:
        """Return that the condition was met before this start, and how to train further."""
        match self._until.kind:
            case "step" | "game" as unit:
                now, most = int(self._now(figures, 0.0)), int(self._most)
                reached = f"--until {self._until.text} was reached before this start"
                more = f"give a higher total, such as --until {now + most}{unit}s, or no --until"
                return f"{reached}: the run has {counted(now, unit)}. To train further, {more}."
            case "budget":
                return (
                    "The training budget was used up before this start. To train further, raise "
                    "trainer.budget_minutes or trainer.budget_samples, or leave out --until."
                )
            case _:
                return (
                    "It was reached before this start. To train further, lower exam_error_rate in "
                    "[goal], or leave out --until."
                )

    @property
    def _most(self) -> float:
        return 1.0 if self._until.kind == "budget" else self._until.amount

    def _now(self, figures: RunFigures, seconds: float) -> float:
        """Return the amount so far; the last known one if no trainer responds."""
        if figures.steps is not None:
            self._step = figures.steps
        if figures.budget_used is not None:
            self._budget_used = figures.budget_used
        match self._until.kind:
            case "seconds":
                return seconds
            case "step":
                return self._step
            case "game":
                return figures.games
            case _:
                return self._budget_used
