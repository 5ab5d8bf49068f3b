"""Curves and blunders of a stored game compare the values of one opinion only."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

import pytest

from zerofleet.database.played_games import PlayedGame, PlayedPly, sgf_of_game
from zerofleet.services.dashboard import game_page
from zerofleet.services.dashboard.game_page import ValueCurve, WalkedGame

PLIES = 8


@pytest.mark.parametrize("legal", [list(range(26)) * 1000, [0, 26], [-1]])
def test_a_search_of_actions_that_the_game_does_not_have_is_not_shown(legal: list[int]) -> None:
    played = walked([0.5] * PLIES).played
    assert len(game_page._walked(played, []).actions) == PLIES
    forged = dataclasses.replace(played.plies[3], legal_actions=legal)
    plies = [*played.plies[:3], forged, *played.plies[4:]]
    with pytest.raises(ValueError, match="ply 3 lists other actions than the 26 of go"):
        game_page._walked(dataclasses.replace(played, plies=plies), [])


def walked(
    values: Sequence[float | None],
    *,
    kind: str = "match",
    versions: Sequence[int] = (3, 1),
    result: int = 1,
    reason: str = "rules",
) -> WalkedGame:
    """A game whose values are for the player who moves; None: moved without a search."""
    plies = [
        PlayedPly(
            action=ply,
            model_version=versions[ply % len(versions)],
            root_value=0.0 if value is None else value,
            network_value=0.0,
            simulations=0 if value is None else 50,
            legal_actions=[ply],
            visit_counts=[50],
            priors=[1.0],
        )
        for ply, value in enumerate(values)
    ]
    played = PlayedGame(
        game_uid=UUID(int=1),
        game="go(size=5)",
        kind=kind,
        first_model=versions[0],
        second_model=versions[-1],
        result=result,
        reason=reason,
        finished_at=datetime(2026, 1, 1, tzinfo=UTC),
        moves="",
        start="",
        repeated_plies=None,
        first_player=None,
        second_player=None,
        forfeit=None,
        plies=plies,
    )
    numbers = tuple(range(len(plies)))
    return WalkedGame(
        played=played,
        actions=numbers,
        words=tuple(map(str, numbers)),
        to_play=tuple(ply % 2 for ply in numbers),
        names=("model 3", "model 1"),
        kind="rating" if kind == "match" else kind,
        title="A game",
    )


def blunders(game: WalkedGame) -> list[int]:
    return sorted(ply for curve in game.curves() for ply in game.blunders(curve))


def test_players_who_disagree_from_first_to_last_make_no_blunder() -> None:
    """Each expects to win; neither changes its mind until the result is there."""
    game = walked([0.8, 0.7] * 4)
    first, second = game.curves()
    assert (first.name, second.name) == ("model 3 (Black)", "model 1 (White)")
    assert first.values == {0: 0.8, 2: 0.8, 4: 0.8, 6: 0.8}
    assert second.values == {1: -0.7, 3: -0.7, 5: -0.7, 7: -0.7}
    assert game.blunders(first) == []
    assert game.blunders(second) == [7]  # the result is the other one


def test_a_blunder_is_what_the_player_itself_thinks_less_of_at_its_next_move() -> None:
    assert blunders(walked([0.1, 0.1, 0.1, -0.5, -0.4, -0.5, -0.4, -0.5], reason="resign")) == [
        1,
        2,
    ]


@pytest.mark.parametrize("reason", ["rules", "resign"])
def test_only_a_game_that_the_rules_ended_has_a_value_at_its_end(reason: str) -> None:
    lost = blunders(walked([0.0] * PLIES, result=-1, reason=reason))
    assert lost == ([6] if reason == "rules" else [])


def test_a_game_opens_at_its_first_search() -> None:
    assert walked([None, None, 0.1, -0.1]).first_searched == 2
    assert walked([0.1, None, 0.1]).first_searched == 0
    assert walked([None, None]).first_searched == 0


def test_a_move_without_a_search_is_not_blamed_on_another() -> None:
    assert blunders(walked([0.9, 0.0, None, 0.0, -0.9, 0.0, -0.9, 0.0], result=0)) == []
    assert blunders(walked([0.0, 0.0, 0.0, 0.0, 0.9, 0.0, None, 0.0], result=0)) == []


def test_in_self_play_the_next_search_of_the_same_model_decides() -> None:
    values = [0.1, -0.1, 0.1, 0.6, -0.6, 0.6, -0.6, 0.6]
    game = walked(values, kind="selfplay", versions=(7,), result=-1)
    [curve] = game.curves()
    assert (curve.name, curve.player) == ("model 7", None)
    assert curve.values == pytest.approx({p: v * (1, -1)[p % 2] for p, v in enumerate(values)})
    assert game.blunders(curve) == [2]


def test_a_promotion_in_a_game_of_self_play_is_no_blunder() -> None:
    values = [0.6, -0.6, 0.6, 0.6, -0.6, 0.6, -0.6, 0.6]
    promoted = walked(values, kind="selfplay", versions=(7, 7, 7, 8, 8, 8, 8, 8), result=-1)
    assert [curve.name for curve in promoted.curves()] == ["model 7", "model 8"]
    assert blunders(promoted) == []
    assert blunders(walked(values, kind="selfplay", versions=(7,), result=-1)) == [2]


def test_a_model_that_judges_the_game_judges_both_players() -> None:
    game = walked([0.8, 0.7] * 4)
    judge = ValueCurve("model 9", None, {0: 0.0, 1: 0.0, 2: -0.5, 3: -0.5, 4: 0.2, 5: 0.2, 6: 0.2})
    assert game.blunders(judge) == [3]


def test_the_graph_in_an_sgf_shows_one_opinion_and_comments_name_the_side() -> None:
    def rates(game: WalkedGame) -> list[bool]:
        return ["SBKV" in node for node in sgf_of_game("run", game.played).split(";")[2:]]

    values = [0.8, 0.7, 0.8, None, 0.8, 0.7]
    text = sgf_of_game("run", walked(values).played)
    assert "value for Black +0.800" in text
    assert "value for White +0.700" in text
    # A node has the value of the position after its move.
    assert rates(walked(values)) == [False, True, False, True, False, False]
    assert rates(walked(values, kind="selfplay", versions=(7,))) == [
        *(True, True, False, True, True, False)
    ]
