"""The documentation site in a browser: it loads nothing from elsewhere, follows the system's
colours, fits a phone, and finds words.
"""

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import DEADLINE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built from the pages of this checkout."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "-q", "build", "--no-strict", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        context.set_default_timeout(1000 * DEADLINE)
        yield context.new_page()


@pytest.mark.parametrize("path", ["index", "how-to/security", "reference/python"])
def test_a_page_loads_nothing_from_elsewhere(site: str, page: Page, path: str) -> None:
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{site}/{path}.html")
    expect(page.locator("h1")).to_be_visible()
    page.wait_for_load_state("networkidle")
    local = (site, "data:", "blob:")
    assert [url for url in asked if not url.startswith(local)] == []
    assert complaints == []
    assert len(asked) > 3


def test_the_site_follows_the_colours_of_the_system(site: str, page: Page) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(f"{site}/index.html")
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        channels = colour.removeprefix("rgb(").removesuffix(")").split(",")
        brightness[scheme] = sum(map(float, channels)) / 3
    assert brightness["light"] > 200
    assert brightness["dark"] < 80


def test_the_page_of_a_phone_does_not_scroll_sideways(site: str, page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    for path in ("index", "reference/run-file", "reference/games"):
        page.goto(f"{site}/{path}.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


def test_the_search_finds_a_key_of_the_run_file(site: str, page: Page) -> None:
    page.goto(f"{site}/index.html")
    field = page.get_by_role("textbox", name="Search")
    field.click()
    field.press_sequentially("learning_rate")  # The search listens to keys, not to ``input``.
    found = page.locator(".md-search-result a[href*='reference/run-file.html']").first
    expect(found).to_be_visible()
