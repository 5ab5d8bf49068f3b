"""Games from files, to learn from: SGF, PGN, or lines of actions, each with its result.

A file is PGN if its name ends in ``.pgn``. It is SGF if its name ends in ``.sgf`` or if its text
begins with ``(``. Any other file is text with a game on each line.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zerofleet_core import State

from zerofleet.errors import ConfigError, IllegalActionError, InvalidRequestError
from zerofleet.games import sgf
from zerofleet.games.chess import is_chess
from zerofleet.games.game_specs import base_name
from zerofleet.games.go import is_go
from zerofleet.games.notation import parse_actions, player_names
from zerofleet.games.pgn_text import read_pgn

MOST_BYTES = 1 << 28
"""Longest file that is read."""
_MOST_SHOWN = 5
_SGF_GAMES = ("go", "othello")


@dataclass(frozen=True, slots=True)
class FileGame:
    """A finished game of a file."""

    where: str
    """File and place in it, for messages."""
    key: str
    """SHA-256 of the file, and the number of the game in it."""
    actions: array[int]
    """Actions from the start position, 2 bytes each."""
    start: str
    """Start position in the game's notation; empty: the usual one."""
    result: int
    """+1: the first player won. -1: the second player won. 0: a draw."""
    adjudicated: bool
    """Whether the file names the result, and the last position does not show it."""


@dataclass(slots=True)
class SkippedGames:
    """Games that were skipped, because nothing can be learnt from them.

    Args:
        raises: whether the first one is an error.
    """

    raises: bool
    number: int = 0
    first: list[str] = field(default_factory=list[str])
    """File, place and reason of the first few."""
    reasons: Counter[str] = field(default_factory=Counter[str])
    """Number of games by kind of reason."""

    def add(self, where: str, reason: str, kind: str) -> None:
        """Count a game and remember the reason.

        Raises:
            ConfigError: games must not be skipped.
        """
        if self.raises:
            raise ConfigError(f"{where}: {reason} (--skip-bad skips such games, and counts them)")
        self.number += 1
        self.reasons[kind] += 1
        if len(self.first) < _MOST_SHOWN:
            self.first.append(f"{where}: {reason}")


class _UnfinishedError(InvalidRequestError):
    """A game without a result."""


def read_files(paths: Sequence[Path], game: str, bad: SkippedGames) -> Iterator[FileGame]:
    """Yield the games of files, each checked under the rules.

    A game without a result, with an illegal move, of another board size or komi, or without moves,
    is given to ``bad``, and so is a file that cannot be parsed.

    Args:
        paths: the files, each read once.
        game: game with its rules.
        bad: takes the games that are skipped.

    Raises:
        ConfigError: a file cannot be read, or ``bad`` refuses a game.
    """
    seen: set[str] = set()
    for path in paths:
        try:
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        if len(content) > MOST_BYTES:
            raise ConfigError(f"{path} is larger than {MOST_BYTES >> 20} MiB: split it")
        digest = hashlib.sha256(content).hexdigest()
        if digest in seen:
            continue  # given twice
        seen.add(digest)
        for number, (where, read) in enumerate(_games_of(path, content, game, bad), 1):
            try:
                actions, start, result = read()
                result, adjudicated = _judged(game, actions, start, result)
            except _UnfinishedError as error:
                bad.add(where, str(error), "no result")
            except (InvalidRequestError, ConfigError) as error:
                bad.add(where, str(error), "not playable here")
            else:
                moves = array("h", actions)
                yield FileGame(where, f"{digest}/{number}", moves, start, result, adjudicated)


_Read = tuple[Sequence[int], str, int | None]


def _games_of(
    path: Path, content: bytes, game: str, bad: SkippedGames
) -> Iterator[tuple[str, Callable[[], _Read]]]:
    """Yield the place of each game of a file, and a function that reads it."""
    is_sgf = path.suffix.lower() == ".sgf" or content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"("
    if path.suffix.lower() == ".pgn" and not is_chess(game):
        raise ConfigError(f"{path}: PGN is for chess, and the run plays {game}")
    if is_sgf and base_name(game) not in _SGF_GAMES:
        raise ConfigError(f"{path}: SGF is for {' and '.join(_SGF_GAMES)}; the run plays {game}")
    if is_chess(game) and path.suffix.lower() == ".pgn":
        yield from _of_pgn(path, content, game, bad)
    elif is_sgf:
        yield from _of_sgf(path, content, game, bad)
    else:
        yield from _of_lines(path, content, game, bad)


def _of_pgn(
    path: Path, content: bytes, game: str, bad: SkippedGames
) -> Iterator[tuple[str, Callable[[], _Read]]]:
    def take(error: InvalidRequestError) -> None:
        bad.add(str(path), str(error), "not playable here")

    try:
        for read in read_pgn(content.decode("utf-8", "replace"), game, bad=take):
            found = (read.actions, read.start, read.result)
            yield f"{path}, line {read.line}", lambda found=found: found
    except InvalidRequestError as error:
        bad.add(str(path), str(error), "not PGN")


def _of_sgf(
    path: Path, content: bytes, game: str, bad: SkippedGames
) -> Iterator[tuple[str, Callable[[], _Read]]]:
    try:
        texts = sgf.split_games(sgf.decode(content))
    except InvalidRequestError as error:
        bad.add(str(path), str(error), "not SGF")
        return
    for number, text in enumerate(texts, 1):

        def read(text: str = text) -> _Read:
            found = sgf.read(text, game)
            return found.actions, found.start, found.result

        yield (f"{path}, game {number}" if len(texts) > 1 else str(path)), read


def _of_lines(
    path: Path, content: bytes, game: str, bad: SkippedGames
) -> Iterator[tuple[str, Callable[[], _Read]]]:
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        bad.add(str(path), f"not text in UTF-8: {error}", "not text")
        return
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue

        def read(text: str = text) -> _Read:
            try:
                return parse_actions(game, text), "", None
            except IllegalActionError as error:
                raise InvalidRequestError(str(error)) from error

        yield f"{path}, line {number}", read


def _judged(game: str, actions: Sequence[int], start: str, result: int | None) -> tuple[int, bool]:
    """Return the result, and whether only the file shows it.

    In Go the result of a file counts, because people agree on dead stones that area scoring of the
    last position would count as alive.

    Raises:
        InvalidRequestError: there is no move or no result, or the rules contradict the result.
    """
    if not actions:
        raise InvalidRequestError("the game has no moves")
    end = State(game, actions, start)
    if not end.is_terminal:
        if result is None:
            raise _UnfinishedError(
                f"the game is not over after {len(actions)} moves, and has no result"
            )
        return result, True
    if result in (None, end.result):
        return end.result, False
    if not is_go(game):
        first, second = player_names(game)
        words = {1: f"{first} won", -1: f"{second} won", 0: "a draw"}
        raise InvalidRequestError(
            f"the result is '{words[result or 0]}', and by the rules '{words[end.result]}'"
        )
    return result or 0, True
