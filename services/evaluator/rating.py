"""Elo of every player, models and anchors, by the Bradley-Terry model and Newton's method.

Player ``i`` with strength ``r[i]`` beats player ``j`` with probability ``1 / (1 + exp(r[j] -
r[i]))`` (Bradley and Terry, Biometrika 39, 1952). A draw counts as half a win for each side. With
``s[i, j]`` the points that ``i`` took from ``j`` and ``n[i, j] = s[i, j] + s[j, i]``, the
log-likelihood and its derivatives are::

    L            = sum over i != j of s[i, j] * log p[i, j]
    dL/dr[i]     = sum over j of s[i, j] - n[i, j] * p[i, j]
    d2L/dr[i]2   = -sum over j of n[i, j] * p[i, j] * p[j, i]
    d2L/dr[i]r[j] = n[i, j] * p[i, j] * p[j, i]

Two weak priors keep the maximum finite. Each pair that met has an additional, virtual, draw, so
that a clean sweep has a finite rating. Each strength has a normal prior of fifty thousand Elo
around zero. Therefore players without a connection to the first player still have a rating, with a
correspondingly large error.

Only differences of strength matter: adding a constant to all changes nothing. The oldest model that
played is therefore held at 0, and its row and column leave the Hessian. The inverse of the rest,
with its sign turned, is the covariance of the strengths relative to it (Hunter, Annals of
Statistics 32, 2004, treats the same gauge); its own error is 0. One unit of strength is ``400 / ln
10`` Elo (Elo, The Rating of Chessplayers, 1978).

Newton's method converges in a handful of steps. The popular minorisation-maximisation iteration
does not on a ladder, where each player met only its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ELO_PER_UNIT = 400.0 / np.log(10.0)

_VIRTUAL_DRAWS = 1.0  # between each pair that met
_PRIOR_ELO = 50_000.0  # standard deviation of the prior around zero
_CONVERGED = 1e-9  # units of strength
_MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class Result:
    """Games between two players, from the side of ``player``."""

    player: str  # a model's version, or an anchor's name
    opponent: str
    wins: int
    draws: int
    losses: int


@dataclass(frozen=True, slots=True)
class Rating:
    """A player's Elo, relative to the oldest model."""

    player: str
    elo: float
    error: float  # standard error, Elo


def rate(results: Iterable[Result]) -> list[Rating]:
    """Rate all players: models in their order, the first at 0 Elo, then anchors by name.

    Args:
        results: games of any number of pairs; several results of one pair add up.
    """
    played = [result for result in results if result.wins + result.draws + result.losses > 0]
    players = sorted({p for result in played for p in (result.player, result.opponent)}, key=_order)
    if not players:
        return []
    points = _points(played, {player: index for index, player in enumerate(players)})
    strengths, covariance = _maximise(points)
    errors = np.sqrt(np.diag(covariance))
    return [
        Rating(player, float(strength * ELO_PER_UNIT), float(error * ELO_PER_UNIT))
        for player, strength, error in zip(players, strengths, errors, strict=True)
    ]


def _order(player: str) -> tuple[bool, int, str]:
    return (False, int(player), "") if player.isdecimal() else (True, 0, player)


def _points(results: list[Result], index: dict[str, int]) -> NDArray[np.float64]:
    """Return points that each player (row) took from each other (column), with virtual draws."""
    points = np.zeros((len(index), len(index)))  # [players, players] float64
    for result in results:
        i, j = index[result.player], index[result.opponent]
        points[i, j] += result.wins + result.draws / 2
        points[j, i] += result.losses + result.draws / 2
    met = (points + points.T) > 0
    return points + met * (_VIRTUAL_DRAWS / 2)


def _maximise(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return strengths [players] at the maximum and their covariance [players, players]."""
    strengths = np.zeros(len(points))
    for _ in range(_MOST_STEPS):
        gradient, hessian = _derivatives(points, strengths)
        step = np.zeros(len(points))
        step[1:] = np.linalg.solve(-hessian[1:, 1:], gradient[1:])
        scale, here = 1.0, _log_posterior(points, strengths)
        while _log_posterior(points, strengths + scale * step) < here and scale > _CONVERGED:
            scale /= 2  # far from the maximum a whole step may overshoot
        strengths += scale * step
        if np.abs(step).max() < _CONVERGED:
            break
    _, hessian = _derivatives(points, strengths)
    covariance = np.zeros_like(points)
    covariance[1:, 1:] = np.linalg.inv(-hessian[1:, 1:])
    return strengths, covariance


def _log_posterior(points: NDArray[np.float64], strengths: NDArray[np.float64]) -> float:
    difference = strengths[:, None] - strengths[None, :]
    log_likelihood = -(points * np.logaddexp(0.0, -difference)).sum()
    return float(log_likelihood - _prior_precision() / 2 * (strengths**2).sum())


def _derivatives(
    points: NDArray[np.float64], strengths: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return gradient [players] and Hessian [players, players] of the log-posterior."""
    games = points + points.T
    difference = strengths[:, None] - strengths[None, :]
    beats = np.exp(-np.logaddexp(0.0, -difference))  # p[i, j], without overflow
    gradient = (points - games * beats).sum(axis=1) - _prior_precision() * strengths
    information = games * beats * beats.T
    hessian = information - np.diag(information.sum(axis=1) + _prior_precision())
    return gradient, hessian


def _prior_precision() -> float:
    return float((ELO_PER_UNIT / _PRIOR_ELO) ** 2)
