"""A visitor walks through games and plays them in a browser, by mouse and keyboard."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.random_records import changed, random_record
from zerofleet import games
from zerofleet.database import Submission
from zerofleet.fleet.figures import SelfplayFigures
from zerofleet.fleet.heartbeat import Heartbeat
from zerofleet.games import State
from zerofleet.games.notation import numbered_moves

DEADLINE = 120.0
SIMULATIONS = 60  # the fixture's server uses the same number
Opened = Callable[..., Any]
MOVES_AND_PIECES = """() => [
    (document.querySelector(".zf-line-so-far").innerText.match(/\\d+\\./g) || []).length,
    document.querySelectorAll(".zf-board .zf-piece").length,
]"""
FOCUS = """() => {
    const focused = document.activeElement;
    const style = getComputedStyle(focused);
    return focused === document.body || style.outlineStyle != "none" || style.boxShadow != "none"
        || focused.closest(".q-field--focused, .q-field--highlighted") !== null;
}"""


def board_of(page: Page) -> Locator:
    board = page.locator(".zf-board")
    expect(board).to_be_visible()
    return board


def moves_in(page: Page) -> list[str]:
    """Return the moves so far; the page numbers them: ``1. 4 2. 3``."""
    return page.locator(".zf-line-so-far").inner_text().split()[1::2]


def over(page: Page) -> bool:
    return bool(re.search(r"won|draw", page.get_by_role("status").inner_text()))


def point_at(page: Page, row: int, column: int, rows: int, columns: int) -> None:
    """Move the mouse to a cell of a board with labels, which take 24 units; a cell takes 40."""
    box = page.locator(".zf-board svg").bounding_box()
    names_left = page.locator(".zf-board .names text").count() > columns
    left = 24 if names_left else 0
    unit = box["width"] / (40 * columns + left + (1 if left else 0))
    page.mouse.move(
        box["x"] + unit * (left + 40 * (column + 0.5)), box["y"] + unit * (1 + 40 * (row + 0.5))
    )


def click_point(page: Page, row: int, column: int, rows: int, columns: int) -> None:
    point_at(page, row, column, rows, columns)
    page.mouse.down()
    page.mouse.up()


def tab_to(page: Page, element: Locator) -> None:
    """Press Tab until an element has the focus. The focus is visible at every step."""
    for _ in range(60):
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUS), page.evaluate("document.activeElement.outerHTML")
        if element.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError("Tab does not reach it")


def my_turn(page: Page) -> None:
    """Wait until it is the visitor's turn, on the board too, which may lag behind the text."""
    expect(page.get_by_role("status")).to_have_text(re.compile("Your move|won|draw"))
    deadline = time.monotonic() + DEADLINE
    while page.evaluate(MOVES_AND_PIECES) not in ([n, n] for n in range(43)):
        assert time.monotonic() < deadline, page.evaluate(MOVES_AND_PIECES)
        page.wait_for_timeout(20)


@pytest.mark.parametrize("shown_game", ["tic_tac_toe", "connect_four"])
def test_a_whole_game_is_played_by_clicks(shown_game: str, shown: Any, open_page: Opened) -> None:
    opened = open_page("/play")
    page = opened.page
    board_of(page)
    _, rows, columns = games.spec(shown_game).observation_shape
    my_turn(page)
    while not over(page):
        played = moves_in(page)
        state = State(shown_game)
        for word in played:
            state.apply(state.string_to_action(word))
        row, column = divmod(state.legal_actions()[0], columns)
        click_point(page, row, column, rows, columns)
        expect(page.locator(".zf-line-so-far")).not_to_have_text(numbered_moves(shown_game, played))
        my_turn(page)
    state = State(shown_game)
    for word in moves_in(page):
        state.apply(state.string_to_action(word))
    assert state.is_terminal
    words = {1: "You won", -1: "The model won", 0: "A draw"}[state.result]
    expect(page.get_by_role("status")).to_contain_text(words)
    assert "moves=" in page.url
    assert opened.complaints == []
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status")).to_have_text("Your move.")
    my_turn(page)
    assert not over(page)


