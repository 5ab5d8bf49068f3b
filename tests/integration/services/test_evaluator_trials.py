"""Trials over real stores and a real inference service: asked for by a command, and resumed."""

import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.integration.services.conftest import tiny_model
from zerofleet.cli import app
from zerofleet.errors import ConfigError
from zerofleet.games import State, parse_actions

RUN = """
name = "tried"
preset = "plain"
[game]
name = "connect_four"
[precision]
variants = ["int8"]
[rating]
games = {rating_games}
anchors = ["random"]
num_simulations = {simulations}
[evaluator]
games = 8
num_simulations = 8
opening_plies = 3
threshold = 0.0
[exam]
num_simulations = 2
positions = 5
"""


def run_file(simulations: int = 16, rating_games: int = 0) -> str:
    return RUN.format(simulations=simulations, rating_games=rating_games)


def publish(fleet: Any, version: int, *, wild: float = 1.0) -> None:
    """A model whose variant plays like itself, or wildly."""
    int8 = tiny_model("connect_four", version, 5, name="int8", wild=wild)
    fleet.publish(version, 5, int8=int8)


def ask(fleet: Any, *arguments: str, wait: bool = False) -> Result:
    """The command of a person, who by default does not wait for the games."""
    options = ("--wait" if wait else "--no-wait", "--database-url", fleet.urls["evaluator"])
    words = ["match", *arguments[:2], str(fleet.run_file), *arguments[2:], *options]
    return CliRunner().invoke(app, words)


def stored(fleet: Any, kind: str = "trial") -> set[str]:
    rows = fleet.query(
        "SELECT game_uid::text AS uid FROM match_games JOIN matches USING (match_id) "
        f"WHERE kind = '{kind}'"
    )
    return {row.uid for row in rows}


def leave(process: Any, fleet: Any) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert "Traceback" not in fleet.log("evaluator")


def test_a_variant_against_fp32_by_hand(make_fleet: Any) -> None:
    """Played before rating games, and it rates no version; the evaluator is killed on the way."""
    fleet = make_fleet(run_file(simulations=100, rating_games=4))
    publish(fleet, 1)
    fleet.promote(1)
    first = ask(fleet, "1/int8", "1")
    assert (first.exit_code, first.stdout) == (
        0,
        "1/int8 against 1/fp32: 0 points of 0 games (0 won, 0 drawn, 0 lost), 40 games to play\n",
    )
    killed = fleet.start("evaluator")
    fleet.until(lambda: bool(stored(fleet)))
    killed.kill()
    killed.wait()
    before = stored(fleet)
    process = fleet.start("evaluator")
    fleet.until(lambda: len(stored(fleet, "rating")) == 4)
    fleet.until(lambda: [row.games for row in fleet.database.ratings("tried")] == [4, 4])
    leave(process, fleet)
    assert before <= stored(fleet)
    assert len(stored(fleet)) == 40
    last = ask(fleet, "1/int8", "1/fp32")
    assert last.stdout.startswith("1/int8 against 1/fp32: 20 points of 40 games (")
    assert last.stdout.endswith(", 95% 0.45 to 0.55\n")
    [games] = {(row[0], row[1], row[2]) for row in fleet.query(
        "SELECT g.kind, g.first_model, g.second_model FROM match_games JOIN matches "
        "USING (match_id) JOIN games AS g USING (game_uid) WHERE matches.kind = 'trial'"
    )}  # fmt: skip
    assert games == ("match", 1, 1)
    [order] = fleet.query(
        "SELECT max(at) FILTER (WHERE kind = 'trial') < min(at) FILTER (WHERE kind = 'rating') "
        "AS first FROM match_games JOIN matches USING (match_id)"
    )
    assert order.first


def test_a_match_and_rating_games_begin_at_positions_of_a_book(
    make_fleet: Any, tmp_path: Path
) -> None:
    """Both players see them, over the wire and without a network; the ratings count the games."""
    book = tmp_path / "book.txt"
    positions = ["7/7/7/7/3o3/2xx3 o", "7/7/7/7/7/3x3 o", "7/7/7/7/3o3/3x3 x"]
    book.write_text("# three positions\n" + "\n".join(positions))
    rated = "7/7/7/7/3x3/3o2x o"
    run = run_file(rating_games=4).replace(
        "num_simulations = 16", f'num_simulations = 16\nopenings = ["{rated}"]'
    )
    fleet = make_fleet(run)
    fleet.publish(1)
    fleet.promote(1)
    first = ask(fleet, "1", "search", "--games", "40", "--openings", str(book))
    assert first.exit_code == 0, first.output
    assert "the opening book has 3 positions, enough for 6 games" in first.stderr
    assert first.stdout.endswith("6 games to play\n")
    process = fleet.start("evaluator")
    fleet.until(lambda: len(stored(fleet)) == 6)
    fleet.until(lambda: len(stored(fleet, "rating")) == 2)
    leave(process, fleet)
    rows = fleet.query(
        "SELECT g.start, g.moves FROM match_games AS p JOIN matches AS m USING (match_id) "
        "JOIN games AS g USING (game_uid) ORDER BY m.kind, p.opening"
    )
    assert [row.start for row in rows] == [rated] * 2 + [text for text in positions for _ in (0, 1)]
    for row in rows:
        actions = parse_actions("connect_four", row.moves, row.start)
        assert State("connect_four", actions, row.start).is_terminal
    again = ask(fleet, "1", "search", "--games", "40", "--openings", str(book))
    assert again.stdout.startswith("1 against search: ")
    assert " points of 6 games" in again.stdout
    other = ask(fleet, "1", "search", "--games", "4")
    assert other.stdout.endswith("0 points of 0 games (0 won, 0 drawn, 0 lost), 4 games to play\n")
    book.write_text("7/7/7/7/x6/7 o")
    refused = ask(fleet, "1", "search", "--openings", str(book))
    assert isinstance(refused.exception, ConfigError)
    assert "line 1: '7/7/7/7/x6/7 o' is not a position" in str(refused.exception)


