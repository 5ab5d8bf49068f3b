"""A GTP engine, all that it says, and a player behind it that answers by rote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from zerofleet_core import State, game_spec

from zerofleet.engine_lines import EngineOptions
from zerofleet.gtp.engine import Engine
from zerofleet.rpc.player_service import (
    PlayerDescription,
    PositionPrediction,
    SearchChild,
    SearchOptions,
    SearchTable,
)

GAME = "go(size=5,komi=7.5,suicide=false)"


class FirstFree:
    """Wants the first legal action; each search shows one table, then is ``complete`` or waits."""

    def __init__(self, *, complete: bool = True) -> None:
        self.asked: list[tuple[list[int], int]] = []
        self.starts: list[str] = []  # start position of each search
        self.closed = 0
        self.error: Exception | None = None
        self._complete = complete

    async def analyze(
        self, actions: list[int], *, game: str, simulations: int, start: str = "", **_: Any
    ) -> AsyncGenerator[SearchTable]:
        self.asked.append((actions, simulations))
        self.starts.append(start)
        if self.error is not None:
            raise self.error
        try:
            yield table(game, actions, start)
            if not self._complete:
                await asyncio.Event().wait()
        finally:
            self.closed += 1

    async def predict(
        self, actions: list[int], *, game: str, start: str = "", **_: Any
    ) -> PositionPrediction:
        self.starts.append(start)
        state = State(game, actions, start)
        legal = state.legal_actions()
        words = tuple(map(state.action_to_string, legal))
        priors = (1 / len(legal),) * len(legal)
        return PositionPrediction("run", 4, state.to_play, 0.5, tuple(legal), words, priors)


def table(game: str, actions: list[int], start: str = "") -> SearchTable:
    state = State(game, actions, start)
    best = state.legal_actions()[0]
    name = state.action_to_string(best)
    child = SearchChild(best, name, 3, 0.5, 0.0, (best,))
    return SearchTable("run", 4, state.to_play, 3, 0.0, 0.0, best, name, (child,), True)


def described(game: str = GAME) -> PlayerDescription:
    spec = game_spec(game)
    return PlayerDescription(
        game, spec.num_actions, spec.observation_shape, "run", 4, (3, 4), 100, 20_000, 20_000
    )


class Session:
    """An engine, and all that it has said."""

    def __init__(self, player: FirstFree, game: str = GAME) -> None:
        self.text = ""
        self.complaints: list[str] = []
        self._spoke = asyncio.Event()
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()
        options = EngineOptions(search=SearchOptions(simulations=10))
        self.engine = Engine(
            player,  # type: ignore[arg-type]
            described(game),
            options,
            self._say,
            self.complaints.append,
        )

    def _say(self, text: str) -> None:
        self.text += text
        self._spoke.set()

    async def run(self, *lines: str) -> None:
        """Answer these lines, to the end."""
        for line in lines:
            self.lines.put_nowait(f"{line}\n")
        self.lines.put_nowait(None)
        await self.engine.run(self.lines)

    async def until(self, text: str) -> None:
        """Wait until the engine has said this."""
        while text not in self.text:
            self._spoke.clear()
            await self._spoke.wait()


async def said(*lines: str, player: FirstFree | None = None) -> str:
    """Everything the engine says to these lines."""
    session = Session(player or FirstFree())
    await session.run(*lines)
    assert session.complaints == []
    return session.text
