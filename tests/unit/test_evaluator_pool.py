"""Ratings of the pool: stored when there are new results, and only then."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from zerofleet.config import run_from_values
from zerofleet.database import EvaluatorDatabase
from zerofleet.services.evaluator.context import EvaluatorContext, Players
from zerofleet.services.evaluator.spare_games import RatingPool
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
    """The part of the database that ratings need."""

    results: list[Games] = field(default_factory=list)
    ratings: list[Any] = field(default_factory=list)

    def player_results(self, run: str) -> list[Games]:
        return list(self.results)

    def upsert_ratings(self, run: str, ratings: Any) -> None:
        self.ratings.append(ratings)


async def test_the_same_results_are_rated_once() -> None:
    record = Record([Games("1", "random", 9, 0, 1)])
    run = run_from_values({"name": "r", "game": {"name": "tic_tac_toe"}})
    context = EvaluatorContext(run, cast("EvaluatorDatabase", record), Waits(), "w", 1)
    pool = RatingPool(context, cast("Players", None), asyncio.Event())  # no game is played
    await pool.rate()
    await pool.rate()
    [[model, (anchor, elo, _)]] = record.ratings
    assert model == ("1", 0.0, 0.0)
    assert anchor == "random"
    assert elo < 0

    record.results.append(Games("2", "1", 5, 0, 5))
    await pool.rate()
    assert [len(ratings) for ratings in record.ratings] == [2, 3]
    assert record.ratings[1][1][:2] == ("2", pytest.approx(0.0, abs=1e-6))
