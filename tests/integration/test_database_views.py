"""Results of each view, for games small enough to compute by hand."""

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import text
from zerofleet_core import game_names

from tests.support.random_records import changed, random_record
from zerofleet.database import Database, MatchGame, Submission
from zerofleet.games.notation import player_names
from zerofleet.games.python_game import UNNAMED_PLAYERS
from zerofleet.records import GameRecord
from zerofleet.verdict import GateRule, MatchStatistics

# Tic-tac-toe squares: 0 1 2 on the first row, 3 4 5, 6 7 8.
FIRST_WINS = [0, 3, 1, 4, 2]  # a1 a2 b1 b2 c1
SECOND_WINS = [0, 3, 1, 4, 8, 5]
DRAW = [0, 1, 2, 4, 3, 5, 7, 6, 8]


def game(
    number: int,
    actions: list[int],
    result: int,
    values: list[float],
    model: int = 1,
    weight: int = 10,
) -> GameRecord:
    """Return a record whose search tables hold the played action and one more."""
    template = random_record(number)
    plies = len(actions)
    others = [(action + 1) % 9 for action in actions]
    return changed(
        template,
        game_uid=UUID(int=number),
        action=np.asarray(actions, np.int16),
        to_play=np.arange(plies, dtype=np.int8) % 2,
        model_version=np.full(plies, model, np.int32),
        root_value=np.asarray(values, np.float32),
        network_value=np.zeros(plies, np.float32),
        simulations=np.full(plies, 50, np.int32),
        full_search=np.ones(plies, np.bool_),
        offsets=np.arange(0, 2 * plies + 1, 2, np.int32),
        legal_actions=np.asarray(list(zip(others, actions, strict=True)), np.int16).ravel(),
        visit_counts=np.tile(np.asarray([10, 40], np.int32), plies),
        priors=np.tile(np.asarray([0.25, 0.75], np.float32), plies),
        best_child_value=np.asarray(values, np.float32),
        policy_weights=np.tile(np.asarray([weight, 40], np.int32), plies),
        result=result,
    )


GAMES = [
    game(1, FIRST_WINS, 1, [0.0, -0.72, 0.5, -0.96, 1.0]),
    game(2, FIRST_WINS, 1, [0.0, -0.1, 0.5, -0.86, 1.0]),
    game(3, SECOND_WINS, -1, [0.05, 0.0, -0.92, 0.3, -0.99, 1.0]),
    game(4, DRAW, 0, [0.0, -0.97, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], model=2),
]


@pytest.fixture
def stored(database: Database) -> Database:
    database.submit_games("test", "w", [Submission(record) for record in GAMES[:3]])
    database.submit_games("test", "v", [Submission(GAMES[3])])
    # Match games do not count as self-play, and games of another run do not count at all.
    elsewhere = changed(GAMES[0], game_uid=UUID(int=9))
    database.submit_games("test", "e", [Submission(elsewhere, kind="match")])
    return database


def ask(database: Database, query: str) -> list[tuple]:
    with database._transaction() as connection:
        return [
            tuple(float(value) if isinstance(value, Decimal) else value for value in row)
            for row in connection.execute(text(query))
        ]


def test_games_per_hour(stored: Database) -> None:
    rows = ask(
        stored, "SELECT run, sum(games), sum(plies), max(workers) FROM games_per_hour GROUP BY run"
    )
    # a new hour may have begun in between
    assert rows in ([("test", 4, 25, 2)], [("test", 4, 25, 1)])
    # One game in an hour has no rate; two have.
    with stored._transaction() as connection:
        connection.execute(
            text(
                "UPDATE games SET ingested_at = timestamptz '2026-01-01 10:00:00Z' "
                "+ make_interval(secs => 5 * (('x' || right(game_uid::text, 1))::bit(4)::int - 1))"
            )
        )
    assert ask(stored, "SELECT games, plies, plies_per_second, workers FROM games_per_hour") == [
        (4, 25, pytest.approx(1.7), 2)
    ]


def test_model_summary(stored: Database) -> None:
    assert ask(stored, "SELECT * FROM model_summary ORDER BY model") == [
        ("test", 1, 3, 66.7, 33.3, 0.0, 5, 0.0),
        ("test", 2, 1, 0.0, 0.0, 100.0, 9, 0.0),
    ]


