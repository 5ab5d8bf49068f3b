"""The paths of self-play that ``bench.efficiency`` compares."""

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
    """Settings of self-play, which are the same for all paths.

    Args:
        workload: game and network.
        simulations: simulations per move.
        reuse: turns the prediction cache and tree reuse on.
        games: games that one engine plays at the same time.
        engines: engines per process.
    """

    workload: Workload
    simulations: int
    reuse: bool
    games: int
    engines: int

    @property
    def search(self) -> dict[str, Any]:
        """Arguments for ``SearchConfig``."""
        return {
            "num_simulations": self.simulations,
            "reuse_tree": self.reuse,
            "cache_positions": CACHE_POSITIONS if self.reuse else 0,
        }


def self_play(setting: Setting, predictor: Predictor, server: Child | None = None) -> Work:
    """Return a path that plays in this process, with its own engines.

    Args:
        setting: how it plays.
        predictor: answers the engines' requests.
        server: server whose counters are added to the counts; None without a server.
    """
    search = SearchConfig(**setting.search)
    games = Play(setting.workload, search, setting.games, setting.engines)
    if server is None:
        return lambda seconds: games.block(predictor, seconds)
    return lambda seconds: counted(lambda: games.block(predictor, seconds), server)


async def counted(play: Callable[[], Awaitable[Counts]], server: Child) -> Counts:
    """Run a block, and add the server's counters of that time to its counts.

    Args:
        play: plays one block.
        server: runs ``bench.serve_file``.

    Returns:
        The counts of ``play``, and ``server_rows``, ``server_executions``, ``server_success`` and
        ``server_queue_ns``.
    """
    before = server.ask()
    counts = await play()
    after = server.ask()
    return {**counts, **{f"server_{name}": after[name] - before[name] for name in _COUNTERS}}


class Workers:
    """Several processes that play over gRPC at the same time. Use it in ``with``.

    Args:
        setting: how each process plays.
        address: the server's ``host:port``.
        count: number of processes.
        server: server whose counters are added to the counts.
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
                child.receive()
            self._stack = started.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    async def block(self, seconds: float) -> Counts:
        """Play in all processes for ``seconds``, and return the sums of their counts."""

        async def play() -> Counts:
            return ask_all(self.children, str(seconds))

        return await counted(play, self._server)

    def _start(self, number: int) -> Child:
        setting = self._setting
        options = {
            "games": setting.games,
            "engines": setting.engines,
            "seed": number * setting.engines,
            "search": setting.search,
        }
        return Child("bench.play_worker", setting.workload.name, self._address, json.dumps(options))
