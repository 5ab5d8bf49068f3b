"""Self-play process for ``bench.efficiency --workers``, with predictions from a server.

``python -m bench.play_worker WORKLOAD ADDRESS SETTINGS`` prints a line when it is ready. For each
number on standard input it plays for this many seconds, and prints what it counted. Both are lines
of JSON. It ends when standard input closes.

SETTINGS is a JSON object with ``games``, ``engines``, ``seed``, and the arguments of
``SearchConfig`` under ``search``.
"""

from __future__ import annotations

import asyncio
import json
import sys

from zerofleet_core import SearchConfig

from bench.play import Play
from bench.serve_file import RUN
from bench.workloads import workload
from zerofleet.client import AsyncModel


async def play(games: Play, address: str) -> None:
    """Play one block for each line of standard input.

    Args:
        games: the games and their engines.
        address: host and port of the inference server.
    """
    async with AsyncModel(address, RUN) as model, model.stream() as stream:
        print(json.dumps({"ready": 1}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(dict(await games.block(stream, float(line)))), flush=True)


def main() -> None:
    """Start the games and play them."""
    name, address, text = sys.argv[1:]
    settings = json.loads(text)
    search = SearchConfig(**settings["search"])
    games = Play(
        workload(name), search, settings["games"], settings["engines"], seed=settings["seed"]
    )
    asyncio.run(play(games, address))


if __name__ == "__main__":
    main()
