"""How models are judged: ``[evaluator]``, ``[rating]``, ``[exam]``, ``[goal]``."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from zerofleet.config.section import Section

ANCHOR = re.compile(r"random|search|gnugo:([1-9]|10)")
"""The names of opponents that never change."""


def _all_known(anchors: tuple[str, ...]) -> tuple[str, ...]:
    for name in anchors:
        if ANCHOR.fullmatch(name) is None:
            raise ValueError(
                f"'{name}' is not an anchor: give random, search, or gnugo:1 to gnugo:10"
            )
    return anchors


class EvaluatorSection(Section):
    """``[evaluator]``: matches and the gate."""

    gate: bool = True
    """Play a match before promoting, as AlphaGo Zero did; off, every model that loads is promoted,
    as in AlphaZero (Silver et al. 2018)."""
    test: Literal["fixed", "sprt"] = "fixed"
    """fixed: all games, then the threshold; sprt: a sequential test on pairs that may stop early
    (Wald 1945, on pentanomial pair scores), then the threshold."""
    games: int = Field(default=400, ge=2)
    """Games of a match, or the most of them, in pairs of one opening with colours swapped."""
    num_simulations: int = Field(default=100, ge=1)
    """Simulations for each move of a match."""
    threshold: float = Field(default=0.55, ge=0, le=1)
    """The candidate is promoted when its score (draws count half) is above this."""
    draws_only: Literal["promote", "reject"] = "promote"
    """Verdict of a match in which every game was drawn: two players of equal strength."""
    sprt_elo: tuple[float, float] = (0.0, 35.0)
    """sprt: the candidate is as much stronger, in logistic Elo, under the two hypotheses."""
    sprt_error: float = Field(default=0.05, gt=0, lt=0.5)
    """sprt: probability of either wrong verdict."""
    opening_plies: int = Field(default=4, ge=0)
    """Each pair starts after this many random plies, so that its games differ."""
    pairs_at_once: int = Field(default=32, ge=1)
    """sprt: pairs that are in play together; as they end others begin, and the test looks at each
    that is complete."""

    @model_validator(mode="after")
    def _hypotheses_in_order(self) -> EvaluatorSection:
        if self.sprt_elo[0] >= self.sprt_elo[1]:
            raise ValueError(f"sprt_elo = {list(self.sprt_elo)}: the first must be the smaller one")
        return self


class RatingSection(Section):
    """``[rating]``: games that rate promoted models, whatever the gate says."""

    every: int = Field(default=1, ge=1)
    """The first promoted model and every so many-th after it are rated; 1: all. Without a gate each
    model is promoted, and to rate all would take more of the CPU than a gate does. ``zerofleet
    status`` shows the newest that is rated."""
    games: int = Field(default=20, ge=0)
    """Games against each opponent, in pairs with colours swapped; 0: rate by matches alone."""
    opponents: tuple[int, ...] = (1, 5, 15)
    """Opponents: the models that come so many places earlier among those that are rated."""
    anchors: Annotated[tuple[str, ...], AfterValidator(_all_known)] = ("random", "search")
    """Fixed opponents: ``random``; ``search`` (no network: equal priors, value 0; by
    the defaults of ``[search]``, with ``num_simulations``); ``gnugo:LEVEL``
    (Go, when the program gnugo is on PATH)."""
    num_simulations: int = Field(default=100, ge=1)
    """Simulations for each move of a rating game."""
    share: float = Field(default=0.2, ge=0, lt=1)
    """Share of the evaluator's time that rating games, and trials, get while candidates wait; 0:
    they have spare time alone."""


class ExamSection(Section):
    """``[exam]``: the error rate against perfect play, where perfect play is known."""

    num_simulations: int = Field(default=100, ge=1)
    """Simulations for each move of the examined player."""
    positions: int = Field(default=300, ge=1)
    """Positions of each fixed sample (games that are not walked in full), where there are as
    many."""


class GoalSection(Section):
    """``[goal]``: where ``zerofleet up --until goal`` ends."""

    exam_error_rate: float = Field(ge=0, le=1)
    """A promoted model at or under this error rate reaches the goal."""
