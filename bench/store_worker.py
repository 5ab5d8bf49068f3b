"""A process that stores games as fast as Postgres takes them; ``bench.store`` starts some.

``python -m bench.store_worker URL WORKLOAD SEED`` plays a batch of games and says that it is ready;
for each line with a number it submits that batch for so many seconds, each time under new uids, and
says what it stored. It leaves when its standard input closes.
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

BATCH_GAMES = 64  # as the worker's own writer sends them


def store(
    database: SelfplayDatabase, name: str, records: list[GameRecord], seconds: float
) -> dict[str, int]:
    """Submit the records over and over; what Postgres has committed."""
    end, games, positions = time.monotonic() + seconds, 0, 0
    while games == 0 or time.monotonic() < end:
        submit(database, name, records)
        games += len(records)
        positions += sum(record.length for record in records)
    return {"games": games, "positions": positions}


def submit(database: SelfplayDatabase, name: str, records: Sequence[GameRecord]) -> None:
    """Submit the records once, under new uids.

    Raises:
        SystemExit: Postgres does not take all of them.
    """
    batch = [
        Submission(dataclasses.replace(each, game_uid=new_game_uid(datetime.now(UTC))))
        for each in records
    ]
    answers = set(database.submit_games(RUN, name, batch))
    if answers != {"stored"}:
        raise SystemExit(f"Postgres answers {answers} to games that were just played")


def main() -> None:
    """Store when told to."""
    url, game, seed = sys.argv[1:]
    records = played_games(workload(game), BATCH_GAMES, int(seed))
    with SelfplayDatabase(url) as database:
        print(json.dumps({"ready": 1}), flush=True)
        for line in sys.stdin:
            done = store(database, f"bench-{seed}", records, float(line))
            print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
