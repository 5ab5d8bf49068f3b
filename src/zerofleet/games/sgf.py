"""Games as SGF files (FF4): Go (GM 1) and Othello (GM 2).

A point is two letters, column then row from the top left, for Othello as for Go: FF4 leaves
Othello's points open. An empty value is a pass.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from zerofleet_core import State, game_spec

from zerofleet.errors import ConfigError, IllegalActionError, InvalidRequestError
from zerofleet.games.alternation import play_as
from zerofleet.games.go_board import go_score
from zerofleet.games.go_rules import GoRules, base_name, is_go
from zerofleet.games.notation import whole_number
from zerofleet.games.sgf_text import Node, decode, escape, format_nodes, parse_main_line

_GM = {"go": "1", "othello": "2"}
_COLOURS = ("B", "W")  # by player
_SETUP = ("AW", "AE")
_SUICIDE_ALLOWED = ("tromp-taylor", "nz", "new zealand", "goe")
_NO_SUICIDE = "without suicide"
_MAX_SIZE = 19
_KOMI = re.compile(r"[+-]?(\d{1,9}([.,]\d{0,9})?|[.,]\d{1,9})", re.ASCII)
# AP of programs that write komi in hundredths: Fox, and gokifu.com (through SGFC).
_IN_HUNDREDTHS = {"foxwq": "Fox", "sgfc": "gokifu.com"}
_LEAST_HUNDREDTHS = 50  # of these programs
_LEAST_HUNDREDTHS_OF_ANY = 200  # for other values of AP; no game has such a komi


@dataclass(frozen=True, slots=True)
class SgfGame:
    """What is written: a game as actions from the start, and what is known of it."""

    game: str  # with its rules
    actions: Sequence[int]
    black: str = ""
    white: str = ""
    resigned: bool = False  # by the player to move after the last action
    comments: Sequence[str] = ()  # of each ply, as far as there are any
    values: Sequence[float | None] = ()  # before each ply, for the first player, in [-1, 1]
    root: dict[str, str] = field(default_factory=dict[str, str])  # further properties


def require_sgf(game: str) -> None:
    """Raise ``ConfigError`` for a game that has no SGF."""
    if base_name(game) not in _GM:
        raise ConfigError(f"SGF is for {' and '.join(_GM)}, not for '{game}'")


def write(played: SgfGame) -> str:
    """The SGF of a game, in one tree without variations.

    Raises:
        ConfigError: the game has no SGF.
        ValueError: an illegal action.
    """
    require_sgf(played.game)
    size = game_spec(played.game).observation_shape[1]
    state = State(played.game)
    nodes: list[Node] = []
    for ply, action in enumerate(played.actions):
        node = {_COLOURS[state.to_play]: [_point(action, size)]}
        if ply < len(played.comments) and played.comments[ply]:
            node["C"] = [escape(played.comments[ply])]
        nodes.append(node)
        state.apply(action)
    nodes.insert(0, _root(played, size, state))
    if is_go(played.game):
        for node, value in zip(nodes, played.values, strict=False):
            if value is not None:
                # Sabaki's own: Black's win rate in percent, of the position at its node.
                node["SBKV"] = [f"{50 * (1 + value):.2f}"]
    return format_nodes(nodes)


@dataclass(frozen=True, slots=True)
class ReadGame:
    """Main line of an SGF's first game."""

    game: str  # with its rules
    actions: list[int]  # from the start
    note: str  # how the komi was read, if it is not in points; otherwise empty


def read(
    file: str | bytes,
    game: str | None = None,
    *,
    moves: int | None = None,
    any_komi: bool = False,
) -> ReadGame:
    """Read the main line of an SGF's first game.

    Handicap stones, and moves by one player in a row, become moves with passes of the other
    player between them, where the rules allow that.

    Args:
        file: its text, or its bytes in any encoding (``sgf_text.decode``).
        game: the game by whose rules the actions are checked; size and komi must be its own.
            None: the game that the file describes.
        moves: so many moves of the line at most; handicap stones, and passes that were put in,
            are none. None: all.
        any_komi: whether the komi may differ from that of ``game``, which is used instead. The
            note then says so.

    Raises:
        InvalidRequestError: no SGF, an unclear encoding, another game than asked for, stones set
            up other than as a handicap, or an action that the rules forbid.
        ConfigError: ``game`` has no SGF.
    """
    nodes = parse_main_line(file if isinstance(file, str) else decode(file))
    note = ""
    if any_komi and game is not None and is_go(game):
        note = _drop_other_komi(nodes[0], GoRules.of(game).komi)
    name = _described(nodes[0])
    if not note and is_go(name):
        note = _komi(nodes[0])[1]
    if game is not None:
        _require_same(nodes[0], name, game)
        name = game
    actions = _actions(nodes if moves is None else _first_moves(nodes, moves), name)
    return ReadGame(name, actions, note)


