"""UCI as text: limits, clocks, positions, scores."""

from __future__ import annotations

import pytest

from zerofleet.games.chess import centipawns, outcome_chances
from zerofleet.rpc.player_service import SearchChild, SearchTable
from zerofleet.uci.commands import (
    InfoStyle,
    SearchLimits,
    UciError,
    UciPosition,
    info_lines,
    parse_go,
    parse_option,
    parse_position,
)


def limits_of(words: str) -> SearchLimits:
    limits, errors = parse_go(words.split())
    assert not errors
    return limits


def test_limits_of_a_search() -> None:
    assert limits_of("") == SearchLimits()
    assert limits_of("nodes 500 depth 3") == SearchLimits(nodes=500, depth=3)
    assert limits_of("infinite searchmoves e2e4 d2d4 ponder") == SearchLimits(
        is_infinite=True, search_moves=("e2e4", "d2d4"), is_ponder=True
    )
    clock = "wtime 60000 btime 1000 winc 2000 movestogo 5"
    assert limits_of(clock) == SearchLimits(
        clocks=(60.0, 1.0), increments=(2.0, 0.0), moves_to_go=5
    )
    assert limits_of("strange movetime 250") == SearchLimits(move_seconds=0.25)
    assert limits_of("wtime -30 btime 40").clocks == (0.0, 0.04)
    assert limits_of("wtime 1500.7 btime -0.5").clocks == (1.5, 0.0)


@pytest.mark.parametrize(
    "wrong", ["nodes", "wtime x", "winc x.5", "movetime 1e3", "depth " + "9" * 20]
)
def test_a_wrong_number_drops_its_limit_alone(wrong: str) -> None:
    limits, [error] = parse_go(["btime", "1000", *wrong.split(), "movestogo", "5"])
    assert limits == SearchLimits(clocks=(None, 1.0), moves_to_go=5)
    word, _, number = wrong.partition(" ")
    assert str(error) == f"go {word} '{number}': give a whole number of at most 15 digits"


def test_a_depth_is_no_limit_without_the_time_that_was_given() -> None:
    limits, errors = parse_go(["depth", "60", "wtime", "x", "btime", "1000", "nodes", "50"])
    assert limits == SearchLimits(clocks=(None, 1.0), nodes=50)
    assert len(errors) == 1


def test_time_of_a_move() -> None:
    assert SearchLimits().seconds(0, 0.1) is None
    assert SearchLimits(move_seconds=1.0).seconds(0, 0.1) == pytest.approx(0.9)
    assert SearchLimits(clocks=(60.0, 3.0)).seconds(0, 0.1) == pytest.approx(1.9)
    assert SearchLimits(clocks=(60.0, 3.0)).seconds(1, 0.0) == pytest.approx(0.1)
    assert SearchLimits(clocks=(60.0, None), increments=(1.0, 0.0)).seconds(
        0, 0.0
    ) == pytest.approx(2.8)
    assert SearchLimits(clocks=(60.0, None)).seconds(1, 0.0) is None
    # The last move before the time control may take the whole clock, without the overhead.
    assert SearchLimits(clocks=(5.0, None), moves_to_go=1).seconds(0, 0.1) == pytest.approx(4.8)
    assert SearchLimits(clocks=(5.0, None), moves_to_go=2).seconds(0, 0.0) == pytest.approx(2.0)
    # A clock that has run out leaves a moment.
    assert SearchLimits(clocks=(0.0, None)).seconds(0, 0.1) == pytest.approx(0.01)


def test_positions() -> None:
    assert parse_position(["startpos"]) == UciPosition()
    assert parse_position(["startpos", "moves", "e2e4", "e7e5"]) == UciPosition(
        "", ("e2e4", "e7e5")
    )
    fen = "8/P6k/8/8/8/8/8/K7 w - - 0 1"
    assert parse_position(f"fen {fen} moves a7a8q".split()) == UciPosition(fen, ("a7a8q",))
    for wrong in ("", "fen", "start", "startpos e2e4"):
        with pytest.raises(UciError, match="give startpos or fen FEN, then moves"):
            parse_position(wrong.split())


def test_options() -> None:
    assert parse_option(["name", "MultiPV", "value", "3"]) == ("multipv", "3")
    assert parse_option(["name", "Move", "Overhead", "value", "10"]) == ("move overhead", "10")
    assert parse_option(["name", "Clear", "Hash"]) == ("clear hash", "")
    with pytest.raises(UciError, match="give name NAME value VALUE"):
        parse_option(["MultiPV", "3"])


def test_scores() -> None:
    assert centipawns(0.0) == 0
    assert centipawns(0.5) == -centipawns(-0.5) == 89
    assert centipawns(1.0) == centipawns(2.0) == 12_780
    assert outcome_chances(1.0) == outcome_chances(2.0) == (1000, 0, 0)
    assert outcome_chances(0.0) == (250, 500, 250)
    assert outcome_chances(-0.4) == outcome_chances(0.4)[::-1] == (90, 420, 490)


def test_lines_about_a_search() -> None:
    children = (
        SearchChild(1, "a", 10, 0.2, 0.0, (1, 2)),
        SearchChild(2, "b", 30, 0.3, 0.5, (2, 3, 4)),
        SearchChild(3, "c", 0, 0.5, None, (3,)),
    )
    table = SearchTable("run", 4, 0, 40, 0.4, 0.1, 2, "b", children, True)
    style = InfoStyle(3, name_line=lambda line: [f"m{action}" for action in line])
    assert info_lines(table, 0.5, style) == [
        "info depth 3 seldepth 3 multipv 1 score cp 89 nodes 40 nps 80 time 500 pv m2 m3 m4",
        "info depth 2 seldepth 3 multipv 2 score cp 0 nodes 40 nps 80 time 500 pv m1 m2",
    ]
    mating = InfoStyle(mate_in=lambda child: -2)
    assert " score mate -2 " in info_lines(table, 0.5, mating)[0]
    chances = InfoStyle(2, shows_chances=True)
    first, second = info_lines(table, 0.5, chances)
    assert " score cp 89 wdl 562 376 62 nodes " in first
    assert " score cp 0 wdl 250 500 250 nodes " in second
    lost = InfoStyle(shows_chances=True, mate_in=lambda child: -2)
    assert " score mate -2 wdl 0 0 1000 nodes " in info_lines(table, 0.5, lost)[0]
