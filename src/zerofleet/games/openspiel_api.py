"""What is used of OpenSpiel's Python module, which has no types of its own."""

from __future__ import annotations

from typing import Protocol


class SpielState(Protocol):
    """A ``pyspiel.State``."""

    def is_terminal(self) -> bool:
        """Whether the game is over."""
        ...

    def current_player(self) -> int:
        """Who moves; negative after the end."""
        ...

    def legal_actions(self) -> list[int]:
        """In ascending order."""
        ...

    def apply_action(self, action: int) -> None:
        """Play a legal action."""
        ...

    def clone(self) -> SpielState:
        """An independent copy."""
        ...

    def returns(self) -> list[float]:
        """[players] what each has won so far."""
        ...

    def observation_tensor(self, player: int) -> list[float]:
        """Of the shape that the game says, flat."""
        ...

    def information_state_tensor(self, player: int) -> list[float]:
        """Of the shape that the game says, flat."""
        ...

    def action_to_string(self, player: int, action: int) -> str:
        """How a legal action is written here."""
        ...


class Named(Protocol):
    """A value of an enumeration."""

    name: str


class SpielKind(Protocol):
    """A ``pyspiel.GameType``."""

    short_name: str
    default_loadable: bool
    provides_observation_tensor: bool
    provides_information_state_tensor: bool
    dynamics: Named
    chance_mode: Named
    information: Named
    utility: Named


class SpielGame(Protocol):
    """A ``pyspiel.Game``; as text it is its name with all parameters."""

    def get_type(self) -> SpielKind:
        """What kind of game it is."""
        ...

    def new_initial_state(self) -> SpielState:
        """The start."""
        ...

    def num_players(self) -> int:
        """With these parameters."""
        ...

    def num_distinct_actions(self) -> int:
        """Actions are 0 to this, exclusive."""
        ...

    def max_game_length(self) -> int:
        """In plies."""
        ...

    def observation_tensor_shape(self) -> list[int]:
        """Of any number of dimensions."""
        ...

    def information_state_tensor_shape(self) -> list[int]:
        """Of any number of dimensions."""
        ...


class Pyspiel(Protocol):
    """The module."""

    SpielError: type[Exception]

    def registered_names(self) -> list[str]:
        """Names of all games."""
        ...

    def registered_games(self) -> list[SpielKind]:
        """Kinds of all games."""
        ...

    def load_game(self, name: str) -> SpielGame:
        """Make a game; raises ``SpielError``."""
        ...
