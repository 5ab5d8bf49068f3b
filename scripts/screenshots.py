"""Make the screenshots of the documentation from a real run: ``python scripts/screenshots.py``.

Without an option, it trains runs/connect_four.toml for ten minutes in a temporary folder. With
``--data DIR`` it shows a run of Connect Four or chess that exists: a run that is up is photographed
as it trains, and a stopped one stays as it is. Every PNG file names its revision, run and model in
its comment.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
RUN_FILE = ROOT / "runs" / "connect_four.toml"
ZEROFLEET = Path(sys.executable).with_name("zerofleet")

WINDOW = (1440, 1400)
"""Width and height of the window, in CSS pixels. A picture ends below the last complete panel."""
SCALE = 1.25
"""Pixels of the picture for each CSS pixel."""
COLOURS = 256
"""Colours of a picture: a screenshot has few, and its file is then a third as large."""
MOST_BYTES = 250_000
"""Largest file of a picture."""
PATIENCE = 1_200_000
"""Milliseconds until a page must show what its picture needs. The first losses take longest."""
CANDIDATES = 12
"""Games of the list among which one is chosen."""
OPTIONS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

# Charts are drawn some time after their page. A chart without data yet has no SVG.
CHARTS_ARE_DRAWN = """() => [...document.querySelectorAll(".zf-chart-place")]
    .filter(place => place.getBoundingClientRect().top < innerHeight)
    .every(place => place.querySelector("svg path"))"""
END_OF_PANELS = """() => {
    const ends = [...document.querySelectorAll(".zf-panel")]
        .map(panel => panel.getBoundingClientRect().bottom + 16)
        .filter(end => end <= innerHeight);
    return Math.max(...ends.length ? ends : [innerHeight]);
}"""
IS_DARK = "() => document.body.classList.contains('body--dark')"


def open_run(page: Page, url: str) -> None:
    """Open the Run page, after the dashboard has read all games of the run."""
    page.goto(url)
    page.wait_for_function(CHARTS_ARE_DRAWN)
    page.locator(".zf-main > .zf-tools [role=status]").first.wait_for(state="hidden")


def open_game(page: Page, url: str) -> None:
    """Open a game of self-play in the middle of its searches.

    Random openings have no searches. Of the newest games, this is the one with the most searches.
    """
    page.goto(f"{url}/games?kind=selfplay&result=first&least=24")
    links = page.locator(".zf-games a[href^='/games/']")
    links.first.wait_for()
    paths = [links.nth(number).get_attribute("href") for number in range(links.count())]
    slider = page.get_by_role("slider")
    games: list[tuple[int, str, int]] = []
    for path in paths[:CANDIDATES]:
        page.goto(f"{url}{path}")
        first, last = (int(slider.get_attribute(f"aria-value{end}") or 0) for end in ("now", "max"))
        games.append((last - first, f"{url}{path}", (first + last) // 2))
    _, address, ply = max(games)
    page.goto(f"{address}?ply={ply}")
    page.locator(".zf-candidates tbody tr").first.wait_for()


def open_play(page: Page, url: str) -> None:
    """Open an analysis of Connect Four."""
    _open_analysis(page, f"{url}/play?side=both&hints=on&simulations=800&moves=4+4+3")


def open_chess(page: Page, url: str) -> None:
    """Open an analysis of chess in which White can mate at once."""
    moves = "e4+e5+Qh5+Nc6+Bc4+Nf6"
    _open_analysis(page, f"{url}/play?side=both&hints=on&simulations=800&moves={moves}")


def _open_analysis(page: Page, address: str) -> None:
    """Open an analysis, and point at its best move, so that the board shows the expected line."""
    page.goto(address)
    best = page.locator(".zf-candidates tbody tr").first
    best.wait_for()
    empty = page.locator(".zf-board svg").inner_html()
    best.hover()
    page.wait_for_function(
        "empty => document.querySelector('.zf-board svg').innerHTML !== empty", arg=empty
    )


def open_exam(page: Page, url: str) -> None:
    """Open the first mistake of the newest model that was examined."""
    page.goto(f"{url}/exam")
    page.locator(".zf-table tbody a").first.wait_for()
    page.locator(".zf-board svg").first.wait_for()


def open_mistakes(page: Page, url: str) -> None:
    """Open the largest mistakes of the newest games."""
    page.goto(f"{url}/mistakes")
    page.locator(".zf-table tbody a").first.wait_for()
    page.locator(".zf-board svg").first.wait_for()


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of one page of the dashboard.

    Args:
        name: name of the file, without its suffix.
        open: opens the page at the dashboard's address, and waits for the data of the picture.
        dark: whether the page is dark.
        game: the game of the run.
    """

    name: str
    open: Callable[[Page, str], None]
    dark: bool = False
    game: str = "connect_four"


