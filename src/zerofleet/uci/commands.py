"""The Universal Chess Interface as text (Huber and Meyer-Kahlen 2006).

A controller sends commands, and an engine answers with lines that begin with ``info`` and one
``bestmove`` for each ``go``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from zerofleet.errors import ZerofleetError
from zerofleet.games.chess import centipawns, outcome_chances
from zerofleet.rpc.player_service import SearchChild, SearchTable

START = "startpos"
"""The word for the usual start position."""

_MOVES_LEFT = 30
"""Moves for which a clock without ``movestogo`` is to last."""
_INCREMENT_SHARE = 0.8
_LARGEST_SHARE = 0.4
"""Largest share of the clock that one move may take."""
_LEAST_SECONDS = 0.01


class UciError(ZerofleetError):
    """The reason why a command has no effect, in one line after ``info string``."""


@dataclass(frozen=True, slots=True)
class UciPosition:
    """A position as the controller sends it."""

    fen: str = ""  # empty: the usual start
    moves: tuple[str, ...] = ()  # in UCI notation


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """When a search ends; without any limit it takes the server's number of simulations."""

    clocks: tuple[float | None, float | None] = (None, None)  # seconds left: White, Black
    increments: tuple[float, float] = (0.0, 0.0)  # seconds
    moves_to_go: int = 0  # until the next time control; 0: unknown
    move_seconds: float | None = None
    nodes: int | None = None
    depth: int | None = None  # plies of the principal variation
    mate: int | None = None  # moves
    search_moves: tuple[str, ...] = ()  # empty: all legal moves
    is_infinite: bool = False
    is_ponder: bool = False

    def without_ponder(self) -> SearchLimits:
        """Return the limits after ``ponderhit``."""
        return replace(self, is_ponder=False)

    def is_open(self, player: int) -> bool:
        """Return whether the server's usual number of simulations does not end the search.

        Args:
            player: who is to move, 0 for White.
        """
        return (
            self.is_infinite
            or self.is_ponder
            or bool(self.depth or self.mate)
            or self.seconds(player, 0.0) is not None
        )

    def seconds(self, player: int, overhead: float) -> float | None:
        """Return the time for this move; None without a clock.

        A move gets an equal share of the clock for the moves that are left, most of the increment,
        and never more than 40% of the clock.

        Args:
            player: who is to move, 0 for White.
            overhead: seconds between the engine's answer and the controller's clock.
        """
        if self.move_seconds is not None:
            return max(_LEAST_SECONDS, self.move_seconds - overhead)
        clock = self.clocks[player]
        if clock is None:
            return None
        moves = min(self.moves_to_go, _MOVES_LEFT) if self.moves_to_go else _MOVES_LEFT
        usual = clock / moves + _INCREMENT_SHARE * self.increments[player]
        most = clock if moves == 1 else _LARGEST_SHARE * clock
        return max(_LEAST_SECONDS, min(usual, most, clock - overhead) - overhead)


_SECONDS = {"wtime": 0, "btime": 1}
_INCREMENTS = {"winc": 0, "binc": 1}
_COUNTS = {"movestogo": "moves_to_go", "nodes": "nodes", "depth": "depth", "mate": "mate"}
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]*)?")
_NUMBERED = {"movetime", *_SECONDS, *_INCREMENTS, *_COUNTS}
"""Words that a number follows."""
_WORDS = {"searchmoves", "ponder", "infinite", *_NUMBERED}