@pytest.mark.parametrize("shown_game", ["tic_tac_toe"])
def test_a_whole_game_is_played_by_keyboard(shown_game: str, shown: Any, open_page: Opened) -> None:
    page = open_page("/play").page
    board = board_of(page)
    my_turn(page)
    tab_to(page, board)
    while not over(page):
        before = numbered_moves(shown_game, moves_in(page))
        for key in ("ArrowUp", "ArrowLeft", "Enter"):
            page.keyboard.press(key)
        expect(page.locator(".zf-line-so-far")).not_to_have_text(before)
        my_turn(page)
        expect(board).to_be_focused()  # the focus stays on the board
    assert 5 <= len(moves_in(page)) <= 9
    tab_to(page, page.get_by_role("button", name="New game"))
    page.keyboard.press("Enter")
    expect(page.locator(".zf-line-so-far")).to_have_text("")


@pytest.mark.parametrize(
    "shown_game",
    ["tic_tac_toe", "python:examples.domineering:Domineering", "connect_four", "chess"],
)
def test_the_board_leaves_room_for_the_buttons(shown: Any, open_page: Opened) -> None:
    page = open_page("/play", width=1280).page
    board_of(page)
    for height in (900, 720):
        page.set_viewport_size({"width": 1280, "height": height})
        for name in ("Undo", "Resign", "New game"):
            expect(page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
    page.set_viewport_size({"width": 740, "height": 360})  # a phone held sideways: the page scrolls
    assert board_of(page).bounding_box()["width"] >= 200


@pytest.mark.parametrize("shown_game", ["python:examples.domineering:Domineering"])
def test_a_game_in_python_is_played_on_the_board_that_its_picture_describes(
    shown: Any, open_page: Opened
) -> None:
    opened = open_page("/play?side=both&hints=on")
    page = opened.page
    board_of(page)
    expect(page.locator(".zf-candidates tbody tr")).to_have_count(20)
    # between two places for a domino; the cell is nearer to one of them
    click_point(page, 2, 1, 6, 6)
    expect(page.locator(".zf-board .zf-piece")).to_have_count(2)
    expect(page.get_by_text("Horizontal is to play.")).to_be_visible()
    expect(page.locator(".zf-candidates tbody tr")).to_have_count(20)
    assert opened.complaints == []


@pytest.mark.parametrize("shown_game", ["python:examples.dots_and_boxes:DotsAndBoxes"])
def test_a_game_that_draws_itself_is_played_on_its_picture(shown: Any, open_page: Opened) -> None:
    opened = open_page("/play?side=both&hints=on")
    page = opened.page
    board_of(page)
    picture = page.locator(".zf-board .zf-picture")
    drawn = picture.locator('rect[fill="var(--ink)"]')
    expect(picture.locator("circle")).to_have_count(12)
    expect(drawn).to_have_count(0)
    for row, column in ((0, 1), (1, 0), (1, 2), (2, 1)):  # the edges of one box
        before = drawn.count()
        click_point(page, row, column, 5, 7)
        expect(drawn).to_have_count(before + 1)
        expect(page.locator(".zf-candidates tbody tr")).to_have_count(min(20, 16 - before))
    expect(picture.locator("rect[opacity]")).to_have_count(1)  # the box has an owner
    expect(page.locator(".zf-board .zf-piece")).to_have_count(0)
    page.get_by_role("button", name="Flip board").click()  # the texts are not mirrored
    expect(picture).to_have_attribute("transform", "scale(40)")
    assert opened.complaints == []


@pytest.mark.parametrize("shown_game", ["openspiel:breakthrough"])
def test_a_chosen_piece_stays_chosen_while_a_search_is_drawn(shown: Any, open_page: Opened) -> None:
    opened = open_page("/play?side=both&hints=on")
    page = opened.page
    board_of(page)
    click_point(page, 1, 0, 8, 8)  # a7, where a6 and b6 can move
    expect(page.locator(".zf-target")).to_have_count(2)
    rows = page.locator(".zf-candidates tbody tr")
    expect(page.get_by_text(f"{SIMULATIONS} simulations")).to_be_visible()
    rows.first.hover()
    expect(page.locator(".zf-step")).not_to_have_count(0)  # the board shows the row under the mouse
    expect(page.locator(".zf-target")).to_have_count(2)
    click_point(page, 2, 1, 8, 8)
    expect(page.locator(".zf-line-so-far")).to_have_text("1. a7b6")
    assert opened.complaints == []


def test_hover_draws_the_variation_of_an_analysis(
    shown: Any, inference_address: str, open_page: Opened
) -> None:
    page = open_page("/play?side=both&hints=on").page
    rows = page.locator(".zf-candidates tbody tr")
    expect(rows).to_have_count(7)
    expect(page.get_by_text(f"{SIMULATIONS} simulations")).to_be_visible()
    rows.first.hover()
    line = rows.first.locator("td").last.inner_text().split()
    assert len(line) > 1
    expect(page.locator(".zf-step")).to_have_count(len(line))


def test_a_click_counts_though_the_board_is_drawn_anew_in_it(
    shown: Any, inference_address: str, open_page: Opened
) -> None:
    page = open_page("/play?side=both&hints=on").page
    expect(page.get_by_text(f"{SIMULATIONS} simulations")).to_be_visible()
    point_at(page, 5, 3, 6, 7)  # on a move that the analysis marks
    page.mouse.down()
    expect(page.locator(".zf-step")).not_to_have_count(0)  # the line replaces the marks
    page.mouse.up()
    expect(page.locator(".zf-board .zf-piece")).to_have_count(1)


def test_a_row_stays_what_it_is_when_the_page_is_drawn_anew(
    shown: Any, inference_address: str, open_page: Opened
) -> None:
    page = open_page("/play?side=both&hints=on").page
    expect(page.get_by_text(f"{SIMULATIONS} simulations")).to_be_visible()
    row = page.locator(".zf-candidates tbody tr").first.element_handle()
    row.focus()
    expect(page.locator(".zf-step")).not_to_have_count(0)
    shown.heartbeats.beat(Heartbeat("w", 1, "a test", SelfplayFigures()), ttl=60.0)
    expect(page.get_by_text("Waiting for a test").first).to_be_visible()  # the page was drawn again
    assert row.evaluate("row => row === document.activeElement")
    expect(page.locator(".zf-step")).not_to_have_count(0)


@pytest.mark.parametrize("path", ["/play?side=both&hints=on", "/compare"])
def test_a_search_goes_on_when_the_connection_is_back(
    path: str, shown: Any, inference_address: str, open_page: Opened
) -> None:
    page = open_page(path).page
    expect(page.get_by_text(f"{SIMULATIONS} simulations").first).to_be_visible()
    page.get_by_label("simulations").fill("4000")
    page.evaluate("window.socket.disconnect().connect()")
    expect(page.get_by_text("4,000 simulations").first).to_be_visible()


def test_a_link_to_game_and_ply_opens_it_and_the_address_follows(
    shown: Any, open_page: Opened
) -> None:
    record = random_record(4, "connect_four")
    assert shown.database.submit_game("shown", "w", Submission(record)) == "stored"
    opened = open_page(f"/games/{record.game_uid}?ply=3")
    page = opened.page
    pieces = page.locator(".zf-board .zf-piece")
    expect(pieces).to_have_count(3)
    expect(page.locator(".zf-figure", has_text="1").first).to_be_visible()  # the page is connected
    page.keyboard.press("ArrowRight")
    expect(pieces).to_have_count(4)
    expect(page).to_have_url(re.compile(r"ply=4$"))
    shares = page.locator(".zf-candidates tbody tr").first.locator("td").nth(2).inner_text()
    first, last = record.columns.offsets[4], record.columns.offsets[5]
    visits = record.columns.visit_counts[first:last]
    assert shares == f"{visits.max() / visits.sum():.1%}"
    page.get_by_role("button", name="Play from here").click()
    expect(page).to_have_url(re.compile(r"/play\?.*moves="))
    expect(page.locator(".zf-board .zf-piece")).to_have_count(4)
    assert opened.complaints == []


def test_an_action_that_was_drawn_says_so(shown: Any, open_page: Opened) -> None:
    record = random_record(6, "connect_four")
    shown.database.submit_game("shown", "w", Submission(record))
    shown.query(
        "UPDATE positions SET simulations = 0 "
        f"WHERE game_uid = '{record.game_uid}' AND ply < 2 RETURNING 1"
    )
    page = open_page(f"/games/{record.game_uid}?ply=1").page
    expect(page.get_by_text("was drawn at random, without a search")).to_be_visible()
    expect(page.locator(".zf-candidates")).not_to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text(", 50 simulations; ")).to_be_visible()
    expect(page.locator(".zf-candidates tbody tr").first).to_be_visible()


