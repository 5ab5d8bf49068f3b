"""Games of chess in Portable Game Notation (PGN; Edwards 1994).

The reader skips comments, variations, glyphs and lines that begin with "%". Moves are read in every
form of standard algebraic notation and in UCI notation.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from zerofleet_core import State

from zerofleet.errors import ConfigError, InvalidRequestError
from zerofleet.games.chess import CLAIMABLE_ENDINGS, centipawns, is_chess, is_chess960
from zerofleet.games.notation import move_numbers

MAX_CHARACTERS = 1 << 26
"""Longest text that is read: some 50,000 games."""

_LINE = 80
_RESULTS = {"1-0": 1, "0-1": -1, "1/2-1/2": 0, "*": None}
_RESULT_TEXTS = {1: "1-0", -1: "0-1", 0: "1/2-1/2"}
_ROSTER = ("Event", "Site", "Date", "Round", "White", "Black", "Result")
_UNKNOWN = {"Date": "????.??.??", "Result": "*"}
_STANDARD = ("", "standard", "chess", "normal", "from position")
_CHESS960 = ("chess960", "fischerandom", "fischerrandom", "fischer random", "freestyle")
_TAG = re.compile(r'\[\s*(\w+)\s*"((?:[^"\\\n]|\\.)*)"\s*\]')
_FIRST_TAG = re.compile(r'^\[\s*\w+\s*"', re.MULTILINE)
_SPACE = re.compile(r"\s*")
_MOVE_NUMBER = re.compile(r"\d+(?![\d/-])\.*|\.+")  # not castling with zeros, nor 1/2
_SKIPPED = re.compile(r"(?:\s|;[^\n]*|\{[^}]*\}|^%[^\n]*)*", re.MULTILINE)
_TOKEN = re.compile(r"[^\s(){};]+")


@dataclass(frozen=True, slots=True)
class PgnGame:
    """A game of chess to write: its actions and tags.

    Args:
        game: name with its rules.
        actions: from the start position.
        start: start position as FEN; empty: the usual one.
        tags: values by name, such as ``White``; ``FEN``, ``SetUp``, ``Variant`` and ``Result``
            follow from the other fields.
        resigned: the player to move after the last action resigned.
        values: before each ply, for White, in [-1, 1]; None where unknown.
        result: +1 White won, -1 Black, 0 a draw; None: as the rules say.
    """

    game: str
    actions: Sequence[int]
    start: str = ""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    resigned: bool = False
    values: Sequence[float | None] = ()
    result: int | None = None


@dataclass(frozen=True, slots=True)
class ReadPgn:
    """A game that was read from a file."""

    game: str  # name with its rules
    actions: tuple[int, ...]
    start: str  # FEN; empty: the usual one
    tags: Mapping[str, str]
    result: int | None  # +1 White won, -1 Black, 0 a draw; None: unfinished or unknown
    line: int  # the game begins at this line of the file, from 1
    is_cut: bool = False  # the last actions are left out, because nobody claimed an end of the game


def require_pgn(game: str) -> None:
    """Raise ``ConfigError`` unless the game is chess."""
    if not is_chess(game):
        raise ConfigError(f"PGN is for chess, not for '{game}'")


def write_pgn(played: PgnGame) -> str:
    """Return the PGN of a game; its values become comments, as lichess writes them.

    Raises:
        ConfigError: the game is not chess.
        ValueError: an illegal action.
    """
    require_pgn(played.game)
    state = State(played.game, start=played.start)
    words: list[str] = []
    numbers = move_numbers(played.game, played.start)
    for ply, (action, number) in enumerate(zip(played.actions, numbers, strict=False)):
        follows_move = bool(words) and not words[-1].endswith("}")
        if state.to_play == 0 or not follows_move:
            words.append(number)
        words.append(state.action_to_san(action))
        state.apply(action)
        value = played.values[ply + 1] if ply + 1 < len(played.values) else None
        if value is not None:
            words.append(f"{{ [%eval {_pawns(value)}] }}")
    result = _result_text(played, state)
    tags = {name: _UNKNOWN.get(name, "?") for name in _ROSTER} | dict(played.tags)
    tags["Result"] = result
    if is_chess960(played.game):
        tags["Variant"] = "Chess960"
    if played.start:
        tags |= {"SetUp": "1", "FEN": played.start}
    head = "".join(f'[{name} "{_escaped(text)}"]\n' for name, text in tags.items())
    text = " ".join([*words, result])
    lines = textwrap.fill(text, _LINE - 1, break_long_words=False, break_on_hyphens=False)
    return f"{head}\n{lines}\n\n"


def read_pgn(
    text: str, game: str, *, bad: Callable[[InvalidRequestError], None] | None = None
) -> Iterator[ReadPgn]:
    """Yield the games of a file, one after another.

    People may play on after a third repetition, or after another end that a player must claim. Such
    a game is cut before the move that reached this end.

    Args:
        text: contents of the file.
        game: chess with its rules; each game of the file must have the same.
        bad: takes the error of a game that cannot be read, and the next one follows; None: the
            error is raised.

    Raises:
        InvalidRequestError: not PGN, another variant, or an illegal move; the message names the
            line of the file and the move.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidRequestError(f"the PGN has more than {MAX_CHARACTERS:,} characters: split it")
    reader = _PgnText(text)
    while reader.find_game():
        try:
            read = _read_game(reader, game)
        except InvalidRequestError as error:
            if bad is None:
                raise
            bad(error)
            reader.skip_game()
        else:
            yield read


