"""Ratings of the pool: stored when there are new results, and only then."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from services.evaluator.office import Office
from services.evaluator.pool import RatingPool
from services.evaluator.referee import Referee
from zerofleet.config import run_from_values
from zerofleet.database import Database
from zerofleet.waiting import Waits


@dataclass(frozen=True)
class Games:
    """A row of results."""

    player: str
    opponent: str
    wins: int
    draws: int
    losses: int


@dataclass
class Record:
    """What of the database is asked for ratings."""

    results: list[Games] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)
    anchors: list[Any] = field(default_factory=list)

    def player_results(self, run: str) -> list[Games]:
        return list(self.results)

    def upsert_ratings(self, run: str, ratings: Any) -> None:
        self.models.append(ratings)

    def upsert_anchor_ratings(self, run: str, ratings: Any) -> None:
        self.anchors.append(ratings)


async def test_the_same_results_are_rated_once() -> None:
    record = Record([Games("1", "random", 9, 0, 1)])
    run = run_from_values({"name": "r", "game": {"name": "tic_tac_toe"}})
    office = Office(run, cast("Database", record), Waits(), "w", 1)
    pool = RatingPool(office, cast("Referee", None), asyncio.Event())  # no game is played
    await pool.rate()
    await pool.rate()
    assert record.models == [[(1, 0.0, 0.0)]]
    [[(name, elo, _)]] = record.anchors
    assert name == "random"
    assert elo < 0

    record.results.append(Games("2", "1", 5, 0, 5))
    await pool.rate()
    assert [len(ratings) for ratings in record.models] == [1, 2]
    assert record.models[1][1][:2] == (2, pytest.approx(0.0, abs=1e-6))