PICTURES = (
    Picture("run_page", open_run),
    Picture("run_page_dark", open_run, dark=True),
    Picture("game_page", open_game),
    Picture("play_page", open_play),
    Picture("exam_page", open_exam),
    Picture("mistakes_page", open_mistakes),
    Picture("chess_page", open_chess, game="chess"),
)


def pictures_of(game: str, only: str | None) -> list[Picture]:
    """Return the pictures of a run of a game; with ``only``, at most the one of this name."""
    return [each for each in PICTURES if each.game == game and only in (None, each.name)]


def main() -> int:
    """Make the pictures, and print what was made from what; the exit status of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", help="data folder of a run that exists")
    parser.add_argument("--minutes", type=float, default=10, help="how long to train [10]")
    parser.add_argument(
        "--only", metavar="NAME", choices=[each.name for each in PICTURES], help="make one picture"
    )
    parser.add_argument("--into", type=Path, default=IMAGES, help="folder [docs/images]")
    options = parser.parse_args()
    if not options.data and not pictures_of("connect_four", options.only):
        parser.error(f"--only {options.only} needs --data: without it, Connect Four is trained")
    chromium = shutil.which("chromium")
    if chromium is None:
        print("needs chromium (Debian: apt-get install chromium)", file=sys.stderr)
        return 1
    with contextlib.ExitStack() as stack:
        data = (
            options.data.resolve()
            if options.data
            else stack.enter_context(trained(options.minutes))
        )
        url = stack.enter_context(dashboard(data))
        game, source = source_of(data)
        pictures = pictures_of(game, options.only)
        if not pictures:
            known = sorted({each.game for each in PICTURES if options.only in (None, each.name)})
            raise SystemExit(f"{data} is a run of {game}: give a run of {' or '.join(known)}")
        shots = photographs(url, Path(chromium), pictures)
        print(f"from {source}")
        options.into.mkdir(parents=True, exist_ok=True)
        sizes = {}
        for name, shot in shots:
            path = options.into / f"{name}.png"
            path.write_bytes(compressed(shot, source))
            sizes[path] = path.stat().st_size
            print(f"{path}: {sizes[path] / 1000:.0f} kB")
    too_large = [path.name for path, size in sizes.items() if size > MOST_BYTES]
    if too_large:
        print(f"over {MOST_BYTES:,} bytes: {', '.join(too_large)}", file=sys.stderr)
    return 1 if too_large else 0


@contextlib.contextmanager
def trained(minutes: float) -> Iterator[Path]:
    """Train for some minutes, and go on until the end; yield the data folder.

    Raises:
        SystemExit: the run ended by itself; the message has its output.
    """
    with tempfile.TemporaryDirectory(prefix="zerofleet-screenshots-") as folder:
        # Embedded Postgres of root runs as another user, who must be able to enter.
        Path(folder).chmod(0o755)
        data, log = Path(folder, "data"), Path(folder, "up.log")
        command = [ZEROFLEET, "up", RUN_FILE, "--data", data]
        print(f"training for {minutes:g} minutes in {data}", flush=True)
        with log.open("wb") as output, started(command, stdout=output, stderr=output) as process:
            try:
                status = process.wait(60 * minutes)
            except subprocess.TimeoutExpired:
                yield data
            else:
                raise SystemExit(f"zerofleet up ended with {status}:\n{log.read_text()[-2000:]}")


@contextlib.contextmanager
def dashboard(data: Path) -> Iterator[str]:
    """Yield the address of a run's dashboard, which is served at least as long as this lasts.

    Raises:
        SystemExit: there is none; the command has printed why.
    """
    command = [ZEROFLEET, "page", "--data", data]
    with started(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = (line.decode() for line in process.stdout)
        line = next((line for line in lines if "http://" in line), None)
        if line is None:
            raise SystemExit(f"zerofleet page ended with {process.wait()}, without a dashboard")
        yield line[line.index("http://") :].strip()


@contextlib.contextmanager
def started(command: list[Any], **options: Any) -> Iterator[subprocess.Popen[bytes]]:  # noqa: ANN401
    """Start a command in a session of its own, and interrupt it at the end as Ctrl-C does."""
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)


def source_of(data: Path) -> tuple[str, str]:
    """Return the game of a run, and its revision, name, model and games in words."""
    git = ["git", "-C", ROOT]
    revision = output_of(*git, "rev-parse", "--short=10", "HEAD").strip()
    sources = ("src", "services", "core", "runs")
    if output_of(*git, "status", "--porcelain", "--", *sources):
        revision += " with changes"
    status = json.loads(output_of(ZEROFLEET, "status", "--data", data, "--json"))
    return str(status["game"]), (
        f"revision {revision}, run {status['run']}, model {status['best_version']}, "
        f"{status['games']:,} games"
    )


def output_of(*command: str | Path) -> str:
    """Return the output of a command that must succeed."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def photographs(url: str, chromium: Path, pictures: Sequence[Picture]) -> list[tuple[str, bytes]]:
    """Return the name and the PNG file of each picture."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(OPTIONS))
        return [(each.name, photograph(browser, url, each)) for each in pictures]


def photograph(browser: Browser, url: str, picture: Picture) -> bytes:
    """Return the PNG file of a page, taken when it is complete.

    Raises:
        SystemExit: the page does not show what its picture needs.
    """
    from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

    print(f"{picture.name}: waiting for its data", flush=True)
    context = browser.new_context(
        viewport={"width": WINDOW[0], "height": WINDOW[1]},
        device_scale_factor=SCALE,
        color_scheme="dark" if picture.dark else "light",
        locale="en-GB",
        timezone_id="UTC",
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE)
    try:
        page = context.new_page()
        picture.open(page, url)
        page.locator(".zf-health").filter(has_text="healthy").wait_for()
        # The strip is read apart from the page; its first figures then have digits.
        page.locator(".zf-strip .zf-figure").filter(has_text=re.compile(r"\d")).first.wait_for()
        page.wait_for_function(CHARTS_ARE_DRAWN)
        if picture.dark:
            page.wait_for_function(IS_DARK)
        page.locator(".nicegui-error-popup[aria-hidden=false]").wait_for(state="detached")
        page.evaluate("document.fonts.ready.then(() => null)")
        height = float(page.evaluate(END_OF_PANELS))
        return page.screenshot(
            animations="disabled",
            caret="hide",
            clip={"x": 0, "y": 0, "width": WINDOW[0], "height": height},
        )
    except PlaywrightTimeoutError as error:
        raise SystemExit(f"{picture.name}: the page did not show its data: {error}") from error
    finally:
        context.close()


def compressed(shot: bytes, source: str) -> bytes:
    """Return the same picture in few colours, with its source as a comment."""
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    # The default method gives the colours of small things, such as the lights, to large areas.
    small = picture.quantize(
        COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE
    )
    about = PngInfo()
    about.add_text("Comment", f"Made by scripts/screenshots.py from {source}")
    file = io.BytesIO()
    small.save(file, "PNG", optimize=True, pnginfo=about)
    return file.getvalue()


if __name__ == "__main__":
    sys.exit(main())
