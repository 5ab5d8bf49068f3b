"""Let a trained player play a game against itself, move by move: the blocking client.

python examples/play_a_game.py 127.0.0.1:8001
"""

from __future__ import annotations

import sys

from zerofleet.client import Player
from zerofleet.errors import InvalidRequestError, ZerofleetError


def main(address: str) -> None:
    """Print each move with the value and the model that chose it."""
    with Player(address) as player:
        description = player.describe()
        print(f"{description.game}, model {description.best} of the run '{description.run}'")
        moves: list[str] = []
        while True:
            try:
                played = player.play(moves, simulations=200, temperature=0.2)
            except InvalidRequestError as error:  # the game is over
                print(error)
                break
            moves.append(played.action_string)
            name = "first" if len(moves) % 2 else "second"
            print(
                f"{len(moves):2}. {name:6} {played.action_string:3} value {played.root_value:+.2f}"
            )
        print("the game:", " ".join(moves))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2] or ["127.0.0.1:8001"])
    except ZerofleetError as error:
        sys.exit(f"play_a_game: {error}")
