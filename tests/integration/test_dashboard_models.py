"""The queries of the pages of models, matches, openings and exams, compared with plain SQL."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.random_records import changed, random_record
from zerofleet.config import run_from_values
from zerofleet.database import Database, Submission
from zerofleet.services.dashboard.frame import HIGHEST, NothingThereError, ordinal, rated_words
from zerofleet.services.dashboard.match_page import KINDS, match_row, read_match
from zerofleet.services.dashboard.match_page import MATCHES as NEWEST_MATCHES
from zerofleet.services.dashboard.models_page import (
    LOSSES,
    MATCHES,
    MODEL,
    MODELS,
    VARIANTS,
    unrated_words,
)
from zerofleet.services.dashboard.openings_page import Openings, OpeningsReader
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.dashboard.sources import ShownRun, Sources
from zerofleet.verdict import GateRule, judge

VALUES = {"name": "test", "game": {"name": "tic_tac_toe"}}
RUN = run_from_values(VALUES)
SPRT = GateRule(0.5, (0.0, 35.0), 0.05)


@pytest.fixture
async def sources(
    database: Database, role_url: Callable[[str], str], valkey_url: str
) -> AsyncIterator[Sources]:
    del database  # the fixture registers the run
    settings = DashboardSettings(
        run_file=Path("run.toml"), database_url=role_url("console"), redis_url=valkey_url
    )
    async with Sources(RUN, settings) as opened:
        yield opened


@pytest.fixture
def epoch(database: Database) -> int:
    """Four models, of which 1 and 3 were promoted."""
    trainer = database.acquire_fence("test", "trainer")
    for version in (1, 2, 3, 4):
        database.insert_model(
            "test", version, f"{version:064x}", 100 * version, {}, f"m{version}", trainer
        )
        losses = {"policy_loss": 1 / version, "value_loss": 1.0}
        database.insert_train_metrics("test", 100 * version, "train", losses, trainer)
    evaluator = database.acquire_fence("test", "evaluator")
    database.promote("test", 1, None, "test", 0, epoch=evaluator)
    return evaluator


def begin(database: Database, epoch: int, kind: Any, player: str, opponent: str) -> int:
    return database.open_match(
        "test",
        kind,
        player,
        opponent,
        games=8,
        num_simulations=10,
        seed=1,
        epoch=epoch,
        rule=SPRT if kind == "gate" else None,
    ).match_id


def play(database: Database, kind: str, model: int, moves: str, result: int) -> str:
    """Store a game and return its uid."""
    [row] = database._rows(
        "INSERT INTO games (game_uid, run, kind, first_model, result, reason, length, worker, "
        "started_at, finished_at, moves, content_sha256, began_at) "
        "VALUES (gen_random_uuid(), 'test', :kind, :model, :result, 'rules', 9, 'w', now(), "
        "now(), :moves, decode(repeat('00', 32), 'hex'), now()) RETURNING game_uid::text AS uid",
        kind=kind,
        model=model,
        result=result,
        moves=moves,
    )
    return row.uid


def score(database: Database, match_id: int, scores: list[tuple[float, float]]) -> None:
    """Store pairs of a match."""
    for opening, pair in enumerate(scores):
        for color, points in enumerate(pair):
            uid = play(database, "match", 1, f"a{opening} b{color}", 0)
            database._run(
                "INSERT INTO match_games (match_id, opening, color, game_uid, score) "
                "VALUES (:match_id, :opening, :color, CAST(:uid AS uuid), :points)",
                match_id=match_id,
                opening=opening,
                color=color,
                uid=uid,
                points=points,
            )


async def test_models_with_their_gate_rating_and_precisions(
    database: Database, sources: Sources, epoch: int
) -> None:
    gate = begin(database, epoch, "gate", "3", "1")
    score(database, gate, [(1, 1), (1, 0.5), (0, 0)])
    judgement = judge(database.match(gate), database.match_pairs(gate))
    database.promote("test", 3, gate, "judge", 1, epoch=epoch, statistics=judgement.statistics)
    begin(database, epoch, "gate", "4", "3")
    database.upsert_ratings("test", [("3", 120.0, 10.0), ("random", -300.0, 20.0)])
    rows = await sources.rows(MODELS, run="test", before=HIGHEST, every=1)
    assert [row.version for row in rows] == [4, 3, 2, 1]
    undecided, best, skipped, first = rows
    assert (undecided.opponent, undecided.verdict, undecided.games) == ("3", None, 0)
    assert (best.wins, best.draws, best.losses, best.verdict) == (3, 1, 2, "promoted")
    assert (best.pentanomial, best.is_best, best.actor) == ([1, 0, 0, 1, 1], True, "judge")
    assert (float(best.elo), float(best.high - best.low)) == (120.0, pytest.approx(39.2))
    assert float(best.llr) == pytest.approx(judgement.statistics.llr, abs=1e-3)
    assert (skipped.match_id, skipped.promoted_at, skipped.is_best) == (None, None, False)
    assert (first.match_id, first.is_best) == (None, False)
    assert first.promoted_at is not None
    older = await sources.rows(MODELS, run="test", before=3, every=1)
    assert [row.version for row in older] == [2, 1]
    [model] = await sources.rows(MODEL, run="test", version=3, every=1)
    assert model == best
    assert await sources.rows(MODEL, run="test", version=5, every=1) == []
    assert await sources.rows(VARIANTS, run="test", version=3) == []
    [loss] = await sources.rows(LOSSES, run="test", step=350)
    assert (loss.step, loss.policy_loss) == (300, pytest.approx(1 / 3))


async def test_a_model_that_is_not_rated_says_why(
    database: Database, sources: Sources, epoch: int
) -> None:
    # model 1 is promoted again; its place stays the first
    for seq, version in enumerate((3, 1, 4), start=1):
        database.promote("test", version, None, "test", seq, epoch=epoch)
    database.upsert_ratings("test", [("1", 0.0, 10.0)])
    run = ShownRun("test", "g", run_from_values({**VALUES, "rating": {"every": 2}}))
    rows = await sources.rows(MODELS, run="test", before=HIGHEST, every=2)
    assert [(row.version, row.to_be_rated) for row in rows] == [
        (4, True),
        (3, False),
        (2, False),
        (1, True),
    ]
    words = {row.version: unrated_words(run, row) for row in rows}
    assert words[4] == words[2] == "Not rated yet"
    assert words[3] == "Not rated: this run rates every 2nd promoted model"
    assert rated_words(run) == "Every 2nd promoted model is rated."
    assert rated_words(ShownRun("test", "g", None)) == ""
    rows = await sources.rows(MODELS, run="test", before=HIGHEST, every=1)
    assert all(row.to_be_rated for row in rows)


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (5, "5th"), (11, "11th"), (22, "22nd")],
)
def test_ordinal_numbers(number: int, words: str) -> None:
    assert ordinal(number) == words


async def test_matches_of_all_kinds_and_the_present_one(
    database: Database, sources: Sources, epoch: int
) -> None:
    assert await read_match(sources, "test", None) is None
    rating = begin(database, epoch, "rating", "1", "random")
    shown = await read_match(sources, "test", None)
    assert shown is not None
    assert (shown.match.match_id, shown.pairs, shown.games) == (rating, (), [])
    gate = begin(database, epoch, "gate", "2", "1")
    score(database, rating, [(1, 1)])
    shown = await read_match(sources, "test", None)
    assert shown is not None
    assert shown.match == database.match(gate)
    score(database, gate, [(1, 0), (0.5, 0.5)])
    judgement = judge(database.match(gate), database.match_pairs(gate))
    database.decide_match(gate, "rejected", epoch=epoch, statistics=judgement.statistics)
    trial = begin(database, epoch, "trial", "2", "3")
    shown = await read_match(sources, "test", None)
    assert shown is not None
    assert shown.match.match_id == gate, "it has the newest game"
    assert list(shown.pairs) == database.match_pairs(gate)
    assert [game.score for game in shown.games] == [0.5, 0.5, 0.0, 1.0]
    for kinds, expected in ((list(KINDS), [trial, gate, rating]), (["rating"], [rating])):
        rows = await sources.rows(NEWEST_MATCHES, run="test", kinds=kinds, before=HIGHEST)
        assert [row.match_id for row in rows] == expected
    rows = await sources.rows(NEWEST_MATCHES, run="test", kinds=list(KINDS), before=trial)
    assert [row.match_id for row in rows] == [gate, rating]
    for version, expected in ((1, [gate, rating]), (2, [trial, gate]), (4, [])):
        rows = await sources.rows(MATCHES, run="test", version=version, before=HIGHEST)
        assert [row.match_id for row in rows] == expected
    with pytest.raises(NothingThereError, match="no match 999"):
        await read_match(sources, "test", 999)
    with pytest.raises(NothingThereError, match="'other' has no match"):
        await read_match(sources, "other", gate)

    class Links:
        def link(self, path: str, **parameters: object) -> str:
            return f"{path} {parameters}"

    cells = match_row(Links(), shown.history)  # pyright: ignore[reportArgumentType]
    assert (cells["record"], cells["score"]) == ("1 / 2 / 1", "50.0%")
    assert cells["pairs_counts"] == [0, 0, 2, 0, 0]
    assert -1 < cells["llr_share"] < 1


async def test_moves_drawn_for_an_opening_are_no_choices(
    database: Database, sources: Sources, epoch: int
) -> None:
    """Random openings of 0, 1 and 2 plies; two games were stored by an earlier version."""
    for number, drawn in enumerate((0, 1, 2, 1, 1)):
        record = random_record(number)
        simulations = np.where(np.arange(record.length) < drawn, 0, 50).astype(np.int32)
        record = changed(record, simulations=simulations)
        database.submit_game("test", "w", Submission(record))
        if number >= 3:
            database._run(
                "UPDATE games SET opening_plies = NULL WHERE game_uid = :uid", uid=record.game_uid
            )
        if number == 4:  # its searches were deleted
            database._run("DELETE FROM positions WHERE game_uid = :uid", uid=record.game_uid)
    database.submit_game("test", "w", Submission(random_record(9), kind="match"))
    rows = database._rows("SELECT opening_plies FROM games ORDER BY ingested_at")
    assert [row.opening_plies for row in rows] == [0, 1, 2, None, None, None]

    [model] = (await OpeningsReader(sources, "test").read()).models
    assert sorted(game.opening_plies for game in model.games) == [0, 0, 1, 1, 2]
    [start] = Openings((model,)).position([], 0)
    assert (start.games, start.in_openings) == (2, 3)
    assert sum(move.games for move in start.moves) == 2
    line = next(game.moves for game in model.games if game.opening_plies == 2)
    [inside] = Openings((model,)).position(line[:1], 1)
    [after] = Openings((model,)).position(line[:2], 0)
    assert inside.in_openings == 1
    assert line[1] not in [move.move for move in inside.moves]
    assert (after.share(line[2]), after.in_openings) == (1.0, 0)
    [view] = database._rows("SELECT sum(games) AS games FROM openings WHERE run = 'test'")
    assert view.games == 2


async def test_openings_are_those_of_the_promoted_models_newest_games(
    database: Database, sources: Sources, epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerofleet.services.dashboard.openings_page.GAMES_OF_MODEL", 4)
    reader = OpeningsReader(sources, "test")
    assert await reader.read() == Openings(tuple((await reader.read()).models))
    for number, (moves, result) in enumerate(
        [("c1 a1", 1), ("a1 b2 c3", 1), ("a1 b2 b1", 0), ("a1 c3", -1), ("b2 a1", -1)]
    ):
        play(database, "selfplay", 1, moves, result)
        if number == 2:
            play(database, "match", 1, "b3 b2", 1)
    play(database, "selfplay", 2, "a2", 1)  # this model was not promoted
    openings = await reader.read()
    [start] = openings.position([], 0)
    assert (start.version, start.games) == (1, 4)
    assert [(each.move, each.games, each.score) for each in start.moves] == [
        ("a1", 3, 0.5),
        ("b2", 1, 0.0),
    ]
    assert (start.share("a1"), start.share("c1")) == (0.75, 0.0)
    [after] = openings.position(["a1"], 1)
    assert [(each.move, each.games, each.score) for each in after.moves] == [
        ("b2", 2, 0.25),
        ("c3", 1, 1.0),
    ]
    [again] = openings.position(["a1"], 0)  # where the first player moves twice
    assert [(each.move, each.score) for each in again.moves] == [("b2", 0.75), ("c3", 0.0)]
    [row] = database._rows("SELECT game_uid::text AS uid FROM games WHERE moves = 'a1 c3'")
    assert after.uid == row.uid
    [nowhere] = openings.position(["c1"], 1)
    assert (nowhere.games, nowhere.moves, nowhere.uid, nowhere.share("a1")) == (0, (), None, None)
    database.promote("test", 3, None, "test", 1, epoch=epoch)
    play(database, "selfplay", 3, "b2", 1)
    assert [each.games for each in (await reader.read()).position(["b2"], 1)] == [1, 1]
