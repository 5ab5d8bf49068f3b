"""Watch searches of several positions at once: the client for asyncio.

    python examples/analyse_async.py 127.0.0.1:8001 "4 4 3" "4 3"

Each position is the moves that lead to it, as the game writes them.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

from zerofleet.client import AsyncPlayer, SearchTable
from zerofleet.errors import ZerofleetError


def line(position: str, table: SearchTable) -> str:
    """The best three moves of a table."""
    children = sorted(table.children, key=lambda child: -child.visit_count)[:3]
    moves = "  ".join(f"{child.action_string} {child.visit_count:4}" for child in children)
    return f"[{position}] {table.simulations:4} simulations  value {table.root_value:+.2f}  {moves}"


async def analyse(player: AsyncPlayer, position: str) -> None:
    """Print the table four times while the search runs."""
    tables = player.analyze(position, simulations=800, every_simulations=200)
    async with aclosing(tables):  # leaving early ends the search at the server, too
        async for table in tables:
            print(line(position, table))


async def main(address: str, positions: list[str]) -> None:
    """Analyse all positions together."""
    async with AsyncPlayer(address) as player, asyncio.TaskGroup() as group:
        for position in positions:
            group.create_task(analyse(player, position))


if __name__ == "__main__":
    address, *positions = sys.argv[1:] or ["127.0.0.1:8001"]
    try:
        asyncio.run(main(address, positions or ["", "4"]))
    except* ZerofleetError as errors:
        sys.exit(f"analyse_async: {errors.exceptions[0]}")