def test_both_sides_are_played_without_hints_until_they_are_asked_for(
    shown: Any, open_page: Opened
) -> None:
    opened = open_page("/play?side=both")
    page = opened.page
    hints = page.get_by_role("switch", name="hints")
    expect(page.get_by_text("Red is to play.")).to_be_visible()
    expect(hints).not_to_be_checked()
    click_point(page, 5, 3, 6, 7)
    expect(page.get_by_text("Yellow is to play.")).to_be_visible()
    expect(hints).not_to_be_checked()
    expect(page.locator(".zf-candidates")).not_to_be_visible()
    hints.click()
    expect(page.locator(".zf-candidates tbody tr")).to_have_count(7)
    expect(page).to_have_url(re.compile("hints=on"))
    page.reload()
    expect(page.locator(".zf-candidates tbody tr")).to_have_count(7)
    assert opened.complaints == []


@pytest.mark.parametrize("player", ["first", "second"])
def test_all_values_of_an_analysis_are_for_the_first_player(
    shown: Any, open_page: Opened, player: str
) -> None:
    line = "4 3 4 3 4 3" if player == "first" else "4 3 4 3 4 3 1"  # both players can win at once
    page = open_page(f"/play?side=both&hints=on&moves={line.replace(' ', '+')}").page
    expect(page.get_by_text("Values are for Red: +1 is a win")).to_be_visible()
    expect(page.get_by_text(f"{SIMULATIONS} simulations")).to_be_visible()
    rows = page.locator(".zf-candidates tbody tr")
    cells = [row.locator("td").all_inner_texts() for row in rows.all()]
    visits = [int(row[1]) for row in cells]
    assert visits == sorted(visits, reverse=True)
    sign = 1 if player == "first" else -1
    assert (cells[0][0], float(cells[0][3])) == ("4" if player == "first" else "3", sign)
    value = float(page.locator(".zf-side .zf-figure").inner_text().split()[3])
    assert value * sign > 0