def test_openings(stored: Database) -> None:
    assert ask(stored, "SELECT * FROM openings ORDER BY model, opening") == [
        ("test", 1, "a1 a2 b1", 3, 100.0, 0.667),
        ("test", 2, "a1 b1 c1", 1, 100.0, 0.5),
    ]


def test_value_calibration(stored: Database) -> None:
    bins = {row[1]: row[2:] for row in ask(stored, "SELECT * FROM value_calibration ORDER BY bin")}
    # From -1.0 to -0.9: ply 3 of game 1, plies 2 and 4 of game 3, ply 1 of game 4. All but the draw
    # were lost.
    assert bins[1] == (-1.0, -0.9, 4, pytest.approx(-0.96), -0.75)
    assert bins[20] == (0.9, 1.0, 3, 1.0, 1.0)
    # Two values are 0.5: the first players' in games 1 and 2, who won.
    assert bins[16] == (0.5, 0.6, 2, 0.5, 1.0)
    assert sum(row[2] for row in bins.values()) == 25
    assert set(bins) <= set(range(1, 21))


GRID = (-0.99, -0.95, -0.9, -0.85, -0.8, -0.7, -0.6, -0.5)


def test_resign_audit(stored: Database) -> None:
    rows = ask(
        stored,
        "SELECT threshold, all_games, all_would_resign, all_wrong, all_wrong_percent, games, "
        "would_resign, wrong, wrong_percent FROM resign_audit WHERE run = 'test' "
        "ORDER BY threshold",
    )
    assert [(round(row[0], 2), *row[1:5]) for row in rows] == [
        (-0.99, 4, 0, 0, None),  # game 3 has exactly this value, not a lower one
        (-0.95, 4, 3, 1, 33.33),  # correct for games 1 and 3, wrong for the draw
        (-0.9, 4, 3, 1, 33.33),
        (-0.85, 4, 4, 1, 25.0),  # game 2 as well
        (-0.8, 4, 4, 1, 25.0),
        (-0.7, 4, 4, 1, 25.0),
        (-0.6, 4, 4, 1, 25.0),
        (-0.5, 4, 4, 1, 25.0),
    ]
    # no game has plays_on
    assert {row[5:] for row in rows} == {(0, 0, 0, None)}


def test_resign_audit_of_games_played_on(stored: Database) -> None:
    stored.submit_games("test", "w", [Submission(record) for record in resignable()])
    rows = ask(
        stored,
        "SELECT threshold, games, would_resign, wrong, wrong_percent, all_games, all_would_resign "
        "FROM resign_audit WHERE run = 'test' ORDER BY threshold",
    )
    assert [(round(row[0], 2), *row[1:]) for row in rows] == [
        (-0.99, 2, 0, 0, None, 6, 0),
        (-0.95, 2, 1, 1, 100.0, 6, 4),
        (-0.9, 2, 1, 1, 100.0, 6, 4),
        (-0.85, 2, 2, 1, 50.0, 6, 6),
        *((threshold, 2, 2, 1, 50.0, 6, 6) for threshold in GRID[4:]),
    ]


def test_resign_audit_leaves_out_restarts(stored: Database) -> None:
    restarted = changed(game(15, FIRST_WINS, 1, [0.0, -0.97, 0.0, -0.97, 1.0]), restarted=True)
    query = "SELECT * FROM resign_audit ORDER BY threshold"
    before = ask(stored, query)
    stored.submit_games("test", "w", [Submission(restarted)])
    assert ask(stored, query) == before


def test_resign_check(stored: Database) -> None:
    stored.submit_games("test", "w", [Submission(record) for record in resignable()])
    # Below their threshold of -0.9 there is only the player of the draw.
    assert ask(stored, "SELECT * FROM resign_check") == [("test", 1, 3, 1, 2, 1, 1, 100.0)]


