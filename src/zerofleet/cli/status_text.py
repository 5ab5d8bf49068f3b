"""A run's figures as text and as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from zerofleet.cli.progress import best_text, elo_text, exam_text, loss_text
from zerofleet.local.monitor import Figures, ServiceState


def status_values(
    figures: Figures, services: Sequence[ServiceState], address: str | None
) -> dict[str, Any]:
    """Everything as JSON values; ``address`` is the inference service's while the run is up."""
    up = {"up": address is not None, "inference_address": address}
    return {**up, **asdict(figures), "services": [asdict(service) for service in services]}


def status_text(figures: Figures, services: Sequence[ServiceState], address: str | None) -> str:
    """A line for each figure."""
    rows = {
        "run": f"{figures.run} ({figures.game}), {'running' if address else 'stopped'}",
        "games": f"{figures.games:,} ({figures.games_last_hour:,} in the last hour)",
        "positions": f"{figures.positions:,}",
        "models": f"{figures.models}, {figures.promotions} promoted",
        "best model": best_text(figures),
        "Elo": elo_text(figures),
        "loss, trained on": loss_text(figures.train),
        "loss, held out": loss_text(figures.held_out),
    }
    if figures.has_exam:
        rows["exam errors"] = exam_text(figures)
    rows |= {service.name: service.doing for service in services}
    if address:
        rows["gRPC"] = address
    width = max(map(len, rows)) + 2
    return "\n".join(f"{name:<{width}}{value}" for name, value in rows.items())
