"""Whole games of a trained model: against the solver, GNU Go, anchors, and another model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

from zerofleet.config import RunConfig
from zerofleet.cpus import usable_cpus
from zerofleet.database import MatchGame
from zerofleet.exam import (
    ENDINGS,
    SOLVER_CHOICES,
    PerfectPlay,
    play_endings,
    play_first,
    play_second,
)
from zerofleet.exam.examined_player import ExaminedPlayer
from zerofleet.exam.gnu_go import LEVELS, GnuGoGames, play_gnu_go
from zerofleet.games.chess import is_chess
from zerofleet.match.anchors import anchor_player
from zerofleet.match.play_match import (
    PairQueue,
    SearchPlayer,
    play_match,
    random_openings,
)
from zerofleet.prediction import Predictor
from zerofleet.search_configs import match_search

PairScores = list[tuple[float, float]]
"""Scores of the first player in both games of each opening, ``[pairs][2]``."""
Results = list[dict[str, Any]]
"""One result for each opponent, with ``opponent``, ``games``, ``wins``, ``draws``, ``losses``."""

_PAIRS_AT_ONCE = 32
_PROGRAMS_AT_ONCE = 16  # games with a program: each has its own process


async def play_perfect(run: RunConfig, predictor: Predictor, games: int) -> Results:
    """Play against the solver, with the run's ``[search]`` and the simulations of its ``[exam]``.

    Args:
        run: the run whose search the model has; its game is Connect Four or chess.
        predictor: the model.
        games: games with each solver as first player, and a seventh of them as second player; in
            chess, games from each won ending.
    """
    simulations = run.exam.num_simulations
    player = ExaminedPlayer.of(run.game.name, predictor, simulations, run.search)
    found: Results = []
    if is_chess(run.game.name):
        for material in ENDINGS:
            ended = await play_endings(player, material, games)
            found.append(_row(f"best defence in {material}", ended))
        return found
    for choice in SOLVER_CHOICES:
        for side, play, number in (
            ("first", play_first, games),
            ("second", play_second, -(-games // 7)),
        ):
            ended = await play(player, number, choice, run.seed)
            found.append(_row(f"solver ({choice}), as {side} player", ended))
    return found


async def play_gnugo(run: RunConfig, predictor: Predictor, games: int) -> Results:
    """Play against GNU Go at each level, with the run's ``[search]`` and ``[exam]``."""
    found: Results = []
    for level in LEVELS:
        ended = await play_gnu_go(run, predictor, level, games, run.exam.num_simulations)
        derived = ("given_up", "mean_margin", "even_komi")
        figures = {name: getattr(ended, name) for name in derived}
        found.append(_row(f"GNU Go, level {level}", ended) | figures)
    return found


async def play_anchors(
    run: RunConfig, predictor: Predictor, names: Sequence[str], games: int
) -> Results:
    """Play against each anchor, with the run's ``[search]`` and the simulations of its ``[exam]``.

    Args:
        run: the run whose search and openings the games have.
        predictor: the model.
        names: anchors that can play here; ``search`` has as many simulations.
        games: an even number, half with each colour from the same random openings. Fewer are played
            if there are fewer openings.

    Raises:
        EngineError, GtpError: a program cannot play.
    """
    game, simulations = run.game.name, run.exam.num_simulations
    player = SearchPlayer(predictor, match_search(run.search, simulations))
    plies = run.evaluator.opening_plies
    openings, starts = random_openings(game, plies, games // 2, run.seed)
    places = [(opening, colour) for opening in range(len(openings)) for colour in (0, 1)]
    thinking = asyncio.Semaphore(usable_cpus())
    found: Results = []
    for name in names:
        played: list[MatchGame] = []

        async def keep(finished: Sequence[MatchGame], played: list[MatchGame] = played) -> None:
            played.extend(finished)

        for begin in range(0, len(places), _PROGRAMS_AT_ONCE):
            async with AsyncExitStack() as programs:
                other = anchor_player(name, game, simulations, run.seed, programs, thinking, None)
                queue = PairQueue(places[begin : begin + _PROGRAMS_AT_ONCE], _PAIRS_AT_ONCE)
                await play_match(game, openings, (player, other), queue, keep, starts=starts)
        scores = [each.score for each in played]
        found.append(
            {
                "opponent": name,
                "games": len(played),
                "wins": scores.count(1.0),
                "draws": scores.count(0.5),
                "losses": scores.count(0.0),
                "forfeits": sum(each.remark is not None for each in played),
            }
        )
    return found


async def play_pairs(
    run: RunConfig, players: tuple[Predictor, Predictor], games: int
) -> PairScores:
    """Play two networks against each other, from random openings that are each played twice.

    Args:
        run: the run whose openings and ``[search]`` the match has, at the simulations of its
            ``[exam]``.
        players: two networks; the scores are the first one's.
        games: an even number.
    """
    game, plies = run.game.name, run.evaluator.opening_plies
    openings, starts = random_openings(game, plies, games // 2, run.seed)
    search = match_search(run.search, run.exam.num_simulations)
    first, second = (SearchPlayer(predictor, search) for predictor in players)
    scores = [[0.0, 0.0] for _ in openings]

    async def keep(finished: Sequence[MatchGame]) -> None:
        for each in finished:
            scores[each.opening][each.color] = each.score

    places = [(opening, colour) for opening in range(len(openings)) for colour in (0, 1)]
    queue = PairQueue(places, _PAIRS_AT_ONCE)
    await play_match(game, openings, (first, second), queue, keep, starts=starts)
    return [(first, second) for first, second in scores]


def _row(opponent: str, ended: PerfectPlay | GnuGoGames) -> dict[str, Any]:
    losses = ended.games - ended.wins - ended.draws
    return {"opponent": opponent, **asdict(ended), "losses": losses}
