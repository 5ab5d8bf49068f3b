"""Players of one's own, good and faulty ones, for ``test_match_own_player``."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zerofleet.games import State
from zerofleet.player import Player


class First(Player):
    """Plays the first legal action, and prints."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        print("thinking about", self.game, actions)  # noqa: T201
        return state.legal_actions()[0]


class Illegal(Player):
    """Plays what is taken."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        return actions[-1] if actions else -1


class Nothing(Player):
    """Forgets to return."""

    def choose(self, state: State, actions: Sequence[int]) -> Any:
        pass


class Raises(Player):
    """Has a mistake."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        raise KeyError("lost\nkey")


class Unmade(Player):
    """Cannot be made."""

    def __init__(self, game: str) -> None:
        raise FileNotFoundError("weights.bin")

    def choose(self, state: State, actions: Sequence[int]) -> int:
        return 0


class Short(Player):
    """Has another signature."""

    def choose(self, state: State) -> int:  # type: ignore[override]  # pyright: ignore
        return 0


class Abstract(Player):
    """Has no choose."""


class Ends(Player):
    """Ends its process."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        os._exit(1)


class EndsOnce(Player):
    """Ends its process the first time."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        ended = Path(os.environ["ENDED"])
        if not ended.exists():
            ended.touch()
            os._exit(1)
        assert not any(name.startswith("ZEROFLEET_") for name in os.environ)
        return state.legal_actions()[0]


class Hangs(Player):
    """Never answers."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        time.sleep(600)
        return 0


class NoPlayer:
    """Is another class."""
