"""Search tables as lines of ``lz-analyze`` and ``kata-analyze``, which boards such as Sabaki show.

All numbers are for the player to move. A win rate is ``(1 + q) / 2``, so a drawn game is half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zerofleet.gtp.protocol import GtpError, as_player, parse_number
from zerofleet.rpc.player_service import SearchChild, SearchTable

_DEFAULT_CENTISECONDS = 100
_IGNORED = ("ownership", "ownershipStdev", "movesOwnership", "movesOwnershipStdev", "pvVisits")
_Z = 1.96  # of a confidence of 95% on both sides


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    """What a controller asks of an analysis."""

    player: int | None = None  # to move; None: the one whose turn it is
    seconds: float = _DEFAULT_CENTISECONDS / 100  # between two lines
    min_moves: int = 0  # shown even when unvisited
    max_moves: int | None = None
    root_info: bool = False


def parse_options(arguments: Sequence[str]) -> AnalysisOptions:
    """Read ``[colour] [centiseconds] [key value] ...``.

    Raises:
        GtpError: a key that is not known; keys for what the network does not predict (ownership)
            are known and change nothing.
    """
    words = list(arguments)
    player = as_player(words[0]) if words else None
    if player is not None:
        words.pop(0)
    values = {"interval": str(_DEFAULT_CENTISECONDS)}
    if words and words[0].isdecimal():
        values["interval"] = words.pop(0)
    for key, value in zip(words[::2], [*words[1::2], ""], strict=False):
        if key not in (*_IGNORED, "interval", "minmoves", "maxmoves", "rootInfo"):
            raise GtpError(f"'{key}' is not supported: give interval, minmoves, maxmoves, rootInfo")
        values[key] = value
    return AnalysisOptions(
        player=player,
        seconds=max(1, parse_number(values["interval"], "interval")) / 100,
        min_moves=parse_number(values.get("minmoves", "0"), "minmoves"),
        max_moves=parse_number(values["maxmoves"], "maxmoves") if "maxmoves" in values else None,
        root_info=values.get("rootInfo", "false").lower() == "true",
    )


@dataclass(frozen=True, slots=True)
class Dialect:
    """How numbers in [0, 1] are written, and whether there is ``rootInfo``."""

    number: Callable[[float], str]
    has_root_info: bool


def _per_ten_thousand(number: float) -> str:
    return str(round(10_000 * number))


def _fraction(number: float) -> str:
    return f"{number:.6f}"


LZ = Dialect(_per_ten_thousand, has_root_info=False)
KATA = Dialect(_fraction, has_root_info=True)


def analysis_line(
    table: SearchTable, options: AnalysisOptions, dialect: Dialect, vertex: Callable[[int], str]
) -> str:
    """One line: the moves from the best on.

    Args:
        table: of a search, or of one that goes on.
        options: which moves.
        dialect: ``LZ`` or ``KATA``.
        vertex: an action as GTP writes it.
    """
    number = dialect.number
    infos: list[str] = []
    for order, child in enumerate(_chosen(table, options)):
        rate = (1 + _value(child, table)) / 2
        line = " ".join(map(vertex, child.principal_variation))
        infos.append(
            f"info move {vertex(child.action)} visits {child.visit_count} "
            f"winrate {number(rate)} prior {number(child.prior)} "
            f"lcb {number(lower_bound(rate, child.visit_count))} order {order} pv {line}"
        )
    if options.root_info and dialect.has_root_info:
        rate = number((1 + table.root_value) / 2)
        infos.append(f"rootInfo visits {table.simulations} winrate {rate}")
    return " ".join(infos)


def lower_bound(rate: float, visits: int) -> float:
    """The lower end of a win rate's 95% interval (Wilson, JASA 22, 1927).

    Each visit is taken for a game won or lost, which is the most that visits can vary.
    """
    if visits < 1:
        return 0.0
    z2 = _Z * _Z / visits
    spread = _Z * math.sqrt(max(0.0, rate * (1 - rate)) / visits + z2 / (4 * visits))
    return max(0.0, (rate + z2 / 2 - spread) / (1 + z2))


def _chosen(table: SearchTable, options: AnalysisOptions) -> list[SearchChild]:
    """The children to show, best first."""
    visited = sum(child.visit_count > 0 for child in table.children)
    shown = max(visited, options.min_moves, 1)
    return table.ranked[: shown if options.max_moves is None else min(shown, options.max_moves)]


def _value(child: SearchChild, table: SearchTable) -> float:
    """What is expected of an action; of an unvisited one what is expected of the position."""
    value = table.network_value if child.q_value is None else child.q_value
    return min(1.0, max(-1.0, value))
