"""The strip at the top of every page: what it says of services, and that it stays where it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import redis
from playwright.sync_api import expect

from zerofleet.fleet.figures import (
    EvaluatorFigures,
    InferenceFigures,
    SelfplayFigures,
    TrainerFigures,
)
from zerofleet.fleet.heartbeat import Heartbeat

PHONE = 390
DESKTOP = 1440
MATCH = EvaluatorFigures(
    match_in_play=True, candidate=12, match_games=23, match_most_games=64, match_score=0.6087
)


def beat(shown: Any, *, worker: str = "w", waits: str = "", long: bool = False) -> None:
    """Heartbeats of a fleet that works, with short or long texts."""
    for said in (
        Heartbeat(worker, 1, waits, SelfplayFigures(games_per_hour=1e9 if long else 1.0)),
        Heartbeat("i", 1, "", InferenceFigures(provider="cpu", precision="fp32")),
        Heartbeat("t", 2_120, "", TrainerFigures(window_limit=1)),
        Heartbeat("e", 1, "", MATCH)
        if long
        else Heartbeat("e", 1, "a new model", EvaluatorFigures(), status="idle"),
    ):
        shown.heartbeats.beat(said, ttl=600.0)


def top_of_content(page: Any) -> float:
    return page.locator(".zf-main").bounding_box()["y"]


def lamp(page: Any, service: str) -> Any:
    return page.locator(".zf-lamp", has=page.get_by_text(service, exact=True))


@pytest.mark.parametrize("width", [PHONE, 800, 1150, DESKTOP])
def test_no_text_moves_the_page_below(
    shown: Any, open_page: Callable[..., Any], width: int
) -> None:
    page = open_page("/fleet", width=width).page
    expect(page.locator(".zf-lamp")).to_have_count(5)
    cells = page.locator(".zf-strip .zf-cell")
    places = [cell.bounding_box() for cell in cells.all()]
    before = top_of_content(page)
    beat(shown)
    expect(lamp(page, "evaluator")).to_contain_text("Idle: no new model to evaluate")
    expect(lamp(page, "evaluator").locator(".zf-light")).to_have_class("zf-light zf-idle")
    expect(page.locator(".zf-health")).to_contain_text("5 of 5 services healthy")
    assert top_of_content(page) == before
    beat(shown, waits="a word that makes this longer " * 8, long=True)
    expect(lamp(page, "evaluator")).to_contain_text("Evaluating model 12: 23 of 64 games")
    expect(lamp(page, "selfplay")).to_contain_text("a word that makes this longer")
    expect(lamp(page, "selfplay").locator(".zf-light")).to_have_class("zf-light zf-warning")
    expect(lamp(page, "selfplay").locator(".zf-words")).to_have_attribute(
        "title", re.compile("Waiting for a word that makes this longer a word")
    )
    health = page.locator(".zf-health")
    expect(health).to_contain_text("4 of 5 services healthy: selfplay Waiting for a word that")
    assert top_of_content(page) == before
    assert [cell.bounding_box() for cell in cells.all()] == places
    if width == DESKTOP:
        expect(page.get_by_text("Best model", exact=True)).to_be_visible()
        assert top_of_content(page) <= 125
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_its_figures_fit_on_a_small_laptop(shown: Any, open_page: Callable[..., Any]) -> None:
    database = shown.database
    trainer = database.acquire_fence("shown", "trainer")
    evaluator = database.acquire_fence("shown", "evaluator")
    for version in (123, 124):
        database.insert_model("shown", version, f"{version:064x}", 1, {}, f"{version}", trainer)
    database.promote("shown", 123, None, "test", 0, epoch=evaluator)
    shown.query(
        "INSERT INTO promotions (run, seq, prev_seq, version, actor, epoch, at) VALUES "
        "('shown', 2, 1, 124, 'test', :epoch, now() - interval '23 min 1 s') RETURNING 1",
        epoch=evaluator,
    )
    database.upsert_ratings("shown", [("123", 1_380.0, 83.0)])
    beat(shown)
    page = open_page("/fleet", width=1280).page
    cells = page.locator(".zf-strip .zf-figure")
    expect(cells.nth(0)).to_have_text("124, 23 min ago")
    expect(cells.nth(0)).to_have_attribute("title", re.compile(r"^124 \(promoted 23 min \d+ s ago"))
    expect(cells.nth(1)).to_have_text("+1,380 ± 163 (model 123)")
    expect(cells.nth(5)).to_have_text(re.compile("^in [0-9,]+ steps$"))
    for cell in cells.all():
        wide, shown_wide = cell.evaluate("cell => [cell.scrollWidth, cell.clientWidth]")
        assert wide <= shown_wide, cell.inner_text()


def test_on_a_phone_it_is_one_line_that_opens(shown: Any, open_page: Callable[..., Any]) -> None:
    beat(shown)
    page = open_page("/", width=PHONE).page
    health = page.get_by_role("button", name="5 of 5 services healthy")
    expect(health).to_be_visible()
    assert top_of_content(page) <= 100
    assert health.bounding_box()["height"] <= 40
    expect(lamp(page, "evaluator")).to_be_hidden()
    expect(page.get_by_text("Best model", exact=True)).to_be_hidden()
    health.click()
    expect(health).to_have_attribute("aria-expanded", "true")
    expect(lamp(page, "evaluator")).to_be_visible()
    expect(page.get_by_text("Best model", exact=True)).to_be_visible()
    beat(shown, long=True)
    expect(page.get_by_text("Evaluating model 12: 23 of 64 games")).to_be_visible()
    expect(health).to_have_attribute("aria-expanded", "true")  # it stays open
    health.click()
    expect(lamp(page, "evaluator")).to_be_hidden()


def test_on_a_phone_the_pages_are_behind_a_button(
    shown: Any, open_page: Callable[..., Any]
) -> None:
    page = open_page("/models?before=9", width=PHONE).page
    menu = page.get_by_role("button", name="Menu")
    expect(page.get_by_role("link", name="Games", exact=True)).to_be_hidden()
    menu.click()
    expect(menu).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("link", name="Models", exact=True)).to_have_attribute(
        "aria-current", "page"
    )
    page.get_by_role("link", name="Games", exact=True).click()
    expect(page).to_have_url(re.compile("/games$"))


def test_a_killed_process_is_not_said_to_run(
    shown: Any, open_page: Callable[..., Any], valkey_url: str
) -> None:
    beat(shown)
    beat(shown, worker="killed")
    page = open_page("/").page
    expect(lamp(page, "selfplay")).to_contain_text("2 of 2: Running")
    key = "zerofleet:shown:heartbeat:selfplay:killed"
    with redis.Redis.from_url(valkey_url) as server:
        server.pexpire(key, 300_000)  # as if it had been silent for 300 s
        expect(lamp(page, "selfplay")).to_contain_text("1 of 2: Not responding (last heartbeat 3")
        expect(lamp(page, "selfplay").locator(".zf-light")).to_have_class("zf-light zf-warning")
        shown.heartbeats.remove("selfplay", "killed")
        expect(lamp(page, "selfplay")).to_have_text("selfplayRunning")
        shown.heartbeats.remove("selfplay", "w")
        expect(lamp(page, "selfplay")).to_contain_text("Down (no heartbeat)")
        expect(lamp(page, "selfplay").locator(".zf-light")).to_have_class("zf-light zf-negative")