def test_a_variant_that_plays_worse_is_seen(make_fleet: Any) -> None:
    fleet = make_fleet(run_file(simulations=100))
    publish(fleet, 1, wild=300.0)
    fleet.promote(1)
    ask(fleet, "1/int8", "1")
    process = fleet.start("evaluator")
    fleet.until(lambda: len(stored(fleet)) == 40)
    leave(process, fleet)
    [row] = fleet.query("SELECT games, score_percent::float8 AS score FROM variant_history "
                        "WHERE precision = 'int8'")  # fmt: skip
    assert row.games == 40
    assert row.score < 50


def test_a_candidate_interrupts_a_trial_between_any_two_players(make_fleet: Any) -> None:
    """It would take minutes; the candidate is judged at once, and the trial goes on."""
    fleet = make_fleet(run_file(simulations=800))
    fleet.publish(1)
    fleet.promote(1)
    assert ask(fleet, "search", "1", "--games", "999").stdout.endswith("1000 games to play\n")
    process = fleet.start("evaluator")
    fleet.until(lambda: fleet.doing("evaluator").startswith("Playing a test match: "))
    fleet.until(lambda: bool(stored(fleet)))
    fleet.publish(2)
    fleet.until(lambda: fleet.database.promotion_head("tried").version == 2)
    seen = stored(fleet)
    assert len(seen) < 1000
    fleet.until(lambda: len(stored(fleet)) > len(seen))
    leave(process, fleet)


@pytest.mark.parametrize("damage", [b"not a model", None])
def test_a_variant_that_cannot_be_loaded_holds_nothing_up(
    make_fleet: Any, damage: bytes | None
) -> None:
    """Its file is no model, or it has none."""
    fleet = make_fleet(run_file(rating_games=2))
    int8 = damage or tiny_model("connect_four", 1, 5, name="int8")
    fleet.publish(1, 5, int8=int8)
    if damage is None:
        fleet.models.path(fleet.database.variants("tried", 1)[0].sha256).unlink()
    fleet.promote(1)
    ask(fleet, "1/int8", "1")
    process = fleet.start("evaluator")
    fleet.until(lambda: len(stored(fleet, "rating")) == 2)
    assert fleet.log("evaluator").count("trial_left_out") == 1
    again = ask(fleet, "1/int8", "1", wait=True)
    leave(process, fleet)
    assert again.stderr == "0 of 40 games: waiting for the evaluator; `zerofleet status` says " + (
        "whether it runs\n"
    )
    assert isinstance(again.exception, ConfigError)
    [trial] = fleet.database.matches("tried", "trial")
    assert f"skipped this match: {trial.left_out}; correct that" in str(again.exception)
    assert stored(fleet) == set()
    assert fleet.log("evaluator").count("trial_left_out") == 2


def test_a_game_with_few_openings_has_a_shorter_trial(make_fleet: Any) -> None:
    """One ply of tic-tac-toe leads to 9 positions. A match with other simulations rates nobody."""
    toml = run_file(simulations=2).replace("connect_four", "tic_tac_toe")
    fleet = make_fleet(toml.replace("opening_plies = 3", "opening_plies = 1"))
    fleet.publish(1)
    fleet.promote(1)
    ask(fleet, "1", "random", "--games", "100")
    process = fleet.start("evaluator")
    fleet.until(lambda: len(stored(fleet)) == 18)
    fleet.until(lambda: fleet.database.unfinished_trials("tried") == [])
    # It counts in the ratings at once, though the run plays no rating games.
    fleet.until(lambda: [row.games for row in fleet.database.ratings("tried")] == [18, 18])
    ask(fleet, "1", "random", "--games", "4", "--simulations", "5")
    fleet.until(lambda: len(stored(fleet)) == 22)
    leave(process, fleet)
    assert [row.games for row in fleet.database.ratings("tried")] == [18, 18]
    [deepest] = fleet.query(
        "SELECT max(p.simulations) AS simulations FROM positions AS p JOIN match_games USING "
        "(game_uid) JOIN matches USING (match_id) WHERE num_simulations = 5"
    )
    assert deepest.simulations == 5


@pytest.mark.parametrize(
    ("players", "words"),
    [
        (("1", "7"), "the run 'tried' has no model 7"),
        (("1", "1/fp16"), "model 1 has no accepted variant fp16: it has fp32, int8"),
        (("1", "1"), "'1' cannot play against itself"),
        (
            ("1", "gnugo:3"),
            "GNU Go does not play connect_four, so 'gnugo:3' cannot play: name another player",
        ),
        (("search", "random"), "the run 'tried' has never had an evaluator in this database"),
    ],
)
def test_what_cannot_be_played_is_not_asked_for(
    make_fleet: Any, players: tuple[str, str], words: str
) -> None:
    fleet = make_fleet(run_file())
    publish(fleet, 1)
    refused = ask(fleet, *players)
    assert isinstance(refused.exception, ConfigError)
    assert words in str(refused.exception)
    assert fleet.database.matches("tried", "trial") == []
    assert fleet.database.evaluator_epoch("tried") == 0  # no fence was taken
