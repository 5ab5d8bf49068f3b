"""Actions, players and numbers in a person's notation, and moves by a given colour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

import numpy as np
from zerofleet_core import State, game_spec

from zerofleet.errors import ConfigError, IllegalActionError
from zerofleet.games.chess import is_chess
from zerofleet.games.game_specs import base_name, outside_rules, spec
from zerofleet.games.python_game import UNNAMED_PLAYERS, raise_failure_in

_SHOWN = 200  # characters of a person's text in messages
_ACTIONS_ARE_POINTS = ("go", "gomoku", "mnk", "othello", "tic_tac_toe")
GO_COLOURS = ("black", "white")  # by player, in SGF and GTP
_BLACK_FIRST = ("Black", "White")
_MARKS = ("X", "O")
_PLAYER_NAMES = {
    "chess": ("White", "Black"),
    "connect_four": ("Red", "Yellow"),
    "go": _BLACK_FIRST,
    "gomoku": _BLACK_FIRST,
    "mnk": _MARKS,
    "othello": _BLACK_FIRST,
    "tic_tac_toe": _MARKS,
}
# Letters in a position's text, for games whose player names differ from them.
_PLAYER_LETTERS = dict.fromkeys(("connect_four", "gomoku", "othello"), ("x", "o")) | {
    "go": ("X", "O")
}


def player_names(game: str) -> tuple[str, str]:
    """Return what people call the first and the second player of a game, within a sentence.

    They are the colours of the pieces, such as ``("White", "Black")`` in chess, or the names that
    the class of a Python game gives. Otherwise they are "the first player" and "the second player".

    Args:
        game: game name. The module of a Python game is imported.

    Raises:
        ConfigError: there is no such Python game.
    """
    if game.startswith("python:"):
        return getattr(outside_rules(game), "player_names", UNNAMED_PLAYERS)
    return _PLAYER_NAMES.get(_family(game), UNNAMED_PLAYERS)


def move_numbers(game: str, start: str = "") -> Iterator[str]:
    """Return an endless iterator over the numbers of moves, as players of the game write them.

    Chess counts White's move and Black's reply as one: ``3.`` for White, ``3...`` for Black. The
    other games count each move.

    Args:
        game: game name.
        start: start position of the game; empty: the usual one.
    """
    if not is_chess(game):
        return (f"{number}." for number in count(1))
    _, to_play, *_, full_move = State(game, [], start).setup_text().split()
    first = 2 * int(full_move) + (to_play == "b")
    return (f"{half // 2}{'...' if half % 2 else '.'}" for half in count(first))


def numbered_moves(game: str, words: Iterable[str], start: str = "") -> str:
    """Return moves from the start position with their numbers.

    In chess a reply has no number: ``1. e4 e5 2. Nf3``. A no-break space keeps each number with its
    move.
    """
    shown: list[str] = []
    for word, number in zip(words, move_numbers(game, start), strict=False):
        is_reply = bool(shown) and number.endswith("...")
        shown.append(word if is_reply else f"{number}\N{NO-BREAK SPACE}{word}")
    return " ".join(shown)


def player_letters(game: str) -> tuple[str, str] | None:
    """Return the letters of the players in a position's text; None if their names show them."""
    return _PLAYER_LETTERS.get(_family(game))


def _family(game: str) -> str:
    return base_name(game.removeprefix("openspiel:"))


def checked_start(game: str, text: str) -> str:
    """Return a start position as the game writes it; empty for the usual start.

    Raises:
        ConfigError: no such game, or the text is not a position of it; the message says what is
            wrong.
    """
    spec(game)
    text = " ".join(text.split())
    if not text:
        return ""
    try:
        written = State(game, [], text).setup_text()
        return "" if written == State(game).setup_text() else written
    except ValueError as error:
        raise ConfigError(f"{_cut(text)!r} is not a position of {game}: {error}") from error
    except RuntimeError as error:  # a class of a Python game failed
        raise_failure_in(error)
        raise