def _root(played: SgfGame, size: int, end: State) -> Node:
    properties = {
        "FF": "4",
        "GM": _GM[base_name(played.game)],
        "CA": "UTF-8",
        "AP": "zerofleet",
        "SZ": str(size),
        "PB": played.black,
        "PW": played.white,
        **played.root,
    }
    if is_go(played.game):
        rules = GoRules.of(played.game)
        properties["KM"] = f"{rules.komi:g}"
        properties["RU"] = "Tromp-Taylor" if rules.suicide else f"Tromp-Taylor {_NO_SUICIDE}"
    result = _result(played, end)
    if result:
        properties["RE"] = result
    return {name: [escape(value)] for name, value in properties.items() if value}


def _result(played: SgfGame, end: State) -> str:
    """RE: with the margin for Go; nothing for a game that goes on."""
    if played.resigned:
        return f"{_COLOURS[1 - end.to_play]}+R"
    if not end.is_terminal:
        return ""
    if is_go(played.game):
        return go_score(end)
    return {1: "B+", -1: "W+"}.get(end.result, "0")


def _described(root: Node) -> str:
    """The name of the game that an SGF is of."""
    number = _value(root, "GM", "1")
    known = next((name for name, gm in _GM.items() if gm == number), None)
    if known is None:
        raise InvalidRequestError(
            f"the SGF is of game GM[{number[:20]}]: give GM[1] (Go) or GM[2] (Othello)"
        )
    size = _size(root, known)
    if known == "othello":
        if size != 8:
            raise InvalidRequestError(f"the SGF is of Othello {size}x{size}: give 8x8")
        return "othello"
    komi, _ = _komi(root)
    rules = _value(root, "RU", "").lower()
    suicide = rules.startswith(_SUICIDE_ALLOWED) and _NO_SUICIDE not in rules
    return GoRules(size, 7.5 if komi is None else komi, suicide).name


def _require_same(root: Node, name: str, game: str) -> None:
    """Refuse an SGF of another game than the one that is played; unsaid komi is the game's."""
    require_sgf(game)
    if base_name(name) != base_name(game):
        raise InvalidRequestError(f"the SGF is of {base_name(name)}, the game is '{game}'")
    size = game_spec(game).observation_shape[1]
    if _size(root, base_name(name)) != size:
        raise InvalidRequestError(f"the SGF has board size {_value(root, 'SZ', '19')}, not {size}")
    if not is_go(game):
        return
    (komi, note), ours = _komi(root), GoRules.of(game).komi
    if komi is not None and komi != ours:
        how = f" ({note})" if note else ""
        raise InvalidRequestError(
            f"the SGF has komi {komi:g}, the game is played with {ours:g}: change KM or remove "
            f"it{how}"
        )


def _drop_other_komi(root: Node, ours: float) -> str:
    """Remove a komi other than ours from the root; return a note on it, or ""."""
    written = _value(root, "KM", "")
    try:
        komi, how = _komi(root)
    except InvalidRequestError as error:
        komi, how = None, str(error)
    if not written or komi == ours:
        return ""
    del root["KM"]
    told = f"komi {written[:20]}" + (f" ({how})" if how else "")
    return f"the SGF has {told}; the game is loaded with komi {ours:g}, which the model plays with"


def _first_moves(nodes: Sequence[Node], moves: int) -> Sequence[Node]:
    """The nodes before the move that comes after so many others."""
    moving = [number for number, node in enumerate(nodes) if node.keys() & set(_COLOURS)]
    return nodes[: moving[moves]] if moves < len(moving) else nodes


def _actions(nodes: Sequence[Node], game: str) -> list[int]:
    """Play the main line; every action is checked."""
    try:
        size = game_spec(game).observation_shape[1]
        state = State(game)
    except ValueError as error:
        raise InvalidRequestError(f"the SGF's game '{game}' is not played here: {error}") from error
    actions: list[int] = []
    for number, node in enumerate(nodes):
        for player, point in _moves(node, size, at_start=not actions):
            try:
                actions += play_as(state, player, _action(point, size))
            except IllegalActionError as error:
                raise InvalidRequestError(
                    f"node {number} of the SGF: {_COLOURS[player]}[{point[:20]}]: {error}"
                ) from error
    return actions


