"""A run's figures in the terminal.

``zerofleet up`` shows its progress as a live table on a terminal, and as plain lines elsewhere.
``zerofleet status`` shows text or JSON.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from zerofleet.database import Kept
from zerofleet.fleet.disk import DiskUse
from zerofleet.fleet.figures import InferenceFigures
from zerofleet.fleet.need import Advice
from zerofleet.fleet.report import (
    RunFigures,
    ServiceState,
    best_text,
    counted,
    distinct_text,
    doing_by_name,
    draws_text,
    duration,
    elo_interval,
    elo_text,
    entropy_text,
    exam_text,
    loss_text,
    newest_exam_text,
    next_model_text,
    rate_text,
    redis_text,
    restarts_text,
    warning_text,
)
from zerofleet.local.processes import LOOPBACK
from zerofleet.printable import printable, printable_lines

if TYPE_CHECKING:
    from zerofleet.local.stores import Running

_LINE_SECONDS = 5.0
# Yellow and red mean that somebody should act.
_STYLES = {"running": "green", "idle": "dim", "blocked": "yellow", "down": "red"}


class Progress(Protocol):
    """Shows figures, and lines of text that stay.

    If output is no longer possible (a closed terminal, a full disk, ``| head``), the run continues
    and nothing is shown.
    """

    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...
    def show(self, figures: RunFigures, services: Sequence[ServiceState]) -> None:
        """Show the current state."""
        ...

    def say(self, line: str) -> None:
        """Show an event."""
        ...

    def end(self) -> None:
        """Stop showing the services, because the run is ending."""
        ...


def progress() -> Progress:
    """Return the kind that fits standard output."""
    return LiveTable() if sys.stdout.isatty() else PlainLines()


class LiveTable:
    """A table that is redrawn in place, with the events above it."""

    def __init__(self, console: Console | None = None) -> None:
        self._began = time.monotonic()
        self._console = console or Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._shown: RunFigures | None = None
        self._ended = False

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(OSError):
            self._live.stop()

    def show(self, figures: RunFigures, services: Sequence[ServiceState]) -> None:
        """Redraw."""
        if self._ended:
            return
        self._shown = figures
        self._draw(figures, services)

    def end(self) -> None:
        """Draw the last figures without the services."""
        if self._shown is not None:
            self._draw(self._shown, ())
        self._ended = True

    def _draw(self, figures: RunFigures, services: Sequence[ServiceState]) -> None:
        seconds = time.monotonic() - self._began
        with contextlib.suppress(OSError):
            self._live.update(draw(figures, services, seconds), refresh=True)

    def say(self, line: str) -> None:
        """Print an event above the table."""
        with contextlib.suppress(OSError):
            self._console.print(Text(printable_lines(line), style="dim"))


class PlainLines:
    """One line every few seconds and at every event, for logs and pipes."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._next_line = 0.0
        self._news: tuple[object, ...] = ()
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def show(self, figures: RunFigures, services: Sequence[ServiceState]) -> None:
        """Print a line, if the last one is old enough or something is new."""
        now = time.monotonic()
        news = (figures.games > 0, figures.best_version, len(figures.exams))
        if self._ended:
            return
        if now >= self._next_line or news != self._news:
            self._next_line, self._news = now + _LINE_SECONDS, news
            self.say(one_line(figures, services, now - self._began))

    def end(self) -> None:
        """Print no further figures."""
        self._ended = True

    def say(self, line: str) -> None:
        """Print an event at once."""
        with contextlib.suppress(OSError):
            sys.stdout.write(printable_lines(line) + "\n")
            sys.stdout.flush()


def draw(figures: RunFigures, services: Sequence[ServiceState], seconds: float) -> RenderableType:
    """Return the table; ``seconds`` is the time since the start."""
    # The table's own title would be wrapped at the width of the table.
    title = Text(printable(f"{figures.run} ({figures.game}), up {duration(seconds)}"), "bold")
    title.no_wrap, title.overflow = True, "ellipsis"
    tables = [_figures_table(figures), _services_table(services)]
    return Group(title, *(tables if services else tables[:1]))


