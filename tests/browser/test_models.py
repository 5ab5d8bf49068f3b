"""The pages of models, matches, openings and exams, in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import expect

from tests.support.random_records import changed, random_record
from zerofleet.config import run_from_values
from zerofleet.database import GroupErrors, Submission, WrongAnswer
from zerofleet.fleet.figures import EvaluatorFigures
from zerofleet.fleet.heartbeat import Heartbeat
from zerofleet.services.dashboard.mistakes_page import LARGEST
from zerofleet.verdict import GateRule

RUN = "shown"


@pytest.fixture
def filled(shown: Any) -> Any:
    """Three models, a gate match of the third, games of the first two, and exams."""
    database = shown.database
    trainer = database.acquire_fence(RUN, "trainer")
    for version in (1, 2, 3):
        sha256 = f"{version:064x}"
        database.insert_model(RUN, version, sha256, 1_000 * version, {}, "m", trainer)
    evaluator = database.acquire_fence(RUN, "evaluator")
    for seq, version in enumerate((1, 2)):
        database.promote(RUN, version, None, "test", seq, epoch=evaluator)
    database.upsert_ratings(RUN, [("1", 0.0, 0.0), ("2", 123.0, 20.0)])
    rule = GateRule(0.5, (0.0, 35.0), 0.05)
    match = database.open_match(
        RUN, "gate", "3", "2", games=40, num_simulations=10, seed=1, epoch=evaluator, rule=rule
    )
    shown.match_id = match.match_id
    database.open_match(
        RUN, "rating", "2", "1", games=20, num_simulations=10, seed=1, epoch=evaluator
    )
    for opening, scores in enumerate([(1, 0), (1, 1), (1, 0.5)]):
        for color, points in enumerate(scores):
            [[uid]] = play(shown, "match", 3, f"{opening + 1} {color + 1}", 1)
            shown.query(
                "INSERT INTO match_games (match_id, opening, color, game_uid, score) VALUES "
                "(:match, :opening, :color, CAST(:uid AS uuid), :points) RETURNING 1",
                match=match.match_id,
                opening=opening,
                color=color,
                uid=uid,
                points=points,
            )
    for moves, result in (("4 4 3", 1), ("4 4 5", 1), ("4 3", -1), ("1 4", 0)):
        play(shown, "selfplay", 2, moves, result)
    wrong = [WrongAnswer("4 4", "1", ("3", "5")), WrongAnswer("4 3 2", "7", ("6",))]
    figures: dict[str, Any] = {"kind": "good", "wrong_answers": wrong}
    database.insert_exam(RUN, 2, 10, 50, 2, **figures)
    database.insert_exam(RUN, 1, 10, 50, 1, kind="good", wrong_answers=wrong[:1])
    return shown


def play(shown: Any, kind: str, model: int, moves: str, result: int) -> list[Any]:
    return shown.query(
        "INSERT INTO games (game_uid, run, kind, first_model, result, reason, length, worker, "
        "started_at, finished_at, moves, content_sha256, began_at) VALUES (gen_random_uuid(), "
        ":run, :kind, :model, :result, 'rules', 9, 'w', now(), now(), :moves, "
        "decode(repeat('00', 32), 'hex'), now()) RETURNING game_uid::text",
        run=RUN,
        kind=kind,
        model=model,
        result=result,
        moves=moves,
    )


def test_models_and_their_matches_are_those_of_the_database(
    filled: Any, open_page: Callable[..., Any]
) -> None:
    opened = open_page("/models")
    page = opened.page
    third, second = (page.get_by_role("row").nth(number) for number in (1, 2))
    expect(third).to_contain_text("In progress (6 of 40 games)")
    expect(third).to_contain_text("4 / 1 / 1")
    expect(second).to_contain_text("2 (best)")
    [[elo]] = filled.query("SELECT elo FROM ratings WHERE player = '2'")
    expect(second).to_contain_text(f"{elo:+.0f} ± 39")
    third.get_by_role("link", name="model 2").click()
    expect(
        page.get_by_role("heading", name="Promotion match: model 3 against model 2")
    ).to_be_visible()
    expect(page.get_by_text("6 games, without 0 duplicates")).to_be_visible()
    expect(page.get_by_text("75.0%").first).to_be_visible()
    expect(page.locator("section", has_text="Log-likelihood ratio").locator("svg")).to_be_visible()
    expect(page.get_by_text("No evaluator is sending heartbeats.")).to_be_visible()
    skipped = page.get_by_role("row").filter(has_text="rating")
    expect(skipped).to_contain_text("none of 20 games")
    expect(skipped).not_to_contain_text("0 / 0 / 0")
    expect(page.get_by_role("columnheader", name="verdict")).to_be_visible()
    expect(page.get_by_role("columnheader", name="LLR")).to_have_count(0)  # no match has one yet
    playing = EvaluatorFigures(
        match_in_play=True,
        candidate=3,
        match_games=6,
        match_most_games=40,
        games_in_play=("4 4 3", "1"),
    )
    filled.heartbeats.beat(Heartbeat("e", 1, "", playing), ttl=60.0)
    expect(page.get_by_text("Model 3 is being evaluated: 6 of at most 40")).to_be_visible()
    expect(page.get_by_label("Board after 3 plies, last 3")).to_be_visible()
    page.get_by_role("link", name="model 3").first.click()
    expect(page.get_by_text(f"{3:064x}")).to_be_visible()
    expect(page.get_by_text("not promoted")).to_be_visible()
    assert opened.complaints == []


@pytest.mark.parametrize("shown_game", ["chess"])
def test_the_exam_of_chess_shows_positions_that_begin_anywhere_and_errors_by_material(
    shown: Any, open_page: Callable[..., Any]
) -> None:
    database = shown.database
    trainer = database.acquire_fence(RUN, "trainer")
    database.insert_model(RUN, 1, f"{1:064x}", 1, {}, "m", trainer)
    starts = ("7k/8/8/8/8/8/Q7/K7 w - - 0 1", "7k/p7/8/8/8/8/R7/K7 w - - 0 1")
    wrong = [WrongAnswer("", "a1b1", ("a2a7", "a2b3"), start) for start in starts]
    groups = [GroupErrors("KQK", 9, 1), GroupErrors("KRKP", 8, 1)]
    database.insert_exam(RUN, 1, 10, 17, 2, kind="endgames", wrong_answers=wrong, groups=groups)
    opened = open_page("/exam?kind=endgames")
    page = opened.page
    expect(page.get_by_text("Model 1: 2 errors in 17 positions")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="KRKP")).to_have_text(re.compile("KRKP8112.5%"))
    expect(page.locator(".zf-board .zf-piece")).to_have_count(3)
    page.get_by_role("button", name="Forward (right arrow)").click()
    expect(page.locator(".zf-board .zf-piece")).to_have_count(4)
    page.get_by_role("link", name="Analyse").click()
    expect(page).to_have_url(re.compile("/play.*start=7k"))
    expect(page.locator(".zf-board .zf-piece")).to_have_count(4)
    page.goto(f"{shown.base}/exam")
    expect(page.get_by_text("Errors by group appear with the first exam.")).to_be_visible()
    page.goto(f"{shown.base}/models/1")
    expect(page.get_by_role("link", name="endgames")).to_be_visible()
    assert opened.complaints == []


def test_the_largest_mistakes_are_shown_and_lead_to_their_games(
    shown: Any, open_page: Callable[..., Any]
) -> None:
    database = shown.database
    database.register_run(run_from_values({"name": "empty", "game": "connect_four"}))
    page = open_page("/mistakes?run=empty").page
    expect(page.get_by_text("Mistakes appear here after the first games.")).to_be_visible()
    expect(page.locator(".zf-board")).to_be_hidden()
    games = [Submission(random_record(seed, "connect_four")) for seed in range(6)]
    assert set(database.submit_games(RUN, "w", games)) == {"stored"}
    opened = open_page("/games")
    page = opened.page
    page.get_by_role("link", name="Largest mistakes").click()
    found = database._rows(LARGEST, run=RUN)
    expect(page.get_by_role("row")).to_have_count(1 + len(found))
    expect(page.get_by_role("link", name="Games", exact=True)).to_have_attribute(
        "aria-current", "true"
    )
    for number in (1, 2):
        row, mistake = page.get_by_role("row").nth(number), found[number - 1]
        expect(row).to_contain_text(f"{float(mistake.regret):.2f}")
        row.hover()
        expect(page.get_by_role("status").filter(has_text="Mistake")).to_contain_text(
            f"Mistake {number} of {len(found)}"
        )
        expect(page.get_by_label(f"Board after {mistake.ply} plies")).to_be_visible()
    page.get_by_role("link", name="Open the game").click()
    expect(page).to_have_url(re.compile(f"/games/{found[1].game_uid}.*ply={found[1].ply}"))
    expect(page.get_by_role("heading", name="Self-play, model 1", exact=True)).to_be_visible()
    page.go_back()
    expect(page.get_by_text(f"Mistake 2 of {len(found)}")).to_be_visible()
    page.goto(f"{shown.base}/mistakes?game=7")
    expect(page.get_by_text("game=7 is not among the largest mistakes.")).to_be_visible()
    assert opened.complaints == []


def test_a_mistake_of_several_games_is_one_row_and_a_tap_shows_its_board(
    shown: Any, open_page: Callable[..., Any]
) -> None:
    database, run = shown.database, "restarting"
    values = {"name": run, "game": "connect_four", "selfplay": {"restart_share": 0.2}}
    database.register_run(run_from_values(values))
    trainer = database.acquire_fence(run, "trainer")
    database.store_restarts(run, [([3], 1.5), ([3, 3], 0.5)], trainer)
    record = random_record(1, "connect_four")
    games = [changed(record, game_uid=uuid4()) for _ in range(3)]
    games += [random_record(seed, "connect_four") for seed in range(2, 12)]
    stored = database.submit_games(run, "w", [Submission(each) for each in games])
    assert set(stored) == {"stored"}
    opened = open_page(f"/mistakes?run={run}", width=360)
    page = opened.page
    rows = page.get_by_role("row")
    found = database._rows(LARGEST, run=run)
    assert sum(mistake.games for mistake in found) == len(games)
    assert any(mistake.games >= 3 for mistake in found)
    expect(rows).to_have_count(1 + len(found))
    for number, mistake in enumerate(found, 1):
        expect(rows.nth(number).locator("td").nth(6)).to_have_text(f"{mistake.games}")
    for head in ("Expected for player", "Result for player", "Regret"):
        box = page.get_by_role("columnheader", name=head).bounding_box()
        assert box["x"] + box["width"] <= 360
    page.set_viewport_size({"width": 360, "height": 640})
    rows.last.scroll_into_view_if_needed()
    expect(page.locator(".zf-board")).not_to_be_in_viewport()
    rows.last.click()
    expect(page.get_by_text(f"Mistake {len(found)} of {len(found)}")).to_be_in_viewport()
    expect(page.locator(".zf-board")).to_be_in_viewport()
    expect(page).to_have_url(re.compile(rf"\?game={found[-1].game_uid}&run={run}$"))
    words = "20% of new games begin at 2 positions with a mean regret of 1.00."
    expect(page.get_by_text(words)).to_be_visible()
    assert opened.complaints == []


def test_a_model_without_elo_says_which_models_are_rated(
    shown: Any, open_page: Callable[..., Any]
) -> None:
    database = shown.database
    database.register_run(
        run_from_values({"name": "fifths", "game": "connect_four", "rating": {"every": 5}})
    )
    trainer = database.acquire_fence("fifths", "trainer")
    evaluator = database.acquire_fence("fifths", "evaluator")
    for seq, version in enumerate((1, 2)):
        database.insert_model("fifths", version, f"{version:064x}", 1, {}, "m", trainer)
        database.promote("fifths", version, None, "test", seq, epoch=evaluator)
    words = "this run rates every 5th promoted model"
    page = open_page("/models/2?run=fifths").page
    expect(page.get_by_text(f"Not rated: {words}")).to_be_visible()
    page.goto(f"{shown.base}/models/1?run=fifths")
    expect(page.get_by_text("Not rated yet", exact=True)).to_be_visible()
    page.goto(f"{shown.base}/models?run=fifths")
    expect(page.get_by_text("not rated", exact=True)).to_have_attribute(
        "title", f"Not rated: {words}"
    )
    expect(page.get_by_text("Every 5th promoted model is rated.")).to_be_visible()
    page.goto(f"{shown.base}/?run=fifths")
    expect(page.get_by_text("Every 5th promoted model is rated.")).to_be_visible()


def test_moves_of_random_openings_are_left_out(shown: Any, open_page: Callable[..., Any]) -> None:
    database = shown.database
    trainer = database.acquire_fence(RUN, "trainer")
    evaluator = database.acquire_fence(RUN, "evaluator")
    database.insert_model(RUN, 1, f"{1:064x}", 1, {}, "m", trainer)
    database.promote(RUN, 1, None, "test", 0, epoch=evaluator)
    play(shown, "selfplay", 1, "4 4 3", 1)
    play(shown, "selfplay", 1, "1 2 3", 1)
    shown.query("UPDATE games SET opening_plies = 1 WHERE moves = '1 2 3' RETURNING 1")
    page = open_page("/openings").page
    expect(page.get_by_text("1 of 2 games of model 1 reach this position. 1 more")).to_be_visible()
    expect(page.locator("table").get_by_role("row")).to_have_count(2)
    page.goto(f"{shown.base}/openings?moves=1")
    expect(page.locator("table").get_by_role("row").nth(1)).to_have_text(re.compile(r"2\s*1\s*100"))


def test_openings_begin_with_the_newest_model_that_has_games(
    filled: Any, open_page: Callable[..., Any]
) -> None:
    evaluator = filled.database.acquire_fence(RUN, "evaluator")
    filled.database.promote(RUN, 3, None, "test", 2, epoch=evaluator)
    page = open_page("/openings").page
    expect(page.get_by_text("4 of 4 games of model 2 reach this position")).to_be_visible()
    page.goto(f"{filled.base}/openings?model=3")
    expect(page.get_by_text("0 of 0 games of model 3 reach this position")).to_be_visible()


def test_openings_are_walked_by_clicks(filled: Any, open_page: Callable[..., Any]) -> None:
    opened = open_page("/openings")
    page = opened.page
    expect(page.get_by_text("4 of 4 games of model 2 reach this position")).to_be_visible()
    first = page.locator("table").get_by_role("row").nth(1)
    expect(first).to_have_text(re.compile(r"4\s*3\s*75\.0%\s*66\.7%"))
    board = page.get_by_label("Board after 0 plies").locator("svg")
    box = board.bounding_box()
    board.click(position={"x": box["width"] / 2, "y": box["height"] / 3})
    expect(page.get_by_text("3 of 4 games of model 2 reach this position")).to_be_visible()
    expect(first).to_have_text(re.compile(r"4\s*2\s*66\.7%\s*0\.0%"))
    expect(page).to_have_url(re.compile(r"moves=4$"))
    page.reload()
    expect(page.get_by_text("3 of 4 games of model 2 reach this position")).to_be_visible()
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_text("4 of 4 games of model 2")).to_be_visible()
    assert opened.complaints == []


def test_the_exam_shows_what_was_played_and_what_was_right(
    filled: Any, open_page: Callable[..., Any]
) -> None:
    opened = open_page("/exam")
    page = opened.page
    expect(
        page.get_by_text("Model 2: 2 errors in 50 positions (4.00%) with 10 simulations.")
    ).to_be_visible()
    played = "Mistake 1 of 2, Red to move. Model 2 played 1. Correct: 3 or 5."
    expect(page.get_by_text(played)).to_be_visible()
    expect(page.locator(".zf-board").get_by_text("correct")).to_have_count(2)
    expect(page.get_by_label("Board after 2 plies, last 4")).to_be_visible()
    expect(page.locator("table").get_by_role("row").nth(1)).to_contain_text("3, 5")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("Mistake 2 of 2, Yellow to move.")).to_be_visible()
    page.goto(f"{filled.base}/exam?model=1")
    expect(page.get_by_text("Model 1: 1 error in 50 positions (2.00%)")).to_be_visible()
    expect(page.locator("table").get_by_role("row").nth(1)).to_contain_text("2")
    assert opened.complaints == []


@pytest.mark.parametrize("shown_game", ["tic_tac_toe"])
def test_the_exam_of_a_small_game_counts_lines(shown: Any, open_page: Callable[..., Any]) -> None:
    database = shown.database
    trainer = database.acquire_fence(RUN, "trainer")
    database.insert_model(RUN, 1, f"{1:064x}", 1_000, {}, "m", trainer)
    database.insert_exam(RUN, 1, 10, 588, 0, kind="lines", wrong_answers=[])
    page = open_page("/exam").page
    found = "Model 1: 0 errors in 588 lines (0.00%) with 10 simulations."
    expect(page.get_by_text(found)).to_be_visible()
    expect(page.get_by_text("No mistakes to show.")).to_be_visible()
    expect(page.get_by_text("The first 100 mistakes of each exam are stored.")).to_be_visible()
    page.goto(shown.base)
    axis = page.locator("section", has_text="Exam errors").locator("svg")
    expect(axis.get_by_text("errors, % of lines")).to_be_visible()


@pytest.mark.parametrize("shown_game", ["python:examples.domineering:Domineering"])
def test_a_game_without_an_exam_is_told_how_to_add_one(
    shown: Any, open_page: Callable[..., Any]
) -> None:
    page = open_page("/exam").page
    expect(page.get_by_text("is not known here, so there is no exam. Your class")).to_be_visible()
    expect(page.get_by_text("see the tutorial Your own game, section Add an exam.")).to_be_visible()


def test_what_is_shown_in_place_of_what_the_address_names_is_said(
    filled: Any, open_page: Callable[..., Any]
) -> None:
    page = open_page("/").page
    for address, words in (
        ("/exam?model=77", "Model 2 is shown instead. Choose from: 2, 1."),
        ("/exam?position=900", "position=900: the exam of model 2 has 2 stored mistakes."),
        ("/openings?model=77", "model=77 is not shown on this page"),
        ("/models?page=2", "Ignored in the address: page. This page has no such parameter."),
    ):
        assert page.goto(filled.base + address).status == 200
        expect(page.locator(".zf-notes").get_by_text(words)).to_be_visible()
    page.goto(filled.base + "/exam?model=1&position=1")
    expect(page.get_by_text("Model 1: 1 error in 50 positions (2.00%)")).to_be_visible()
    expect(page.locator(".zf-notes")).to_be_empty()


def test_what_the_address_names_must_exist(shown: Any, open_page: Callable[..., Any]) -> None:
    page = open_page("/models").page
    expect(page.get_by_text("The first model appears when")).to_be_visible()
    for address, words in (
        ("/models/7", "the run 'shown' has no model 7"),
        ("/models/seven", "'seven' is not a version of a model"),
        ("/models?before=x", "before=x: give a whole number"),
        ("/match?match=3", "the run 'shown' has no match 3"),
        ("/match?kind=cup", "kind=cup: give one of gate, rating, trial"),
        ("/openings?moves=9", "moves=9: "),
        ("/exam?kind=hard", "kind=hard: give one of random, good"),
        ("/exam?model=x", "model=x: give a whole number"),
        ("/openings?model=x", "model=x: give a whole number"),
    ):
        assert page.goto(shown.base + address).status == 404
        expect(page.get_by_text(words)).to_be_visible()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_table_that_scrolls_on_a_phone_has_a_shadow_where_there_is_more(
    filled: Any, open_page: Callable[..., Any], dark: bool
) -> None:
    page = open_page("/models", width=390, dark=dark).page
    table = page.locator(".zf-table").first
    expect(table.get_by_role("row").filter(has_text="0 (reference)")).to_be_visible()
    assert table.evaluate("table => table.scrollWidth > table.clientWidth")

    def is_shaded(edge: str) -> bool:
        """Return whether this edge looks different from the same edge without its shadow."""
        box = table.bounding_box()
        left = box["x"] if edge == "left" else box["x"] + box["width"] - 6
        clip = {**box, "x": left, "width": 6}
        shots: list[bytes] = []
        for colour in ("transparent", ""):
            page.evaluate("colour => document.body.style.setProperty('--zf-shade', colour)", colour)
            shots.append(page.screenshot(clip=clip, full_page=True))
        return shots[0] != shots[1]

    assert [is_shaded("left"), is_shaded("right")] == [False, True]
    table.evaluate("table => table.scrollTo(50, 0)")
    assert [is_shaded("left"), is_shaded("right")] == [True, True]
    table.evaluate("table => table.scrollTo(10_000, 0)")
    assert [is_shaded("left"), is_shaded("right")] == [True, False]
