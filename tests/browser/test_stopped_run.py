"""The page that ``zerofleet page`` shows of a run that is stopped: one can play there."""

import re
import shutil
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser.conftest import DEADLINE, until
from tests.integration.services.conftest import stopped_run
from tests.support.fork_server import Fork

RUN_FILE = Path(__file__).resolve().parents[2] / "runs" / "tictactoe.toml"


def test_a_model_of_a_stopped_run_is_played_and_analyses(
    chromium: Browser, store_folder: Path, tmp_path: Path
) -> None:
    root = store_folder / tmp_path.name
    stopped_run(root, RUN_FILE)
    command = Fork("zerofleet.cli", ["page", "--data", root], {}, tmp_path / "page.log")
    try:
        until(
            lambda: "\ndashboard: " in command.output() or command.poll() is not None,
            command.output,
        )
        [url] = re.findall(r"^dashboard: (http://\S+)$", command.output(), re.MULTILINE)
        page = chromium.new_page()
        page.set_default_timeout(1000 * DEADLINE)
        page.goto(url)
        expect(page.locator(".zf-lamp").first).to_have_text(re.compile("run.*Stopped", re.DOTALL))
        expect(page.locator(".zf-lamps")).to_contain_text("inference")
        expect(page.locator(".zf-lamps")).not_to_contain_text("Down")
        expect(page.locator(".zf-health")).to_contain_text("Run stopped, 2 of 2 services healthy")

        page.goto(f"{url}/play")
        board = page.locator(".zf-board")
        expect(board.locator("svg")).to_be_visible()
        board.focus()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(page.locator(".zf-line-so-far")).to_have_text(re.compile(r"^1\.\s\w\d 2\.\s\w\d$"))

        page.goto(f"{url}/play?side=both")
        page.get_by_role("switch", name="hints").click()
        expect(page.locator(".zf-candidates tbody tr").first).to_be_visible()
        page.close()
        command.terminate()
        assert command.wait(DEADLINE) == 0, command.output()
    finally:
        command.kill()
        command.wait()
        shutil.rmtree(root)