def _figures_table(figures: RunFigures) -> Table:
    table = Table(
        show_header=False,
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    if figures.until is not None:
        table.add_row("until", _cell(figures.until))
    table.add_row("games", f"{figures.games:,} ({figures.games_per_hour:,.0f} an hour)")
    if figures.origin is not None:
        table.add_row("given games", _cell(figures.origin))
    table.add_row("unique games", distinct_text(figures))
    for warning, detail in figures.warnings.items():
        table.add_row("warning", _cell(warning_text(warning, detail), "yellow"))
    if figures.disk is not None:
        table.add_row("disk", _cell(figures.disk, "red"))
    if figures.redis.status != "up":
        table.add_row("Redis", _cell(redis_text(figures.redis), "yellow"))
    table.add_row("positions", f"{figures.positions_per_second:,.0f}/s predicted for self-play")
    table.add_row("training loss", loss_text(figures.train))
    table.add_row("validation loss", loss_text(figures.held_out))
    if figures.budget_used is not None:
        table.add_row("learning rate", rate_text(figures))
    table.add_row("next model", next_model_text(figures.steps_to_next_model))
    table.add_row("best model", best_text(figures))
    if figures.refused_variants is not None:
        table.add_row("rejected models", _cell(figures.refused_variants))
    table.add_row("Elo", elo_text(figures))
    if figures.has_exam:
        table.add_row("exam errors", exam_text(figures))
    return table


def _services_table(services: Sequence[ServiceState]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("service", style="cyan", no_wrap=True)
    table.add_column("status", overflow="fold")
    table.add_column("restarts", justify="right")
    for service in services:
        restarts = str(service.restarts) if service.restarts else "-"
        doing = _cell(service.doing, _STYLES[service.status])
        table.add_row(_cell(service.name, "cyan"), doing, restarts)
    return table


def _cell(text: str, style: str = "") -> Text:
    """Return a cell with untrusted text: markup and control characters have no effect."""
    return Text(printable(text), style)


def one_line(figures: RunFigures, services: Sequence[ServiceState], seconds: float) -> str:
    """Return all figures in one line for a log."""
    parts = [
        duration(seconds),
        *([] if figures.until is None else [f"until {figures.until}"]),
        f"games {figures.games:,} ({figures.games_per_hour:,.0f}/h)",
        f"positions/s {figures.positions_per_second:,.0f}",
        f"training loss {loss_text(figures.train)}",
        f"validation loss {loss_text(figures.held_out)}",
        f"next model {next_model_text(figures.steps_to_next_model)}",
        f"best {best_text(figures)}",
        f"Elo {elo_text(figures)}",
    ]
    if figures.budget_used is not None:
        parts.append(f"learning rate {rate_text(figures)}")
    if figures.refused_variants is not None:
        parts.append(f"rejected models {figures.refused_variants}")
    if figures.has_exam:
        parts.append(f"exam errors {exam_text(figures)}")
    parts += [f"warning: {warning_text(*each)}" for each in figures.warnings.items()]
    if figures.disk is not None:
        parts.append(f"disk {figures.disk}")
    if figures.redis.status != "up":
        parts.append(f"Redis {redis_text(figures.redis)}")
    parts += [f"{service.name}: {service.doing}" for service in services if _is_news(service)]
    restarts = sum(service.restarts for service in services)
    if restarts:
        parts.append(f"service restarts {restarts}")
    return printable(" | ".join(parts))


def _is_news(service: ServiceState) -> bool:
    """Return whether the service does something that the other figures do not show."""
    if service.name == "trainer" and service.waiting_for:
        return True
    return service.status in ("down", "blocked") or service.name == "evaluator"


_NOT_HERE = ("until", "disk")  # the first is known to `zerofleet up` only; disk_use has the other


def status_values(
    figures: RunFigures,
    disk: DiskUse,
    services: Sequence[ServiceState],
    address: str | None,
    advice: Advice | None = None,
    running: Running | None = None,
    *,
    is_known: bool = True,
) -> dict[str, Any]:
    """Return everything as JSON values.

    ``address`` is the inference service's while the run is up; ``running`` describes the stores and
    services of its data folder, if it has one. ``is_known`` is false if nobody can tell
    whether the run is up: then ``up`` is null unless there is an address.
    """
    page = None if running is None else running.page_address
    return {
        "up": address is not None if is_known or address else None,
        "inference_address": address,
        "page": None if page is None else f"http://{page}",
        "metrics": {} if running is None else _metrics_urls(running),
        **{key: value for key, value in asdict(figures).items() if key not in _NOT_HERE},
        "elo_interval_95": elo_interval(figures),
        "kept": _kept_values(disk.kept),
        "disk_use": {
            "total_bytes": disk.total,
            "disk_full": figures.disk,
            "limit_bytes": disk.limit,
            "limit_fault": disk.limit_fault,
            "seconds_until_searches_are_dropped": disk.seconds_left,
            "folder_bytes": None if disk.folder is None else asdict(disk.folder),
        },
        "services": [asdict(service) for service in services],
        "advice": None if advice is None else asdict(advice),
    }


def status_text(
    figures: RunFigures,
    disk: DiskUse,
    services: Sequence[ServiceState],
    address: str | None,
    advice: Advice | None = None,
    stopped: str = "stopped",
    running: Running | None = None,
    page_command: str = "",
) -> str:
    """Return a line for each figure.

    Args:
        services: the processes that send heartbeats.
        address: address of the inference service; None: the run is stopped.
        advice: advice on the number of workers.
        stopped: status text of a run without an address.
        running: the stores and services of its data folder, if it has one.
        page_command: command that shows the dashboard of a run that is not serving it now.
    """
    rows = {
        "run": f"{figures.run} ({figures.game}), {'running' if address else stopped}",
        "games": f"{figures.games:,} ({figures.games_last_hour:,} in the last hour)",
        **({} if figures.origin is None else {"given games": figures.origin}),
        "unique games": distinct_text(figures),
        "draws": draws_text(figures),
        "policy entropy": entropy_text(figures),
        "positions": f"{figures.positions:,}",
        "models": f"{figures.models:,} ({counted(figures.promotions, 'promotion')})",
        "disk use": _disk_text(disk),
        "disk limit": _limit_text(disk, is_up=address is not None),
        "retention": _kept_text(figures, disk.kept),
        **({"next model": next_model_text(figures.steps_to_next_model)} if address else {}),
        "best model": best_text(figures),
        "Elo": elo_text(figures),
        "training loss": loss_text(figures.train),
        "validation loss": loss_text(figures.held_out),
    }
    if figures.restarts is not None:
        age = figures.restarts.age_s
        written = "" if age is None else f", written {duration(age)} ago"
        rows["games begin at"] = f"{restarts_text(figures.restarts)}{written}"
    if figures.budget_used is not None:
        rows["learning rate"] = rate_text(figures)
    if figures.refused_variants is not None:
        rows["rejected models"] = figures.refused_variants
    for service in services:
        of_service = service.figures
        if isinstance(of_service, InferenceFigures) and of_service.best_fault:
            rows["answers"] = (
                f"model {of_service.model_version}, in place of {of_service.best_fault}"
            )
    if figures.has_exam:
        rows["exam errors"] = exam_text(figures)
        rows["newest exam"] = newest_exam_text(figures)
    if figures.disk is not None:
        rows["disk"] = figures.disk
    warnings = [warning_text(*each) for each in figures.warnings.items()]
    if warnings:
        rows["warning"] = "; ".join(warnings)
    if figures.window_blocker is not None:
        rows["ingest blocked by"] = figures.window_blocker
    # This command starts the Redis of a stopped run, so its status "up" would mislead.
    if address or running is None or figures.redis.status != "up":
        rows["Redis"] = redis_text(figures.redis)
    rows |= doing_by_name(services)
    if advice is not None:
        rows["advice"] = advice.words
    if address:
        rows["gRPC"] = address
    if running is not None:
        page = running.page_address
        rows["dashboard"] = f"http://{page}" if page else f"not served; to open it: {page_command}"
    if running is not None and running.metrics_ports:
        ports = ", ".join(f"{name} {port}" for name, port in running.metrics_ports.items())
        rows["metrics"] = f"http://{LOOPBACK}:PORT/metrics; ports: {ports}"
    width = max(map(len, rows)) + 2
    return "\n".join(printable(f"{name:<{width}}{value}") for name, value in rows.items())


def _metrics_urls(running: Running) -> dict[str, str]:
    ports = running.metrics_ports.items()
    return {name: f"http://{LOOPBACK}:{port}/metrics" for name, port in ports}


def _disk_text(disk: DiskUse) -> str:
    """Return the total and its parts, largest first."""
    kept, folder = disk.kept, disk.folder
    parts = {
        "searches": kept.bytes,
        "games": kept.game_bytes,
        "other tables": kept.database_bytes - kept.bytes - kept.game_bytes,
    }
    if folder is not None:
        parts |= {
            "write-ahead log": folder.log,
            "models": folder.models,
            "checkpoints": folder.checkpoints,
            "logs": folder.logs,
            "other files": folder.other,
        }
    sizes = sorted(parts.items(), key=lambda part: part[1], reverse=True)
    return f"{_size_text(disk.total)}: {', '.join(f'{n} {_size_text(s)}' for n, s in sizes)}"


def _limit_text(disk: DiskUse, *, is_up: bool) -> str:
    """Return the limit, and when the trainer begins to drop searches for it."""
    if disk.limit is None:
        return "none"
    words = f"{disk.limit / 1e9:g} GB"
    if disk.limit_fault is not None:
        return f"{words}: {disk.limit_fault}"
    if disk.seconds_left is None:
        return words
    if disk.seconds_left == 0:
        return f"{words}, reached: the oldest searches that training does not need are dropped"
    span = _span_text(disk.seconds_left)
    if not is_up:
        return f"{words}, reached after {span} more of this run"
    return f"{words}, reached in {span} at the current rate"


def _span_text(seconds: float) -> str:
    """Return a time such as ``40 minutes``, ``7 hours`` or ``3 days``."""
    for unit, length in (("day", 86400), ("hour", 3600)):
        if seconds >= 2 * length:
            return counted(round(seconds / length), unit)
    return counted(max(1, round(seconds / 60)), "minute")


def _kept_text(figures: RunFigures, kept: Kept) -> str:
    searches = f"{_size_text(kept.bytes)} of searches"
    if kept.since is not None:
        searches += f" since {kept.since:%Y-%m-%d %H:%M} UTC"
    if kept.bytes_per_day is not None:
        searches += f" ({_size_text(kept.bytes_per_day)} a day)"
    return f"{searches}, files of {kept.models} of {counted(figures.models, 'model')}"


def _kept_values(kept: Kept) -> dict[str, Any]:
    since = None if kept.since is None else kept.since.isoformat()
    return {**asdict(kept), "since": since}


def _size_text(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
