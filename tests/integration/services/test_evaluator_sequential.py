"""A sequential match over real stores and a real inference service."""

import signal
from typing import Any

import pytest

from zerofleet.database import MatchRow
from zerofleet.verdict import judge

RUN = """
name = "sequential"
[rating]
games = 0
[game]
name = "connect_four"
[evaluator]
games = 200
pairs_at_once = 8
num_simulations = 24
opening_plies = 3
"""


def match(fleet: Any) -> MatchRow:
    return fleet.database.matches("sequential")[0]


def test_a_sequential_match_ends_early_and_whoever_judges_it_agrees(make_fleet: Any) -> None:
    """Two identical models win one game of each pair, and the test notices before all are played.

    The evaluator is killed during the match. A verdict computed from the rows alone is the same.
    """
    fleet = make_fleet(RUN)
    fleet.publish(1, seed=5)
    fleet.promote(1)
    fleet.publish(2, seed=5)
    killed = fleet.start("evaluator")
    fleet.until(lambda: bool(fleet.query("SELECT FROM match_games")))
    killed.kill()
    killed.wait()
    process, page = fleet.start_with_metrics("evaluator")
    fleet.until(lambda: match(fleet).verdict is not None)
    fleet.until(lambda: "zerofleet_evaluator_match_llr" in page())
    fleet.until(lambda: "zerofleet_evaluator_match_pairs_counted" in page())
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    judged = match(fleet)
    assert judged.rule is not None
    assert judged.rule.sprt_elo == (0.0, 35.0)
    assert (judged.verdict, judged.decided_by) == ("rejected", "sprt")
    assert judged.llr is not None
    assert judged.games_counted is not None
    assert judged.llr < -2.9
    played = fleet.database.match_score(judged.match_id).games
    assert judged.games_counted <= played < 100
    pairs = fleet.database.match_pairs(judged.match_id)
    judgement = judge(judged, pairs)
    assert judgement.verdict == "rejected"
    assert judgement.statistics.llr == pytest.approx(judged.llr)
    assert judgement.statistics.games_counted == judged.games_counted
