"""Figures that each service reports in its heartbeat: one dataclass each, for writers and readers.

A heartbeat is JSON in Redis. Every figure has a default, which also replaces a figure that cannot
be read, so that services of different versions can read each other. Rates are averages over the
last half minute, unless stated otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

Z_95 = 1.959964
"""A normal deviate stays within this many standard errors 95% of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfplayFigures:
    """Figures of one self-play worker."""

    service: ClassVar[str] = "selfplay"

    games: int = 0
    """Games finished since its start."""
    resigned_games: int = 0
    """Finished games that ended by resignation."""
    games_per_hour: float = 0.0
    positions_per_second: float = 0.0
    """Positions that the network predicted, per second."""
    simulations_per_second: float = 0.0
    training_positions_per_second: float = 0.0
    """Positions for training that its simulations yield, per second."""
    waiting_share: float = 0.0
    """Share of the time in which it waited for another service, 0 to 1."""
    pause_share: float = 0.0
    """Share of the time in which it paused for the trainer to catch up, 0 to 1."""
    cache_hit_rate: float = 0.0
    """Predictions found in the cache / predictions needed."""
    spool: int = 0
    """Finished games that Postgres has not answered for yet."""
    conflicts: int = 0
    """Finished games for which Postgres has another worker's record."""
    resign_threshold: float | None = None
    """v_resign, for the player to move; None: no player resigns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceFigures:
    """Figures of one process that answers requests, or of the parent of several."""

    service: ClassVar[str] = "inference"

    devices: int = 0
    """Number of GPUs of a parent, each with a process that answers; a parent has no other figures.
    """
    provider: str = ""
    """Execution provider of the models, such as ``cpu``."""
    runs_on: str = ""
    """Provider, GPU and the sizes that were chosen for them, in words."""
    precision: str | None = None
    """Precision of the best model; None: there is none."""
    batch_mean: float = 0.0
    """Mean rows per batch since the last heartbeat."""
    queue_rows: int = 0
    """Rows in the queue now."""
    model_version: int | None = None
    """Version of the model that answers as the best; None: there is none."""
    best_fault: str = ""
    """Why that is an earlier version than the last promoted one; empty if it is not."""
    model_load_failures: int = 0
    """Failed loads of models since its start."""
    rows_per_second: float = 0.0
    capacity_rows_per_second: float = 0.0
    """Rows per second in full batches on all model threads; 0 until it is known."""
    fill: float | None = None
    """Mean rows of a batch / most rows of a batch; None: there was no batch."""
    queue_wait_per_compute: float | None = None
    """Mean queue wait of a request / mean computation of a batch; None: there was no batch."""
    batches_by_rows: tuple[int, ...] = ()
    """Numbers of batches with up to 1, 2, 4, 8, ... rows; each batch is counted once."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Calibration of the value in one quarter of the games, for the player to move."""

    stage: int  # 1 to 4
    positions: int  # positions of the batch
    predicted: float  # mean value
    actual: float  # mean result
    squared_error: float  # mean (result - v)^2


ABSURD_LOSS = 100.0
"""In nats, the network gives the moves of the search a probability of e^-100."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Quality of the network's predictions for a batch, in evaluation mode; means over it."""

    positions: int  # positions in the batch
    policy_loss: float  # cross-entropy -pi^T log p, nats
    value_loss: float  # squared error of v and the value target
    policy_error: float | None  # standard error of policy_loss; None with fewer than two games
    value_error: float | None  # standard error of value_loss; None with fewer than two games
    # AlphaGo Zero's loss, whatever the run minimises: both, weighted, and an l2 term
    total_loss: float
    policy_entropy: float  # entropy of p, nats
    target_entropy: float  # entropy of pi, nats: the lower bound of policy_loss
    policy_agreement: float  # share of positions where the network's first choice is the search's
    search_kl: float  # KL(pi || p), nats: policy_loss above its lower bound
    explained_variance: float | None  # 1 - mean (result - v)^2 / variance of the results, if any
    value_bias: float  # mean of v - result
    distinct_share: float  # share of distinct observations in the batch
    age_games: float  # mean age of the positions, in games
    calibration: tuple[Stage, ...]  # stages that occur in the batch

    @property
    def is_finite(self) -> bool:
        """Whether every loss is finite; diverged weights show here."""
        return all(map(math.isfinite, (self.policy_loss, self.value_loss, self.total_loss)))

    @property
    def is_sound(self) -> bool:
        """Whether training can go on from these weights: no loss is infinite or absurdly large."""
        return self.is_finite and max(self.policy_loss, self.value_loss) < ABSURD_LOSS


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandFigures:
    """How fast the trainer draws samples, and could draw them; over the last ten minutes."""

    reuse_target: float = 0.0
    """Samples that a new position currently allows."""
    wait_share: float | None = None
    """Share of the time spent waiting for positions, 0 to 1."""
    reuse: float | None = None
    """Samples drawn for each position received; None: none was received."""
    samples_per_second: float | None = None
    """Samples drawn per second in the rest of the time; None until a batch was drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantFigures:
    """Comparison of the newest quantized model with its fp32 file."""

    policy_kl: float | None = None
    """KL divergence of the policies, nats; None: the comparison failed."""
    value_difference: float | None = None
    """Mean absolute difference of the values; None: the comparison failed."""
    accepted: bool = False
    """Whether the trainer published it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerFigures:
    """Figures of the run's trainer."""

    service: ClassVar[str] = "trainer"

    runs_on: str = ""
    """Device, precision and sizes of the training step, in words."""
    games: int = 0
    """Games in the training window."""
    held_out_games: int = 0
    """Games in the validation set."""
    rejected_games: int = 0
    """Games that did not replay."""
    positions: int = 0
    """Positions in the training window."""
    window_limit: int = 0
    """Current maximum of positions in the window."""
    unspent_positions: float | None = None
    """Positions whose samples are not drawn yet; 0 while the trainer itself waits for positions.

    None until it has read its window.
    """
    samples_per_position: float = 0.0
    """Samples drawn for each position received since the run began."""
    pace: float = 1.0
    """Share of ``trainer.samples_per_position`` that a new position currently allows."""
    learning_rate: float = 0.0
    """Learning rate of the next step."""
    budget_used: float | None = None
    """Share of the budget that is used, above 1 after its end; None: there is no budget.

    The learning rate falls over the last part of the budget.
    """
    overfit: bool = False
    """Whether the run currently overfits."""
    policy_gap: float | None = None
    """Validation policy loss minus training loss, smoothed, nats; None: not known yet."""
    value_gap: float | None = None
    """Validation value loss minus training loss, smoothed, squared error; None: not known yet."""
    gradient_norm: float | None = None
    """Gradient norm of the last step before a measurement; None before the first."""
    soft_policy_loss: float | None = None
    """Soft policy loss of that step's batch, nats; None if the head has no weight."""
    opponent_policy_loss: float | None = None
    """Opponent policy loss of that step's batch, nats; None if the head has no weight."""
    final_planes_loss: float | None = None
    """Final planes loss, mean over the points, nats; None if the head has no weight."""
    final_score_loss: float | None = None
    """Huber loss of the final lead, in sides of the board; None if the head has no weight."""
    distinct_game_share: float | None = None
    """Share of distinct games among the last 1,000 of self-play; None: not counted yet."""
    drawn_game_share: float | None = None
    """Share of draws among the same games."""
    narrow: bool = False
    """Whether self-play explores too little."""
    train: Measurement | None = None
    """Last measurement on training games."""
    held_out: Measurement | None = None
    """Last measurement on the validation set."""
    demand: DemandFigures = field(default_factory=DemandFigures)
    variants: Mapping[str, VariantFigures] = field(default_factory=dict[str, VariantFigures])
    """Variants of the newest model by precision, such as ``int8``."""


