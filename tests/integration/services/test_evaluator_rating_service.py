"""The rating pool over real stores and a real inference service, and manual rollbacks."""

import re
import shutil
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from zerofleet.best_pointer import BestPointer
from zerofleet.cli import main

RUN = """
name = "rated"
preset = "plain"
[game]
name = "tic_tac_toe"
[rating]
games = 6
opponents = [1, 2]
anchors = ["random", "search", "gnugo:1"]
num_simulations = 8
[evaluator]
games = 8
num_simulations = 8
opening_plies = 2
threshold = {threshold}
[exam]
num_simulations = 2
"""
GAMES = 6 * (4 + 3 + 2)  # games of models 3, 2 and 1 against their opponents


def players(fleet: Any) -> dict[tuple[str, str], int]:
    rows = fleet.query(
        "SELECT player, opponent, count(*) AS games FROM match_games JOIN matches USING (match_id) "
        "WHERE kind = 'rating' GROUP BY player, opponent"
    )
    return {(row.player, row.opponent): row.games for row in rows}


def leave(process: Any, fleet: Any) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert "Traceback" not in fleet.log("evaluator")


def test_promoted_models_play_each_other_and_the_anchors(make_fleet: Any) -> None:
    """The evaluator is killed during the games; the next one plays the missing games."""
    fleet = make_fleet(RUN.format(threshold=0.5))
    for version in (1, 2, 3):
        fleet.publish(version, seed=version)
        fleet.promote(version)
    killed = fleet.start("evaluator")
    fleet.until(lambda: bool(fleet.query("SELECT FROM match_games")))
    killed.kill()
    killed.wait()
    before = {row.uid for row in fleet.query("SELECT game_uid::text AS uid FROM match_games")}
    process, page = fleet.start_with_metrics("evaluator")
    fleet.until(lambda: sum(players(fleet).values()) == GAMES)
    fleet.until(lambda: f"zerofleet_evaluator_rating_games {GAMES}.0" in page())
    after = {row.uid for row in fleet.query("SELECT game_uid::text AS uid FROM match_games")}
    assert before <= after

    pairs = [("2", "1"), ("3", "2"), ("3", "1")]
    pairs += [(model, anchor) for model in "123" for anchor in ("random", "search")]
    assert players(fleet) == dict.fromkeys(pairs, 6)
    fleet.until(lambda: len(fleet.database.ratings("rated")) == 5)
    leave(process, fleet)
    ratings = fleet.database.ratings("rated")
    assert [rating.player for rating in ratings] == ["1", "2", "3", "random", "search"]
    assert ratings[0].elo == 0.0
    assert "GNU Go does not play tic_tac_toe" in fleet.log("evaluator")
    assert fleet.database.count_games("rated") == 0
    rows = fleet.query(
        "SELECT g.first_model, g.second_model, r.first_player, r.second_player, g.reason "
        "FROM rated_games AS r JOIN games AS g USING (game_uid)"
    )
    for row in rows:
        sides = [int(side) if side.isdecimal() else 0 for side in row[2:4]]
        assert [row.first_model, row.second_model, row.reason] == [*sides, "rules"]


@pytest.mark.skipif(
    shutil.which("gnugo") is None, reason="needs gnugo (Debian: apt-get install gnugo)"
)
def test_gnu_go_is_an_anchor_of_go(make_fleet: Any) -> None:
    toml = RUN.format(threshold=0.5).replace("tic_tac_toe", "go(size=5,komi=0.5)")
    fleet = make_fleet(toml.replace('"random", "search", ', ""))
    fleet.publish(1, seed=1)
    fleet.promote(1)
    process = fleet.start("evaluator")
    fleet.until(lambda: players(fleet) == {("1", "gnugo:1"): 6})
    fleet.until(lambda: len(fleet.database.ratings("rated")) == 2)
    leave(process, fleet)
    assert fleet.query("SELECT FROM match_games WHERE remark IS NOT NULL") == []
    assert fleet.database.ratings("rated")[1].elo > 0


