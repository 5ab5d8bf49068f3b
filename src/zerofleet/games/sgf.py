"""Games as SGF files (FF4): Go (GM 1) and Othello (GM 2).

A point is two letters, column then row from the top left, for both games: FF4 does not define
Othello's points. An empty value is a pass. The grammar is sgfmill's.

SGF is older than UTF-8. Files from Japan, China, Taiwan and Korea are often in Shift-JIS, GBK, Big5
or EUC-KR. There the second byte of a character may be a backslash (0x5C) or a bracket (0x5D), which
SGF reads as an escape or as the end of a value. So a file is decoded before it is parsed, as SGFC
and Sabaki do.
"""

from __future__ import annotations

import codecs
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sgfmill import sgf_grammar
from zerofleet_core import State, game_spec

from zerofleet.errors import ConfigError, IllegalActionError, InvalidRequestError
from zerofleet.games.game_specs import base_name
from zerofleet.games.go import EMPTY, GoBoard, GoRules, diagram, go_score, is_go
from zerofleet.games.notation import play_as, whole_number

_GM = {"go": "1", "othello": "2"}
_COLOURS = ("B", "W")  # by player
# Properties that change the board, by the owner of their points (FF4, "Setup Properties").
_SETUP = {"AB": 0, "AW": 1, "AE": EMPTY}
_MOST_SETUPS = 1_000  # nodes with stones that are set up
_SUICIDE_ALLOWED = ("tromp-taylor", "nz", "new zealand", "goe")
_NO_SUICIDE = "without suicide"
_MAX_SIZE = 19
_KOMI = re.compile(r"[+-]?(\d{1,9}([.,]\d{0,9})?|[.,]\d{1,9})", re.ASCII)
# AP of programs that write komi in hundredths: Fox, and gokifu.com (through SGFC).
_IN_HUNDREDTHS = {"foxwq": "Fox", "sgfc": "gokifu.com"}
_LEAST_HUNDREDTHS = 50  # komi from which these programs mean hundredths
_LEAST_HUNDREDTHS_OF_ANY = 200  # the same for other values of AP; no game has such a komi

MAX_CHARACTERS = 1 << 18
"""Longest text that is read: about a hundred times a game of 19x19 without comments."""
MAX_BYTES = 4 * MAX_CHARACTERS
"""Longest file that is read: as many characters of four bytes each."""

Node = dict[str, list[str]]
"""The values of each property, unparsed."""

_grammar: Any = sgf_grammar  # sgfmill has no types

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CA = re.compile(rb"(?<![A-Za-z])C[a-z]*A[a-z]*\s*\[\s*([!-Z^-~]{1,40})\s*\]")
# Encodings that CA may name, by Python's names. Others change ASCII (UTF-7, EBCDIC), or are very
# slow for a long file (IDNA, Punycode).
_DECLARABLE = re.compile(
    r"utf-8|ascii|iso(8859-|2022_)\w+|cp(437|8[5-7]\d|9\d\d|125\d)|koi8-\w|big5\w*|gb\w+|hz|euc_\w+"
    r"|shift_jis\w*|johab|tis-620|mac-\w+"
)
# Wider encodings of the same bytes, which Windows and browsers use for the encodings that files
# name (WHATWG Encoding Standard, section 4.2).
_WIDER = {
    "shift_jis": ("cp932", "shift_jis_2004"),
    "cp932": ("cp932", "shift_jis_2004"),
    "gb2312": ("gb18030",),
    "gbk": ("gb18030",),
    "big5": ("cp950", "big5hkscs", "big5"),
    "cp950": ("cp950", "big5hkscs", "big5"),
    "euc_kr": ("cp949",),
    "euc_jp": ("euc_jp", "euc_jis_2004"),
}
_MULTI_BYTE = ("cp932", "gb18030", "cp950", "cp949", "euc_jp")
# Stands for every single-byte encoding: it fits all bytes, and such encodings share the bytes of
# SGF's syntax.
_SINGLE_BYTE = "latin-1"
# Properties that define a game, unlike names and comments.
_PLAYED = ("GM", "SZ", "KM", "HA", "RU", "AP", "B", "W", "AB", "AW", "AE", "PL")


@dataclass(frozen=True, slots=True)
class SgfGame:
    """A game as actions from its start, with the properties to write."""

    game: str  # name with its rules
    actions: Sequence[int]
    start: str = ""  # start position; empty: the usual one
    black: str = ""
    white: str = ""
    resigned: bool = False  # by the player to move after the last action
    forfeited: bool = False  # by the player to move, such as after an illegal move
    comments: Sequence[str] = ()  # comments of the first plies
    values: Sequence[float | None] = ()  # before each ply, for the first player, in [-1, 1]
    root: dict[str, str] = field(default_factory=dict[str, str])  # further properties
    result: int | None = None  # +1 Black won, -1 White, 0 a draw; None: as the rules say


