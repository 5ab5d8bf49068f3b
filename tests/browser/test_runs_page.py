"""The curves of several runs in one chart: runs of one database, and of several data folders."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import DEADLINE, until
from tests.integration.services.conftest import stopped_run
from tests.support.fork_server import Fork
from zerofleet.config import RunConfig, run_from_values
from zerofleet.database import Database
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.stores import joined

TICTACTOE = Path(__file__).resolve().parents[2] / "runs" / "tictactoe.toml"


def measure(database: Database, run: str, epoch: int, loss: float) -> None:
    """Record losses at three steps."""
    for step in (10, 20, 30):
        for split in ("train", "held_out"):
            losses = {"policy_loss": loss - step / 100, "value_loss": loss / 2}
            database.insert_train_metrics(run, step, split, losses, epoch)


def fill(database: Database, run: RunConfig, loss: float) -> None:
    """Store the losses, two models and their exams of a run."""
    database.register_run(run)
    epoch = database.acquire_fence(run.name, "trainer")
    measure(database, run.name, epoch, loss)
    evaluator = database.acquire_fence(run.name, "evaluator")
    for seq, version in enumerate((1, 2)):
        database.insert_model(run.name, version, f"{version:064x}", 10 * version, {}, "m", epoch)
        database.promote(run.name, version, None, "test", seq, epoch=evaluator)
        for kind in ("random", "good"):
            database.insert_exam(run.name, version, 10, 50, 20 // version, kind=kind)


def connect_four(name: str, **network: object) -> RunConfig:
    return run_from_values({"name": name, "game": {"name": "connect_four"}, "network": network})


def panel(page: Page, title: str) -> Any:
    return page.locator("section.zf-panel").filter(has=page.get_by_role("heading", name=title))


def legend(page: Page, title: str) -> Any:
    return panel(page, title).locator("svg text")


def test_two_runs_of_one_database_are_drawn_in_one_chart(
    shown: Any, open_page: Callable[..., Any]
) -> None:
    fill(shown.database, connect_four("shown"), 2.0)
    fill(shown.database, connect_four("wide", blocks=3), 1.8)
    shown.database.register_run(run_from_values({"name": "other", "game": {"name": "tic_tac_toe"}}))
    opened = open_page("/")
    page = opened.page
    page.get_by_role("navigation").get_by_role("link", name="Runs").click()
    expect(page.get_by_role("heading", name="Compare runs")).to_be_visible()
    for title in ("Policy loss", "Value loss", "Exam errors: random", "Exam errors: good"):
        for name in ("shown", "wide"):
            expect(legend(page, title).get_by_text(name, exact=True)).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(2)  # the other run plays another game
    row = page.get_by_role("row").filter(has_text="network.blocks")
    expect(row).to_contain_text("3")
    page.get_by_role("button", name="Games", exact=True).click()
    empty = panel(page, "Policy loss").get_by_text("Appears with the first measurement")
    expect(empty).to_be_visible()  # no game is stored
    page.get_by_role("button", name="Steps", exact=True).click()
    expect(panel(page, "Policy loss").locator("svg").first).to_be_visible()
    expect(panel(page, "Policy loss").get_by_text("training steps")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/runs\?runs=shown%2Cwide&axis=steps$"))
    page.get_by_role("button", name="CPU-seconds").click()
    expect(page.get_by_text("CPU-seconds are not known for shown, wide.")).to_be_visible()
    page.get_by_role("button", name="Time", exact=True).click()
    page.get_by_role("checkbox", name="wide").click()
    expect(page.get_by_text("Choose at least two runs.")).to_be_visible()
    expect(legend(page, "Exam errors: good").get_by_text("wide", exact=True)).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/runs\?runs=shown$"))
    page.reload()
    expect(page.get_by_text("Choose at least two runs.")).to_be_visible()
    expect(page.get_by_role("checkbox", name="wide")).not_to_be_checked()
    page.goto(f"{shown.base}/runs?runs=shown,nobody,wide&axis=years")
    expect(page.get_by_text("runs=nobody does not exist, or plays another game.")).to_be_visible()
    expect(page.get_by_text("axis=years does not exist.")).to_be_visible()
    expect(legend(page, "Policy loss").get_by_text("wide", exact=True)).to_be_visible()
    page.goto(f"{shown.base}/runs?run=other")
    expect(page.get_by_text("There is no other run of this game here.")).to_be_visible()
    assert opened.complaints == []
    assert opened.foreign == []


def measured_run(root: Path, loss: float) -> DataFolder:
    """Make a stopped run with losses over CPU-seconds."""
    folder = stopped_run(root, TICTACTOE)
    with joined(folder, "test") as running, Database(running.database_urls["owner"]) as database:
        measure(database, "tictactoe", database.acquire_fence("tictactoe", "trainer"), loss)
    now = time.time()
    usage = {"wall_seconds": 60, "cpu_seconds": 90, "curve": [[now - 60, 0], [now, 90]]}
    folder.usage_file.write_text(json.dumps(usage))
    return folder


def test_two_data_folders_are_drawn_in_one_chart(
    chromium: Browser, store_folder: Path, tmp_path: Path
) -> None:
    folders = [store_folder / f"{tmp_path.name}-{name}" for name in ("a", "b")]
    for place, folder in enumerate(folders):
        measured_run(folder, 2.0 + place)
    command = Fork(
        "zerofleet.cli",
        ["page", "--data", folders[0], "--with", folders[1]],
        {},
        tmp_path / "page.log",
    )
    try:
        until(
            lambda: "\ndashboard: " in command.output() or command.poll() is not None,
            command.output,
        )
        [url] = re.findall(r"^dashboard: (http://\S+)$", command.output(), re.MULTILINE)
        page = chromium.new_page()
        page.set_default_timeout(1000 * DEADLINE)
        page.goto(f"{url}/runs")
        other = f"tictactoe ({folders[1].name})"
        for name in ("tictactoe", other):
            expect(page.get_by_role("checkbox", name=name, exact=True)).to_be_checked()
            expect(legend(page, "Value loss").get_by_text(name, exact=True)).to_be_visible()
        page.get_by_role("button", name="CPU-seconds").click()
        for name in ("tictactoe", other):
            expect(legend(page, "Value loss").get_by_text(name, exact=True)).to_be_visible()
        expect(panel(page, "Value loss").get_by_text("CPU-seconds", exact=True)).to_be_visible()
        expect(page.get_by_text("differ in no key")).to_be_visible()
        page.close()
        command.terminate()
        assert command.wait(DEADLINE) == 0, command.output()
    finally:
        command.kill()
        command.wait()
        for folder in folders:
            shutil.rmtree(folder)
