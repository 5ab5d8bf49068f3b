"""Every page opens, shows correct values, and survives failures of its data sources."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.support.databases import DatabaseTemplate
from tests.support.random_records import random_record
from zerofleet.database import RecentPlay, Submission
from zerofleet.fleet.figures import EvaluatorFigures, SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat
from zerofleet.services.dashboard.frame import Frame
from zerofleet.services.dashboard.service import add_pages

SETTLED = {  # the element that each page draws last
    "/": ".zf-chart svg",
    "/play": ".zf-candidates tbody tr",
    "/compare": ".zf-candidates tbody tr",
    "/sql": ".ag-row",
}
QUERY = "/sql?query=SELECT count(*), 'a', true, NULL, 1.5::int8 FROM games -- all"


def addresses(parameters: dict[str, object]) -> list[str]:
    """Return the addresses of all registered pages, except the catch-all page."""
    frame = Frame(cast("Any", None))
    add_pages(frame, cast("Any", None))
    return [path.format(**parameters) for path in frame.paths if path != "/{path:path}"]


@pytest.mark.parametrize("width", [360, 1440])
def test_every_page_opens_without_a_complaint_and_asks_nobody_else(
    shown: Any, open_page: Callable[..., Any], width: int
) -> None:
    record = random_record(4, "connect_four")
    shown.database.submit_game("shown", "w", Submission(record))
    fill(shown, games=3)
    pages = addresses({"uid": record.game_uid, "version": 2})
    assert "/" in pages
    for address in pages:
        opened = open_page(address, width=width, dark=width == 360)
        expect(opened.page.get_by_role("navigation")).to_be_visible()
        expect(opened.page).to_have_title(re.compile("shown · zerofleet"))
        opened.page.wait_for_load_state("networkidle")
        assert opened.complaints == [], address
        assert opened.foreign == [], address
        wide = opened.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, address
    assert '"level": "error"' not in shown.process.output()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_core_finds_no_fault(shown: Any, open_page: Callable[..., Any], dark: bool) -> None:
    record = random_record(4, "connect_four")
    shown.database.submit_game("shown", "w", Submission(record))
    fill(shown, games=3)
    beat(shown)
    page = open_page("/", dark=dark).page
    for address in [*addresses({"uid": record.game_uid, "version": 2}), "/nowhere"]:
        path = {"/play": "/play?side=both&hints=on", "/sql": QUERY}.get(address, address)
        page.goto(shown.base + path)
        expect(page.get_by_text("Idle: waiting for 2,000 positions").first).to_be_attached()
        if address == "/sql":
            page.get_by_role("button", name="Run", exact=True).click()
        if address in SETTLED:
            expect(page.locator(SETTLED[address]).first).to_be_visible()
        found = Axe().run(page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], address


def test_a_link_to_nothing_says_so(shown: Any, open_page: Callable[..., Any]) -> None:
    page = open_page("/").page
    for address, words in (
        ("/nowhere/at/all", "there is no page /nowhere/at/all"),
        ("/?run=other", "there is no run 'other' in this database"),
        (
            "/?run=%3Cimg src=x onerror=alert(1)%3E",
            "there is no run '<img src=x onerror=alert(1)>'",
        ),
    ):
        answer = page.goto(shown.base + address)
        assert answer.status == 404
        expect(page.get_by_text(words)).to_be_visible()


def test_figures_are_those_of_the_database(shown: Any, open_page: Callable[..., Any]) -> None:
    fill(shown, games=1_234)
    beat(shown)
    page = open_page("/").page
    expect(figure(page, "Games")).to_have_text("1,234")
    expect(figure(page, "Best model")).to_have_text(re.compile(r"^2, \d+ (s|min) ago$"))
    [[elo]] = shown.query("SELECT elo FROM ratings WHERE player = '2'")
    expect(figure(page, "Elo")).to_have_text(re.compile(re.escape(f"{elo:+.0f} ± ")))
    expect(figure(page, "Games/hour")).to_have_text("1,500")
    expect(figure(page, "Next model")).to_have_text("in 380 steps")
    ill = "4 of 5 services healthy: inference Down (no heartbeat)"
    page.get_by_role("button", name=ill).click()
    expect(page.get_by_text("Idle: waiting for 2,000 positions")).to_be_visible()
    expect(page.get_by_text("Down (no heartbeat)", exact=True)).to_have_count(1)
    expect(page.locator("section", has_text="Policy loss").locator("svg")).to_be_visible()
    expect(page.get_by_text("Appears with the first exam")).to_be_visible()
    shown.query(
        "INSERT INTO exams (run, version, kind, num_simulations, positions, errors) "
        "VALUES ('shown', 2, 'random', 100, 1000, 37) RETURNING 1"
    )
    expect(page.locator("section", has_text="Exam errors").locator("svg")).to_be_visible()
    warning = page.get_by_text(
        "Self-play is repeating itself: 70.0% of the last 1,000 games differ"
    )
    expect(warning).to_be_visible()
    shown.query(
        "INSERT INTO train_events (run, step, event, detail, epoch) "
        "SELECT run, step, 'narrow_ends', 'self-play explores again', epoch FROM train_events "
        "RETURNING 1"
    )
    expect(warning).to_have_count(0)


def test_another_run_is_chosen_by_its_name_which_is_no_markup(
    shown: Any, open_page: Callable[..., Any]
) -> None:
    name = "<b>other</b>"
    shown.query(
        "INSERT INTO runs (name, game, config) VALUES (:name, 'go(size=9)', '{}') RETURNING 1",
        name=name,
    )
    page = open_page("/").page
    page.get_by_label("Other runs").click()
    page.get_by_text(f"{name} (go(size=9))").click()
    expect(page).to_have_title(f"Run · {name} · zerofleet")
    expect(page.get_by_text(name, exact=True)).to_be_visible()
    page.get_by_role("link", name="Run", exact=True).click()
    expect(page).to_have_title(f"Run · {name} · zerofleet")


def test_light_or_dark_is_the_browsers_until_a_person_chooses(
    shown: Any, open_page: Callable[..., Any]
) -> None:
    page = open_page("/", dark=True).page
    expect(page.locator("body.body--dark")).to_be_visible()
    page.get_by_label("Light or dark").click()
    expect(page.locator("body.body--light")).to_be_visible()
    beat(shown)
    # the page was drawn again
    expect(page.get_by_text("Idle: waiting for 2,000 positions")).to_be_attached()
    expect(page.locator("body.body--light")).to_be_visible()
    page.reload()
    expect(page.get_by_role("navigation")).to_be_visible()
    expect(page.locator("body.body--light")).to_be_visible()


def test_games_on_a_phone_show_their_moves_and_dark_fields_have_light_icons(
    shown: Any, open_page: Callable[..., Any]
) -> None:
    fill(shown, games=3)
    page = open_page("/games", width=360, dark=True).page
    rows = page.locator(".zf-games tbody tr")
    expect(rows).to_have_count(3)
    box = rows.first.locator("td").last.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    expect(rows.first.locator("td").last).to_have_text(re.compile(r"^1\.\s\d$"))
    day = page.get_by_label("Day, UTC")
    scheme = "field => getComputedStyle(field).colorScheme"
    assert day.evaluate(scheme) == "dark"
    page.get_by_role("button", name="Light or dark").click()
    expect(page.locator("body.body--light")).to_be_visible()
    assert day.evaluate(scheme) == "light"


def test_the_page_stays_while_postgres_is_away(
    shown: Any, open_page: Callable[..., Any], database_template: DatabaseTemplate, postgres: Any
) -> None:
    page = open_page("/").page
    expect(figure(page, "Games")).to_have_text("0")
    [[name]] = shown.query("SELECT current_database()")
    shown.database.close()
    admin = postgres.url("superuser", "postgres")
    allow(admin, name, allowed=False)
    expect(
        page.get_by_text(re.compile(r"Postgres has been unavailable since \d\d:\d\d"))
    ).to_be_visible()
    expect(figure(page, "Games")).to_have_text("0")
    page.goto(shown.base + "/?run=other")
    expect(page.get_by_text("Reconnecting automatically.")).to_be_visible()
    page.goto(shown.base + "/")
    expect(page.get_by_text("Postgres has been unavailable")).to_be_visible()
    allow(admin, name, allowed=True)
    expect(page.get_by_text("Postgres has been unavailable")).to_have_count(0)


def test_it_leaves_in_seconds_and_its_pages_come_back(
    shown: Any, open_page: Callable[..., Any]
) -> None:
    page = open_page("/").page
    expect(page.get_by_text("Running (1 open page)")).to_be_attached()
    shown.process.terminate()
    assert shown.process.wait(120) == 0, shown.process.output()
    assert "Traceback" not in shown.process.output()
    shown.process = shown.start()
    expect(page.get_by_text("Running (1 open page)")).to_be_attached()


def figure(page: Any, name: str) -> Any:
    """Return a figure of the status strip by its name."""
    cell = page.locator(".zf-cell", has=page.get_by_text(name, exact=True))
    return cell.locator(".zf-figure")


def allow(admin_url: str, name: str, *, allowed: bool) -> None:
    """Let a database accept connections, or refuse new ones and end the open ones."""
    import psycopg2

    connection = psycopg2.connect(admin_url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {allowed}')
        if not allowed:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
    connection.close()


def beat(shown: Any) -> None:
    """Send the heartbeats of a fleet in which inference is down."""
    for heartbeat in (
        Heartbeat("w", 1, "", SelfplayFigures(games_per_hour=1500.0)),
        Heartbeat("t", 2_120, "2,000 positions", TrainerFigures(window_limit=1), status="idle"),
        Heartbeat("e", 1, "", EvaluatorFigures()),
    ):
        shown.heartbeats.beat(heartbeat, ttl=600.0)


def fill(shown: Any, games: int) -> None:
    """Store games, measurements, and three models, of which the second is the best."""
    run, database = "shown", shown.database
    shown.query(
        "WITH stored AS (INSERT INTO games (game_uid, run, kind, first_model, result, reason, "
        "length, worker, started_at, finished_at, moves, content_sha256, began_at) "
        "SELECT gen_random_uuid(), :run, 'selfplay', 1, i % 3 - 1, 'rules', 7 + i % 30, 'w', "
        "now(), now(), i::text, decode(repeat('00', 32), 'hex'), now() "
        "FROM generate_series(1, :games) AS i RETURNING 1) SELECT count(*) FROM stored",
        run=run,
        games=games,
    )
    trainer = database.acquire_fence(run, "trainer")
    evaluator = database.acquire_fence(run, "evaluator")
    for version in (1, 2, 3):
        database.insert_model(
            run, version, f"{version:064x}", 1_000 * version, {}, f"{version}", trainer
        )
    for seq, version in enumerate((1, 2)):
        database.promote(run, version, None, "test", seq, epoch=evaluator)
    database.upsert_ratings(run, [("1", 0.0, 10.0), ("2", 123.0, 20.0), ("random", -400.0, 30.0)])
    for step in range(100, 2_100, 100):
        for split in ("train", "held_out"):
            losses = {"policy_loss": 2.0 - step / 2_000, "value_loss": 1.0}
            database.insert_train_metrics(run, step, split, losses, trainer)
    narrow = RecentPlay(1_000, 0.7).narrows(42, was_narrow=False)
    database.insert_train_event(run, 2_000, "narrow_begins", str(narrow), trainer)
