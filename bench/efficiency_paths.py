"""The ways of self-play that ``bench.efficiency`` compares."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

from zerofleet_core import SearchConfig

from bench.blocks import Counts, Work
from bench.children import Child, ask_all
from bench.play import Play
from bench.workloads import Workload
from zerofleet.prediction import Predictor

CACHE_POSITIONS = 200_000  # the run file's default
_COUNTERS = ("rows", "executions", "success", "queue_ns")


@dataclass(frozen=True, slots=True)
class Setting:
    """How self-play is set up, the same for all paths."""

    workload: Workload
    simulations: int
    reuse: bool  # prediction cache and kept tree
    games: int  # games of one engine
    engines: int

    @property
    def search(self) -> dict[str, Any]:
        """Arguments of ``SearchConfig``."""
        return {
            "num_simulations": self.simulations,
            "reuse_tree": self.reuse,
            "cache_positions": CACHE_POSITIONS if self.reuse else 0,
        }


def self_play(setting: Setting, predictor: Predictor, server: Child | None = None) -> Work:
    """Self-play in this process, with engines of its own.

    Args:
        setting: of the games.
        predictor: who answers.
        server: whose counters belong to the path.
    """
    search = SearchConfig(**setting.search)
    games = Play(setting.workload, search, setting.games, setting.engines)
    if server is None:
        return lambda seconds: games.block(predictor, seconds)
    return lambda seconds: counted(lambda: games.block(predictor, seconds), server)


async def counted(play: Callable[[], Awaitable[Counts]], server: Child) -> Counts:
    """A block, and what the server counted meanwhile."""
    before = server.ask()
    counts = await play()
    after = server.ask()
    return {**counts, **{f"server_{name}": after[name] - before[name] for name in _COUNTERS}}


class Workers:
    """Processes that play at once, for ``with``.

    Args:
        setting: of each of them.
        address: of the server.
        count: how many.
        server: whose counters belong to the path.
    """

    def __init__(self, setting: Setting, address: str, count: int, server: Child) -> None:
        self.children: list[Child] = []
        self._setting = setting
        self._address = address
        self._count = count
        self._server = server

    def __enter__(self) -> Self:
        with ExitStack() as started:
            for number in range(self._count):
                self.children.append(started.enter_context(self._start(number)))
            for child in self.children:
                child.hear()
            self._stack = started.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    async def block(self, seconds: float) -> Counts:
        """All of them play for a while."""

        async def play() -> Counts:
            return ask_all(self.children, str(seconds))

        return await counted(play, self._server)

    def _start(self, number: int) -> Child:
        setting = self._setting
        how = {
            "games": setting.games,
            "engines": setting.engines,
            "seed": number * setting.engines,
            "search": setting.search,
        }
        return Child("bench.play_worker", setting.workload.name, self._address, json.dumps(how))
