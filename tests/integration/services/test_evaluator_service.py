"""The evaluator over real stores and a real inference service: verdicts, and who writes them."""

import signal
from collections.abc import Callable
from typing import Any

import pytest
import redis

from zerofleet.best_pointer import BestPointer
from zerofleet.database import MatchRow, Promotion
from zerofleet.verdict import GateRule

RUN = """
name = "judged"
preset = "plain"
[rating]
games = 0
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


def judge_until(fleet: Any, condition: Callable[[], bool]) -> None:
    """An evaluator works until a condition holds; then it leaves on SIGTERM."""
    process = fleet.start("evaluator")
    fleet.until(condition)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert "Traceback" not in fleet.log("evaluator")


def versions(fleet: Any) -> list[int]:
    """Promoted versions, oldest first."""
    return [promotion.version for promotion in fleet.database.promotions("judged")[::-1]]


def matches(fleet: Any) -> dict[int, MatchRow]:
    return {match.candidate: match for match in fleet.database.matches("judged")}


def verdict(fleet: Any, candidate: int) -> str | None:
    match = matches(fleet).get(candidate)
    return match.verdict if match else None


def pointer(fleet: Any) -> Promotion | None:
    best = BestPointer(fleet.environment["ZEROFLEET_REDIS_URL"], "judged")
    try:
        return best.get()
    finally:
        best.close()


def waits_for(fleet: Any, thing: str) -> bool:
    beats = [beat for beat in fleet.heartbeats.read() if beat.service == "evaluator"]
    return [(beat.waiting_for, beat.status) for beat in beats] == [(thing, "idle")]


def test_the_first_model_is_promoted_at_once_and_examined(make_fleet: Any) -> None:
    """Meanwhile the evaluator says what it waits for."""
    # Fewer rows than the exam has positions: the server would refuse them all at once.
    fleet = make_fleet(run_file() + "[inference]\nmax_batch_rows = 8\n")
    process, page = fleet.start_with_metrics("evaluator")
    fleet.until(lambda: waits_for(fleet, "the first model"))
    fleet.publish(1)
    fleet.until(lambda: waits_for(fleet, "a new model"))
    fleet.until(lambda: "zerofleet_evaluator_best_version 1.0" in page())
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert "Traceback" not in fleet.log("evaluator")

    assert versions(fleet) == [1]
    assert matches(fleet) == {}
    best = pointer(fleet)
    assert best is not None
    assert (best.seq, best.version) == (1, 1)
    exams = fleet.database.exams("judged")
    asked = [(exam.version, exam.kind, exam.num_simulations, exam.positions) for exam in exams]
    assert asked == [(1, "random", 4, 10), (1, "good", 4, 10)]
    assert all(0 < (exam.figures.value_error or 0) < 4 for exam in exams)
    assert all(0 < (exam.figures.prior_errors or 0) <= 10 for exam in exams)


def test_a_model_of_chess_is_examined_in_endgames_and_mates(make_fleet: Any) -> None:
    fleet = make_fleet(run_file().replace("connect_four", "chess"))
    fleet.publish(1)
    judge_until(fleet, lambda: len(fleet.database.exams("judged")) == 2)
    exams = fleet.database.exams("judged")
    assert [(exam.kind, exam.positions) for exam in exams] == [("endgames", 10), ("mates", 10)]
    rows = fleet.database._rows("SELECT errors, wrong_answers, groups FROM exams")
    assert len(rows) == 2
    for errors, wrong, groups in rows:
        assert errors == len(wrong) == sum(group["errors"] for group in groups)
        assert sum(group["positions"] for group in groups) == 10
        assert all(each["start"] and each["moves"] == "" for each in wrong)


@pytest.mark.parametrize(("threshold", "expected"), [(0.49, "promoted"), (0.55, "rejected")])
def test_a_candidate_that_plays_like_the_best_scores_one_half(
    make_fleet: Any, threshold: float, expected: str
) -> None:
    fleet = make_fleet(run_file(threshold))
    fleet.publish(1, seed=5)
    fleet.promote(1)
    fleet.publish(2, seed=5)
    judge_until(fleet, lambda: len(fleet.database.ratings("judged")) == 2)
    match = matches(fleet)[2]
    assert (match.verdict, match.score, match.games) == (expected, 0.5, 40)
    assert versions(fleet) == ([1, 2] if expected == "promoted" else [1])
    score = fleet.database.match_score(match.match_id)
    assert score.games == 40
    assert score.wins == score.losses
    ratings = fleet.database.ratings("judged")
    assert [rating.version for rating in ratings] == [1, 2]
    assert ratings[1].elo == pytest.approx(0.0, abs=0.01)
    assert ratings[1].elo_error > 0


@pytest.mark.parametrize(
    ("rule", "expected", "decided_by"),
    [
        (GateRule(0.49), "promoted", "threshold"),
        (GateRule(0.49, draws_only="promote"), "promoted", "draws_only"),
        (GateRule(0.49, draws_only="reject"), "rejected", "draws_only"),
        (GateRule(0.49, (0.0, 35.0), 0.05, "reject"), "rejected", "draws_only"),
        (GateRule(0.49, (0.0, 35.0), 0.05), "promoted", "threshold"),
    ],
)
def test_the_verdict_is_what_the_rows_say(
    make_fleet: Any, rule: GateRule, expected: str, decided_by: str
) -> None:
    """A match whose games are all stored, all of them draws, needs nothing but judging.

    It is judged by the rule that it began with; its last pair is another one's again.
    """
    fleet = make_fleet(run_file())
    fleet.publish(1)
    fleet.promote(1)
    fleet.publish(2)
    drawn = fleet.database.open_match(
        "judged",
        "gate",
        "2",
        "1",
        games=8,
        num_simulations=24,
        seed=9,
        epoch=fleet.database.acquire_fence("judged", "evaluator"),
        rule=rule,
    )
    for opening in range(4):
        for color in (0, 1):
            fleet.database._run(
                "INSERT INTO games (game_uid, run, kind, first_model, result, reason, length, "
                "worker, started_at, began_at, finished_at, moves, content_sha256) VALUES "
                f"(md5('{opening}{color}')::uuid, 'judged', 'match', 1, 0, 'rules', 42, 'test', "
                f"now(), now(), now(), '{min(opening, 2)}', sha256('{opening}{color}'))"
            )
            fleet.database._run(
                "INSERT INTO match_games (match_id, opening, color, game_uid, score) "
                f"VALUES ({drawn.match_id}, {opening}, {color}, "
                f"md5('{opening}{color}')::uuid, 0.5)"
            )
    judge_until(fleet, lambda: verdict(fleet, 2) is not None)
    match = matches(fleet)[2]
    assert (match.verdict, match.decided_by, match.score) == (expected, decided_by, 0.5)
    assert (match.games_counted, match.duplicates) == (6, 2)
    assert (match.llr is not None) == (rule.sprt_elo is not None)
    assert versions(fleet) == ([1, 2] if expected == "promoted" else [1])
    assert fleet.database.match_score(drawn.match_id).games == 8


def test_only_the_newest_candidate_is_played(make_fleet: Any) -> None:
    fleet = make_fleet(run_file())
    for version in (1, 2, 3, 4):
        fleet.publish(version, seed=version)
    fleet.promote(1)
    judge_until(fleet, lambda: verdict(fleet, 4) in ("promoted", "rejected"))
    assert verdict(fleet, 2) == verdict(fleet, 3) == "skipped"
    assert matches(fleet)[3].decided_by == "newer_candidate"
    assert fleet.database.match_score(matches(fleet)[2].match_id).games == 0
    assert fleet.database.match_score(matches(fleet)[4].match_id).games == 40


def test_candidates_that_cannot_play_hold_nobody_up(make_fleet: Any) -> None:
    """Model 2 is no model; model 3 comes while nobody can load it, model 4 a little later."""
    fleet = make_fleet(run_file())
    fleet.publish(1, seed=1)
    fleet.promote(1)
    fleet.publish(2, content=b"not a model")
    process = fleet.start("evaluator")
    fleet.until(lambda: verdict(fleet, 2) == "rejected")
    assert matches(fleet)[2].decided_by == "unusable"
    [inference, _] = fleet.processes
    inference.kill()
    fleet.publish(3, seed=3)
    fleet.until(lambda: 3 in matches(fleet))
    fleet.publish(4, seed=4)
    fleet.until(lambda: verdict(fleet, 3) == "skipped")
    fleet.start("inference")
    fleet.until(lambda: verdict(fleet, 4) in ("promoted", "rejected"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert "Traceback" not in fleet.log("evaluator")


def test_a_best_model_that_cannot_play_is_replaced(make_fleet: Any) -> None:
    """Its file is damaged: a candidate that is none is still rejected, the next is promoted."""
    fleet = make_fleet(run_file())
    fleet.publish(1, content=b"not a model")
    fleet.promote(1)
    fleet.publish(2, content=b"not a model either")
    process = fleet.start("evaluator")
    fleet.until(lambda: verdict(fleet, 2) == "rejected")
    fleet.publish(3, seed=3)
    fleet.until(lambda: verdict(fleet, 3) == "skipped")
    assert versions(fleet) == [1, 3]
    assert fleet.database.promotion_history("judged")[0].match_id is None
    assert "best_unusable" in fleet.log("evaluator")
    fleet.publish(4, seed=4)
    fleet.until(lambda: verdict(fleet, 4) in ("promoted", "rejected"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert "Traceback" not in fleet.log("evaluator")


def test_a_match_that_cannot_be_completed_decides_nothing(make_fleet: Any) -> None:
    """Its size differs from what the openings of today's run file allow; a new match is played."""
    fleet = make_fleet(run_file().replace("opening_plies = 3", "opening_plies = 1"))
    fleet.publish(1, seed=1)
    fleet.promote(1)
    fleet.publish(2, seed=2)
    old = fleet.database.open_match(
        "judged",
        "gate",
        "2",
        "1",
        games=40,
        num_simulations=24,
        seed=9,
        epoch=fleet.database.acquire_fence("judged", "evaluator"),
        rule=GateRule(0.0),
    )
    judge_until(fleet, lambda: verdict(fleet, 2) in ("promoted", "rejected"))
    both = {match.match_id: match for match in fleet.database.matches("judged")}
    closed = both.pop(old.match_id)
    assert (closed.verdict, closed.decided_by) == ("skipped", "other_openings")
    [new] = both.values()
    assert fleet.database.match_score(new.match_id).games == new.games < 40


