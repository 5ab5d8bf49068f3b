"""The commands that need no search: set up a position, show it, count it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from zerofleet_core import State

from zerofleet.errors import IllegalActionError, InvalidRequestError
from zerofleet.games import sgf
from zerofleet.games.go import GoBoard, GoRules, diagram, go_score
from zerofleet.games.notation import play_as
from zerofleet.games.sgf import MAX_BYTES
from zerofleet.gtp.protocol import GtpError, parse_number, parse_player
from zerofleet.rpc.player_service import PositionPrediction

Handler = Callable[..., str]

# Columns of fixed handicap stones (Farnebäck 2002, GTP version 2, section 4.1.1).
_COLUMNS = "ABCDEFGHJKLMNOPQRST"
# By number of stones, as (column, row) of a grid of three by three; row 0 is the lowest.
_CORNERS = ((0, 0), (2, 2), (0, 2), (2, 0))
_SIDES = ((0, 1), (2, 1), (1, 0), (1, 2))
_CENTRE = (1, 1)

_SYMMETRIES = 8

# Fields of KataGo's named rules: ko, scoring, suicide, tax, bonus for handicap stones, button.
_FIELDS = ("ko", "scoring", "suicide", "tax", "whiteHandicapBonus", "hasButton")
_NAMED_RULES: dict[str, tuple[str, str, bool, str, str, bool]] = {
    "tromp-taylor": ("POSITIONAL", "AREA", True, "NONE", "0", False),
    "chinese": ("SIMPLE", "AREA", False, "NONE", "N", False),
    "chinese-ogs": ("POSITIONAL", "AREA", False, "NONE", "N", False),
    "chinese-kgs": ("POSITIONAL", "AREA", False, "NONE", "N", False),
    "japanese": ("SIMPLE", "TERRITORY", False, "SEKI", "0", False),
    "korean": ("SIMPLE", "TERRITORY", False, "SEKI", "0", False),
    "stone-scoring": ("SIMPLE", "AREA", False, "ALL", "0", False),
    "aga": ("SITUATIONAL", "AREA", False, "NONE", "N-1", False),
    "bga": ("SITUATIONAL", "AREA", False, "NONE", "N-1", False),
    "new-zealand": ("SITUATIONAL", "AREA", True, "NONE", "0", False),
    "aga-button": ("SITUATIONAL", "AREA", False, "NONE", "N-1", True),
}

GOGUI_COMMANDS = (
    "string/Rules/kata-get-rules",
    "string/Score as it lies/final_score",
    "plist/Stones alive/final_status_list alive",
    "pstring/Move it would play/reg_genmove %c",
    "string/Network without search/kata-raw-nn 0",
    "string/Simulations of a move/kata-get-param maxVisits",
    "none/Set simulations of a move/kata-set-param maxVisits %s",
)
"""``type/label/command`` of each, in GoGui's format (its manual, "Analyze Commands")."""


class BoardCommands:
    """Methods by command name; each takes a command's arguments and returns the response.

    Args:
        game: Go, with its rules: controllers may request no others.
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
            raise GtpError(f"the model supports only komi {self._rules.komi:g}: set that")
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
        """Return the score by area: the rules that the model learned have no dead stones."""
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
        """Place stones of our choice; fewer than requested if we know too few points."""
        return self._place(free_handicap(self._rules.size, parse_number(stones, "stones")))

    def _set_free_handicap(self, *vertices: str) -> str:
        if len(vertices) < 2 or len({v.upper() for v in vertices}) < len(vertices):
            raise GtpError("bad vertex list: give two or more, each once")
        if any(vertex.lower() == "pass" for vertex in vertices):
            raise GtpError("bad vertex list: a pass is not a stone")
        self._place(vertices)
        return ""

    def _place(self, vertices: Sequence[str]) -> str:
        """Set up Black's stones on the empty board, with White to move: all or none."""
        if self.position.actions or self.position.start:
            raise GtpError("board not empty")
        board = GoBoard(self.position.state)
        for vertex in vertices:
            board.stones[self.position.action(vertex)] = 0
        try:
            self.position.set_up(diagram(board.stones, to_play=1))
        except ValueError as error:
            raise GtpError(f"bad vertex list: {error}") from error
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
        self.position.set_up(read.start, read.actions)
        if read.note:
            self._complain(read.note)
        return ""

    def _printsgf(self, *words: str) -> str:
        path = " ".join(words)
        position = self.position
        text = sgf.write(sgf.SgfGame(position.game, position.actions, position.start))
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
    """Return the most fixed stones of a board; 0 below 7x7."""
    if size < 7:
        return 0
    return 9 if size >= 9 and size % 2 == 1 else 4