def require_sgf(game: str) -> None:
    """Raise ``ConfigError`` for a game that has no SGF."""
    if base_name(game) not in _GM:
        raise ConfigError(f"SGF is for {' and '.join(_GM)}, not for '{game}'")


def write(played: SgfGame) -> str:
    """Return the SGF of a game, in one tree without variations.

    Raises:
        ConfigError: the game has no SGF.
        ValueError: an illegal action.
    """
    require_sgf(played.game)
    size = game_spec(played.game).observation_shape[1]
    state = State(played.game, [], played.start)
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
                # Sabaki's property: Black's win rate in percent, for the position at its node.
                node["SBKV"] = [f"{50 * (1 + value):.2f}"]
    return format_nodes(nodes)


@dataclass(frozen=True, slots=True)
class ReadGame:
    """Main line of an SGF's first game."""

    game: str  # name with its rules
    actions: list[int]  # from the start position
    note: str  # how the komi was read, if it is not in points; otherwise empty
    start: str = ""  # start position, after the last stones that were set up; empty: the usual one
    result: int | None = None  # by RE: +1 Black won, -1 White won, 0 a draw; None: RE does not say


def read(
    file: str | bytes,
    game: str | None = None,
    *,
    moves: int | None = None,
    any_komi: bool = False,
) -> ReadGame:
    """Read the main line of an SGF's first game.

    Stones that are set up (AB, AW, AE) make a start position, and so does PL. PL is the side to
    move there. Without it, the player of the next move is to move, and without a move White after a
    handicap (only AB, or HA of 2 or more), otherwise Black. Stones set up in the middle of a game
    replace what was played before. Moves by one player in a row get passes of the other player
    between them, if the rules allow that.

    Args:
        file: text, or bytes in any encoding (``sgf_text.decode``).
        game: the game whose rules apply; size and komi must be the same. None: the game that the
            file describes.
        moves: most moves of the line, not counting inserted passes. None: all.
        any_komi: whether the komi may differ from that in ``game``, which is used instead. The note
            then says so.

    Raises:
        InvalidRequestError: not SGF, an unclear encoding, another game than ``game``, a position
            that cannot arise, or an action that the rules forbid.
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
    start, actions = _played(nodes if moves is None else _first_moves(nodes, moves), nodes, name)
    return ReadGame(name, actions, note, start, _read_result(nodes[0]))


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
    root = {name: [escape(value)] for name, value in properties.items() if value}
    return root | _set_up(played, size) if played.start else root


def _set_up(played: SgfGame, size: int) -> Node:
    """Return the properties of a start position."""
    state = State(played.game, [], played.start)
    stones = GoBoard(state).stones.tolist()
    node: Node = {}
    for name, owner in list(_SETUP.items())[:2]:
        points = [_point(point, size) for point in range(size * size) if stones[point] == owner]
        if points:
            node[name] = points
    if is_go(played.game) and "AW" not in node and len(node.get("AB", ())) > 1 and state.to_play:
        node["HA"] = [str(len(node["AB"]))]
    return node | {"PL": [_COLOURS[state.to_play]]}


def _result(played: SgfGame, end: State) -> str:
    """Return RE: with the margin for Go, if the rules say it; empty for an unfinished game."""
    if played.resigned or played.forfeited:
        return f"{_COLOURS[1 - end.to_play]}+{'F' if played.forfeited else 'R'}"
    if played.result is None:
        if not end.is_terminal:
            return ""
        if is_go(played.game):
            return go_score(end)
    result = end.result if played.result is None else played.result
    return {1: "B+", -1: "W+"}.get(result, "0")


def _described(root: Node) -> str:
    """Return the name of the game in an SGF."""
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
    """Refuse an SGF of another game than the one that is played; a missing komi is the game's."""
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
    komi_text = f"komi {written[:20]}" + (f" ({how})" if how else "")
    return f"the SGF has {komi_text}; the game is loaded with the model's komi, {ours:g}"


def _first_moves(nodes: Sequence[Node], moves: int) -> Sequence[Node]:
    """Return the nodes before the move that follows this many others."""
    moving = [number for number, node in enumerate(nodes) if node.keys() & set(_COLOURS)]
    return nodes[: moving[moves]] if moves < len(moving) else nodes