@pytest.mark.parametrize(
    ("shown_game", "moves", "visitor", "name"),
    [
        ("connect_four", "4 3 4 3 4 3", (5, 3, 6, 7), "Red"),
        ("tic_tac_toe", "a1 a2 b1 b2", (0, 2, 3, 3), "X"),
    ],
)
def test_at_the_end_the_winning_row_value_and_hints_stay(
    shown: Any, open_page: Opened, moves: str, visitor: tuple[int, int, int, int], name: str
) -> None:
    opened = open_page(f"/play?side=both&hints=on&moves={moves.replace(' ', '+')}")
    page = opened.page
    rows = page.locator(".zf-candidates tbody tr")
    expect(page.get_by_text(f"{SIMULATIONS} simulations")).to_be_visible()
    expect(page.locator(".zf-won")).to_have_count(0)
    click_point(page, *visitor)
    expect(page.get_by_role("status").filter(has_text=f"{name} won.")).to_be_visible()
    expect(page.locator(".zf-won")).to_have_count(1)
    expect(page.get_by_label(re.compile("the winning row is marked"))).to_be_visible()
    expect(page.get_by_text(f"Value for {name}: +1 (result)")).to_be_visible()
    expect(page.get_by_text(re.compile("Before the last move: .*simulations"))).to_be_visible()
    expect(rows.first).to_be_visible()
    page.reload()  # a link to the end of a game loads the same page
    expect(page.locator(".zf-won")).to_have_count(1)
    expect(page.get_by_text(re.compile("Before the last move: .*simulations"))).to_be_visible()
    expect(rows.first).to_be_visible()
    assert opened.complaints == []


def test_what_an_address_asks_for_and_does_not_get_is_said(shown: Any, open_page: Opened) -> None:
    record = random_record(4, "connect_four")
    shown.database.submit_game("shown", "w", Submission(record))
    page = open_page("/").page
    for address, words in (
        ("/play?model=77", "model=77 does not exist. best is used instead. Choose from: best, 1."),
        ("/play?side=left", "side=left does not exist. first is used instead."),
        ("/play?hints=1", "hints=1 does not exist. off is used instead. Choose from: off, on."),
        ("/play?simulations=99999", "99,999 simulations are not allowed. Give 1 to 20,000;"),
        (
            "/play?simulations=0",
            "0 simulations are not allowed. Give 1 to 20,000; 1 is used instead.",
        ),
        (
            "/play?simulations=many",
            f"simulations=many is not a whole number. {SIMULATIONS} is used instead.",
        ),
        ("/play?modle=1", "Ignored in the address: modle."),
        ("/compare?simulations=99999", "20,000 is used instead."),
        ("/compare?models=1,best,1", "models has 3 models. The first two are compared."),
        (f"/games/{record.game_uid}?model=77", "the inference service has no such model."),
        ("/?x=1", "Ignored in the address: x."),
        ("/sql?query=" + "a" * 20_001, "the first 20,000 are shown."),
    ):
        assert page.goto(shown.base + address).status == 200
        expect(page.locator(".zf-notes").get_by_text(words)).to_be_visible()


