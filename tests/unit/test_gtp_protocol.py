"""Lines in, responses out; options and lines of an analysis."""

from __future__ import annotations

import pytest

from zerofleet.gtp.engine import (
    KATA,
    LZ,
    AnalysisOptions,
    analysis_line,
    lower_bound,
    parse_options,
)
from zerofleet.gtp.protocol import Command, GtpError, failure, parse_line, parse_player, success
from zerofleet.rpc.player_service import SearchChild, SearchTable

PLAY = Command("7", "play", ("b", "D4"))


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("play b D4\n", Command("", "play", ("b", "D4"))),
        ("7 play b D4\r\n", PLAY),
        ("7\tplay  b\tD4 # a comment\n", PLAY),
        ("7 pl\x07ay b D4", PLAY),
        ("007 name", Command("007", "name", ())),
        ("\n", None),
        ("# only a comment", None),
        ("12", None),
        ("", None),
    ],
)
def test_lines(line: str, command: Command | None) -> None:
    assert parse_line(line) == command


def test_responses_end_with_one_empty_line() -> None:
    assert success(PLAY) == "=7\n\n"
    assert success(PLAY, "D4") == "=7 D4\n\n"
    assert success(PLAY, "\na\n\nb\n") == "=7\na\nb\n\n"
    assert success(PLAY, "a\nb") == "=7 a\nb\n\n"
    assert failure(PLAY, "two\nlines") == "?7 two lines\n\n"


def test_colours() -> None:
    assert [parse_player(text) for text in ("b", "W", "Black", "WHITE")] == [0, 1, 0, 1]
    with pytest.raises(GtpError, match="'green' is not a colour"):
        parse_player("green")


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("", AnalysisOptions()),
        ("50", AnalysisOptions(seconds=0.5)),
        ("w 50", AnalysisOptions(1, 0.5)),
        ("B interval 20", AnalysisOptions(0, 0.2)),
        ("0", AnalysisOptions(seconds=0.01)),
        ("b 10 minmoves 3 maxmoves 9 rootInfo true", AnalysisOptions(0, 0.1, 3, 9, True)),
        ("interval 30 ownership true", AnalysisOptions(seconds=0.3)),
    ],
)
def test_options_of_an_analysis(arguments: str, options: AnalysisOptions) -> None:
    assert parse_options(arguments.split()) == options


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("b 10 avoid w D4 3", "'avoid' is not supported"),
        ("green", "'green' is not supported"),
        ("interval soon", "interval is 'soon'"),
        ("minmoves", "minmoves is ''"),
    ],
)
def test_options_without_sense(arguments: str, reason: str) -> None:
    with pytest.raises(GtpError, match=reason):
        parse_options(arguments.split())


CHILDREN = (
    SearchChild(0, "A5", 10, 0.125, -0.5, (0, 3)),
    SearchChild(1, "B5", 30, 0.5, 0.25, (1,)),
    SearchChild(2, "C5", 0, 0.375, None, (2,)),
    SearchChild(3, "D5", 30, 0.0, 0.2, (3, 1)),
)
TABLE = SearchTable("run", 1, 0, 70, 0.2, 0.1, 3, "D5", CHILDREN, True)
NAMES = "ABCD"


def line(options: AnalysisOptions, dialect: object = LZ) -> str:
    return analysis_line(TABLE, options, dialect, lambda action: f"{NAMES[action]}5")  # type: ignore[arg-type]


def test_a_line_of_lz_analyze() -> None:
    assert line(AnalysisOptions()) == (
        "info move D5 visits 30 winrate 6000 prior 0 lcb 4232 order 0 pv D5 B5 "
        "info move B5 visits 30 winrate 6250 prior 5000 lcb 4471 order 1 pv B5 "
        "info move A5 visits 10 winrate 2500 prior 1250 lcb 809 order 2 pv A5 D5"
    )


def test_a_line_of_kata_analyze() -> None:
    text = line(AnalysisOptions(max_moves=1, root_info=True), KATA)
    assert text == (
        "info move D5 visits 30 winrate 0.600000 prior 0.000000 lcb 0.423201 order 0 pv D5 B5 "
        "rootInfo visits 70 winrate 0.600000"
    )


def test_unvisited_moves_are_shown_when_asked_for() -> None:
    assert line(AnalysisOptions(min_moves=9)).endswith(
        "info move C5 visits 0 winrate 5500 prior 3750 lcb 0 order 3 pv C5"
    )


def test_the_lower_bound_nears_the_rate() -> None:
    bounds = [lower_bound(0.6, visits) for visits in (0, 1, 10, 100, 10_000)]
    assert bounds == sorted(bounds)
    assert bounds[0] == 0
    assert bounds[-1] == pytest.approx(0.59, abs=0.001)
    assert lower_bound(0.0, 5) == pytest.approx(0)
    assert lower_bound(1.0, 4) == pytest.approx(4 / (4 + 1.96**2))