def _read_game(reader: _PgnText, game: str) -> ReadPgn:
    line = reader.line
    tags = reader.read_tags()
    _require_variant(tags, game, line)
    start = tags.get("FEN", "").strip()
    try:
        state = State(game, start=start)
    except ValueError as error:
        raise InvalidRequestError(f"line {line} of the PGN: {error}") from error
    actions: list[int] = []
    result = _RESULTS.get(tags.get("Result", "*"))  # a file may end without a result
    claimable: int | None = None  # moves up to the first end that a player must claim
    for word, where in reader.read_moves():
        if word in _RESULTS:
            result = _RESULTS[word]
            continue
        if claimable is not None and state.ending in CLAIMABLE_ENDINGS:
            state = _without_history(state)
        try:
            action = state.string_to_action(word)
            state.apply(action)
        except ValueError as error:
            mover = "White" if state.to_play == 0 else "Black"
            number = state.setup_text().split()[5]
            raise InvalidRequestError(
                f"line {where} of the PGN, move {number} of {mover}: '{word[:20]}' {_why(state)}"
            ) from error
        actions.append(action)
        if claimable is None and state.ending in CLAIMABLE_ENDINGS:
            claimable = len(actions)
    read = len(actions)
    if claimable is not None and (claimable < read or result not in (None, 0)):
        # Nobody claimed that end. Before it the game is still open, so the file's result can count.
        read = max(1, claimable - 1)
    is_cut = read < len(actions)
    return ReadPgn(game, tuple(actions[:read]), start, tags, result, line, is_cut)


def _without_history(state: State) -> State:
    """Return the position without its repetitions and its count of plies without progress."""
    fields = state.setup_text().split()
    fields[4] = "0"
    return State(state.game, start=" ".join(fields))


def _why(state: State) -> str:
    if state.is_terminal:
        return f"comes after the end of the game ({state.ending})"
    return "is not a legal move"


def _require_variant(tags: Mapping[str, str], game: str, line: int) -> None:
    variant = tags.get("Variant", "").strip().lower()
    if variant not in (*_STANDARD, *_CHESS960):
        raise InvalidRequestError(
            f"line {line} of the PGN: the variant '{variant[:40]}' is not supported, only standard "
            "chess and Chess960"
        )
    # A FEN may hold an ordinary position of Chess960.
    if variant in _CHESS960 and not is_chess960(game):
        raise InvalidRequestError(
            f"line {line} of the PGN: the game is Chess960; the model plays '{game}'"
        )


class _PgnText:
    """A position in the text of a PGN file."""

    def __init__(self, text: str) -> None:
        self._text = text.removeprefix("\ufeff")
        self._at = 0
        self.line = 1

    def skip_game(self) -> None:
        """Go to the tags of the next game, from anywhere in a game."""
        while (found := _TAG.match(self._text, self._at)) is not None:
            self._go_to(found.end())
            space = _SPACE.match(self._text, self._at)
            self._go_to(self._at if space is None else space.end())
        following = _FIRST_TAG.search(self._text, self._at + 1)
        self._go_to(len(self._text) if following is None else following.start())

    def find_game(self) -> bool:
        """Go to the next game; return whether there is one."""
        self._skip()
        return self._at < len(self._text)

    def read_tags(self) -> dict[str, str]:
        """Return the tag pairs from here on."""
        tags: dict[str, str] = {}
        while self._text.startswith("[", self._at):
            found = _TAG.match(self._text, self._at)
            if found is None:
                raise InvalidRequestError(
                    f'line {self.line} of the PGN: a tag is not of the form [Name "value"]'
                )
            tags[found[1]] = re.sub(r"\\(.)", r"\1", found[2])
            self._go_to(found.end())
            self._skip()
        return tags

    def read_moves(self) -> Iterator[tuple[str, int]]:
        """Yield the moves and the result with their lines, up to the result or to new tags."""
        while self.find_game() and not self._text.startswith("[", self._at):
            if self._text[self._at] == "(":
                self._skip_variation()
                continue
            found = _TOKEN.match(self._text, self._at)
            if found is None:
                raise InvalidRequestError(
                    f"line {self.line} of the PGN: unexpected '{self._text[self._at]}'"
                )
            where = self.line
            self._go_to(found.end())
            word = found[0]
            number = None if word in _RESULTS else _MOVE_NUMBER.match(word)
            if number is not None:
                word = word[number.end() :]
            if not word or word.startswith("$") or not word.strip("!?"):
                continue
            yield word, where
            if word in _RESULTS:
                return

    def _skip_variation(self) -> None:
        """Go behind a variation and the variations inside it."""
        began, depth = self.line, 0
        while self._at < len(self._text):
            self._skip()
            if self._at >= len(self._text):
                break
            character = self._text[self._at]
            self._go_to(self._at + 1)
            depth += (character == "(") - (character == ")")
            if depth == 0:
                return
        raise InvalidRequestError(f"line {began} of the PGN: the variation is not closed")

    def _skip(self) -> None:
        """Go behind white space, comments and escaped lines."""
        found = _SKIPPED.match(self._text, self._at)
        if found is not None:
            self._go_to(found.end())
        if self._text.startswith("{", self._at):
            raise InvalidRequestError(f"line {self.line} of the PGN: the comment is not closed")

    def _go_to(self, place: int) -> None:
        self.line += self._text.count("\n", self._at, place)
        self._at = place


def _result_text(played: PgnGame, end: State) -> str:
    if played.resigned:
        return _RESULT_TEXTS[-1 if end.to_play == 0 else 1]
    if played.result is not None:
        return _RESULT_TEXTS[played.result]
    return _RESULT_TEXTS[end.result] if end.is_terminal else "*"


def _pawns(value: float) -> str:
    """Return an evaluation as lichess writes it: pawns for White with two decimals."""
    return f"{centipawns(value) / 100:.2f}"


def _escaped(text: str) -> str:
    plain = " ".join(text.split())
    return plain.replace("\\", "\\\\").replace('"', '\\"')
