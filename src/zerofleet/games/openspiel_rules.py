"""A game of OpenSpiel, as the core asks for it."""

from __future__ import annotations

import numpy as np

from zerofleet.games.openspiel_api import SpielGame, SpielState
from zerofleet.games.openspiel_sample import take_sample
from zerofleet.games.openspiel_tensor import PlaneCode, Tensor

_MOST_PLIES = 30_000  # positions.ply is a smallint


class OpenSpielRules:
    """The rules of one game of OpenSpiel.

    Player 0 is who moves first, whatever OpenSpiel's number of that player is. An action is written
    as OpenSpiel writes it in the position, without spaces; where it is not legal, as OpenSpiel
    writes it everywhere if that is one word, otherwise as its number. Returns count by their sign.
    A game that reaches ``max_length`` is a draw.
    """

    num_symmetries = 1

    def __init__(self, game: SpielGame) -> None:
        self.game = game
        self.tensor = Tensor(game)
        sample = take_sample(game, self.tensor)
        self.code = PlaneCode(sample.values, self.tensor.shape)
        self.num_actions = game.num_distinct_actions()
        self.observation_shape = self.code.shape
        self.max_length = min(game.max_game_length(), _MOST_PLIES)
        self.first = game.new_initial_state().current_player()
        self._texts = sample.texts
        self._actions = {text: action for action, text in sample.texts.items()}
        self.any_case = sample.any_case
        self._any_case_actions = {text.casefold(): action for text, action in self._actions.items()}

    def start(self) -> OpenSpielPosition:
        """See ``Rules``."""
        return OpenSpielPosition(self, self.game.new_initial_state(), 0, 0)

    def symmetric_point(self, point: int, symmetry: int) -> int:
        """See ``Rules``; OpenSpiel does not say what a game's symmetries are."""
        del symmetry
        return point

    def symmetric_action(self, action: int, symmetry: int) -> int:
        """See ``Rules``."""
        del symmetry
        return action

    def action_to_string(self, action: int) -> str:
        """See ``Rules``."""
        return self._texts.get(action, str(action))

    def string_to_action(self, text: str) -> int | None:
        """See ``Rules``; the number of an action does for every action."""
        if text in self._actions:
            return self._actions[text]
        if self.any_case and text.casefold() in self._any_case_actions:
            return self._any_case_actions[text.casefold()]
        if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) < self.num_actions:
            return int(text)
        return None


class OpenSpielPosition:
    """A state of OpenSpiel's with the ply and who is to play."""

    __slots__ = ("_names_here", "_ply", "_rules", "_state", "is_terminal", "to_play")

    def __init__(self, rules: OpenSpielRules, state: SpielState, ply: int, to_play: int) -> None:
        self._rules = rules
        self._state = state
        self._ply = ply
        self._names_here: dict[int, str] | None = None  # of legal actions, once somebody asks
        self.to_play = to_play
        self.is_terminal = ply >= rules.max_length or state.is_terminal()

    @property
    def result(self) -> int:
        """See ``Position``."""
        if not self._state.is_terminal():
            return 0
        return int(np.sign(self._state.returns()[self._rules.first]))

    def legal_actions(self) -> list[int]:
        """See ``Position``."""
        return self._state.legal_actions()

    def apply(self, action: int) -> None:
        """See ``Position``; after the end, the player who did not move last is to play."""
        self._state.apply_action(action)
        self._ply += 1
        self._names_here = None
        over = self._state.is_terminal()
        self.is_terminal = over or self._ply >= self._rules.max_length
        mover = self.to_play
        self.to_play = 1 - mover if over else int(self._state.current_player() != self._rules.first)

    def copy(self) -> OpenSpielPosition:
        """See ``Position``."""
        return OpenSpielPosition(self._rules, self._state.clone(), self._ply, self.to_play)

    def name_of(self, action: int) -> str | None:
        """How OpenSpiel writes a legal action here, without spaces, if no other is written so."""
        names = self._names()
        name = names.get(action)
        return None if name is None or list(names.values()).count(name) > 1 else name

    def action_named(self, text: str) -> int | None:
        """The legal action that is written so here."""
        names = self._names()
        matches = [action for action, name in names.items() if name == text]
        if not matches and self._rules.any_case:
            matches = [a for a, name in names.items() if name.casefold() == text.casefold()]
        return matches[0] if len(matches) == 1 else None

    def _names(self) -> dict[int, str]:
        if self._state.is_terminal():
            return {}
        if self._names_here is None:
            player = self._state.current_player()
            self._names_here = {
                action: "".join(self._state.action_to_string(player, action).split())
                for action in self._state.legal_actions()
            }
        return self._names_here

    def packed_observation(self) -> bytes:
        """See ``Position``."""
        rules = self._rules
        player = rules.first if self.to_play == 0 else 1 - rules.first
        planes = rules.tensor.read(self._state, player)
        return np.packbits(rules.code.encode(planes, self.to_play)).tobytes()

    def __str__(self) -> str:
        return str(self._state)
