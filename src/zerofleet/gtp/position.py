"""The game that a controller has set up, move by move."""

from __future__ import annotations

from collections.abc import Sequence

from zerofleet_core import State

from zerofleet.errors import IllegalActionError
from zerofleet.games.alternation import play_as
from zerofleet.gtp.protocol import GtpError


class GtpPosition:
    """A position and how it came about.

    Args:
        game: Go, with its rules.
    """

    def __init__(self, game: str) -> None:
        self.game = game
        self.state = State(game)
        self._moves: list[list[int]] = []  # the actions that each move became

    @property
    def actions(self) -> list[int]:
        """Everything played, from the start; passes put in between included."""
        return [action for move in self._moves for action in move]

    def clear(self) -> None:
        """Back to the empty board."""
        self.set_actions(())

    def set_actions(self, actions: Sequence[int]) -> None:
        """Replace the game; the actions are legal."""
        self.state = State(self.game, actions)
        self._moves = [[action] for action in actions]

    def play(self, player: int, move: str) -> None:
        """A move of a player; out of turn it comes after a pass of the other one.

        Once the game is over, further passes change nothing and are accepted: controllers count
        them their own way.

        Raises:
            GtpError: it cannot be played.
        """
        try:
            action = self.state.string_to_action(move)
        except ValueError as error:
            raise GtpError(f"'{move}' is not a vertex of this board") from error
        if self.state.is_terminal and move.lower() == "pass":
            self._moves.append([])
            return
        try:
            self._moves.append(play_as(self.state, player, action, move))
        except IllegalActionError as error:
            raise GtpError(f"illegal move: {error}") from error

    def undo(self) -> None:
        """Take the last move back, with the pass before it that was put in.

        Raises:
            GtpError: there is none.
        """
        if not self._moves:
            raise GtpError("cannot undo: nothing was played")
        self._moves.pop()
        self.state = State(self.game, self.actions)

    def asked_as(self, player: int | None) -> list[int]:
        """The actions after which this player (None: the one whose turn it is) is to move.

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