def parse_go(words: Sequence[str]) -> tuple[SearchLimits, list[UciError]]:
    """Read the arguments of ``go``; unknown words are skipped, as UCI demands.

    A limit whose number is missing or unreadable has no effect, and the others count. If it was a
    time, ``depth`` and ``mate`` have no effect either: alone, they could search for hours.

    Returns:
        The limits, and an error for each limit without effect.
    """
    limits = SearchLimits()
    clocks: list[float | None] = [None, None]
    increments = [0.0, 0.0]
    errors: list[UciError] = []
    lost_time = False  # whether a time could not be read
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "infinite":
            limits = replace(limits, is_infinite=True)
        elif word == "ponder":
            limits = replace(limits, is_ponder=True)
        elif word == "searchmoves":
            moves: list[str] = []
            while rest and rest[0] not in _WORDS:
                moves.append(rest.pop(0))
            limits = replace(limits, search_moves=tuple(moves))
        elif word in _NUMBERED:
            text = rest.pop(0) if rest and rest[0] not in _WORDS else ""
            try:
                # The number is negative for a player whose time is over.
                number = max(0, _number(word, text))
            except UciError as error:
                errors.append(error)
                lost_time = lost_time or word not in _COUNTS
                continue
            if word == "movetime":
                limits = replace(limits, move_seconds=number / 1000)
            elif word in _SECONDS:
                clocks[_SECONDS[word]] = number / 1000
            elif word in _INCREMENTS:
                increments[_INCREMENTS[word]] = number / 1000
            else:
                limits = replace(limits, **{_COUNTS[word]: number})
    limits = replace(
        limits, clocks=(clocks[0], clocks[1]), increments=(increments[0], increments[1])
    )
    return replace(limits, depth=None, mate=None) if lost_time else limits, errors


def _number(word: str, text: str) -> int:
    """Return a whole number; decimals, which some controllers send for times, are cut off."""
    if not _NUMBER.fullmatch(text):
        raise UciError(f"go {word} '{text[:40]}': give a whole number of at most 15 digits")
    return int(text.partition(".")[0])


def parse_position(words: Sequence[str]) -> UciPosition:
    """Read the arguments of ``position``.

    Raises:
        UciError: neither ``startpos`` nor ``fen``, or another word where ``moves`` belongs.
    """
    kind, *rest = words or ("",)
    at = rest.index("moves") if "moves" in rest else len(rest)
    before, moves = rest[:at], tuple(rest[at + 1 :])
    if kind == START and not before:
        return UciPosition("", moves)
    if kind == "fen" and before:
        return UciPosition(" ".join(before), moves)
    raise UciError(f"position '{' '.join(words)[:80]}': give startpos or fen FEN, then moves")


def parse_option(words: Sequence[str]) -> tuple[str, str]:
    """Read the arguments of ``setoption``: the name in lower case, and the value.

    Raises:
        UciError: the word ``name`` is missing.
    """
    if not words or words[0] != "name":
        raise UciError("setoption: give name NAME value VALUE")
    at = words.index("value") if "value" in words else len(words)
    return " ".join(words[1:at]).lower(), " ".join(words[at + 1 :])


@dataclass(frozen=True, slots=True)
class InfoStyle:
    """Selection and format of the lines about a search."""

    lines: int = 1  # best moves to show (MultiPV)
    shows_chances: bool = False  # win, draw and loss (UCI_ShowWDL)
    name_line: Callable[[Sequence[int]], list[str]] = lambda actions: [str(a) for a in actions]
    mate_in: Callable[[SearchChild], int | None] = lambda _: None
    """Moves until mate of a child, negative if the player to move is mated; None if none is
    proven."""


def info_lines(table: SearchTable, seconds: float, style: InfoStyle) -> list[str]:
    """Return a line for each of the best moves, as ``info depth ... pv ...``.

    The depth is the length of the move's principal variation. The selective depth is the length of
    the longest one of all moves.
    """
    longest = max((len(child.principal_variation) for child in table.children), default=0)
    milliseconds = round(1000 * seconds)
    speed = round(table.simulations / seconds) if seconds > 0 else 0
    lines: list[str] = []
    for number, child in enumerate(table.ranked[: style.lines], start=1):
        if child.q_value is None and number > 1:
            break  # without a visit there is no score
        value = table.root_value if child.q_value is None else child.q_value
        mate = style.mate_in(child)
        score = f"cp {centipawns(value)}" if mate is None else f"mate {mate}"
        if style.shows_chances:
            sure = value if mate is None else math.copysign(1.0, mate)
            score += " wdl {} {} {}".format(*outcome_chances(sure))
        lines.append(
            f"info depth {len(child.principal_variation)} seldepth {longest} multipv {number} "
            f"score {score} nodes {table.simulations} nps {speed} time {milliseconds} "
            f"pv {' '.join(style.name_line(child.principal_variation))}"
        )
    return lines