def _played(nodes: Sequence[Node], all_nodes: Sequence[Node], game: str) -> tuple[str, list[int]]:
    """Play the first nodes of the main line, and check every action.

    Returns:
        Start position, empty for the usual one, and the actions from there.
    """
    try:
        size = game_spec(game).observation_shape[1]
        state = State(game)
    except ValueError as error:
        raise InvalidRequestError(f"the SGF's game '{game}' is not supported: {error}") from error
    start, actions, setups = "", list[int](), 0
    for number, node in enumerate(nodes):
        if _sets_up(node):
            setups += 1
            if setups > _MOST_SETUPS:
                raise InvalidRequestError(
                    f"the SGF sets the board up more than {_MOST_SETUPS} times"
                )
            try:
                to_play = _side_to_move(all_nodes[number:], state)
                if to_play != state.to_play or _SETUP.keys() & node.keys():
                    start = _edited(node, state, to_play, size)
                    state, actions = State(game, [], start), []
            except ValueError as error:  # an InvalidRequestError too
                raise InvalidRequestError(f"node {number} of the SGF: {error}") from error
        for player, point in _moves(node):
            try:
                actions += play_as(state, player, _action(point, size))
            except IllegalActionError as error:
                raise InvalidRequestError(
                    f"node {number} of the SGF: {_COLOURS[player]}[{point[:20]}]: {error}"
                ) from error
    return ("" if start == State(game).setup_text() else start), actions


def _sets_up(node: Node) -> bool:
    """Return whether a node changes the position; PL next to a move only repeats whose turn it is.

    FF4 allows no setup next to a move, but some programs write PL there.
    """
    has_stones = bool(_SETUP.keys() & node.keys())
    return has_stones or ("PL" in node and not node.keys() & set(_COLOURS))


def _moves(node: Node) -> Iterator[tuple[int, str]]:
    """Yield the player and point of a node's move, if it has one."""
    if "B" in node and "W" in node:
        raise InvalidRequestError("the SGF has moves of both players in one node")
    for player, colour in enumerate(_COLOURS):
        if colour in node:
            yield player, node[colour][0]


def _edited(node: Node, state: State, to_play: int, size: int) -> str:
    """Return the position after a node's setup, in the game's notation."""
    board, points = GoBoard(state), 0
    for name, owner in _SETUP.items():
        for entry in node.get(name, ()):
            for point in _expand(entry, size):
                board.stones[_action(point, size, is_stone=True)] = owner
                points += 1
            if points > size * size:
                raise InvalidRequestError("it sets up more points than the board has")
    return State(state.game, [], diagram(board.stones, to_play)).setup_text()


def _side_to_move(nodes: Sequence[Node], state: State) -> int:
    """Return who moves after the first node's setup; see ``read``."""
    node = nodes[0]
    if "PL" in node:
        written = _value(node, "PL", "")[:20]
        player = {"b": 0, "1": 0, "black": 0, "w": 1, "2": 1, "white": 1}.get(written.lower())
        if player is None:
            raise InvalidRequestError(f"PL[{written}]: give B or W")
        return player
    for number, following in enumerate(nodes):
        if number and _sets_up(following):
            break
        for player, _ in _moves(following):
            return player
    if state.ply:
        return state.to_play
    handicap = whole_number(_value(node, "HA", "0"), _MAX_SIZE * _MAX_SIZE) or 0
    is_handicap = ("AB" in node and "AW" not in node) or handicap > 1
    return int(is_go(state.game) and is_handicap)


def _expand(points: str, size: int) -> list[str]:
    """Return an entry's points: one, or a rectangle "aa:cc" (FF4, "Compressed point lists")."""
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


def _action(point: str, size: int, *, is_stone: bool = False) -> int:
    # FF3 wrote a pass as "tt" on boards up to 19x19.
    if point.strip() in ("", "tt") and not is_stone:
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


def _read_result(root: Node) -> int | None:
    """Return the result by RE (FF4, "Game info properties"); None: unfinished, void or unknown."""
    written = _value(root, "RE", "").strip().lower()
    if written[:2] in ("b+", "w+"):
        return 1 if written[0] == "b" else -1
    return 0 if written in ("0", "draw", "jigo") else None


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

    FF4 has points, but some servers write other units. The rules come from KataGo
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


