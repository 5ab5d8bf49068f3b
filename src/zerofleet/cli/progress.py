"""The progress that ``zerofleet up`` shows: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from zerofleet.fleet.report import (
    RunFigures,
    ServiceState,
    best_text,
    distinct_text,
    duration,
    elo_text,
    exam_text,
    loss_text,
    rate_text,
    redis_text,
)
from zerofleet.printable import printable, printable_lines

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
    table.add_row("distinct games", distinct_text(figures))
    for warning, detail in figures.warnings.items():
        table.add_row(_cell(warning), _cell(detail))
    if figures.disk is not None:
        table.add_row("disk", _cell(figures.disk, "red"))
    if figures.redis.status != "up":
        table.add_row("Redis", _cell(redis_text(figures.redis), "yellow"))
    table.add_row("positions", f"{figures.positions_per_second:,.0f}/s predicted for self-play")
    table.add_row("loss, trained on", loss_text(figures.train))
    table.add_row("loss, held out", loss_text(figures.held_out))
    if figures.budget_used is not None:
        table.add_row("learning rate", rate_text(figures))
    table.add_row("best model", best_text(figures))
    if figures.refused_variants is not None:
        table.add_row("refused variants", _cell(figures.refused_variants))
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
        f"games {figures.games} ({figures.games_per_hour:.0f}/h)",
        f"positions/s {figures.positions_per_second:.0f}",
        f"loss {loss_text(figures.train)}; held out {loss_text(figures.held_out)}",
        f"best {best_text(figures)}",
        f"Elo {elo_text(figures)}",
    ]
    if figures.budget_used is not None:
        parts.append(f"learning rate {rate_text(figures)}")
    if figures.refused_variants is not None:
        parts.append(f"refused variants {figures.refused_variants}")
    if figures.has_exam:
        parts.append(f"exam errors {exam_text(figures)}")
    parts += [f"{warning}: {detail}" for warning, detail in figures.warnings.items()]
    if figures.disk is not None:
        parts.append(f"disk {figures.disk}")
    if figures.redis.status != "up":
        parts.append(f"Redis {redis_text(figures.redis)}")
    parts += [f"{service.name}: {service.doing}" for service in services if _is_news(service)]
    restarts = sum(service.restarts for service in services)
    if restarts:
        parts.append(f"restarts {restarts}")
    return printable(" | ".join(parts))


def _is_news(service: ServiceState) -> bool:
    """Return whether the service does something that the other figures do not show."""
    return service.status in ("down", "blocked") or service.name == "evaluator"