@dataclass(slots=True, kw_only=True)
class EvaluatorFigures:
    """Figures of the run's evaluator; its parts update one object as they progress."""

    service: ClassVar[str] = "evaluator"

    best_version: int = 0
    """The best model; 0 before the first promotion."""
    match_in_play: bool = False
    """Whether a promotion match is being played."""
    candidate: int | None = None
    """Candidate of the newest match; the following figures are that match's."""
    match_games: int = 0
    """Games stored of that match."""
    match_most_games: int = 0
    """Most games that the match can take."""
    match_pairs_counted: float | None = None
    """Pairs without duplicates."""
    match_score: float | None = None
    """Score of the candidate, 0 to 1."""
    match_llr: float | None = None
    """Log-likelihood ratio of a sequential test."""
    trial_in_play: bool = False
    """Whether a test match is being played."""
    trial_games: int = 0
    """Games stored of the newest test match."""
    trial_most_games: int = 0
    """Games that were requested of it."""
    trial_score: float | None = None
    """Score of its first player, 0 to 1."""
    rating_in_play: bool = False
    """Whether rating games are being played."""
    rating_player: int | None = None
    """The model that was rated last."""
    rating_player_games: int = 0
    """Stored games of that model."""
    rating_player_most_games: int = 0
    """Games that its rating takes."""
    rating_games: int = 0
    """Rating games of all models."""
    games_in_play: tuple[str, ...] = ()
    """Moves of a few current games of matches."""
    exam_error_rate: float | None = None
    """Error rate of the newest exam, 0 to 1, in the positions of the goal; None: there was none."""
    exam_prior_error_rate: float | None = None
    """Error rate of the prior alone in the same exam."""
    exam_value_error: float | None = None
    """Mean squared error of the searched value in the same exam."""
    good_exam_error_rate: float | None = None
    """Error rate of the newest exam in positions near good play."""
    good_exam_prior_error_rate: float | None = None
    """Error rate of the prior alone in that exam."""
    good_exam_value_error: float | None = None
    """Mean squared error of the searched value in that exam."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerFigures:
    """Figures of the autoscaler; None: not known yet."""

    service: ClassVar[str] = "autoscaler"

    selfplay_replicas: int | None = None
    """Desired number of self-play replicas."""
    inference_replicas: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardFigures:
    """Figures of one process that serves the dashboard."""

    service: ClassVar[str] = "dashboard"

    open_pages: int = 0
    """Pages open in browsers now."""


Figures = (
    SelfplayFigures
    | InferenceFigures
    | TrainerFigures
    | EvaluatorFigures
    | AutoscalerFigures
    | DashboardFigures
)

KINDS: dict[str, type[Figures]] = {
    kind.service: kind
    for kind in (
        SelfplayFigures,
        InferenceFigures,
        TrainerFigures,
        EvaluatorFigures,
        AutoscalerFigures,
        DashboardFigures,
    )
}
"""Figures' classes by the name of the service."""


def numbers(figures: Any, prefix: str = "") -> dict[str, float]:  # noqa: ANN401 - any dataclass
    """Return the known numbers of a dataclass by name, for metrics; yes is 1, no is 0."""
    named = ((each.name, getattr(figures, each.name)) for each in fields(figures))
    return {
        f"{prefix}{name}": float(value) for name, value in named if isinstance(value, int | float)
    }
