"""A run's figures as text and as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

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
    elo_interval,
    elo_text,
    entropy_text,
    exam_text,
    loss_text,
    newest_exam_text,
    rate_text,
    redis_text,
)
from zerofleet.local.processes import LOOPBACK
from zerofleet.printable import printable

if TYPE_CHECKING:
    from zerofleet.local.stores import Running

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
        page_command: command that shows the page of a run that is not serving it now.
    """
    rows = {
        "run": f"{figures.run} ({figures.game}), {'running' if address else stopped}",
        "games": f"{figures.games:,} ({figures.games_last_hour:,} in the last hour)",
        "distinct games": distinct_text(figures),
        "draws": draws_text(figures),
        "entropy": entropy_text(figures),
        "positions": f"{figures.positions:,}",
        "models": f"{figures.models}, {figures.promotions} promoted",
        "disk use": _disk_text(disk),
        "disk limit": _limit_text(disk, is_up=address is not None),
        "retention": _kept_text(figures, disk.kept),
        "best model": best_text(figures),
        "Elo": elo_text(figures),
        "loss, trained on": loss_text(figures.train),
        "loss, held out": loss_text(figures.held_out),
    }
    if figures.budget_used is not None:
        rows["learning rate"] = rate_text(figures)
    if figures.refused_variants is not None:
        rows["refused variants"] = figures.refused_variants
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
    rows |= figures.warnings
    if figures.window_blocker is not None:
        rows["games wait for"] = figures.window_blocker
    rows["Redis"] = redis_text(figures.redis)
    rows |= doing_by_name(services)
    if advice is not None:
        rows["advice"] = advice.words
    if address:
        rows["gRPC"] = address
    if running is not None:
        page = running.page_address
        rows["page"] = f"http://{page}" if page else f"not served; to open it: {page_command}"
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
