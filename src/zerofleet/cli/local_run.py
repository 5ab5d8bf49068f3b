"""A local run from its start to its report: stores, services, progress, ``--until`` and the end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import shlex
import shutil
import sys
import time
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import typer

from zerofleet import games
from zerofleet.best_pointer import BestPointer
from zerofleet.cli.run_figures import progress
from zerofleet.cli.terminal import echo, interruptible, stop_event
from zerofleet.config import RunConfig, TrainerSection
from zerofleet.cpus import usable_cpus
from zerofleet.database import Database, Origin, migrate
from zerofleet.errors import ConfigError, StoreUnavailableError, ZerofleetError
from zerofleet.fleet.figures import InferenceFigures, TrainerFigures
from zerofleet.fleet.need import smaller_network
from zerofleet.fleet.report import (
    Exam,
    RunFigures,
    ServiceState,
    all_up,
    counted,
    duration,
    elo_text,
    loss_text,
)
from zerofleet.fleet.usage import Usage
from zerofleet.local.data_folder import DataFolder, UsageMeter
from zerofleet.local.monitor import Monitor
from zerofleet.local.processes import answers
from zerofleet.local.programs import (
    LocalPrograms,
    chosen_address,
    chosen_metrics_ports,
    chosen_page_address,
    keep_page_port,
    port_of,
    require_different_ports,
)
from zerofleet.local.start import LastCheckpoint, Start
from zerofleet.local.stores import Running, Stores, StoreUrls
from zerofleet.local.supervisor import AddressTakenError, Supervisor, service_of
from zerofleet.printable import printable

_QUERY = "SELECT model, at, against, score_percent, elo FROM promotion_history"

_NUMBER = r"(\d{1,12}(?:\.\d{1,12})?)"
_TIME = re.compile(rf"(?:{_NUMBER}h)? ?(?:{_NUMBER}m)? ?(?:{_NUMBER}s)?", re.ASCII)
_SECONDS = (3600, 60, 1)  # seconds per group
_COUNT = re.compile(r"(\d{1,3}(?:[_,]\d{3}){1,4}|\d{1,15}) ?(step|game)s?", re.ASCII)

_LOOK_SECONDS = 1.0
_SLOW_LOOKS = 20
_MOST_TRIES = 3  # for addresses that were free when they were chosen

_ACTOR = "zerofleet up"


def goal_text(reached: Exam | None, goal: float) -> str:
    """Return whether the goal was reached, and by which model."""
    if reached is None:
        return f"\nThe goal, an exam error rate of {goal:.2%}, is not reached yet."
    return (
        f"\nGoal reached: model {reached.version} has an exam error rate of "
        f"{reached.error_rate:.2%} ({reached.errors:,} of {reached.positions:,}, "
        f"at {reached.simulations} simulations)."
    )


def lost_text(games: int, killed: Mapping[str, bool], disk: str | None) -> str:
    """Return which games were not stored, and why; "" if all were.

    Args:
        games: number of finished games that the workers reported as lost.
        killed: workers that had to be killed, and whether they reported that number before.
        disk: message about a full disk; None: it is not full.
    """
    text = ""
    if games:
        were = "was" if games == 1 else "were"
        why = f": the disk is {disk}" if disk else ", see the logs"
        lost = f"{counted(games, 'finished game')} {were} not stored"
        text += f"\n{lost}, because Postgres did not take them{why}."
    silent = [name for name, has_reported in killed.items() if not has_reported]
    if silent:
        text += (
            f"\n{_listed(silent)} had to be killed and did not report whether finished games were "
            "lost. The next start resumes the games that were saved."
        )
    if len(silent) < len(killed):
        others = _listed([name for name, has_reported in killed.items() if has_reported])
        none = "" if games else " No finished game was lost."
        text += (
            f"\n{others} had to be killed while saving unfinished games.{none} The next start "
            "resumes them from where they were last saved."
        )
    return text


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def final_report(
    figures: RunFigures,
    usage: Usage,
    folder: DataFolder,
    *,
    workers: int = 1,
    metrics_port: int | None = None,
    trainer: TrainerSection | None = None,
) -> str:
    """Return a report of several lines.

    Args:
        figures: the state of the run at its end.
        usage: what the run took, over all its starts.
        folder: the run's data folder.
        workers: self-play workers of this start.
        metrics_port: first port of the metrics of this start; None: no metrics.
        trainer: settings of ``[trainer]``; None: the report has no advice on training.
    """
    lines = ["", *_cost(figures, usage)]
    if figures.models == 1 and trainer is not None:
        lines += _untrained(figures, trainer)
    lines += ["", f"page     {page_command(folder)}"]
    if figures.best_version is not None:
        lines += _what_now(figures, folder)
    return "\n".join([*lines, _resume(folder, workers, metrics_port)])


def _untrained(figures: RunFigures, trainer: TrainerSection) -> list[str]:
    """Return why a run has only its first model."""
    least = trainer.first_step_positions
    lines = ["The only model has not been trained: it was published before the first step."]
    if figures.positions < least:
        lines.append(
            f"Training starts at {least:,} positions, and the run has {figures.positions:,}. "
            "Resume it, or lower trainer.min_positions."
        )
    else:
        lines.append(
            f"The next model comes after {trainer.publish_every_steps:,} steps. Resume the run, or "
            "lower trainer.publish_every_steps."
        )
    return lines


def page_command(folder: DataFolder) -> str:
    """Return the command that shows the dashboard of this run."""
    return f"{_command()} page --data {shlex.quote(str(_short(folder.root)))}"


def _cost(figures: RunFigures, usage: Usage) -> list[str]:
    if figures.games == 0 and figures.given_games == 0:
        return ["No game was finished."]
    given = f"{counted(figures.given_games, 'given game')}, " if figures.given_games else ""
    since = "the first start" if figures.given_games else "the first game"
    lines = [
        f"{given}{counted(figures.games, 'game')}, {counted(figures.models, 'model')}, "
        f"{counted(figures.promotions, 'promotion')}; "
        f"{usage.wall_seconds:.1f} s on the clock and {usage.cpu_seconds:.1f} CPU-seconds "
        f"since {since}."
    ]
    if figures.best_version is not None:
        lines.append(f"Best: model {figures.best_version}, Elo {elo_text(figures)}.")
    if figures.held_out is not None:
        lines.append(f"Last validation loss of the trainer: {loss_text(figures.held_out)}.")
    return lines


def _what_now(figures: RunFigures, folder: DataFolder) -> list[str]:
    data = f"--data {shlex.quote(str(_short(folder.root)))}"
    model = _short(folder.models) / folder.run / str(figures.best_version) / "model.onnx"
    lines = [
        f"play     {_command()} play {data}",
        f"query    {_command()} sql {data} -c '{_QUERY}'",
        f"inspect  {_command()} status {data}",
    ]
    if figures.has_exam:
        lines.append(f"exam     {_command()} exam {data} --model all")
    return [*lines, f"model    {model}", f"logs     {_short(folder.logs)}"]


def _resume(folder: DataFolder, workers: int, metrics_port: int | None) -> str:
    root = shlex.quote(str(_short(folder.root)))
    run_file = shlex.quote(str(_short(folder.run_file)))
    resume = f"resume   {_command()} up {run_file} --data {root}"
    if workers > 1:
        resume += f" --workers {workers}"
    if metrics_port is not None:
        resume += f" --metrics-port {metrics_port}"
    return resume


def _command() -> str:
    """Return the command that starts this program here, so that a line can be pasted."""
    if shutil.which("zerofleet") is not None:
        return "zerofleet"
    here = Path(sys.executable).parent / "zerofleet"
    return shlex.quote(str(_short(here))) if here.exists() else "zerofleet"


def _short(path: Path) -> Path:
    """Return the path relative to the working directory, if it lies below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


