"""Schedules over a run: the learning rate, and how far back the window reaches."""

from __future__ import annotations

import math
from bisect import bisect_right

from zerofleet.config import TrainerSection

LEAST_SHARE = 1 / 20


def learning_rate(settings: TrainerSection, step: int, samples: int, seconds: float) -> float:
    """Return the rate of the step after ``step`` others, with ``samples`` positions drawn so far.

    It changes at ``learning_rate_steps``. Over the first ``warmup_samples`` it rises linearly from
    a twentieth of itself. Over the last part of the budget, of samples or of ``seconds`` of
    training, it falls to that along a cosine.
    """
    rate = settings.learning_rate[bisect_right(settings.learning_rate_steps, step)]
    risen = min(1.0, samples / settings.warmup_samples) if settings.warmup_samples else 1.0
    left = (1 - (settings.budget_used(samples, seconds) or 0)) / settings.annealing_share
    fallen = (1 - math.cos(math.pi * min(1.0, max(0.0, left)))) / 2
    return rate * (LEAST_SHARE + (1 - LEAST_SHARE) * min(risen, fallen))


def window_limit(settings: TrainerSection, positions: int, given: int = 0) -> int:
    """Return the most positions in the window when a run has had this many.

    A run that began with ``given`` positions of other games holds at least as many, until the
    formula exceeds them. Its own games then push these out one by one.

    ``c (1 + beta ((N / c)^alpha - 1) / alpha)`` (Wu 2019, arXiv 1902.10565, appendix C), in whole
    positions, and never more than ``window_positions``. As beta and alpha are at most 1, each new
    position moves the far end of the window by at most one. A position that has left is never
    needed again, and a restarted trainer finds the same window by reading the same games in order.
    """
    if not settings.growing_window:
        return settings.window_positions
    least = settings.growing_window_positions
    alpha, beta = settings.growing_window_alpha, settings.growing_window_beta
    growth = (max(positions, least) / least) ** alpha - 1
    grown = int(least * (1 + beta * growth / alpha))
    return min(settings.window_positions, max(grown, given))


def window_reach(settings: TrainerSection) -> int:
    """Return how many of the newest games contain the window's, including validation games."""
    return math.ceil(settings.window_games / (1 - settings.held_out_share))


def held_out_limit(settings: TrainerSection, positions: int, least: int) -> int:
    """Return the most validation positions for a window, so that both are from the same time.

    Args:
        settings: the share of validation games.
        positions: positions in the window.
        least: lower limit for figures, however small the window is.
    """
    share = settings.held_out_share
    return max(least, math.ceil(positions * share / (1 - share)))