def free_handicap(size: int, stones: int) -> list[str]:
    """Return vertices for at most this many stones (GTP version 2, section 4.1.2).

    They are the fixed points. On a board without fixed points they are the points next to its
    corners, or the corners.

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
    corners = _CORNERS if size >= 3 else _CORNERS[:2]  # on 2x2 a third one fills the board
    return [f"{_COLUMNS[lines[column]]}{lines[row] + 1}" for column, row in corners[:stones]]


def fixed_handicap(size: int, stones: int) -> list[str]:
    """Return the vertices of this many fixed stones (GTP version 2, section 4.1.1).

    Raises:
        GtpError: the board does not have that many.
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


def kata_rules(rules: GoRules) -> str:
    """Return the rules as KataGo's JSON."""
    return json.dumps(_values(rules), sort_keys=True, separators=(",", ":"))


def require_rules(text: str, rules: GoRules) -> None:
    """Refuse rules that differ from the model's.

    Args:
        text: one of KataGo's names, or its JSON; missing fields may have any value.
        rules: the model's.

    Raises:
        GtpError: they differ, or are not valid.
    """
    ours = _values(rules)
    for name, value in _requested(text).items():
        if name not in ours:
            raise GtpError(f"unknown rule '{name}': there are {', '.join(sorted(ours))}")
        if value != ours[name]:
            is_said = f"{name} {json.dumps(ours[name])}"
            raise GtpError(f"the model plays with {is_said}, not {json.dumps(value)}")


def _values(rules: GoRules) -> dict[str, Any]:
    values = dict(zip(_FIELDS, _NAMED_RULES["tromp-taylor"], strict=True))
    return {**values, "suicide": rules.suicide}


