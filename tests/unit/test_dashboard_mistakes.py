"""The page of the largest mistakes: which games it shows."""

from types import SimpleNamespace
from typing import Any

from zerofleet.services.dashboard.mistakes_page import mistakes_of


def a_row(moves: str, ply: int, start: str | None = None) -> Any:
    return SimpleNamespace(
        game_uid="a", ply=ply, model=1, value=0.5, result=-1, regret=2.25, moves=moves, start=start
    )


def test_games_that_do_not_replay_are_left_out() -> None:
    rows = [
        a_row("b2 b2 a1", 1),
        a_row("b2 a1", 1, start="no position"),
        a_row("b2", 1),
        a_row("b2 a1 c3", 1),
    ]
    [mistake] = mistakes_of("tic_tac_toe", rows)
    assert (mistake.moves, mistake.actions, mistake.action) == ("b2", (4,), 0)
