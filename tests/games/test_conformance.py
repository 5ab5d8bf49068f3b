"""Every game keeps the contract, and ``check_conformance`` notices a game that does not."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
import zerofleet_core

from examples.domineering import Domineering, action_at, points_of
from zerofleet.errors import ConfigError
from zerofleet.games import spec
from zerofleet.games.conformance import Conformance, check_conformance
from zerofleet.games.openspiel import playable_games

# How many random games are played of each.
CORE = {
    "chess": 2,
    "chess(history=8,chess960=true,max_length=150)": 2,
    "connect_four": 20,
    "go(size=2,komi=0.5)": 20,
    "go(size=5,komi=24)": 20,
    "go(size=6,max_length=30,observation=liberties)": 10,
    "go(size=9)": 5,
    "go(size=9,suicide=false,observation=liberties)": 5,
    "go(size=13)": 2,
    "go(size=19)": 2,
    "gomoku": 5,
    "mnk": 20,
    "mnk(m=5,n=4,k=4)": 20,
    "othello": 10,
    "tic_tac_toe": 20,
}
# Every other game of OpenSpiel is played once.
OUTSIDE = {
    "openspiel:amazons": 2,  # a move is three actions
    "openspiel:breakthrough": 3,
    "openspiel:checkers": 3,
    "openspiel:chess": 2,  # OpenSpiel's player 1 begins
    "openspiel:dots_and_boxes": 10,  # who closes a box plays again
    "openspiel:hex(board_size=5)": 5,
    "openspiel:mancala": 3,  # numbers of stones
    "openspiel:tic_tac_toe": 10,
    "openspiel:y(board_size=7)": 3,
    "python:examples.domineering:Domineering": 20,
}


@pytest.mark.parametrize("game", CORE)
def test_the_cores_games(game: str) -> None:
    check_conformance(game, CORE[game])


@pytest.mark.slow
@pytest.mark.parametrize("game", [*OUTSIDE, *sorted({*playable_games()} - {*OUTSIDE})])
def test_games_from_outside(game: str) -> None:
    check_conformance(game, OUTSIDE.get(game, 1))


def test_every_family_is_checked() -> None:
    assert {game.partition("(")[0] for game in CORE} == set(zerofleet_core.game_names())


def test_what_was_played_is_told() -> None:
    told = check_conformance("tic_tac_toe", 30)
    assert len(told.lengths) == sum(told.results.values()) == 30
    assert set(told.results) == {1, -1, 0}
    assert "30 random games of 5 to 9 plies" in str(told)
    assert "1 random game of 8 plies, 1 won" in str(Conformance("g", (8,), {1: 1}))
    assert (
        check_conformance("tic_tac_toe", 30) == told != check_conformance("tic_tac_toe", 30, seed=2)
    )


class SharesItsBoard(Domineering):
    def copy(self) -> SharesItsBoard:
        twin = super().copy()
        twin.covered = self.covered
        return twin


class TurnsPointsAlone(Domineering):
    @classmethod
    def symmetric_action(cls, action: int, symmetry: int) -> int:
        return action


class TurnsActionsAlone(Domineering):
    @classmethod
    def symmetric_point(cls, point: int, symmetry: int) -> int:
        return point


class Transposes(Domineering):
    """The transposition swaps the players: no first domino is legal afterwards."""

    num_symmetries = 2

    @classmethod
    def symmetric_point(cls, point: int, symmetry: int) -> int:
        row, column = divmod(point, 6)
        return 6 * column + row if symmetry else point

    @classmethod
    def symmetric_action(cls, action: int, symmetry: int) -> int:
        (row, column), (below, right) = points_of(action)
        return action_at((column, row), (right, below)) if symmetry else action


class TriesInPlace(Domineering):
    def legal_actions(self) -> list[int]:
        self.covered[0, 0] = True
        return super().legal_actions()


class Collapses(Domineering):
    @classmethod
    def symmetric_action(cls, action: int, symmetry: int) -> int:
        return action if symmetry == 0 else 0


class Rotates(Domineering):
    """Symmetry 1 moves every action on by one: nothing undoes it."""

    num_symmetries = 2

    @classmethod
    def symmetric_action(cls, action: int, symmetry: int) -> int:
        return (action + symmetry) % cls.num_actions


class SpeaksInSentences(Domineering):
    @classmethod
    def action_to_string(cls, action: int) -> str:
        return f"domino {action}"


class CallsAllAlike(Domineering):
    @classmethod
    def action_to_string(cls, action: int) -> str:
        return "here"


class ReadsAnything(Domineering):
    @classmethod
    def string_to_action(cls, text: str) -> int | None:
        return super().string_to_action(text) or 0


class NeverEnds(Domineering):
    max_length = 10


class EndsInHalfAWin(Domineering):
    def apply(self, action: int) -> None:
        super().apply(action)
        self.result *= 2


class DependsOnChance(Domineering):
    def observation(self) -> Any:
        planes = super().observation()
        planes[0] |= np.random.default_rng().random(planes[0].shape) < 0.5
        return planes


class TellsItsEnd(Domineering):
    """Covered squares count for the first player; the score is how much is left."""

    num_final_planes = 1

    def final_planes(self) -> Any:
        return self.covered[None].astype(np.int64)

    def final_score(self) -> float:
        return float((~self.covered).sum())


class LosesItsPlane(TellsItsEnd):
    def final_planes(self) -> Any:
        return self.covered


class TellsTwos(TellsItsEnd):
    def final_planes(self) -> Any:
        return 2 * super().final_planes()


class TellsHalves(TellsItsEnd):
    def final_planes(self) -> Any:
        return 0.5 * super().final_planes()


class HasNoScore(TellsItsEnd):
    def final_score(self) -> float:
        return float("nan")


class FavoursACorner(TellsItsEnd):
    def final_planes(self) -> Any:
        planes = super().final_planes()
        planes[0, 0, 0] = -1
        return planes


class ChangesItsMind(TellsItsEnd):
    numbers: ClassVar = itertools.count()

    def final_score(self) -> float:
        return float(next(self.numbers))


BROKEN: dict[type[Domineering], str] = {
    SharesItsBoard: r"playing .* on a copy changed it: copy\(\) must copy",
    TurnsPointsAlone: "symmetry 1 of the actions does not lead to its image",
    TurnsActionsAlone: "symmetry 0 does not undo symmetry 1",
    Transposes: "symmetry 1 of the actions does not lead to its image",
    TriesInPlace: r"legal_actions\(\) changes the position: try moves on a copy",
    Collapses: "symmetry 1 puts two actions in one place",
    Rotates: "symmetry 1",
    SpeaksInSentences: "'domino 0', not one word",
    CallsAllAlike: "actions 0 and 1 are both 'here'",
    ReadsAnything: "is read as an action",
    NeverEnds: "has not ended at ply 10",
    EndsInHalfAWin: "result is -?2",
    LosesItsPlane: r"final_planes\(\) has shape \(6, 6\), not \(1, 6, 6\)",
    TellsTwos: "other values than the integers -1, 0 and 1",
    TellsHalves: "other values than the integers -1, 0 and 1",
    HasNoScore: r"final_score\(\) is nan",
    FavoursACorner: "the end of the image is not the image of the end",
    ChangesItsMind: "its final planes or score change when read again",
    DependsOnChance: "a refused action changed it|continues differently|on a copy changed it",
}


class HidesWhoseTurn(Domineering):
    observation_shape = (1, 6, 6)

    def observation(self) -> Any:
        return super().observation()[:1]


class CountsForWhoMoved(Domineering):
    def apply(self, action: int) -> None:
        super().apply(action)
        self.result = abs(self.result)


class NeverChangesTurns(Domineering):
    def apply(self, action: int) -> None:
        super().apply(action)
        self.to_play = 0
        self.is_terminal, self.result = not self.legal_actions(), 1 - bool(self.legal_actions())


class BeginsInACorner(Domineering):
    def __init__(self) -> None:
        super().__init__()
        self.covered[0, 0] = True


class SeenByWhoMoves(Domineering):
    """The first player's cells and the second's, one's own first, turned to the mover."""

    observation_shape = (2, 6, 6)

    def __init__(self) -> None:
        super().__init__()
        self.owned = np.zeros((2, 6, 6), np.bool_)

    def apply(self, action: int) -> None:
        before, mover = self.covered.copy(), self.to_play
        super().apply(action)
        self.owned[mover] |= self.covered & ~before

    def copy(self) -> SeenByWhoMoves:
        twin = super().copy()
        twin.owned = self.owned.copy()
        return twin

    def observation(self) -> Any:
        return self.owned if self.to_play == 0 else self.owned[::-1, ::-1]

    num_symmetries = 1


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], str]:
    """Puts a class into a module of its own; the name of its game."""

    def name(game: type) -> str:
        module = ModuleType("broken_games")
        setattr(module, game.__name__, game)
        monkeypatch.setitem(sys.modules, "broken_games", module)
        return f"python:broken_games:{game.__name__}"

    return name


