"""Handicap stones: where the protocol wants them, and how they become a game of moves."""

import pytest

from zerofleet.games.go import GoBoard
from zerofleet.gtp.board_commands import BoardCommands, fixed_handicap, most_stones
from zerofleet.gtp.protocol import GtpError

NINE = "go(size=9,komi=7.5)"
NINETEEN = ["D4", "Q16", "D16", "Q4", "D10", "Q10", "K4", "K16", "K10"]


def test_the_points_of_19x19() -> None:
    """The table of the protocol: the centre belongs to the odd numbers from five on."""
    corners, centre = NINETEEN[:4], NINETEEN[8:]
    assert fixed_handicap(19, 2) == NINETEEN[:2]
    assert fixed_handicap(19, 3) == NINETEEN[:3]
    assert fixed_handicap(19, 4) == corners
    assert fixed_handicap(19, 5) == corners + centre
    assert fixed_handicap(19, 6) == NINETEEN[:6]
    assert fixed_handicap(19, 7) == NINETEEN[:6] + centre
    assert fixed_handicap(19, 8) == NINETEEN[:8]
    assert fixed_handicap(19, 9) == NINETEEN


def test_smaller_boards() -> None:
    assert fixed_handicap(13, 5) == ["D4", "K10", "D10", "K4", "G7"]
    assert fixed_handicap(9, 5) == ["C3", "G7", "C7", "G3", "E5"]
    assert fixed_handicap(8, 4) == ["C3", "F6", "C6", "F3"]
    assert [most_stones(size) for size in (5, 6, 7, 8, 9, 18, 19)] == [0, 0, 4, 4, 9, 4, 9]


@pytest.mark.parametrize(
    ("size", "stones", "words"),
    [(19, 10, "10 on 19x19: give 2 to 9"), (19, 1, "give 2"), (5, 2, "use set_free_handicap")],
)
def test_numbers_that_a_board_does_not_take(size: int, stones: int, words: str) -> None:
    with pytest.raises(GtpError, match=words):
        fixed_handicap(size, stones)


def test_white_moves_after_black_stones_that_are_set_up() -> None:
    board = BoardCommands(NINE, pytest.fail)
    assert board.handlers["fixed_handicap"]("3") == "C3 G7 C7"
    assert board.position.state.to_play == 1
    assert board.position.actions == []
    assert board.position.state.setup_text() == "9/9/2X3X2/9/9/9/2X6/9/9 O"
    assert len(GoBoard(board.position.state).regions(0)) == 3
    with pytest.raises(GtpError, match="board not empty"):
        board.handlers["fixed_handicap"]("3")


def test_ours_to_choose() -> None:
    board = BoardCommands(NINE, pytest.fail)
    free = board.handlers["place_free_handicap"]
    for stones in ("1", "81"):
        with pytest.raises(GtpError, match=f"number of stones: {stones} on 9x9: give 2 to 80"):
            free(stones)
    assert len(free("20").split()) == 9


@pytest.mark.parametrize(
    ("size", "stones"),
    [(2, "A1 B2"), (3, "A1 C3 A3"), (5, "B2 D4 B4"), (6, "B2 E5 B5"), (8, "C3 F6 C6")],
)
def test_ours_to_choose_on_a_small_board(size: int, stones: str) -> None:
    board = BoardCommands(f"go(size={size})", pytest.fail)
    assert board.handlers["place_free_handicap"]("3") == stones
    assert len(GoBoard(board.position.state).regions(0)) == len(stones.split())


def test_theirs_to_choose() -> None:
    board = BoardCommands(NINE, pytest.fail)
    free = board.handlers["set_free_handicap"]
    for vertices, words in (
        (("E5",), "two or more"),
        (("E5", "e5"), "each once"),
        (("E5", "pass"), "a pass is not a stone"),
        (("E5", "Z9"), "'Z9' is not a vertex"),
    ):
        with pytest.raises(GtpError, match=words):
            free(*vertices)
        assert board.position.actions == []
        assert board.position.start == ""
    assert free("E5", "A1") == ""
    assert board.position.actions == []
    assert GoBoard(board.position.state).regions(0) == [[40], [72]]
    with pytest.raises(GtpError, match="cannot undo"):
        board.handlers["undo"]()
    board.handlers["play"]("w", "E4")
    board.handlers["undo"]()
    assert GoBoard(board.position.state).regions(0) == [[40], [72]]
    board.handlers["clear_board"]()
    assert (board.position.start, GoBoard(board.position.state).regions(0)) == ("", [])
