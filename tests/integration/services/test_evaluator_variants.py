"""Matches between precisions over real stores and a real inference service."""

import signal
from typing import Any

import pytest

from tests.integration.services.conftest import tiny_model
from zerofleet.database import VariantVerdict

RUN = """
name = "varied"
preset = "plain"
[game]
name = "connect_four"
[precision]
variants = ["int8"]
match_games = {games}
match_every = 2
[rating]
games = {rating_games}
opponents = [1]
anchors = ["random"]
num_simulations = 8
[evaluator]
games = 8
num_simulations = {simulations}
opening_plies = 3
threshold = 0.0
[exam]
num_simulations = 2
positions = 5
"""


def run_file(games: int = 12, simulations: int = 16, rating_games: int = 0) -> str:
    return RUN.format(games=games, simulations=simulations, rating_games=rating_games)


def publish(fleet: Any, version: int, *, wild: float = 1.0) -> None:
    """A model whose variant plays like itself, or wildly."""
    int8 = tiny_model("connect_four", version, 5, name="int8", wild=wild)
    fleet.publish(version, 5, int8=int8)


def verdict(fleet: Any) -> VariantVerdict | None:
    return fleet.database.variant_verdict("varied", "int8")


def stored(fleet: Any) -> set[str]:
    rows = fleet.query("SELECT game_uid::text AS uid FROM variant_games")
    return {row.uid for row in rows}


def leave(process: Any, fleet: Any) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert "Traceback" not in fleet.log("evaluator")


def test_a_variant_that_plays_alike_is_accepted_before_anything_is_rated(make_fleet: Any) -> None:
    """The evaluator is killed on the way; the next one plays what is missing, and no more."""
    fleet = make_fleet(run_file(games=40, simulations=200, rating_games=4))
    publish(fleet, 1)
    fleet.promote(1)
    killed = fleet.start("evaluator")
    fleet.until(lambda: bool(stored(fleet)))
    killed.kill()
    killed.wait()
    before = stored(fleet)
    assert verdict(fleet) is None
    process = fleet.start("evaluator")
    fleet.until(lambda: verdict(fleet) is not None)
    fleet.until(lambda: len(fleet.query("SELECT FROM rating_games")) == 4)
    leave(process, fleet)
    judged = verdict(fleet)
    assert judged is not None
    assert (judged.version, judged.accepted, judged.score) == (1, True, 0.5)
    assert judged.low < 0.5 < judged.high
    assert before <= stored(fleet)
    assert len(stored(fleet)) == 40
    assert judged.games == judged.wins + judged.draws + judged.losses <= 40
    assert f"int8 of version 1 against fp32: {judged.games / 2:g} of {judged.games}, 95%" in (
        fleet.log("evaluator")
    )
    rows = fleet.query(
        "SELECT g.kind, g.first_model, g.second_model FROM variant_games AS v "
        "JOIN games AS g USING (game_uid)"
    )
    assert {tuple(row) for row in rows} == {("match", 1, 1)}
    [order] = fleet.query(
        "SELECT (SELECT at FROM variant_verdicts) < min(at) AS first FROM rating_games"
    )
    assert order.first
    assert fleet.database.ratings("varied")[0].games == 4  # the match rates nobody


def test_a_variant_that_plays_worse_is_refused_and_a_later_one_may_be_accepted(
    make_fleet: Any,
) -> None:
    """A match is due after the first promotion, and after two more."""
    fleet = make_fleet(run_file(games=40, simulations=100))
    publish(fleet, 1, wild=300.0)
    fleet.promote(1)
    process = fleet.start("evaluator")
    fleet.until(lambda: verdict(fleet) is not None)
    refused = verdict(fleet)
    assert refused is not None
    assert (refused.version, refused.accepted) == (1, False)
    assert refused.high < 0.5
    for version in (2, 3):
        publish(fleet, version)
        fleet.until(lambda v=version: fleet.database.promotion_head("varied").version == v)
    fleet.until(lambda: verdict(fleet) != refused)
    leave(process, fleet)
    verdicts = fleet.database.variant_verdicts("varied")
    assert [(each.version, each.accepted) for each in verdicts] == [(1, False), (3, True)]
    assert fleet.log("evaluator").count("refused") == 1


def test_a_candidate_interrupts_the_match(make_fleet: Any) -> None:
    """It would take minutes; the candidate is judged at once, and the same match goes on."""
    fleet = make_fleet(run_file(games=1000, simulations=800))
    publish(fleet, 1)
    fleet.promote(1)
    process = fleet.start("evaluator")
    fleet.until(lambda: fleet.doing("evaluator").startswith("plays int8 of 1 against fp32: "))
    fleet.until(lambda: bool(stored(fleet)))
    publish(fleet, 2)
    fleet.until(lambda: fleet.database.promotion_head("varied").version == 2)
    seen = stored(fleet)
    assert len(seen) < 1000
    fleet.until(lambda: len(stored(fleet)) > len(seen))
    assert [row.version for row in fleet.query("SELECT DISTINCT version FROM variant_games")] == [1]
    leave(process, fleet)
    assert verdict(fleet) is None


@pytest.mark.parametrize("damage", [b"not a model", None])
def test_a_variant_that_nobody_can_load_holds_nothing_up(
    make_fleet: Any, damage: bytes | None
) -> None:
    """Its file is no model, or it has none."""
    fleet = make_fleet(run_file(rating_games=2))
    int8 = damage or tiny_model("connect_four", 1, 5, name="int8")
    fleet.publish(1, 5, int8=int8)
    if damage is None:
        fleet.models.path(fleet.database.variants("varied", 1)[0].sha256).unlink()
    fleet.promote(1)
    process = fleet.start("evaluator")
    fleet.until(lambda: len(fleet.query("SELECT FROM rating_games")) == 2)
    leave(process, fleet)
    assert verdict(fleet) is None
    assert fleet.log("evaluator").count("variant_left_out") == 1
