"""A process that plays against a server; ``bench.efficiency --workers`` starts some.

``python -m bench.play_worker WORKLOAD ADDRESS SETTINGS`` says that it is ready; for each line with
a number it plays for so many seconds and says what it did. It leaves when its standard input
closes. SETTINGS are JSON: games, engines, seed, and the search's own under search.
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
    """Play when told to."""
    async with AsyncModel(address, RUN) as model, model.stream() as stream:
        print(json.dumps({"ready": 1}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(dict(await games.block(stream, float(line)))), flush=True)


def main() -> None:
    """Begin games, then play them."""
    name, address, text = sys.argv[1:]
    settings = json.loads(text)
    search = SearchConfig(**settings["search"])
    games = Play(
        workload(name), search, settings["games"], settings["engines"], seed=settings["seed"]
    )
    asyncio.run(play(games, address))


if __name__ == "__main__":
    main()
