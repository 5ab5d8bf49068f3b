"""Measure the rules of a game from Python: plies, legal actions, observations and replay.

``python -m bench.rules connect_four`` times each operation on games of random moves. Every call
from Python into the core has a fixed cost, which the row ``call`` shows.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable, Sequence

from bench import blocks as measured
from bench.blocks import Counts, Work
from bench.processes import cpu_clock
from bench.report import Row, parser, positive, run_main, show
from bench.workloads import Workload
from zerofleet.games import State

COLUMNS = {
    "operation": ("operation", ""),
    "per CPU-s": ("per_cpu_second", ",d"),
    "ns": ("nanoseconds", ",.0f"),
    "unit": ("counted", ""),
}
COUNTED = {
    "call": "calls that do nothing",
    "apply": "plies",
    "legal_actions": "positions",
    "encode": "positions",
    "replay": "plies of whole games, one call per game",
}
"""Unit of each operation's rate."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the operations and print a row for each."""
    options = parse(argv)
    workload: Workload = options.workload
    works = operations(workload.game, random_games(workload.game, options.games, seed=1))
    done = asyncio.run(measured.interleave(works, options.seconds, options.blocks, cpu_clock()))
    rows: list[Row] = []
    for name, mine in done.items():
        rate = measured.per_cpu_second(mine, "calls")
        rows.append(
            {
                "bench": "rules",
                "game": workload.name,
                "operation": name,
                "per_cpu_second": round(rate),
                "nanoseconds": round(1e9 / rate, 1),
                "counted": COUNTED[name],
            }
        )
    show(rows, f"{workload.name}, rules from Python", COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    command_line = parser("bench.rules", __doc__)
    command_line.set_defaults(seconds=0.5)
    command_line.add_argument(
        "--games", type=positive(int), default=64, help="games of random moves [64]"
    )
    return command_line.parse_args(argv)


def random_games(game: str, count: int, seed: int) -> list[list[int]]:
    """Return the actions of ``count`` whole games of random moves."""
    chance = random.Random(seed)
    games: list[list[int]] = []
    for _ in range(count):
        state, actions = State(game), list[int]()
        while not state.is_terminal:
            actions.append(chance.choice(state.legal_actions()))
            state.apply(actions[-1])
        games.append(actions)
    return games


def operations(game: str, games: Sequence[Sequence[int]]) -> dict[str, Work]:
    """Return the timed operations by name, on all positions of the games.

    Args:
        game: name with its rules.
        games: the actions of each game.
    """
    positions = [
        State(game, list(actions[:ply])) for actions in games for ply in range(len(actions))
    ]

    def call() -> int:
        for state in positions:
            _ = state.ply
        return len(positions)

    def apply() -> int:
        for actions in games:
            play = State(game).apply
            for action in actions:
                play(action)
        return len(positions)

    def legal_actions() -> int:
        for state in positions:
            state.legal_actions()
        return len(positions)

    def encode() -> int:
        for state in positions:
            state.observation()
        return len(positions)

    def replay() -> int:
        for actions in games:
            State(game, actions)
        return len(positions)

    timed = (call, apply, legal_actions, encode, replay)
    return {operation.__name__: repeated(operation) for operation in timed}


def repeated(operation: Callable[[], int]) -> Work:
    """Return a path that repeats an operation.

    Args:
        operation: returns the number of units that it processed.
    """

    async def block(seconds: float) -> Counts:
        end, calls = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            calls += operation()
        return {"calls": calls}

    return block


if __name__ == "__main__":
    run_main(main)
