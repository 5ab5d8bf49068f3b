"""The front page: how the run goes."""

from __future__ import annotations

from services.dashboard.frame import Frame, Visit
from services.dashboard.toolkit import ui


def add_run_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/", "Run")
    async def _(visit: Visit) -> None:
        ui.label(visit.run.game)