def _moves(node: Node, size: int, *, at_start: bool) -> Iterator[tuple[int, str]]:
    """Who plays where in a node: its move, and before the first move the handicap stones.

    One by one, because a short list of rectangles may stand for millions of points.
    """
    for name in _SETUP if at_start else (*_SETUP, "AB"):
        if name in node:
            raise InvalidRequestError(
                f"the SGF sets stones up by {name}: only Black's handicap stones (AB before the "
                "first move) can be expressed as moves"
            )
    if "B" in node and "W" in node:
        raise InvalidRequestError("the SGF has moves of both players in one node")
    for points in node.get("AB", ()):
        for point in _expand(points, size):
            yield 0, point
    for player, colour in enumerate(_COLOURS):
        if colour in node:
            yield player, node[colour][0]


def _expand(points: str, size: int) -> list[str]:
    """A point list's entry: a point, or a rectangle "aa:cc" (FF4, "Compressed point lists")."""
    first, colon, last = points.partition(":")
    if not colon:
        return [points]
    (left, top), (right, bottom) = _coordinates(first, size), _coordinates(last, size)
    columns, rows = range(left, right + 1), range(top, bottom + 1)
    return [_letters(column, row) for row in rows for column in columns]


def _point(action: int, size: int) -> str:
    if action == size * size:
        return ""
    row, column = divmod(action, size)
    return _letters(column, row)


def _action(point: str, size: int) -> int:
    # FF3 wrote a pass as "tt" on boards up to 19x19.
    if point.strip() in ("", "tt"):
        return size * size
    column, row = _coordinates(point, size)
    return size * row + column


def _letters(column: int, row: int) -> str:
    return string.ascii_lowercase[column] + string.ascii_lowercase[row]


def _coordinates(point: str, size: int) -> tuple[int, int]:
    letters = point.strip()
    found = tuple(string.ascii_lowercase.find(letter) for letter in letters)
    if len(found) != 2 or not all(0 <= each < size for each in found):
        raise InvalidRequestError(f"'{point[:20]}' is not a point of a board of {size}x{size}")
    return found[0], found[1]


def _size(root: Node, game: str) -> int:
    written = _value(root, "SZ", "8" if game == "othello" else "19")
    columns, _, rows = written.partition(":")
    if rows not in ("", columns) or not columns.isdecimal() or not columns.isascii():
        raise InvalidRequestError(f"the SGF has board size '{written[:20]}': give a square one")
    size = whole_number(columns, _MAX_SIZE)
    if size is None or size < 2:
        raise InvalidRequestError(f"the SGF has board size {columns[:20]}: give 2 to {_MAX_SIZE}")
    return size


def _komi(root: Node) -> tuple[float | None, str]:
    """Return the komi in points, and how it was read if the file has it in other units.

    FF4 has points, but some servers write other units. The rules are those of KataGo
    (cpp/dataio/sgf.cpp), KaTrain (core/sgf_parser.py), LizzieYzy (rules/SGFParser.java), Ogatak
    (apply_komi_fix) and OGS (goban, GobanEngine.ts):

    - Fox (AP[foxwq]) and gokifu.com (AP[SGFC:...]) write hundredths from 50 on. So does any file
      from 200 on: no game has such a komi.
    - 2 to 4 in hundredths are stones, as are quarters: Chinese rules count 3.75 stones, which are
      7.5 points.
    - A decimal comma is a point, as in q5Go.

    None if the file has no komi.

    Raises:
        InvalidRequestError: the komi is not a multiple of half a point.
    """
    written = _value(root, "KM", "")
    if not written:
        return None, ""
    if not _KOMI.fullmatch(written):
        raise InvalidRequestError(f"the SGF has komi '{written[:20]}': give a multiple of 0.5")
    komi, units = float(written.replace(",", ".")) + 0.0, ""  # -0 is 0
    programs = (program.strip().lower().partition(":")[0] for program in root.get("AP", ()))
    program = next((_IN_HUNDREDTHS[each] for each in programs if each in _IN_HUNDREDTHS), "")
    least = _LEAST_HUNDREDTHS if program else _LEAST_HUNDREDTHS_OF_ANY
    if komi.is_integer() and abs(komi) >= least:
        komi, units = komi / 100, "hundredths"
    is_quarter = (4 * komi).is_integer() and not (2 * komi).is_integer()
    if is_quarter or (units and 2 <= abs(komi) <= 4):
        komi, units = 2 * komi, f"{units} of stones" if units else "stones"
    if not (2 * komi).is_integer():
        raise InvalidRequestError(f"the SGF has komi '{written[:20]}': give a multiple of 0.5")
    if not units and "," not in written:
        return komi, ""
    writer = f", as {program} writes them" if program and units else ""
    return komi, f"KM[{written}] is read as {komi:g} points" + (
        f": {units}{writer}" if units else ""
    )


def _value(node: Node, name: str, default: str) -> str:
    return node[name][0].strip() if name in node else default
