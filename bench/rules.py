"""The rules alone, as Python calls them: plies, legal actions, observations, replay.

``python -m bench.rules connect_four`` times one call after another on games of random moves. A call
of Python into the core costs something by itself, whatever it does: the row ``call`` says how much.
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
    "each CPU-s": ("per_cpu_second", ",d"),
    "ns": ("nanoseconds", ",.0f"),
    "what is counted": ("counted", ""),
}
COUNTED = {
    "call": "calls that do nothing",
    "apply": "plies",
    "legal_actions": "positions",
    "encode": "positions",
    "replay": "plies of whole games, one call a game",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
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
    """The command line."""
    found = parser("bench.rules", __doc__)
    found.set_defaults(seconds=0.5)
    found.add_argument("--games", type=positive(int), default=64, help="of random moves [64]")
    return found.parse_args(argv)


def random_games(game: str, count: int, seed: int) -> list[list[int]]:
    """The actions of whole games of random moves."""
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
    """Return the timed operations by name; the positions are all that occur in the games."""
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

    return {one.__name__: repeated(one) for one in (call, apply, legal_actions, encode, replay)}


def repeated(once: Callable[[], int]) -> Work:
    """A block that does one thing over and over."""

    async def block(seconds: float) -> Counts:
        end, calls = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            calls += once()
        return {"calls": calls}

    return block


if __name__ == "__main__":
    run_main(main)
