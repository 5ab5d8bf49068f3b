"""Positions that are set up in the browser, and stored games that begin at one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from tests.support.random_records import changed, random_record
from zerofleet.database import Submission
from zerofleet.games import State

Opened = Callable[..., Any]
START = "7/7/7/7/ooo4/xxx4 x"


def pieces(page: Page) -> Any:
    return page.locator(".zf-board .zf-piece")


def test_a_position_is_copied_changed_and_set_up(open_page: Opened) -> None:
    opened = open_page("/play?side=both")
    page = opened.page
    page.get_by_text("Set up a position").click()
    field = page.get_by_label("Position to set up")
    expect(field).to_have_value(State("connect_four").setup_text())
    for text, reason in (
        ("7/7/7/7/x6/7 o", "column 1 has a disc above an empty cell"),
        ("7/7/7/7/ooo4/xxxx3 o", "the game is over in this position"),
    ):
        field.fill(text)
        page.get_by_role("button", name="Set up", exact=True).click()
        expect(page.get_by_text(reason)).to_be_visible()
    field.fill(START)
    field.press("Enter")
    expect(page).to_have_url(re.compile("start="))
    expect(pieces(page)).to_have_count(6)
    # The winning move ends the game; the field follows it, and so does the address.
    expect(page.get_by_role("status")).to_have_text(re.compile("Red is to play"))
    board = page.locator(".zf-board")
    board.focus()
    page.goto(f"{page.url}&moves=4")
    expect(page.get_by_role("status")).to_have_text("Red won.")
    page.get_by_text("Set up a position").click()
    expect(page.get_by_label("Position to set up")).to_have_value("7/7/7/7/ooo4/xxxx3 o")
    page.get_by_role("button", name="New game").click()
    expect(pieces(page)).to_have_count(0)
    expect(page).not_to_have_url(re.compile("start="))
    assert opened.complaints == []


def test_a_wrong_position_in_the_address_is_refused(open_page: Opened) -> None:
    page = open_page("/play?start=7/7/7/7/x6/7+o").page
    expect(page.get_by_text("column 1 has a disc above an empty cell")).to_be_visible()


def test_a_stored_game_begins_at_its_position(open_page: Opened, shown: Any) -> None:
    record = random_record(1, "connect_four", start=START)
    assert shown.database.submit_game("shown", "w", Submission(record)) == "stored"
    opened = open_page(f"/games/{record.game_uid}?ply=0")
    page = opened.page
    expect(page.get_by_text(f"From the position {START}")).to_be_visible()
    expect(pieces(page)).to_have_count(6)
    page.get_by_role("button", name="To the end").click()
    expect(pieces(page)).to_have_count(6 + record.length)
    page.get_by_role("button", name="To the start").click()
    page.get_by_role("button", name="Play from here").click()
    expect(page).to_have_url(re.compile("/play.*start="))
    expect(pieces(page)).to_have_count(6)
    assert opened.complaints == []


def test_a_game_says_that_it_began_at_a_mistake(open_page: Opened, shown: Any) -> None:
    record = changed(random_record(2, "connect_four"), restarted=True)
    assert shown.database.submit_game("shown", "w", Submission(record)) == "stored"
    shown.query("UPDATE games SET opening_plies = 3 WHERE restarted RETURNING 1")
    page = open_page(f"/games/{record.game_uid}").page
    note = "Began at a mistake of an earlier game (plies repeated: 3)"
    expect(page.get_by_text(note)).to_be_visible()