@dataclass(frozen=True, slots=True)
class Until:
    """A condition at which a run ends.

    Seconds count from the start of the services. Steps, games and the budget are totals of the run.
    """

    text: str
    """The value as given."""
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
        checkpoint: the newest one, from which training resumes.
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

    @property
    def counts_games(self) -> bool:
        """Whether the run ends at a number of games."""
        return self._until.kind == "game"

    def exam(self, figures: RunFigures) -> Exam | None:
        """Return the exam that reached the goal; None if there is no goal or it is not reached.

        Exams in the first call's figures are from before this start. Only the best model's counts.
        """
        if self._old_exams is None:
            self._old_exams = len(figures.exams)
        if self._until.kind != "goal":
            return None
        return figures.exam_at(self._until.amount, after=self._old_exams)

    def is_reached(self, figures: RunFigures, seconds: float) -> bool:
        """Return whether the run should end.

        Args:
            seconds: time since the services were started.
        """
        if self._until.kind == "goal":
            return self.exam(figures) is not None
        return self.is_set and self._now(figures, seconds) >= self._most

    def seconds_left(self, seconds: float) -> float:
        """Return the time to the end, at least 0; infinite if the end is not a time.

        Args:
            seconds: time since the services were started.
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
            figures: the last figures.
            seconds: time since the services were started.
            at_start: the condition was met before any service was started.
        """
        if self._until.kind == "goal":
            text = goal_text(self.exam(figures), self._until.amount)
            return text if not at_start else f"{text} {self._reached_before(figures)}"
        if not self.is_set:
            return None
        if at_start:
            return f"\nNothing to do. {self._reached_before(figures)}"
        progress = f"--until {self._until.text}: {self.progress(figures, seconds)}"
        is_reached = self.is_reached(figures, seconds)
        return f"\nEnded by {progress}." if is_reached else f"\nNot reached yet: {progress}."

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


