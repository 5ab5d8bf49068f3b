"""Whole games of a loop's newest model: against the solver, anchors, and another loop's model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerofleet.config import RunConfig
from zerofleet.database import MatchGame
from zerofleet.exam import ENDINGS, SOLVER_CHOICES, play_endings, play_first, play_second
from zerofleet.exam.examined_player import ExaminedPlayer
from zerofleet.exam.gnu_go import LEVELS, play_gnu_go
from zerofleet.games.chess import is_chess
from zerofleet.match.anchors import anchor_player
from zerofleet.match.play_match import PairQueue, SearchPlayer, draw_openings, play_match
from zerofleet.prediction import Predictor
from zerofleet.search_configs import match_search

PairScores = NDArray[np.float64]
"""Points per game of the first player, ``[pairs]``: the mean of both games of each opening."""

_PAIRS_AT_ONCE = 32
_PROGRAMS_AT_ONCE = 16  # games with a GTP program: each has its own process


async def play_perfect(run: RunConfig, predictor: Predictor, games: int) -> dict[str, Any]:
    """Against the solver, by the run's ``[search]`` at the simulations of its ``[exam]``.

    In chess: this many games from each won ending, under ``won_MATERIAL``.
    """
    simulations = run.exam.num_simulations
    player = ExaminedPlayer.of(run.game.name, predictor, simulations, run.search)
    found = dict[str, Any]()
    if is_chess(run.game.name):
        for material in ENDINGS:
            ended = await play_endings(player, material, games)
            found[f"won_{material}"] = asdict(ended)
        return found
    for choice in SOLVER_CHOICES:
        first = await play_first(player, games, choice, run.seed)
        second = await play_second(player, -(-games // 7), choice, run.seed)
        found |= {
            f"perfect_first_{choice}": asdict(first),
            f"perfect_second_{choice}": asdict(second),
        }
    return found


async def play_gnugo(run: RunConfig, predictor: Predictor, games: int) -> dict[str, Any]:
    """Against GNU Go at each level, by the run's ``[search]`` and ``[exam]``."""
    found: list[dict[str, Any]] = []
    for level in LEVELS:
        ended = await play_gnu_go(run, predictor, level, games, run.exam.num_simulations)
        derived = ("given_up", "mean_margin", "even_komi")
        found.append(asdict(ended) | {name: getattr(ended, name) for name in derived})
    return {"gnugo": found}


async def play_anchors(
    run: RunConfig, predictor: Predictor, names: Sequence[str], games: int
) -> dict[str, Any]:
    """Against each anchor, by the run's ``[search]`` at the simulations of its ``[exam]``.

    Args:
        names: anchors that can play here; ``search`` has as many simulations.
        games: an even number, half with each colour from the same random openings. Fewer are played
            if there are fewer openings.

    Raises:
        EngineError, GtpError: a program cannot play.
    """
    game, simulations = run.game.name, run.exam.num_simulations
    player = SearchPlayer(predictor, match_search(run.search, simulations))
    openings = draw_openings(game, run.evaluator.opening_plies, games // 2, run.seed)
    places = [(opening, colour) for opening in range(len(openings)) for colour in (0, 1)]
    thinking = asyncio.Semaphore(os.cpu_count() or 1)
    found: list[dict[str, Any]] = []
    for name in names:
        played: list[MatchGame] = []

        async def keep(finished: Sequence[MatchGame], played: list[MatchGame] = played) -> None:
            played.extend(finished)

        for begin in range(0, len(places), _PROGRAMS_AT_ONCE):
            async with AsyncExitStack() as programs:
                other = anchor_player(name, game, simulations, run.seed, programs, thinking, None)
                queue = PairQueue(places[begin : begin + _PROGRAMS_AT_ONCE], _PAIRS_AT_ONCE)
                await play_match(game, openings, (player, other), queue, keep)
        scores = [each.score for each in played]
        found.append(
            {
                "anchor": name,
                "games": len(played),
                "wins": scores.count(1.0),
                "draws": scores.count(0.5),
                "losses": scores.count(0.0),
                "forfeits": sum(each.remark is not None for each in played),
            }
        )
    return {"anchors": found}


async def play_pairs(
    run: RunConfig, players: tuple[Predictor, Predictor], games: int
) -> PairScores:
    """Two networks against each other, from random openings that are each played twice.

    Args:
        run: whose match this is: its openings, and its ``[search]`` for both, at the simulations of
            its ``[exam]``.
        players: the first is the one whose points are counted.
        games: an even number, or one more is played.
    """
    openings = draw_openings(run.game.name, run.evaluator.opening_plies, -(-games // 2), run.seed)
    search = match_search(run.search, run.exam.num_simulations)
    first, second = (SearchPlayer(predictor, search) for predictor in players)
    scores = np.zeros((len(openings), 2))

    async def keep(finished: Sequence[MatchGame]) -> None:
        for game in finished:
            scores[game.opening, game.color] = game.score

    places = [(opening, colour) for opening in range(len(openings)) for colour in (0, 1)]
    queue = PairQueue(places, _PAIRS_AT_ONCE)
    await play_match(run.game.name, openings, (first, second), queue, keep)
    return scores.mean(axis=1)
