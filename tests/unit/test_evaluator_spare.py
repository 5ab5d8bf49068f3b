"""Games in the time between matches: a candidate pauses them, but not forever."""

import asyncio
from typing import Any

from zerofleet.services.evaluator.spare_games import SpareTime


class Games:
    """A number of games to play, each of which takes a few turns of the event loop."""

    def __init__(self, due: int, go: asyncio.Event) -> None:
        self.due = due
        self.games_played = 0
        self.in_play = False
        self._go = go

    async def play_some(self) -> bool:
        if self.games_played == self.due:
            return False
        for _ in range(3):
            await asyncio.sleep(0)
            await self._go.wait()
        self.games_played += 1
        return True


async def played(due: int, scene: Any) -> Games:
    go = asyncio.Event()
    go.set()
    games = Games(due, go)
    spare = SpareTime([games], go)
    running = asyncio.create_task(spare.run())
    try:
        await scene(spare, games)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return games


async def test_it_plays_on_no_longer_than_something_is_due() -> None:
    async def scene(spare: SpareTime, games: Games) -> None:
        with spare.paused():
            await asyncio.sleep(0)
            assert games.games_played == 0
        async with asyncio.timeout(120):  # far less than the hour that it may take
            await spare.play_on(3600)

    assert (await played(5, scene)).games_played == 5


async def test_it_looks_at_once_for_what_came_while_it_rested() -> None:
    async def scene(spare: SpareTime, games: Games) -> None:
        await spare.play_on(3600)  # there is nothing to play, so it waits
        games.due = 2
        await spare.play_on(3600)

    assert (await played(0, scene)).games_played == 2


async def test_its_share_of_the_time_ends() -> None:
    async def scene(spare: SpareTime, games: Games) -> None:
        while not games.games_played:  # a slow machine may play no game in this time
            await spare.play_on(0.05)
        with spare.paused():
            before = games.games_played
            for _ in range(20):
                await asyncio.sleep(0)
            assert games.games_played == before > 0

    assert (await played(10**9, scene)).games_played < 10**9


async def test_no_share_is_no_time() -> None:
    async def scene(spare: SpareTime, games: Games) -> None:
        await spare.play_on(0)
        assert games.games_played == 0

    await played(10**9, scene)
