"""The fleet page: heartbeats, their history, and who holds what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from zerofleet import __version__
from zerofleet.fleet.figures import AutoscalerFigures, InferenceFigures, SelfplayFigures
from zerofleet.fleet.heartbeat import Heartbeat


def test_processes_are_shown_with_what_they_say(shown: Any, open_page: Callable[..., Any]) -> None:
    page = open_page("/fleet").page
    expect(page.get_by_text("No workers are sending heartbeats.")).to_be_visible()
    expect(page.get_by_text("No advice yet: no heartbeat of a self-play worker.")).to_be_visible()
    expect(page.get_by_text("No history yet:")).to_be_visible()

    shown.database.acquire_fence("shown", "trainer")
    figures = InferenceFigures(
        provider="cpu",
        precision="int8",
        model_version=7,
        rows_per_second=1_234.0,
        fill=0.25,
        queue_wait_per_compute=0.5,
        batches_by_rows=(0, 3, 5),
    )
    worker = SelfplayFigures(positions_per_second=500.0, simulations_per_second=700.0)
    for name, said in (
        ("<b>w</b>", worker),
        ("r", figures),
        ("a", AutoscalerFigures(selfplay_replicas=3)),
    ):
        shown.heartbeats.beat(Heartbeat(name, 1, "", said), ttl=600.0)
    replica = page.get_by_role("row").filter(has=page.get_by_role("cell", name="r", exact=True))
    for words in ("Running", "cpu", "int8", "7", "1,234", "0.25", "0.50", __version__):
        expect(replica.get_by_text(words, exact=True).first).to_be_visible()
    expect(page.get_by_role("cell", name="<b>w</b>")).to_be_visible()
    expect(page.get_by_role("cell", name="1.40", exact=True)).to_be_visible()
    expect(page.get_by_text("The autoscaler requests 3 self-play workers.")).to_be_visible()
    expect(page.locator("section", has_text="Batches by size").locator("svg")).to_be_visible()
    expect(page.get_by_text("History begins")).to_be_visible()
    fences = page.locator("section", has_text="Active writers")
    expect(fences.get_by_role("cell", name="trainer")).to_be_visible()