@pytest.mark.parametrize("path", ["/play", "/compare"])
def test_too_many_simulations_are_answered_with_the_limits(
    path: str, shown: Any, open_page: Opened
) -> None:
    page = open_page(path).page
    page.get_by_label("simulations").fill("99999")
    words = "99,999 simulations are not allowed. Give 1 to 20,000; 20,000 is used instead."
    expect(page.get_by_text(words)).to_be_visible()
    page.get_by_label("simulations").blur()
    expect(page.get_by_label("simulations")).to_have_value("20000")
    expect(page.get_by_text(words)).to_be_visible()
    page.get_by_label("simulations").fill("50")
    expect(page.get_by_text(words)).to_have_count(0)
    expect(page).to_have_url(re.compile("simulations=50"))


def test_a_match_has_a_curve_for_each_player_and_a_chosen_model_judges_both(
    shown: Any, open_page: Opened
) -> None:
    record = random_record(4, "connect_four")
    plies = np.arange(record.length)
    record = changed(record, root_value=np.where(plies % 2, 0.7, 0.8).astype(np.float32))
    shown.database.submit_game("shown", "w", Submission(record))
    shown.query(
        "UPDATE games SET kind = 'match' WHERE game_uid = :uid RETURNING 1", uid=record.game_uid
    )
    opened = open_page(f"/games/{record.game_uid}?ply=2")
    page = opened.page
    expect(page.locator(".zf-chart").get_by_text("(Red)")).to_be_visible()
    expect(page.locator(".zf-chart").get_by_text("(Yellow)")).to_be_visible()
    expect(page.get_by_text("One curve for each player, from its own searches.")).to_be_visible()
    blunders = page.locator(".zf-moves").get_by_text("?")
    expect(blunders).to_have_count(1)  # by the player whom the result surprised
    expect(page.get_by_text(re.compile(r"for Red: .* by model 1 \(Red\)"))).to_be_visible()
    page.get_by_label("Evaluated by").click()
    page.get_by_role("option", name="model 1 (best)").click()
    expect(
        page.get_by_text(f"Model 1, {SIMULATIONS} simulations for each position")
    ).to_be_visible()
    expect(page.locator(".zf-chart").get_by_text("(Yellow)")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"ply=2&model=1$"))
    page.reload()
    expect(
        page.get_by_text(f"Model 1, {SIMULATIONS} simulations for each position")
    ).to_be_visible()
    assert opened.complaints == []


@pytest.mark.parametrize("path", ["/play", "/compare", "/openings"])
def test_a_link_with_moves_begins_with_their_position(
    path: str, shown: Any, open_page: Opened
) -> None:
    page = open_page("/").page
    # the server's HTML, before any answer of the search
    sent = page.request.get(f"{shown.base}{path}?moves=4+4+3").text()
    assert "Board after 3 plies, last 3" in sent
    assert "Board after 0 plies" not in sent


def test_links_to_nothing_in_a_game_say_so(shown: Any, open_page: Opened) -> None:
    record = random_record(4, "connect_four")
    shown.database.submit_game("shown", "w", Submission(record))
    page = open_page("/").page
    for address, words in (
        (f"/games/{record.game_uid}?ply=400", "ply=400: this game has plies 0 to"),
        ("/games/00000000-0000-0000-0000-000000000000", "has no finished game"),
        ("/games/nonsense", "'nonsense' is not the uid of a game"),
        ("/games?kind=odd", "kind=odd: give one of selfplay"),
        ("/play?moves=1 2 99", "ply 2"),
    ):
        assert page.goto(shown.base + address).status == 404
        expect(page.get_by_text(words)).to_be_visible()