def resignable() -> list[GameRecord]:
    """Return games with a threshold: one was resigned, two were played to the end."""
    given_up = changed(
        game(11, FIRST_WINS[:4], -1, [0.0, 0.0, 0.0, 0.0]), reason="resign", resign_threshold=-0.9
    )
    right = game(12, FIRST_WINS, 1, [-1.0, -0.5, 0.5, -0.86, 1.0])  # at ply 0 nobody resigns
    wrong = game(13, DRAW, 0, [0.0, -0.97, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    return [
        given_up,
        *(changed(each, resign_threshold=-0.9, plays_on=True) for each in (right, wrong)),
    ]


def test_a_better_child_keeps_its_player_from_resigning(stored: Database) -> None:
    better = changed(
        game(14, FIRST_WINS, 1, [0.0, -0.72, 0.5, -0.96, 1.0]),
        best_child_value=np.asarray([0.0, -0.1, 0.5, -0.2, 1.0], np.float32),
        plays_on=True,
    )
    stored.submit_games("test", "w", [Submission(better)])
    assert ask(stored, "SELECT DISTINCT games, would_resign FROM resign_audit") == [(1, 0)]


def test_resign_history(database: Database) -> None:
    ask_for = {"min_games": 1, "window_games": 10, "highest": -0.01}
    # the second call stores nothing, the third one no new threshold
    for share in (0.05, 0.05, 0.1):
        database.compute_v_resign("test", false_positive_share=share, **ask_for)
    database._run(
        "INSERT INTO resign_thresholds (run, threshold, games, would_resign, wrong, "
        "false_positive_share, min_games, window_games, highest) "
        "VALUES ('test', -0.8, 90, 40, 1, 0.05, 1, 9, -0.1)"
    )
    assert ask(database, "SELECT count(*) FROM resign_thresholds") == [(3,)]
    assert ask(
        database,
        "SELECT threshold, games, would_resign, wrong, wrong_percent, allowed_percent "
        "FROM resign_history ORDER BY since",
    ) == [(None, 0, 0, 0, None, 5.0), (pytest.approx(-0.8), 90, 40, 1, 2.5, 5.0)]


def test_resign_audit_leaves_resigned_games_out(stored: Database) -> None:
    resigned = changed(GAMES[0], game_uid=UUID(int=10), reason="resign", resign_threshold=-0.9)
    stored.submit_games("test", "w", [Submission(resigned)])
    assert ask(stored, "SELECT DISTINCT all_games FROM resign_audit") == [(4,)]
    assert ask(stored, "SELECT resign_percent FROM model_summary WHERE model = 1") == [(25.0,)]


def test_game_length(stored: Database) -> None:
    assert ask(stored, "SELECT * FROM game_length ORDER BY model, length") == [
        ("test", 1, 5, 2, 66.7),
        ("test", 1, 6, 1, 33.3),
        ("test", 2, 9, 1, 100.0),
    ]


def test_duplicates(stored: Database) -> None:
    assert ask(stored, "SELECT * FROM duplicates ORDER BY model") == [
        ("test", 1, 3, 2, 66.7),
        ("test", 2, 1, 1, 100.0),
    ]


def test_game_moves(stored: Database) -> None:
    rows = ask(
        stored,
        "SELECT ply, player, player_name, move, action, value, network_value, visits, prior, "
        "simulations, full_search, model FROM game_moves "
        f"WHERE game_uid = '{GAMES[0].game_uid}' ORDER BY ply",
    )
    assert rows == [
        (0, "first", "X", "a1", 0, 0.0, 0.0, 40, 0.75, 50, True, 1),
        (1, "second", "O", "a2", 3, -0.72, 0.0, 40, 0.75, 50, True, 1),
        (2, "first", "X", "b1", 1, 0.5, 0.0, 40, 0.75, 50, True, 1),
        (3, "second", "O", "b2", 4, -0.96, 0.0, 40, 0.75, 50, True, 1),
        (4, "first", "X", "c1", 2, 1.0, 0.0, 40, 0.75, 50, True, 1),
    ]


def test_players_have_the_names_of_their_game(database: Database) -> None:
    """The names are the same as in Python."""
    names = [
        *game_names(),
        *("go(size=9)", "chess(chess960=true)", "mnk(m=4,n=4,k=3)"),
        *("openspiel:chess", "openspiel:connect_four(rows=5)", "openspiel:breakthrough"),
    ]
    with database._transaction() as connection:
        for name in names:
            insert = "INSERT INTO runs (name, game, config) VALUES (:name, :name, '{}')"
            connection.execute(text(insert), {"name": name})
    rows = ask(database, "SELECT game, first_player, second_player FROM player_names")
    assert len(rows) == len(names) + 1  # the fixture's run
    for game, *shown in rows:
        known = player_names(game)
        assert tuple(shown) == (("first", "second") if known == UNNAMED_PLAYERS else known)


def test_game_moves_show_the_target_and_the_best_child(stored: Database) -> None:
    pruned = game(5, FIRST_WINS, 1, [0.0, -0.72, 0.5, -0.96, 1.0], weight=0)
    stored.submit_games("test", "w", [Submission(pruned)])
    question = (
        "SELECT ply, best_child_value, policy_weights FROM game_moves WHERE game_uid = '{}' "
        "AND ply < 2 ORDER BY ply"
    )
    for record, weights in ((GAMES[0], [10, 40]), (pruned, [0, 40])):
        assert ask(stored, question.format(record.game_uid)) == [
            (0, 0.0, weights),
            (1, -0.72, weights),
        ]


def test_promotion_history(database: Database) -> None:
    trainer = database.acquire_fence("test", "trainer")
    for version in (1, 2):
        database.insert_model("test", version, f"{version:064x}", 100 * version, {}, "m", trainer)
    epoch = database.acquire_fence("test", "evaluator")
    database.promote("test", 1, None, "e", 0, epoch=epoch)
    settings = {"games": 4, "num_simulations": 50, "seed": 1, "epoch": epoch}
    match = database.open_match("test", "gate", "2", "1", **settings, rule=GateRule(0.55))
    places = [(0, 0), (0, 1), (1, 0), (1, 1)]
    games = [MatchGame(*place, record) for place, record in zip(places, GAMES, strict=True)]
    database.record_match_games("test", "e", match.match_id, games, epoch=epoch)
    database.upsert_ratings("test", [("1", 0.0, 0.0), ("2", 12.3, 40.0)])
    # The verdict counts each game once, so its score differs from the mean over all games.
    statistics = MatchStatistics("games", 0.5, None, 2, 2, (0, 0, 1, 0, 0))
    database.decide_match(match.match_id, "promoted", epoch=epoch, statistics=statistics)
    database.promote("test", 2, match.match_id, "e", 1, epoch=epoch)

    rows = ask(
        database,
        "SELECT seq, model, step, match_id, against, games, wins, draws, losses, score_percent, "
        "threshold_percent, elo FROM promotion_history ORDER BY seq",
    )
    # From the candidate's side the games are won, lost, lost and drawn.
    assert rows == [
        (1, 1, 100, None, None, None, None, None, None, None, None, 0.0),
        (2, 2, 200, match.match_id, 1, 4, 1, 1, 2, 50.0, 55.0, 12.0),
    ]
    assert ask(database, "SELECT score_percent FROM match_history") == [(50.0,)]
    assert [row.games for row in database.ratings("test")] == [4, 4]


def test_every_table_view_and_function_says_what_it_is(database: Database) -> None:
    assert (
        ask(
            database,
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace "
            "AND relkind IN ('r', 'p', 'v') AND relname <> 'alembic_version' "
            "AND obj_description(oid, 'pg_class') IS NULL",
        )
        == []
    )
    assert (
        ask(
            database,
            "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace "
            "AND obj_description(oid, 'pg_proc') IS NULL",
        )
        == []
    )


def test_the_views_read_well_in_the_console(
    stored: Database, role_url: Callable[[str], str]
) -> None:
    views = [
        name for (name,) in ask(stored, "SELECT viewname FROM pg_views WHERE schemaname = 'public'")
    ]
    assert {"resign_audit", "resign_history", "resign_check", "game_moves"} <= set(views)
    with Database(role_url("console")) as console:
        for view in views:
            ask(console, f"SELECT * FROM {view}")


def test_the_queries_of_the_docs_give_the_columns_that_they_show(stored: Database) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/sql.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```\n(SELECT .*?);\n\n(.*?)\n[-+]+\n", page, re.MULTILINE | re.DOTALL)
    assert len(shown) == page.count("```\nSELECT ")
    for query, header in shown:
        with stored._transaction() as connection:
            columns = list(connection.execute(text(query)).keys())
        assert columns == [name.strip() for name in header.split("|")]