def parse_actions(game: str, text: str, start: str = "") -> list[int]:
    """Read a line of actions, separated by spaces, and check it under the rules.

    Actions are in the game's notation. Numbers of actions are accepted too, unless the notation
    itself is a number. In tic-tac-toe ``"b2 a1"`` and ``"4 0"`` are the same line.

    Args:
        game: game name.
        text: the actions.
        start: the position that they begin at; empty: the usual start.

    Raises:
        ConfigError: no such game, or a wrong start position.
        IllegalActionError: an entry that is no action or is illegal in its position; the message
            names the entry and its place in the line, counted from 0.
    """
    state = State(game, [], checked_start(game, start))
    actions: list[int] = []
    for ply, entry in enumerate(text.split()):
        try:
            action = read_action(state, entry)
            state.apply(action)
        except ValueError as error:
            raise IllegalActionError(f"ply {ply}: {_cut(entry)!r}: {_cut(str(error))}") from error
        actions.append(action)
    return actions


def whole_number(text: str, most: int) -> int | None:
    """Return the number in a text; None if it is not a number from 0 to ``most``.

    The whole text must be ASCII digits; leading zeros are allowed.
    """
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0") or "0"
    # The length is compared first, because Python refuses to read thousands of digits.
    return int(digits) if len(digits) <= len(str(most)) and int(digits) <= most else None


def format_actions(game: str, actions: Iterable[int], start: str = "") -> str:
    """Write a line of actions so that ``parse_actions`` reads it.

    Moves of chess are in standard algebraic notation.

    Args:
        game: game name.
        actions: the actions.
        start: the position that they begin at; empty: the usual start.

    Raises:
        ConfigError: no such game.
        ValueError: an action that is illegal in its position, or a wrong start position.
    """
    spec(game)
    state = State(game, [], start)
    words: list[str] = []
    for action in actions:
        words.append(state.action_to_san(action))
        state.apply(action)
    return " ".join(words)


def why_illegal(state: State, action: int, word: str) -> str:
    """Return why an action cannot be played, in a person's own word for it: ``c1 is taken``.

    Args:
        state: not over.
        action: illegal there.
        word: the action as the person wrote it.
    """
    family = base_name(state.game)
    if family == "connect_four":
        return f"column {word} is full"
    if family in _ACTIONS_ARE_POINTS:
        planes, rows, columns = game_spec(state.game).observation_shape
        bits = np.unpackbits(state.observation())[: planes * rows * columns]
        # The first two planes are the stones of the player to move and of the other one.
        if action < rows * columns and bits.reshape(planes, -1)[:2, action].any():
            return f"{word} is taken"
    if family == "go":
        return f"{word} would repeat a position, or take its own stones"
    if family == "othello":
        return f"{word} turns no disc" if action < 64 else "there are discs to turn: no pass"
    return f"{word} is not possible here"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def read_action(state: State, entry: str) -> int:
    """Return the action that a person wrote, in the game's notation or as its number.

    A number is read as an action only if the notation itself is not a number. The action may be
    illegal in the position.

    Raises:
        ValueError: the entry is no action of the game.
    """
    if entry.isdecimal() and not state.action_to_string(0).isdecimal():
        most = game_spec(state.game).num_actions - 1
        number = whole_number(entry, most)
        if number is None:
            raise ValueError(f"the actions are 0 to {most}")
        return number
    return state.string_to_action(entry)


def play_as(state: State, player: int, action: int, word: str = "") -> list[int]:
    """Play an action for a player, even out of turn, and return the actions that were played.

    A player who moves out of turn (handicap stones, positions set up by hand) moves after a pass of
    the other one, if the rules have a pass and it does not end the game.

    Args:
        state: the action is played there.
        player: 0 or 1.
        action: the player's action.
        word: the action as a person wrote it, for the error.

    Raises:
        IllegalActionError: neither is possible; the state is unchanged.
    """
    trial = state.copy()
    played: list[int] = []
    if trial.is_terminal:
        raise IllegalActionError(f"the game is over after {trial.ply} plies")
    if trial.to_play != player:
        played.append(_pass_turn(trial, player))
    try:
        trial.apply(action)
    except ValueError as error:
        reason = why_illegal(trial, action, word) if word else str(error)
        raise IllegalActionError(reason) from error
    played.append(action)
    for each in played:
        state.apply(each)
    return played


def _pass_turn(state: State, player: int) -> int:
    """Pass for the player whose turn it is, so that ``player`` moves next."""
    other = GO_COLOURS[state.to_play]
    try:
        passing = state.string_to_action("pass")
        state.apply(passing)
    except ValueError as error:
        raise IllegalActionError(
            f"it is {other}'s turn, and {other} cannot pass here: {error}"
        ) from error
    if state.is_terminal or state.to_play != player:
        raise IllegalActionError(
            f"it is {other}'s turn, and a pass of {other} would end the game here"
        )
    return passing