def decode(data: bytes) -> str:
    """Decode the bytes of an SGF file.

    The encoding is given by a byte order mark, otherwise by CA[], otherwise UTF-8. If the bytes do
    not fit it, the file is read in each common encoding of SGF files. A wrong encoding hides or
    adds closing brackets, so that the file is not SGF, or its values contain other properties. If
    all valid readings have the same game, any of them will do, because we use no names or comments.

    General detectors such as charset-normalizer need more text than the names of two players.

    Raises:
        InvalidRequestError: the file is too long; or its encoding is not clear, and the game
            depends on it.
    """
    if len(data) > MAX_BYTES:
        raise InvalidRequestError(f"the SGF has {len(data)} bytes: at most {MAX_BYTES} are read")
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError as error:
                raise InvalidRequestError(
                    f"the SGF begins as {encoding}, but byte {error.start} is not valid: save the "
                    "file as UTF-8"
                ) from error
    named = _read_declared(data)
    if data.isascii():
        return data.decode("ascii") if named is None else named.text  # ISO-2022-JP is ASCII too
    unicode = _Reading.of(data, "utf-8")
    if named is None and unicode is not None:
        return unicode.text
    if unicode is not None:
        others = [unicode]
    elif named is None:
        others = [_Reading.of(data, each) for each in (*_MULTI_BYTE, _SINGLE_BYTE)]
    elif len(named.text) == len(data):
        others = [_Reading.of(data, each) for each in _MULTI_BYTE]
    else:
        others = [_Reading.of(data, _SINGLE_BYTE)]
    readings = [each for each in (named, *others) if each is not None]
    parsed = [each for each in readings if each.game]
    fewest = min((each.brackets for each in parsed), default=0)
    best = [each for each in parsed if each.brackets == fewest]
    if not best:
        return readings[0].text  # the parser reports the error
    if named is not None and any(each.game == named.game for each in best):
        return named.text
    is_free = named is None or not named.game or unicode in best
    # A reading that lost properties of the game in a name is not better for its few brackets.
    is_whole = best[0].num_properties == max(each.num_properties for each in parsed)
    if is_free and is_whole and all(each.game == best[0].game for each in best):
        return best[0].text
    why = "it has no CA[] that fits" if named is None else "CA[] seems to be wrong"
    raise InvalidRequestError(
        f"the moves of the SGF depend on its encoding, which is not clear ({why}): save the file "
        "as UTF-8, or name its encoding in the root, such as CA[Shift_JIS], CA[GBK] or CA[Big5]"
    )


def parse_main_line(text: str) -> list[Node]:
    """Return the nodes of the first game's main line, from the root.

    Raises:
        InvalidRequestError: not SGF, or too long.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidRequestError(
            f"the SGF has {len(text)} characters: at most {MAX_CHARACTERS} are read"
        )
    content = text.encode("utf-8", errors="replace")
    try:
        tree = _grammar.parse_sgf_game(content)
    except ValueError as error:
        raise InvalidRequestError(f"not SGF: {error}") from error
    return [_decoded(properties) for properties in _grammar.main_sequence_iter(tree)]


def split_games(text: str) -> list[str]:
    """Return each game of a collection as SGF of its own.

    Raises:
        InvalidRequestError: not SGF, or too long.
    """
    if len(text) > MAX_BYTES:
        raise InvalidRequestError(
            f"the SGF has {len(text)} characters: at most {MAX_BYTES} are read"
        )
    try:
        trees = _grammar.parse_sgf_collection(text.encode("utf-8", errors="replace"))
    except ValueError as error:
        raise InvalidRequestError(f"not SGF: {error}") from error
    return [_grammar.serialise_game_tree(tree).decode() for tree in trees]


def format_nodes(nodes: Iterable[Node]) -> str:
    """Format one game without variations; free text in values must be escaped."""
    tree = _grammar.Coarse_game_tree()
    tree.sequence = [
        {name: [value.encode() for value in values] for name, values in node.items()}
        for node in nodes
    ]
    return _grammar.serialise_game_tree(tree).decode()


def escape(text: str) -> str:
    """Escape free text for a property's value."""
    return _grammar.escape_text(text.encode("utf-8", errors="replace")).decode()


@dataclass(frozen=True, slots=True)
class _Reading:
    """A file decoded with one encoding."""

    text: str
    game: tuple[tuple[tuple[str, ...], ...], ...]
    """Properties that define the game, for comparison; empty if the text is not SGF."""
    brackets: int
    """Number of opening brackets inside values."""

    @property
    def num_properties(self) -> int:
        """Number of properties in the game."""
        return sum(map(len, self.game))

    @classmethod
    def of(cls, data: bytes, encoding: str) -> _Reading | None:
        """Return the reading in an encoding; None if the bytes do not fit it."""
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            return None
        try:
            nodes = parse_main_line(text)
        except InvalidRequestError:
            return cls(text, (), 0)
        game = tuple(
            tuple(
                (name, *(value if value.isascii() else "" for value in node[name]))
                for name in _PLAYED
                if name in node
            )
            for node in nodes
        )
        values = (value for node in nodes for values in node.values() for value in values)
        return cls(text, game, sum(value.count("[") for value in values))


def _read_declared(data: bytes) -> _Reading | None:
    """Return the reading in the encoding of CA; None without CA or if the bytes do not fit."""
    found = _CA.search(data)
    if found is None:
        return None
    name = found[1].decode("ascii").lower().removeprefix("x-")
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    if not _DECLARABLE.fullmatch(known):
        return None
    readings = (_Reading.of(data, each) for each in _WIDER.get(known, (known,)))
    return next((each for each in readings if each is not None), None)


def _decoded(properties: Mapping[str, list[bytes]]) -> Node:
    return {
        name: [bytes(value).decode("utf-8", errors="replace") for value in values]
        for name, values in properties.items()
    }