def test_a_game_may_tell_what_its_end_is_like(named: Callable[[type], str]) -> None:
    name = named(TellsItsEnd)
    assert (spec(name).num_final_planes, spec(name).has_final_score) == (1, True)
    check_conformance(name, games=2)
    untold = spec("python:examples.domineering:Domineering")
    assert (untold.num_final_planes, untold.has_final_score) == (0, False)


@pytest.mark.parametrize("game", BROKEN)
def test_a_game_that_breaks_the_contract_is_noticed(
    named: Callable[[type], str], game: type[Domineering]
) -> None:
    name = named(game)
    assert spec(name).num_actions == 60
    with pytest.raises((AssertionError, ConfigError), match=BROKEN[game]) as caught:
        check_conformance(name)
    assert name in str(caught.value)


def test_what_keeps_a_game_from_being_learnt_is_told(named: Callable[[type], str]) -> None:
    [hidden] = check_conformance(named(HidesWhoseTurn)).remarks
    assert "observation() does not say whose turn it is" in hidden
    told = check_conformance(named(CountsForWhoMoved))
    assert "all 20 random games were won by the first player: check that apply()" in str(told)
    assert check_conformance(named(CountsForWhoMoved), games=5).remarks == ()
    assert check_conformance(named(SeenByWhoMoves)).remarks == ()
    told = check_conformance(named(NeverChangesTurns)).remarks
    assert "the second player was never to play: check that apply() changes to_play" in told[-1]
    unchecked = check_conformance(named(BeginsInACorner)).remarks
    assert [remark[:10] for remark in unchecked] == ["symmetry 1", "symmetry 2", "symmetry 3"]
    for game in ("python:examples.domineering:Domineering", "go(size=5,komi=24)", "othello"):
        assert check_conformance(game, games=5).remarks == (), game
