"""The self-play service as a process: preempted, killed, and told to do the impossible."""

import signal
from typing import Any

import pytest

from zerofleet.fleet.figures import SelfplayFigures
from zerofleet.fleet.heartbeat import Heartbeat

RUN = """
name = "played"
[game]
name = "connect_four"
[search]
num_simulations = 40
[selfplay]
max_ahead_positions = 0  # no trainer runs here
games_per_engine = 16
save_every_plies = 8
lease_seconds = 1.0
"""


def stored(fleet: Any) -> dict[str, list[int]]:
    rows = fleet.query(
        "SELECT game_uid::text AS uid, array_agg(action ORDER BY ply) AS actions "
        "FROM games JOIN positions USING (game_uid) GROUP BY game_uid"
    )
    return {row.uid: list(row.actions) for row in rows}


def saved(fleet: Any) -> dict[str, list[int]]:
    rows = fleet.query(
        "SELECT game_uid::text AS uid, (record ->> 'action')::smallint[] AS action "
        "FROM unfinished_games"
    )
    return {row.uid: row.action for row in rows}


def beats(fleet: Any) -> dict[str, Heartbeat]:
    return {beat.worker: beat for beat in fleet.heartbeats.read() if beat.service == "selfplay"}


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_another_worker_goes_on_where_one_ended(make_fleet: Any, end: signal.Signals) -> None:
    fleet = make_fleet(RUN)
    fleet.publish(1)
    fleet.promote(1)
    first = fleet.start("selfplay", ZEROFLEET_WORKER="first")
    fleet.until(lambda: len(stored(fleet)) >= 20 and bool(saved(fleet)))
    first.send_signal(end)
    status = first.wait(120)
    assert status == (0 if end is signal.SIGTERM else -signal.SIGKILL)
    left = {uid: actions for uid, actions in saved(fleet).items() if uid not in stored(fleet)}
    if end is signal.SIGTERM:
        assert len(left) >= 16  # nearly every slot was in mid-game
    assert left

    second = fleet.start("selfplay", ZEROFLEET_WORKER="second")
    fleet.until(lambda: left.keys() <= stored(fleet).keys())
    games = stored(fleet)
    for uid, actions in left.items():
        assert games[uid][: len(actions)] == actions
    workers = {row.worker for row in fleet.query("SELECT DISTINCT worker FROM games")}
    assert workers == {"first", "second"}
    assert fleet.query("SELECT FROM refused_games") == []
    second.send_signal(signal.SIGTERM)
    assert second.wait(120) == 0
    assert "Traceback" not in fleet.log("selfplay")


def test_it_waits_for_a_model_and_says_so(make_fleet: Any) -> None:
    fleet = make_fleet(RUN)
    fleet.environment["ZEROFLEET_WORKER"] = "early"
    worker, page = fleet.start_with_metrics("selfplay")
    fleet.until(lambda: "inference" in beats(fleet).get("early", ABSENT).waiting_for)
    fleet.publish(1)
    fleet.promote(1)
    fleet.until(lambda: len(stored(fleet)) > 0)

    def plays() -> bool:
        beat = beats(fleet).get("early", ABSENT)
        return beat.waiting_for == "" and beat.progress > 0

    # A game may be stored before the next heartbeat is sent, and before its answer is counted.
    fleet.until(plays)
    fleet.until(lambda: 'zerofleet_selfplay_answers_total{answer="stored"}' in page())
    fleet.until(lambda: "zerofleet_selfplay_simulations_total" in page())
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(120) == 0


ABSENT = Heartbeat("", 0, "", SelfplayFigures())


def test_more_games_than_a_request_holds_is_one_clear_line(make_fleet: Any) -> None:
    fleet = make_fleet(RUN.replace("games_per_engine = 16", "games_per_engine = 2000"))
    assert fleet.start("selfplay").wait(120) == 2
    assert fleet.log("selfplay").splitlines()[-1].startswith("selfplay.games_per_engine = 2000")


def test_a_run_stored_with_another_game_is_one_clear_line(make_fleet: Any) -> None:
    fleet = make_fleet(RUN)
    fleet.run_file.write_text(RUN.replace("connect_four", "tic_tac_toe"))
    assert fleet.start("selfplay").wait(120) == 2
    assert "plays connect_four, not tic_tac_toe" in fleet.log("selfplay").splitlines()[-1]