class LocalRun:
    """Runs everything of one run until its goal, a signal, or a failure.

    Args:
        folder: its data folder, held by the caller.
        port: port of the inference service; None takes a free one.
        page: whether to start the dashboard.
        page_port: port of the dashboard; None takes the one saved in the folder, or the first free
            one from 8080 on.
        metrics_port: the first of the ports for metrics; None takes free ones.
        until: the condition at which to end.
    """

    def __init__(
        self,
        run: RunConfig,
        folder: DataFolder,
        *,
        workers: int,
        port: int | None,
        page: bool,
        page_port: int | None,
        metrics_port: int | None = None,
        until: Until,
    ) -> None:
        self._run = run
        self._folder = folder
        self._workers = workers
        self._port = port
        self._page_port = page_port
        self._metrics_port = metrics_port
        self._progress = progress()
        self._address = chosen_address(port)
        self._page = chosen_page_address(folder, page_port, self._progress.say) if page else None
        self._metrics_ports = self._chosen_metrics_ports()
        self._checkpoint = LastCheckpoint.read(folder.checkpoints / folder.run)
        self._ending = Ending(until, run, self._checkpoint)
        self._began = time.monotonic()  # reset when the services are started
        self._trained = 0.0  # seconds from then to the end
        self._page_shown = False
        self._meter = UsageMeter(folder.usage_file)
        self._lost = ""
        self._slow_looks = 0
        self._warned_of_size = False
        self._reported_services = dict[str, str]()  # text by name
        self._told_of_budget = False

    def go(self, database_url: str | None, redis_url: str | None, start: Start) -> bool:
        """Start, train and stop; return whether ``--until`` was reached (true without one).

        Args:
            database_url: URL of an outside Postgres.
            redis_url: URL of an outside Redis or Valkey.
            start: the start of the folder, which is notified when all services are up.

        Raises:
            ConfigError: a mistake that a person must correct.
            ProgramFailedError: a service cannot be kept running.
            StoreUnavailableError: an outside store does not answer.
        """
        try:
            return self._go(database_url, redis_url, start)
        except ZerofleetError:
            if self._lost:
                echo(self._lost)
            raise

    def _go(self, database_url: str | None, redis_url: str | None, start: Start) -> bool:
        say = self._progress.say
        if self._checkpoint is not None:
            self._checkpoint.check(self._run, games.spec(self._run.game.name))
        stores = Stores(self._folder, database_url, redis_url, say=say)
        stores.check(self._run.name)
        say(f"data folder: {self._folder.root}")
        with interruptible():
            try:
                say("starting the stores, then the services")
                with stores:
                    figures, report, is_reached = self._train(stores, start)
                    say("stopping the stores")
            except KeyboardInterrupt:
                say("stopped before training began")
                return not self._ending.is_set
        if report is not None:
            echo(report)
        if self._lost:
            echo(self._lost)
        usage = self._meter.usage
        report = final_report(
            figures,
            usage,
            self._folder,
            workers=self._workers,
            metrics_port=self._metrics_port,
            trainer=self._run.trainer,
        )
        echo(report)
        return is_reached or not self._ending.is_set

    def _train(self, stores: Stores, start: Start) -> tuple[RunFigures, str | None, bool]:
        """Train over running stores; return the last figures, a report and whether it ended."""
        owner_url = stores.urls.database["owner"]
        migrate(owner_url, say=self._progress.say)
        with Database(owner_url) as database:
            database.register_run(self._run)
            if self._checkpoint is None and any(
                model.step for model in database.models(self._run.name)
            ):
                raise ConfigError(
                    f"the run '{self._run.name}' has trained models in its database, but "
                    f"{self._folder.checkpoints} has no checkpoint to resume from. Copy the "
                    "checkpoints there, or start a run with another name."
                )
            database.make_partitions()  # with the size that this run sets, before the first game
            self._check_origin(database.origin(self._run.name))
        urls = stores.urls
        console, root = urls.database["console"], self._folder.root
        with Monitor(self._run, console, urls.redis, root) as monitor:
            monitor.require_redis()
            start.write(self._run)
            stores.remember()
            if (fault := monitor.disk_use().limit_fault) is not None:
                self._progress.say(fault)
            figures = monitor.figures()
            at_start = self._ending.is_reached(figures, 0.0)
            if at_start:
                start.succeeded()
            else:
                self._report_workers()
                self._began = time.monotonic()
                with self._keeping_games(monitor, figures.games, start), self._progress:
                    figures = self._supervise_where_it_can_listen(stores, monitor, figures, start)
            is_reached = self._ending.is_reached(figures, self._trained)
            report = self._ending.report(figures, self._trained, at_start=at_start)
            if (exam := self._ending.exam(figures)) is not None:
                make_best(self._run.name, exam.version, stores.urls)
            with contextlib.suppress(StoreUnavailableError):
                figures = monitor.figures()
            return figures, report, is_reached

    def _check_origin(self, origin: Origin | None) -> None:
        """Check that all given games are there; start no self-play workers for ``--retrain``.

        Raises:
            ConfigError: some are missing, or ``--until`` waits for games of a run that plays none.
        """
        if origin is None:
            return
        if origin.finished_at is None:
            raise ConfigError(f"the run '{self._run.name}' begins with {origin}")
        self._progress.say(f"begins with {origin}")
        if origin.retrain:
            self._workers = 0
            if self._ending.counts_games:
                raise ConfigError(
                    "--until with a number of games: this run learns from given games alone "
                    "(--retrain) and plays none. Give a time, a number of steps, or budget"
                )

    @contextlib.contextmanager
    def _keeping_games(self, monitor: Monitor, old_games: int, start: Start) -> Generator[None]:
        """Keep a new folder with games in it, whatever ends the services.

        The last games are stored while the services stop, after the figures were read for the last
        time.
        """
        try:
            yield
        except BaseException:
            games = math.inf  # unknown
            with contextlib.suppress(StoreUnavailableError):
                games = monitor.figures().games
            if start.is_new and games > old_games:
                start.succeeded()
            raise

    def _supervise_where_it_can_listen(
        self, stores: Stores, monitor: Monitor, figures: RunFigures, start: Start
    ) -> RunFigures:
        """Run the services, on other ports if another program has taken one that we chose."""
        for tries_left in reversed(range(_MOST_TRIES)):
            self._progress.say(f"inference (gRPC): {self._address}")
            if self._metrics_port is not None:
                last = max(self._metrics_ports.values())
                self._progress.say(
                    f"metrics: ports {self._metrics_port} to {last} of 127.0.0.1 "
                    "(`zerofleet status` lists them)"
                )
            running = Running.of(stores, self._address, self._page, self._metrics_ports)
            try:
                with running.announced(self._folder):
                    return asyncio.run(self._supervise(stores, monitor, figures, start))
            except AddressTakenError as error:
                if not tries_left:
                    raise
                self._progress.say(f"{error}\nRestarting on other ports.")
                self._choose_addresses()
        raise AssertionError("unreachable")

    def _choose_addresses(self) -> None:
        """Choose other free ports. A given port stays; the run may continue without it."""
        self._address = chosen_address(self._port)
        self._page_shown = False
        if self._page is not None:
            try:
                self._page = chosen_page_address(self._folder, self._page_port, self._progress.say)
            except ConfigError as error:
                self._page = None
                self._progress.say(f"{error}\nThe run continues without the dashboard.")
        self._metrics_ports = self._chosen_metrics_ports()

    def _chosen_metrics_ports(self) -> dict[str, int]:
        """Choose the ports, and refuse one that another server of this run uses.

        Raises:
            ConfigError: a port cannot be used, or would be used twice.
        """
        others = {"inference (--port)": port_of(self._address)}
        if self._page is not None:
            others["the dashboard (--dashboard-port)"] = port_of(self._page)
        require_different_ports(others)
        has_page = self._page is not None
        return chosen_metrics_ports(self._metrics_port, self._workers, page=has_page, others=others)

    async def _supervise(
        self, stores: Stores, monitor: Monitor, figures: RunFigures, start: Start
    ) -> RunFigures:
        """Run the services until the end, a signal or a failure; return the last figures."""
        programs = LocalPrograms(
            self._folder, stores.urls, self._address, self._page, self._metrics_ports
        )
        loop = asyncio.get_running_loop()

        def ended(pid: int) -> None:
            loop.run_in_executor(None, monitor.forget, pid)

        supervisor = Supervisor(
            programs.loop(self._workers), self._progress.say, ended, self._folder.store_logs
        )

        def say_stop() -> None:
            self._progress.end()
            self._progress.say("Stopping. Press Ctrl-C again to force.")

        async with (
            self._telling_lost(supervisor, monitor),
            stop_event(first=say_stop, again=supervisor.hurry) as stop,
            supervisor,
        ):
            failed = asyncio.create_task(supervisor.failed())
            stopped = asyncio.create_task(stop.wait())
            await asyncio.sleep(0)  # the children are started now
            pause, old_games = _LOOK_SECONDS, figures.games
            while not self._ending.is_reached(figures, self._seconds):
                services = monitor.services(supervisor.children)
                self._progress.show(self._with_end(figures), services)
                self._report_services(services)
                self._warn_of_size(services)
                self._tell_of_budget(figures)
                self._show_page()
                # A new folder with games in it is kept, whatever happens to the services.
                needed = [
                    service
                    for service, child in zip(services, supervisor.children, strict=True)
                    if not child.program.optional
                ]
                if all_up(needed) or (start.is_new and figures.games > old_games):
                    start.succeeded()
                pause = min(pause, self._ending.seconds_left(self._seconds))
                await asyncio.wait({failed, stopped}, timeout=pause, return_when=FIRST_COMPLETED)
                if failed.done() or stopped.done():
                    break
                began = time.monotonic()
                try:
                    figures = await asyncio.to_thread(monitor.figures)
                except StoreUnavailableError:
                    figures = replace(figures, disk=monitor.disk())
                self._meter.read(games=figures.games + figures.given_games)
                # In a long run each reading counts many rows: it must not occupy a core.
                pause = max(_LOOK_SECONDS, 25 * (time.monotonic() - began))
            self._trained = self._seconds
            services = monitor.services(supervisor.children)
            self._report_services(services)  # it may have come up since the last look
            self._progress.show(self._with_end(figures), services)
            stopped.cancel()
            if failed.done():
                failed.result()
            start.succeeded()  # also if it ended before all were up
            failed.cancel()
        return figures

    @property
    def _seconds(self) -> float:
        """Seconds since the services were started."""
        return time.monotonic() - self._began

    def _with_end(self, figures: RunFigures) -> RunFigures:
        return replace(figures, until=self._ending.progress(figures, self._seconds))

    def _show_page(self) -> None:
        """Print the address of the dashboard once it responds, and keep its port."""
        if self._page is not None and not self._page_shown and answers(self._page):
            self._page_shown = True
            keep_page_port(self._folder, self._page, self._page_port)
            self._progress.say(f"dashboard: http://{self._page}")

    @contextlib.asynccontextmanager
    async def _telling_lost(self, supervisor: Supervisor, monitor: Monitor) -> AsyncGenerator[None]:
        """Record the games that workers still held when they exited, also if a service failed."""
        try:
            yield
        finally:
            lost = sum(child.lost_games for child in supervisor.children)
            killed = {
                child.program.name: child.has_reported
                for child in supervisor.children
                if child.killed and service_of(child.program.name) == "selfplay"
            }
            self._lost = lost_text(lost, killed, monitor.disk())

    def _tell_of_budget(self, figures: RunFigures) -> None:
        """Say once that the learning rate has reached its end, since training continues."""
        if (figures.budget_used or 0.0) >= 1 and not self._told_of_budget:
            self._told_of_budget = True
            self._progress.say(
                "Schedule finished: training continues at the lowest learning rate. "
                "Press Ctrl-C to stop."
            )

    def _report_workers(self) -> None:
        """Print how many self-play workers there are, if any, and their size."""
        if not self._workers:
            return
        games = self._run.selfplay.engines * self._run.selfplay.games_per_engine
        self._progress.say(
            f"self-play: {counted(self._workers, 'worker')}, {counted(games, 'game')} per worker, "
            f"on a machine with {counted(usable_cpus(), 'CPU core')}"
        )

    def _report_services(self, services: Sequence[ServiceState]) -> None:
        """Print what each service runs on and its sizes, again if a restart changes them."""
        for service in services:
            figures, name = service.figures, service.name
            if not isinstance(figures, InferenceFigures | TrainerFigures) or not figures.runs_on:
                continue
            if self._reported_services.get(name) != figures.runs_on:
                self._reported_services[name] = figures.runs_on
                self._progress.say(printable(f"{name}: {figures.runs_on}"))

    def _warn_of_size(self, services: Sequence[ServiceState]) -> None:
        """Warn once that the network is too large for this machine's CPUs."""
        for service in services:
            inference = service.figures
            if not isinstance(inference, InferenceFigures) or inference.provider != "cpu":
                continue
            shape = games.spec(self._run.game.name).observation_shape
            capacity = inference.capacity_rows_per_second
            words = capacity and smaller_network(self._run.network, shape, capacity)
            self._slow_looks = self._slow_looks + 1 if words else 0
            # It may only be starting slowly, together with all the others.
            if self._slow_looks >= _SLOW_LOOKS and not self._warned_of_size:
                self._warned_of_size = True
                self._progress.say(f"the network is large for this machine, {words}")


def make_best(run: str, version: int, urls: StoreUrls) -> None:
    """Promote the model that reached the goal again, if another was promoted after it.

    Between its exam and the evaluator's end a newer candidate may have won its match, but the best
    model of a finished run should be the one that reached the goal. Call this when no evaluator
    runs any longer.
    """
    with Database(urls.database["owner"], pool_size=1) as database:
        head = database.promotion_head(run)
        if head is None or head.version == version:
            return
        epoch = database.acquire_fence(run, "evaluator")
        database.promote(run, version, None, _ACTOR, head.seq, epoch=epoch)
        with (
            contextlib.closing(BestPointer(urls.redis, run)) as pointer,
            # Without Redis the promotion holds, and the next evaluator moves the pointer.
            contextlib.suppress(StoreUnavailableError),
        ):
            pointer.reconcile(database)
