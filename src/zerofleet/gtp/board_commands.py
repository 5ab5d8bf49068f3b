"""The commands that need no search: set a position up, show it, count it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from zerofleet.errors import InvalidRequestError
from zerofleet.games import sgf
from zerofleet.games.go_board import GoBoard, go_score
from zerofleet.games.go_rules import GoRules
from zerofleet.games.sgf_text import MAX_BYTES
from zerofleet.gtp.kata_commands import kata_rules, require_rules
from zerofleet.gtp.position import GtpPosition
from zerofleet.gtp.protocol import GtpError, parse_number, parse_player

Handler = Callable[..., str]

# Of fixed handicap stones (Farnebäck 2002, GTP version 2, section 4.1.1).
_COLUMNS = "ABCDEFGHJKLMNOPQRST"
# By number of stones, as (column, row) of a grid of three by three; row 0 is the lowest.
_CORNERS = ((0, 0), (2, 2), (0, 2), (2, 0))
_SIDES = ((0, 1), (2, 1), (1, 0), (1, 2))
_CENTRE = (1, 1)


class BoardCommands:
    """Answers by command name; each takes a command's arguments and returns the response.

    Args:
        game: Go, with its rules: controllers may ask for no others.
        complain: shows a line to the user, separately from the responses.
    """

    def __init__(self, game: str, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self.position = GtpPosition(game)
        self._rules = GoRules.of(game)
        self.handlers: dict[str, Handler] = {
            "boardsize": self._boardsize,
            "clear_board": self._clear_board,
            "komi": self._komi,
            "get_komi": lambda: f"{self._rules.komi:g}",
            "kata-get-rules": lambda: kata_rules(self._rules),
            "kata-set-rules": self._kata_set_rules,
            "play": self._play,
            "undo": self._undo,
            "showboard": self._showboard,
            "final_score": self._final_score,
            "final_status_list": self._final_status_list,
            "time_settings": self._clock,
            "time_left": self._clock,
            "kgs-time_settings": self._clock,
            "fixed_handicap": self._fixed_handicap,
            "place_free_handicap": self._place_free_handicap,
            "set_free_handicap": self._set_free_handicap,
            "loadsgf": self._loadsgf,
            "printsgf": self._printsgf,
        }

    def _boardsize(self, size: str) -> str:
        if parse_number(size, "size") != self._rules.size:
            raise GtpError("unacceptable size")
        self.position.clear()
        return ""

    def _clear_board(self) -> str:
        self.position.clear()
        return ""

    def _komi(self, komi: str) -> str:
        try:
            points = float(komi)
        except ValueError as error:
            raise GtpError(f"komi is '{komi[:40]}': give a number") from error
        if points != self._rules.komi:
            raise GtpError(
                f"the model plays with komi {self._rules.komi:g} and knows no other: set that"
            )
        return ""

    def _kata_set_rules(self, *words: str) -> str:
        require_rules(" ".join(words), self._rules)
        return ""

    def _play(self, colour: str, vertex: str) -> str:
        self.position.play(parse_player(colour), vertex)
        return ""

    def _undo(self) -> str:
        self.position.undo()
        return ""

    def _showboard(self) -> str:
        state = self.position.state
        to_play = "the game is over" if state.is_terminal else f"{'XO'[state.to_play]} to play"
        return f"\n{state}\n{to_play} (X black, O white), ply {state.ply}"

    def _final_score(self) -> str:
        """By area, as the position lies: the rules that the model learned know no dead stones."""
        return go_score(self.position.state)

    def _final_status_list(self, status: str) -> str:
        if status not in ("alive", "dead", "seki"):
            raise GtpError(f"status is '{status}': give alive, dead or seki")
        if status != "alive":
            return ""
        board = GoBoard(self.position.state)
        vertex = self.position.state.action_to_string
        chains = [*board.regions(0), *board.regions(1)]
        return "\n".join(" ".join(map(vertex, chain)) for chain in chains)

    def _clock(self, *_: str) -> str:
        """Accept and ignore any clock: a move takes its number of simulations.

        Controllers also send invalid clocks, such as a negative time to a player who is late.
        """
        return ""

    def _fixed_handicap(self, stones: str) -> str:
        points = fixed_handicap(self._rules.size, parse_number(stones, "stones"))
        return self._place(points)

    def _place_free_handicap(self, stones: str) -> str:
        """Ours to choose, and fewer than asked for where we know no more points."""
        return self._place(free_handicap(self._rules.size, parse_number(stones, "stones")))

    def _set_free_handicap(self, *vertices: str) -> str:
        if len(vertices) < 2 or len({v.upper() for v in vertices}) < len(vertices):
            raise GtpError("bad vertex list: give two or more, each once")
        if any(vertex.lower() == "pass" for vertex in vertices):
            raise GtpError("bad vertex list: a pass is not a stone")
        self._place(vertices)
        return ""

    def _place(self, vertices: Sequence[str]) -> str:
        """Black's stones on the empty board, with White's passes between: all of them, or none."""
        if self.position.actions:
            raise GtpError("board not empty")
        try:
            for vertex in vertices:
                self.position.play(0, vertex)
        except GtpError:
            self.position.clear()
            raise
        return " ".join(vertices)

    def _loadsgf(self, *words: str) -> str:
        """Load the main line, or with a move number (from 1) the position before that move.

        A path may contain spaces, because GTP cannot quote them. A file with another komi is loaded
        too, as by other engines; the komi stays the model's.
        """
        if not words:
            raise GtpError("loadsgf: give a file")
        path, before = " ".join(words), None
        if len(words) > 1 and words[-1].isdecimal() and not _is_file(path):
            path = " ".join(words[:-1])
            before = max(0, parse_number(words[-1], "move") - 1)
        try:
            with Path(path).open("rb") as file:
                content = file.read(MAX_BYTES + 1)
            read = sgf.read(content, self.position.game, moves=before, any_komi=True)
        except (OSError, ValueError, InvalidRequestError) as error:  # ValueError: NUL in the path
            raise GtpError(f"cannot load file: {error}") from error
        self.position.set_actions(read.actions)
        if read.note:
            self._complain(read.note)
        return ""

    def _printsgf(self, *words: str) -> str:
        path = " ".join(words)
        text = sgf.write(sgf.SgfGame(self.position.game, self.position.actions))
        if not path:
            return text
        try:
            Path(path).write_text(text, encoding="utf-8")
        except (OSError, ValueError) as error:
            raise GtpError(f"cannot write file: {error}") from error
        return ""


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def most_stones(size: int) -> int:
    """How many fixed stones a board takes; 0 for one below 7x7."""
    if size < 7:
        return 0
    return 9 if size >= 9 and size % 2 == 1 else 4


def free_handicap(size: int, stones: int) -> list[str]:
    """Vertices for at most so many stones (GTP version 2, section 4.1.2).

    They are the fixed points; of a board that has none the points next to its corners, or these.

    Raises:
        GtpError: fewer than two, or as many as the board has points.
    """
    if not 2 <= stones < size * size:
        most = size * size - 1
        raise GtpError(f"invalid number of stones: {stones} on {size}x{size}: give 2 to {most}")
    if most_stones(size):
        return fixed_handicap(size, min(stones, most_stones(size)))
    edge = 1 if size >= 4 else 0
    lines = (edge, 0, size - 1 - edge)
    corners = _CORNERS if size >= 3 else _CORNERS[:2]  # on 2x2 a third one fills the board up
    return [f"{_COLUMNS[lines[column]]}{lines[row] + 1}" for column, row in corners[:stones]]


def fixed_handicap(size: int, stones: int) -> list[str]:
    """The vertices of so many fixed stones (GTP version 2, section 4.1.1).

    Raises:
        GtpError: the board takes no such number.
    """
    most = most_stones(size)
    if not 2 <= stones <= most:
        known = f"give 2 to {most}" if most else "use set_free_handicap"
        raise GtpError(f"invalid number of stones: {stones} on {size}x{size}: {known}")
    edge = 3 if size >= 13 else 2  # lines between a corner stone and the border
    lines = (edge, size // 2, size - 1 - edge)
    centred = stones in (5, 7, 9)
    points = [*_CORNERS, *_SIDES][: stones - centred] + [_CENTRE] * centred
    return [f"{_COLUMNS[lines[column]]}{lines[row] + 1}" for column, row in points]