def test_without_a_gate_every_model_that_answers_is_promoted_in_order(make_fleet: Any) -> None:
    """Model 3 is no model. Every second of the others is rated."""
    rating = "[rating]\nevery = 2\nopponents = [1]\nanchors = []\nnum_simulations = 2\ngames = 2"
    fleet = make_fleet(run_file(gate="false").replace("[rating]\ngames = 0", rating))
    for version in (1, 2, 3, 4, 5):
        content = b"not a model" if version == 3 else None
        fleet.publish(version, seed=version, content=content)
    process = fleet.start("evaluator")
    fleet.until(lambda: versions(fleet) == [1, 2, 4, 5])
    fleet.until(lambda: len(fleet.database.ratings("judged")) == 2)
    fleet.until(lambda: waits_for(fleet, "a new model"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert "Traceback" not in fleet.log("evaluator")
    [match] = matches(fleet).values()
    assert (match.candidate, match.verdict, match.decided_by) == (3, "rejected", "unusable")
    assert [rating.version for rating in fleet.database.ratings("judged")] == [1, 4]


def test_match_games_are_whole_records(make_fleet: Any) -> None:
    fleet = make_fleet(run_file())
    fleet.publish(1, seed=1)
    fleet.promote(1)
    fleet.publish(2, seed=2)
    judge_until(fleet, lambda: verdict(fleet, 2) is not None)
    rows = fleet.query(
        "SELECT g.kind, m.color, g.first_model, g.second_model, g.result, "
        "m.score, (SELECT count(*) FROM positions AS p WHERE p.game_uid = g.game_uid "
        "AND p.simulations = 0) AS given, (SELECT count(DISTINCT model_version) FROM positions "
        "AS p WHERE p.game_uid = g.game_uid) AS models, (SELECT bool_and(p.action = ANY "
        "(p.legal_actions)) FROM positions AS p WHERE p.game_uid = g.game_uid) AS listed "
        "FROM match_games AS m JOIN games AS g USING (game_uid)"
    )
    assert len(rows) == 40
    for row in rows:
        assert row.kind == "match"
        sides = (2, 1) if row.color == 0 else (1, 2)
        assert (row.first_model, row.second_model) == sides
        sign = 1 if row.color == 0 else -1
        assert row.score == (1 + sign * row.result) / 2
        assert (row.given, row.models, row.listed) == (3, 2, True)


def test_a_pointer_that_is_behind_or_wiped_is_rebuilt(make_fleet: Any) -> None:
    """As after a crash between the promotion's commit and Redis; then Redis loses everything."""
    fleet = make_fleet(run_file())
    fleet.publish(1)
    fleet.promote(1)
    assert pointer(fleet) is None
    fleet.start("evaluator")
    fleet.until(lambda: pointer(fleet) is not None)
    before = pointer(fleet)
    with redis.Redis.from_url(fleet.environment["ZEROFLEET_REDIS_URL"]) as client:
        client.flushall()
    assert pointer(fleet) is None
    fleet.until(lambda: pointer(fleet) is not None)
    assert pointer(fleet) == before


def test_a_promotion_needs_no_redis(make_fleet: Any) -> None:
    fleet = make_fleet(run_file())
    fleet.environment["ZEROFLEET_REDIS_URL"] = "redis://127.0.0.1:1/0"
    fleet.publish(1)
    # The promotion is stored before the evaluator tries to move the pointer.
    judge_until(
        fleet,
        lambda: versions(fleet) == [1] and "pointer_not_moved" in fleet.log("evaluator"),
    )
    assert "pointer_not_moved" in fleet.log("evaluator")


def test_of_two_evaluators_one_judges(make_fleet: Any) -> None:
    """The second takes over; the first notices at its next write, and leaves.

    The match outlasts the pause between two looks for a candidate, so that both begin it.
    """
    fleet = make_fleet(run_file(0.49).replace("num_simulations = 24", "num_simulations = 200"))
    fleet.publish(1, seed=5)
    fleet.examined(1)
    first = fleet.start("evaluator", ZEROFLEET_WORKER="first")
    fleet.until(lambda: versions(fleet) == [1])
    second = fleet.start("evaluator", ZEROFLEET_WORKER="second")
    taken = "SELECT FROM fences WHERE role = 'evaluator' AND epoch = 2"
    fleet.until(lambda: bool(fleet.query(taken)))
    fleet.publish(2, seed=5)
    assert first.wait(120) == 0
    fleet.until(lambda: versions(fleet) == [1, 2])
    second.send_signal(signal.SIGTERM)
    assert second.wait(120) == 0
    actors = [row.actor for row in fleet.database.promotion_history("judged")[::-1]]
    assert actors == ["first", "second"]
    assert fleet.database.match_score(matches(fleet)[2].match_id).games == 40


def test_a_killed_evaluator_resumes_its_match(make_fleet: Any) -> None:
    toml = run_file().replace(
        "games = 40\nnum_simulations = 24", "games = 16\nnum_simulations = 400"
    )
    fleet = make_fleet(toml)
    fleet.publish(1, seed=1)
    fleet.promote(1)
    fleet.publish(2, seed=2)

    def stored() -> dict[str, Any]:
        rows = fleet.query("SELECT opening, color, game_uid::text AS uid FROM match_games")
        return {row.uid: (row.opening, row.color) for row in rows}

    seen: dict[str, Any] = {}
    for _ in range(2):
        process = fleet.start("evaluator")
        fleet.until(lambda known=seen: len(stored()) > len(known))
        process.kill()
        process.wait()
        after = stored()
        assert seen.items() <= after.items()
        seen = after
    assert 0 < len(seen) < 16, "killed too late to test anything"

    process = fleet.start("evaluator")
    fleet.until(lambda: verdict(fleet, 2) is not None)
    final = stored()
    assert seen.items() <= final.items()
    assert len(final) == len(set(final.values())) == 16
    assert len(fleet.query("SELECT FROM games WHERE kind = 'match'")) == 16
    match = matches(fleet)[2]
    score = fleet.database.match_score(match.match_id).score
    assert match.score == pytest.approx(score)
    assert (match.decided_by, match.games_counted) == ("threshold", 16)
    assert verdict(fleet, 2) == ("promoted" if score > 0.55 else "rejected")
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0


def test_an_opening_longer_than_the_game_is_one_clear_line(make_fleet: Any) -> None:
    fleet = make_fleet(run_file().replace("opening_plies = 3", "opening_plies = 99"))
    assert fleet.start("evaluator").wait(120) == 2
    assert fleet.log("evaluator").splitlines()[-1].startswith("evaluator.opening_plies = 99")
