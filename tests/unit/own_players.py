"""Players of one's own, good and faulty ones, for ``test_match_own_player``."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zerofleet.games import State
from zerofleet.own_player import OwnPlayer


class First(OwnPlayer):
    """Plays the first legal action, and prints."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        print("thinking about", self.game, actions)  # noqa: T201
        return state.legal_actions()[0]


class Illegal(OwnPlayer):
    """Plays what is taken."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        return actions[-1] if actions else -1


class Nothing(OwnPlayer):
    """Forgets to return."""

    def choose(self, state: State, actions: Sequence[int]) -> Any:
        pass


class Huge(OwnPlayer):
    """Returns a number that is no action."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        return 10**5000


class Unprintable:
    """Has no text."""

    def __repr__(self) -> str:
        raise ValueError("no text")


class Silent(OwnPlayer):
    """Returns an object without a text."""

    def choose(self, state: State, actions: Sequence[int]) -> Any:
        return Unprintable()


class Raises(OwnPlayer):
    """Has a mistake."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        raise KeyError("lost\nkey")


class Unmade(OwnPlayer):
    """Cannot be made."""

    def __init__(self, game: str) -> None:
        raise FileNotFoundError("weights.bin")

    def choose(self, state: State, actions: Sequence[int]) -> int:
        return 0


class Short(OwnPlayer):
    """Has another signature."""

    def choose(self, state: State) -> int:  # type: ignore[override]  # pyright: ignore
        return 0


class Abstract(OwnPlayer):
    """Has no choose."""


class Ends(OwnPlayer):
    """Ends its process."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        os._exit(1)


class EndsOnce(OwnPlayer):
    """Ends its process the first time."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        ended = Path(os.environ["ENDED"])
        if not ended.exists():
            ended.touch()
            os._exit(1)
        assert not any(name.startswith("ZEROFLEET_") for name in os.environ)
        return state.legal_actions()[0]


class Hangs(OwnPlayer):
    """Never answers."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        time.sleep(600)
        return 0


class NoPlayer:
    """Is another class."""
