"""Chess on the Play page: moves by drag and keyboard, and what surrounds the board."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.random_records import random_record
from zerofleet.database import Submission
from zerofleet.games import State, parse_actions
from zerofleet.games.pgn_text import read_pgn

Opened = Callable[..., Any]
LINE = "e4 d5 exd5 Qxd5 Nc3 Qe5+"
PAWN_AND_KING = "8/P6k/8/8/8/8/7K/1r6 w - - 0 1"


def cell(page: Page, row: int, column: int, size: tuple[int, int] = (8, 8)) -> tuple[float, float]:
    """Return the middle of a cell, as the board is drawn, in pixels of the page."""
    box = page.locator(".zf-board .points").first.bounding_box()
    left = 24 if page.locator(".zf-board .names text").count() > size[1] else 0
    unit = box["width"] / (40 * size[1] + left + (1 if left else 0))
    return box["x"] + unit * (left + 40 * (column + 0.5)), box["y"] + unit * (1 + 40 * (row + 0.5))


def drag(page: Page, source: tuple[int, int], target: tuple[int, int]) -> None:
    page.mouse.move(*cell(page, *source))
    page.mouse.down()
    page.mouse.move(*cell(page, *target), steps=4)
    expect(page.locator(".zf-dragged")).to_have_count(1)
    page.mouse.up()
    expect(page.locator(".zf-dragged")).to_have_count(0)


def line(page: Page) -> Locator:
    return page.locator(".zf-line-so-far")


def columns(page: Page) -> str:
    """The names of the columns, from the left."""
    found = page.locator(".zf-board").first.locator(".names text")
    named = sorted((each.bounding_box()["x"], each.text_content()) for each in found.all())
    return "".join(name for _, name in named if not name.isdecimal())


@pytest.mark.parametrize("shown_game", ["chess"])
def test_pieces_are_dragged_and_pawns_promoted_by_any_device(shown: Any, open_page: Opened) -> None:
    opened = open_page("/play?side=both")
    page = opened.page
    drag(page, (6, 4), (4, 4))
    expect(line(page)).to_have_text("1. e4")
    drag(page, (1, 4), (5, 5))  # no move: the pawn goes back
    expect(page.locator(".zf-target")).to_have_count(0)
    drag(page, (1, 4), (1, 4 + 1))
    expect(line(page)).to_have_text("1. e4")
    page.mouse.click(*cell(page, 1, 4))
    expect(page.locator(".zf-target")).to_have_count(2)
    page.mouse.click(*cell(page, 3, 4))
    expect(line(page)).to_have_text("1. e4 e5")
    # A finger drags the piece, and the page does not scroll with it.
    touch = page.context.new_cdp_session(page)
    path = [cell(page, 7 - step / 2, 6 - step / 4) for step in range(5)]
    for number, (x, y) in enumerate(path):
        kind = "touchMove" if number else "touchStart"
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(line(page)).to_have_text("1. e4 e5 2. Nf3")
    page.goto(f"{shown.base}/play?side=both&start={quote_plus(PAWN_AND_KING)}")
    board = page.locator(".zf-board")
    expect(page.get_by_text("White is to play.")).to_be_visible()
    drag(page, (1, 0), (0, 0))
    choices = page.locator(".zf-board .off button")
    expect(choices).to_have_text(["a8=Q", "a8=N", "a8=B", "a8=R"])
    expect(choices.locator("svg")).to_have_count(4)
    page.keyboard.press("Escape")
    expect(choices).to_have_count(0)
    expect(board).to_be_focused()
    # From here on by the keyboard alone.
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    for _ in range(9):
        page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator(".zf-target")).to_have_count(1)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(choices.first).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(line(page)).to_have_text("1. a8=N")
    expect(board).to_be_focused()
    assert opened.complaints == []


@pytest.mark.parametrize("shown_game", ["chess"])
def test_check_captures_texts_and_the_side_of_the_board(shown: Any, open_page: Opened) -> None:
    opened = open_page(f"/play?side=both&moves={quote_plus(LINE)}")
    page = opened.page
    state = State("chess", parse_actions("chess", LINE))
    fen = state.setup_text()
    expect(page.get_by_label("FEN", exact=True)).to_have_value(fen)
    expect(page.locator(".zf-check")).to_have_count(1)
    expect(page.get_by_role("img", name="Captured by White: 1 pawn")).to_be_visible()
    expect(page.get_by_role("img", name="Captured by Black: 1 pawn")).to_be_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy FEN").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == fen
    page.get_by_role("button", name="Copy PGN").click()
    expect(page.get_by_role("button", name="Copied")).to_have_count(2)
    [read] = read_pgn(page.evaluate("navigator.clipboard.readText()"), "chess")
    assert list(read.actions) == parse_actions("chess", LINE)
    # Without a clipboard, as over plain HTTP from elsewhere.
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".zf-check")).to_have_count(0)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.get_by_role("button", name="Copy FEN").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    selected = page.evaluate(
        "document.activeElement.value.slice(0, document.activeElement.selectionEnd)"
    )
    assert selected == page.get_by_label("FEN", exact=True).input_value() != fen
    assert columns(page) == "abcdefgh"
    page.get_by_role("button", name="Flip board").click()
    assert columns(page) == "hgfedcba"
    drag(page, (7, 3), (7, 4))  # the king of Black is at the bottom now
    expect(line(page)).to_have_text(re.compile("Kd8"))
    # The choice lasts in this window; Black sits at the bottom without it.
    record = random_record(1, "chess")
    assert shown.database.submit_game("shown", "w", Submission(record)) == "stored"
    page.goto(f"{shown.base}/games/{record.game_uid}?ply=3")
    expect(page.get_by_label("PGN", exact=True)).to_have_value(re.compile("GameId"))
    assert columns(page) == "hgfedcba"
    moves = shown.query("SELECT moves FROM games")[0][0]
    assert parse_actions("chess", moves) == record.columns.action.tolist()
    other = open_page("/play?side=second").page
    expect(other.locator(".zf-board .zf-piece")).to_have_count(32)
    assert columns(other) == "hgfedcba"
    assert opened.complaints == []


def test_a_rack_is_seen_from_behind(shown: Any, open_page: Opened) -> None:
    opened = open_page("/play?side=both")
    page = opened.page
    expect(page.get_by_text("Red is to play.")).to_be_visible()
    page.get_by_role("button", name="Flip board").click()
    page.mouse.click(*cell(page, 5, 0, (6, 7)))
    expect(line(page)).to_have_text("1. 7")
    expect(page.get_by_text("Yellow is to play.")).to_be_visible()
    expect(page.get_by_label("Position", exact=True)).to_have_value("7/7/7/7/7/6x o")
    assert opened.complaints == []