def _requested(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        named = _NAMED_RULES.get(text.lower())
        if named is None:
            names = ", ".join(_NAMED_RULES)
            raise GtpError(f"unknown rules '{text}': give JSON, or one of {names}")
        return dict(zip(_FIELDS, named, strict=True))
    try:
        return cast("dict[str, Any]", json.loads(text))
    except ValueError as error:
        raise GtpError(f"the rules are no JSON: {error}") from error


def parse_symmetries(arguments: Sequence[str]) -> range:
    """Return the symmetries in the arguments of ``kata-raw-nn``.

    Raises:
        GtpError: neither a number from 0 to 7 nor "all".
    """
    if list(arguments) == ["all"]:
        return range(_SYMMETRIES)
    if len(arguments) != 1 or arguments[0] not in map(str, range(_SYMMETRIES)):
        raise GtpError("give a symmetry, 0 to 7, or all")
    return range(int(arguments[0]), int(arguments[0]) + 1)


def transformed(action: int, symmetry: int, size: int) -> int:
    """Return the image of an action under a symmetry of the square board; a pass stays one.

    Args:
        action: ``size * row + column``, or the pass.
        symmetry: bit 0 reverses rows, bit 1 columns, bit 2 exchanges both.
    """
    if action == size * size:
        return action
    row, column = divmod(action, size)
    row = size - 1 - row if symmetry & 1 else row
    column = size - 1 - column if symmetry & 2 else column
    return size * column + row if symmetry & 4 else size * row + column


def transformed_start(game: str, start: str, symmetry: int) -> str:
    """Return the image of a start position under a symmetry of ``transformed``."""
    if not start:
        return ""
    state = State(game, [], start)
    board = GoBoard(state)
    image = board.stones.copy()
    for point, owner in enumerate(board.stones.tolist()):
        image[transformed(point, symmetry, board.size)] = owner
    return diagram(image, state.to_play)


def raw_nn_text(prediction: PositionPrediction, symmetry: int, size: int) -> str:
    """Return a network's prediction in the format of ``kata-raw-nn``, with the fields that it has.

    It predicts neither lead nor ownership. A drawn game is half a win and half a loss.

    Args:
        prediction: for the image of the position under the symmetry.
        symmetry: undone here.
    """
    value = prediction.value if prediction.to_play == 1 else -prediction.value
    priors = dict(zip(prediction.actions, prediction.priors, strict=True))

    def policy(action: int) -> str:
        prior = priors.get(transformed(action, symmetry, size))
        return "NAN" if prior is None else f"{prior:.6f}"

    rows = (range(size * row, size * (row + 1)) for row in range(size))
    return "\n".join(
        (
            f"symmetry {symmetry}",
            f"whiteWin {(1 + value) / 2:.6f}",
            f"whiteLoss {(1 - value) / 2:.6f}",
            "noResult 0.000000",
            "policy",
            *(" ".join(map(policy, row)) for row in rows),
            f"policyPass {policy(size * size)}",
        )
    )


class GtpPosition:
    """A position and the moves that led to it.

    Args:
        game: Go, with its rules.
    """

    def __init__(self, game: str) -> None:
        self.game = game
        self.start = ""
        """Start position; empty: the empty board."""
        self.state = State(game)
        self._moves: list[list[int]] = []  # actions of each move

    @property
    def actions(self) -> list[int]:
        """All actions from the start position, including inserted passes."""
        return [action for move in self._moves for action in move]

    def clear(self) -> None:
        """Go back to the empty board."""
        self.set_up("")

    def set_up(self, start: str, actions: Sequence[int] = ()) -> None:
        """Replace the game by one from a start position; the actions are legal.

        Raises:
            ValueError: the start position is wrong; nothing changes.
        """
        self.state = State(self.game, actions, start)
        self.start = start
        self._moves = [[action] for action in actions]

    def action(self, vertex: str) -> int:
        """Return the action of a vertex.

        Raises:
            GtpError: the board has no such vertex.
        """
        try:
            return self.state.string_to_action(vertex)
        except ValueError as error:
            raise GtpError(f"'{vertex}' is not a vertex of this board") from error

    def play(self, player: int, move: str) -> None:
        """Play a player's move; out of turn it follows a pass of the other one.

        Once the game is over, further passes change nothing and are accepted: controllers count
        them their own way.

        Raises:
            GtpError: it cannot be played.
        """
        action = self.action(move)
        if self.state.is_terminal and move.lower() == "pass":
            self._moves.append([])
            return
        try:
            self._moves.append(play_as(self.state, player, action, move))
        except IllegalActionError as error:
            raise GtpError(f"illegal move: {error}") from error

    def undo(self) -> None:
        """Take back the last move, with the inserted pass before it.

        Stones that were set up stay.

        Raises:
            GtpError: there is no move.
        """
        if not self._moves:
            raise GtpError("cannot undo: nothing was played")
        self._moves.pop()
        self.state = State(self.game, self.actions, self.start)

    def asked_as(self, player: int | None) -> list[int]:
        """Return the actions after which this player (None: the one whose turn it is) is to move.

        Raises:
            GtpError: the game is over, or the other player cannot pass.
        """
        if self.state.is_terminal:
            raise GtpError("the game is over: undo or clear_board")
        if player is None or player == self.state.to_play:
            return self.actions
        passing = self.state.string_to_action("pass")
        trial = self.state.copy()
        trial.apply(passing)
        if trial.is_terminal:
            raise GtpError("it is the other player's turn, and a pass would end the game here")
        return [*self.actions, passing]
