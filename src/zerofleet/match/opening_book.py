"""Opening books: files with the start positions of a match."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zerofleet.errors import ConfigError, InvalidRequestError
from zerofleet.games import State, sgf, spec
from zerofleet.games.chess import is_chess
from zerofleet.games.notation import checked_start
from zerofleet.games.pgn_text import read_pgn

MOST_OPENINGS = 5_000
"""Most positions of a book: each is for two games, and a match has at most 10,000."""
_MOST_BYTES = 4 << 20
_EPD_FIELDS = ("pieces", "side to move", "castling rights", "en passant")


def read_book(path: Path, game: str) -> list[str]:
    """Return the start positions of an opening book, each once, in the order of the file.

    A text file has a position on each line, in the game's notation; for chess also as EPD. Empty
    lines and lines that begin with ``#`` are skipped. A file of SGF games (Go, Othello) or of PGN
    games (chess) gives the final position of each game's main line.

    Raises:
        ConfigError: the file cannot be read, a position is wrong or the game is over in it; the
            message names the line or the game.
    """
    if not spec(game).sets_up_positions:
        raise ConfigError(f"--openings: {game} has no notation for positions")
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the opening book {path}: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"the opening book {path} has more than {_MOST_BYTES >> 20} MiB")
    is_sgf = content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"(")
    if is_chess(game) and path.suffix.lower() == ".pgn":
        found = _of_pgn(content, game, path)
    else:
        found = _of_sgf(content, game, path) if is_sgf else _of_lines(content, game, path)
    openings = list(dict.fromkeys(found))
    if not openings:
        raise ConfigError(f"the opening book {path} has no position")
    if len(openings) > MOST_OPENINGS:
        raise ConfigError(
            f"the opening book {path} has {len(openings):,} positions: give at most "
            f"{MOST_OPENINGS:,}"
        )
    return openings


def checked_openings(game: str, texts: Sequence[str], key: str) -> list[str]:
    """Return the start positions of a setting, each once.

    Args:
        game: name of the game.
        texts: the positions in the game's notation.
        key: name of the setting, for messages.

    Raises:
        ConfigError: a position is wrong, or the game is over in it; the message names the place.
    """
    found = (_opening(game, text, f"{key}[{place}]") for place, text in enumerate(texts))
    return list(dict.fromkeys(found))


def _of_lines(content: bytes, game: str, path: Path) -> list[str]:
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the opening book {path} is not text in UTF-8: {error}") from error
    found: list[str] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            text = _fen_of_epd(text) if is_chess(game) else text
            found.append(_opening(game, text, f"{path}, line {number}"))
    return found


def _fen_of_epd(text: str) -> str:
    """Return a position of Extended Position Description (EPD) as a FEN; a FEN stays as it is.

    EPD has four fields, and then operations such as ``bm Nf3; id "one";``, which are left out.
    """
    fields = text.split()
    if len(fields) < len(_EPD_FIELDS) or (len(fields) > 5 and fields[4].isdecimal()):
        return text
    return " ".join((*fields[: len(_EPD_FIELDS)], "0", "1"))


def _of_pgn(content: bytes, game: str, path: Path) -> list[str]:
    found: list[str] = []
    try:
        for number, read in enumerate(read_pgn(content.decode("utf-8", "replace"), game), 1):
            position = State(game, read.actions, read.start)
            if position.is_terminal or read.is_cut:
                raise ConfigError(f"{path}, game {number}: the game is over at its last move")
            found.append(position.setup_text())
    except InvalidRequestError as error:
        raise ConfigError(f"{path}: {error}") from error
    return found


def _of_sgf(content: bytes, game: str, path: Path) -> list[str]:
    found: list[str] = []
    try:
        games = sgf.split_games(sgf.decode(content))
    except InvalidRequestError as error:
        raise ConfigError(f"{path}: {error}") from error
    for number, text in enumerate(games, 1):
        where = f"{path}, game {number}"
        try:
            read = sgf.read(text, game)
        except InvalidRequestError as error:
            raise ConfigError(f"{where}: {error}") from error
        position = State(game, read.actions, read.start)
        if position.is_terminal:
            raise ConfigError(f"{where}: the game is over at the end of its main line")
        found.append(position.setup_text())
    return found


def _opening(game: str, text: str, where: str) -> str:
    try:
        start = checked_start(game, text)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    state = State(game, [], start)
    if state.is_terminal:
        raise ConfigError(f"{where}: the game is over in {text[:80]!r}")
    return state.setup_text()
