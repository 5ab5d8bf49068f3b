"""The evaluator over real stores and a real inference service: verdicts, and who writes them."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from services.evaluator.service import work
from services.evaluator.settings import EvaluatorSettings
from zerofleet.best import Best, BestPointer
from zerofleet.database import MatchRow
from zerofleet.heartbeat import Heartbeats

RUN = """
name = "judged"
[game]
name = "connect_four"
[evaluator]
games = 40
num_simulations = 24
opening_plies = 3
threshold = {threshold}
gate = {gate}
[exam]
num_simulations = 4
positions = 10
"""


def run_file(threshold: float = 0.55, gate: str = "true") -> str:
    return RUN.format(threshold=threshold, gate=gate)


def settings(fleet: Any, worker: str = "judge") -> EvaluatorSettings:
    return EvaluatorSettings(
        run_file=Path("run.toml"),
        worker=worker,
        database_url=fleet.environment["ZEROFLEET_DATABASE_URL"],
        redis_url=fleet.environment["ZEROFLEET_REDIS_URL"],
        inference_address=fleet.environment["ZEROFLEET_INFERENCE_ADDRESS"],
    )


async def until(condition: Callable[[], bool], *evaluators: asyncio.Task[None]) -> None:
    """Wait for a condition while the evaluators work."""
    async with asyncio.timeout(60):
        while not condition():
            for task in evaluators:
                assert not task.done(), f"the evaluator stopped by itself: {task}"
            await asyncio.sleep(0.02)


async def judge_until(fleet: Any, condition: Callable[[], bool], worker: str = "judge") -> None:
    """An evaluator in this process, until a condition holds; then its SIGTERM."""
    stop = asyncio.Event()
    task = asyncio.create_task(work(fleet.run, settings(fleet, worker), stop))
    await until(condition, task)
    stop.set()
    done, _ = await asyncio.wait([task], timeout=10)
    if not done:
        for t in asyncio.all_tasks():
            t.print_stack()
            import sys; print(t, file=sys.stderr)
        raise AssertionError("hang")
    await task


def versions(fleet: Any) -> list[int]:
    """Promoted versions, oldest first."""
    return [promotion.version for promotion in fleet.database.promotions("judged")[::-1]]


def matches(fleet: Any) -> dict[int, MatchRow]:
    return {match.candidate: match for match in fleet.database.matches("judged")}


def verdict(fleet: Any, candidate: int) -> str | None:
    match = matches(fleet).get(candidate)
    return match.verdict if match else None


def pointer(fleet: Any) -> Best | None:
    best = BestPointer(fleet.environment["ZEROFLEET_REDIS_URL"], "judged")
    try:
        return best.get()
    finally:
        best.close()


async def test_the_first_model_is_promoted_at_once_and_examined(make_fleet: Any) -> None:
    fleet = make_fleet(run_file())
    fleet.publish(1)
    await judge_until(fleet, lambda: bool(fleet.database.exams("judged")))
    assert versions(fleet) == [1]
    assert matches(fleet) == {}
    best = pointer(fleet)
    assert best is not None
    assert (best.seq, best.version) == (1, 1)
    [exam] = fleet.database.exams("judged")
    assert (exam.version, exam.num_simulations) == (1, 4)
    assert exam.positions == 10


@pytest.mark.parametrize(("threshold", "expected"), [(0.49, "promoted"), (0.55, "rejected")])
async def test_a_candidate_that_plays_like_the_best_scores_one_half(
    make_fleet: Any, threshold: float, expected: str
) -> None:
    fleet = make_fleet(run_file(threshold))
    fleet.publish(1, seed=5)
    fleet.publish(2, seed=5)
    await judge_until(fleet, lambda: len(fleet.database.ratings("judged")) == 2)
    match = matches(fleet)[2]
    assert (match.verdict, match.candidate_score, match.games) == (expected, 0.5, 40)
    assert versions(fleet) == ([1, 2] if expected == "promoted" else [1])
    score = fleet.database.match_score(match.match_id)
    assert score.games == 40
    assert score.wins == score.losses
    ratings = fleet.database.ratings("judged")
    assert [rating.version for rating in ratings] == [1, 2]
    assert ratings[1].elo == pytest.approx(0.0, abs=0.01)
    assert ratings[1].elo_error > 0


@pytest.mark.parametrize(("threshold", "expected"), [(0.49, "promoted"), (0.55, "rejected")])
async def test_the_verdict_is_what_the_rows_say(
    make_fleet: Any, threshold: float, expected: str
) -> None:
    """A match whose games are all stored, all of them draws, needs nothing but judging."""
    fleet = make_fleet(run_file(threshold))
    fleet.publish(1)
    fleet.publish(2, seed=1)
    await judge_until(fleet, lambda: verdict(fleet, 2) is not None)
    fleet.publish(3, seed=2)
    best = fleet.database.promotion_head("judged").version
    epoch = fleet.database.acquire_fence("judged", "evaluator")
    drawn = fleet.database.create_match(
        "judged",
        3,
        best,
        games=8,
        threshold=threshold,
        num_simulations=24,
        seed=9,
        epoch=epoch,
    )
    for opening in range(4):
        for color in (0, 1):
            fleet.database._run(
                "INSERT INTO games (game_uid, run, kind, first_model, result, reason, length, "
                "worker, started_at, finished_at, moves, content_sha256) SELECT "
                f"md5('{opening}{color}')::uuid, run, kind, first_model, 0, reason, length, "
                "worker, started_at, finished_at, moves, content_sha256 FROM games LIMIT 1"
            )
            fleet.database._run(
                "INSERT INTO match_games (match_id, opening, candidate_color, game_uid, "
                f"candidate_score) VALUES ({drawn.match_id}, {opening}, {color}, "
                f"md5('{opening}{color}')::uuid, 0.5)"
            )
    await judge_until(fleet, lambda: verdict(fleet, 3) is not None)
    assert verdict(fleet, 3) == expected
    assert matches(fleet)[3].candidate_score == 0.5
    assert (3 in versions(fleet)) == (expected == "promoted")
    assert fleet.database.match_score(drawn.match_id).games == 8


async def test_only_the_newest_candidate_is_played(make_fleet: Any) -> None:
    fleet = make_fleet(run_file())
    for version in (1, 2, 3, 4):
        fleet.publish(version, seed=version)
    await judge_until(fleet, lambda: verdict(fleet, 4) in ("promoted", "rejected"))
    assert verdict(fleet, 2) == verdict(fleet, 3) == "skipped"
    assert fleet.database.match_score(matches(fleet)[2].match_id).games == 0
    assert fleet.database.match_score(matches(fleet)[4].match_id).games == 40


async def test_without_a_gate_every_model_is_promoted_in_order(make_fleet: Any) -> None:
    fleet = make_fleet(run_file(gate="false"))
    for version in (1, 2, 3):
        fleet.publish(version, seed=version)
    await judge_until(fleet, lambda: versions(fleet) == [1, 2, 3])
    assert matches(fleet) == {}


async def test_match_games_are_whole_records(make_fleet: Any) -> None:
    fleet = make_fleet(run_file())
    fleet.publish(1, seed=1)
    fleet.publish(2, seed=2)
    await judge_until(fleet, lambda: verdict(fleet, 2) is not None)
    rows = fleet.query(
        "SELECT g.kind, m.candidate_color, g.first_model, g.second_model, g.result, "
        "m.candidate_score, (SELECT count(*) FROM positions AS p WHERE p.game_uid = g.game_uid "
        "AND p.simulations = 0) AS given, (SELECT count(DISTINCT model_version) FROM positions "
        "AS p WHERE p.game_uid = g.game_uid) AS models, (SELECT bool_and(p.action = ANY "
        "(p.actions)) FROM positions AS p WHERE p.game_uid = g.game_uid) AS listed "
        "FROM match_games AS m JOIN games AS g USING (game_uid)"
    )
    assert len(rows) == 40
    for row in rows:
        assert row.kind == "match"
        sides = (2, 1) if row.candidate_color == 0 else (1, 2)
        assert (row.first_model, row.second_model) == sides
        sign = 1 if row.candidate_color == 0 else -1
        assert row.candidate_score == (1 + sign * row.result) / 2
        assert (row.given, row.models, row.listed) == (3, 2, True)


async def test_a_wiped_redis_is_rebuilt(make_fleet: Any) -> None:
    fleet = make_fleet(run_file())
    fleet.publish(1)
    await judge_until(fleet, lambda: pointer(fleet) is not None)
    before = pointer(fleet)
    with redis.Redis.from_url(fleet.environment["ZEROFLEET_REDIS_URL"]) as client:
        client.flushall()
    assert pointer(fleet) is None
    await judge_until(fleet, lambda: pointer(fleet) is not None)
    assert pointer(fleet) == before


async def test_of_two_evaluators_one_judges(make_fleet: Any) -> None:
    """The second takes over; the first notices at its next write, and leaves."""
    fleet = make_fleet(run_file(0.49))
    fleet.publish(1, seed=5)
    stop = asyncio.Event()
    first = asyncio.create_task(work(fleet.run, settings(fleet, "first"), stop))
    await until(lambda: versions(fleet) == [1], first)
    second = asyncio.create_task(work(fleet.run, settings(fleet, "second"), stop))
    taken = "SELECT FROM fences WHERE role = 'evaluator' AND epoch = 2"
    await until(lambda: bool(fleet.query(taken)), second)
    fleet.publish(2, seed=5)
    await asyncio.wait_for(first, 60)  # it leaves, and without an error
    await until(lambda: versions(fleet) == [1, 2], second)
    stop.set()
    await second
    actors = [promotion.actor for promotion in fleet.database.promotions("judged")[::-1]]
    assert actors == ["first", "second"]
    assert fleet.database.match_score(matches(fleet)[2].match_id).games == 40


def test_a_killed_evaluator_resumes_its_match(make_fleet: Any) -> None:
    fleet = make_fleet(run_file().replace("num_simulations = 24", "num_simulations = 400"))
    fleet.publish(1, seed=1)
    fleet.publish(2, seed=2)

    def stored() -> dict[str, Any]:
        rows = fleet.query(
            "SELECT opening, candidate_color, game_uid::text AS uid FROM match_games"
        )
        return {row.uid: (row.opening, row.candidate_color) for row in rows}

    seen: dict[str, Any] = {}
    for _ in range(2):
        process = fleet.start("evaluator")
        fleet.until(lambda known=seen: len(stored()) > len(known))
        process.kill()
        process.wait()
        after = stored()
        assert seen.items() <= after.items()
        seen = after
    assert 0 < len(seen) < 40, "killed too late to test anything"

    process = fleet.start("evaluator")
    fleet.until(lambda: verdict(fleet, 2) is not None)
    final = stored()
    assert seen.items() <= final.items()
    assert len(final) == len(set(final.values())) == 40
    assert len(fleet.query("SELECT FROM games WHERE kind = 'match'")) == 40
    match = matches(fleet)[2]
    score = fleet.database.match_score(match.match_id).score
    assert match.candidate_score == pytest.approx(score)
    assert verdict(fleet, 2) == ("promoted" if score > 0.55 else "rejected")
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0


def test_it_says_what_it_waits_for_and_leaves_on_sigterm(make_fleet: Any) -> None:
    fleet = make_fleet(run_file())
    heartbeats = Heartbeats(fleet.environment["ZEROFLEET_REDIS_URL"], "judged")
    process = fleet.start("evaluator")

    def waiting_for() -> str:
        return " ".join(
            beat.waiting_for for beat in heartbeats.read() if beat.service == "evaluator"
        )

    fleet.until(lambda: waiting_for() == "a candidate")
    fleet.publish(1)
    fleet.until(lambda: waiting_for() == "a candidate newer than version 1")
    heartbeats.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert "Traceback" not in fleet.log("evaluator")


def test_an_opening_longer_than_the_game_is_one_clear_line(make_fleet: Any) -> None:
    fleet = make_fleet(run_file().replace("opening_plies = 3", "opening_plies = 99"))
    assert fleet.start("evaluator").wait(20) == 2
    assert fleet.log("evaluator").splitlines()[-1].startswith("evaluator.opening_plies = 99")