def test_a_candidate_goes_first(make_fleet: Any) -> None:
    """The rating games would take much longer than the match, which ends first."""
    toml = RUN.format(threshold=0.0).replace("games = 6", "games = 60")
    toml = toml.replace("tic_tac_toe", "connect_four")
    toml = toml.replace("num_simulations = 8\n[evaluator]", "num_simulations = 100\n[evaluator]")
    fleet = make_fleet(toml)
    fleet.publish(1, seed=1)
    fleet.promote(1)
    process = fleet.start("evaluator")
    fleet.until(lambda: re.fullmatch(r"Rating model 1: \d+ of 120 games", fleet.doing("evaluator")))
    fleet.publish(2, seed=2)
    fleet.until(lambda: fleet.database.promotion_head("rated").version == 2)
    assert sum(players(fleet).values()) < 2 * 60
    fleet.until(lambda: any("2" in pair for pair in players(fleet)))
    leave(process, fleet)


def test_who_rates_for_a_run_that_another_has_taken_over_leaves(make_fleet: Any) -> None:
    fleet = make_fleet(RUN.format(threshold=0.5).replace("games = 6", "games = 140"))
    fleet.publish(1, seed=1)
    fleet.promote(1)
    process = fleet.start("evaluator")
    fleet.until(lambda: bool(players(fleet)))
    fleet.database.acquire_fence("rated", "evaluator")
    assert process.wait(120) == 0
    assert "fenced" in fleet.log("evaluator")


@pytest.fixture
def zerofleet(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def run(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["zerofleet", *arguments])
        with pytest.raises(SystemExit) as leaving:
            main()
        assert leaving.value.code in (None, 0)

    return run


def test_going_back_while_the_evaluator_works(
    make_fleet: Any, zerofleet: Callable[..., None]
) -> None:
    """The evaluator runs on, never promotes the model again, and uses model 1 for the gate."""
    fleet = make_fleet(RUN.format(threshold=0.0).replace("games = 6", "games = 0"))
    fleet.publish(1, seed=1)
    process = fleet.start("evaluator")
    fleet.until(lambda: len(fleet.database.promotions("rated")) == 1)
    fleet.publish(2, seed=2)
    fleet.until(lambda: len(fleet.database.promotions("rated")) == 2)
    zerofleet(
        "rollback",
        str(fleet.run_file),
        "--yes",
        *("--database-url", fleet.urls["evaluator"]),
        *("--redis-url", fleet.environment["ZEROFLEET_REDIS_URL"]),
    )
    pointer = BestPointer(fleet.environment["ZEROFLEET_REDIS_URL"], "rated")
    best = pointer.get()
    pointer.close()
    assert best is not None
    assert (best.seq, best.version) == (3, 1)
    fleet.publish(3, seed=3)
    fleet.until(lambda: len(fleet.database.promotions("rated")) == 4)
    leave(process, fleet)
    assert "fenced" not in fleet.log("evaluator")
    history = fleet.query("SELECT model, against, actor FROM promotion_history ORDER BY seq")
    assert [row.model for row in history] == [1, 2, 1, 3]
    assert history[2].actor.startswith("rollback by")
    assert history[3].against == 1


def test_going_back_while_a_match_is_played(
    make_fleet: Any, zerofleet: Callable[..., None]
) -> None:
    """The match's verdict would refer to the previous best model, so another match is played."""
    toml = RUN.format(threshold=0.0).replace("games = 6", "games = 0")
    toml = toml.replace("games = 8\nnum_simulations = 8", "games = 40\nnum_simulations = 4000")
    fleet = make_fleet(toml)
    for version in (1, 2):
        fleet.publish(version, seed=version)
        fleet.promote(version)
    fleet.publish(3, seed=3)
    process = fleet.start("evaluator")
    fleet.until(lambda: bool(fleet.query("SELECT FROM matches")))
    process.send_signal(signal.SIGSTOP)  # the match must not end before the rollback
    zerofleet("rollback", str(fleet.run_file), "--yes", "--database-url", fleet.urls["evaluator"])
    process.send_signal(signal.SIGCONT)
    fleet.until(lambda: len(fleet.database.promotions("rated")) == 4)
    leave(process, fleet)
    first, second = fleet.database.matches("rated")
    assert (first.best, first.verdict, first.decided_by) == (2, "skipped", "other_best")
    assert (second.best, second.verdict) == (1, "promoted")
    assert "chain_moved" in fleet.log("evaluator")
    assert "fenced" not in fleet.log("evaluator")
