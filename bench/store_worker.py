"""Process that stores games as fast as Postgres accepts them, for ``bench.store``.

``python -m bench.store_worker URL WORKLOAD SEED`` plays a batch of games and prints a line when it
is ready. For each number on standard input it submits the batch repeatedly for this many seconds,
each time with new uids. Then it prints how much it stored. Its output is lines of JSON. It ends
when standard input closes.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from bench.games_played import RUN, played_games
from bench.workloads import workload
from zerofleet.database import SelfplayDatabase, Submission
from zerofleet.records import GameRecord, new_game_uid

BATCH_GAMES = 64  # as in a worker


def store(
    database: SelfplayDatabase, name: str, records: list[GameRecord], seconds: float
) -> dict[str, int]:
    """Submit the games repeatedly, for at least this time.

    Args:
        database: the database.
        name: name of the worker.
        records: the games.
        seconds: seconds of the block.

    Returns:
        The number of committed ``games`` and ``positions``.

    Raises:
        SystemExit: see ``submit``.
    """
    end, games, positions = time.monotonic() + seconds, 0, 0
    while games == 0 or time.monotonic() < end:
        submit(database, name, records)
        games += len(records)
        positions += sum(record.length for record in records)
    return {"games": games, "positions": positions}


def submit(database: SelfplayDatabase, name: str, records: Sequence[GameRecord]) -> None:
    """Submit games once, with new uids.

    Args:
        database: the database.
        name: name of the worker.
        records: the games.

    Raises:
        SystemExit: Postgres does not store all of them.
    """
    batch = [
        Submission(dataclasses.replace(each, game_uid=new_game_uid(datetime.now(UTC))))
        for each in records
    ]
    answers = set(database.submit_games(RUN, name, batch))
    if answers != {"stored"}:
        raise SystemExit(f"Postgres did not store new games; it returned {answers}")


def main() -> None:
    """Play a batch, and store it for each line of standard input."""
    url, game, seed = sys.argv[1:]
    records = played_games(workload(game), BATCH_GAMES, int(seed))
    with SelfplayDatabase(url) as database:
        print(json.dumps({"ready": 1}), flush=True)
        for line in sys.stdin:
            done = store(database, f"bench-{seed}", records, float(line))
            print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
