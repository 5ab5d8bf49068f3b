"""What each service says of itself in its heartbeat: a dataclass for each, for writers and readers.

A heartbeat is JSON in Redis. Every figure has a default, which is also what a figure counts as that
cannot be read: so services of different versions read each other. Rates are of the last half
minute, unless it is said otherwise.
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
    """Of one worker."""

    service: ClassVar[str] = "selfplay"

    games: int = 0
    """Finished since its start."""
    resigned_games: int = 0
    """Of these, the ones that a player gave up."""
    games_per_hour: float = 0.0
    positions_per_s: float = 0.0
    """Positions that the network predicted, per second."""
    simulations_per_s: float = 0.0
    training_positions_per_second: float = 0.0
    """Positions to train on that come of its simulations."""
    waiting_share: float = 0.0
    """Share of the time in which it waited for another service, 0 to 1."""
    pause_share: float = 0.0
    """Share of the time in which it let the trainer catch up, 0 to 1."""
    cache_hit_rate: float = 0.0
    """Predictions found in the cache / predictions needed."""
    spool: int = 0
    """Finished games that Postgres has not answered for yet."""
    conflicts: int = 0
    """Finished games of which Postgres has another worker's record."""
    resign_threshold: float | None = None
    """v_resign, for the player to move; None: no player resigns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceFigures:
    """Of one process that answers, or of the parent of several."""

    service: ClassVar[str] = "inference"

    devices: int = 0
    """Of a parent: GPUs, each with a process that answers; the parent has no other figures."""
    provider: str = ""
    """What the models run on, such as ``cpu``."""
    precision: str | None = None
    """In which the best model answers; None: there is none."""
    batch_mean: float = 0.0
    """Mean rows of a batch since the last heartbeat."""
    queue_rows: int = 0
    """Rows that wait now."""
    model_version: int | None = None
    """Of the model that answers as the best; None: there is none."""
    best_fault: str = ""
    """Why that is an earlier one than the last promoted; empty: it is not."""
    model_load_failures: int = 0
    """Since its start."""
    rows_per_second: float = 0.0
    capacity_rows_per_second: float = 0.0
    """Rows a second in full batches on all model threads; 0 while that is not known."""
    fill: float | None = None
    """Mean rows of a batch / most rows of a batch; None: there was no batch."""
    queue_wait_per_compute: float | None = None
    """Mean wait of a request / mean run of a batch; None: there was no batch."""
    batches_by_rows: tuple[int, ...] = ()
    """Batches of up to 1, 2, 4, 8, ... rows, each counted once."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Calibration of the value in one quarter of the games, for the player to move."""

    stage: int  # 1 to 4
    positions: int
    predicted: float  # mean value
    actual: float  # mean result
    squared_error: float  # mean (result - v)^2


_ABSURD_LOSS = 100.0  # nats: the network gives moves of the search a probability of e^-100


@dataclass(frozen=True, slots=True)
class Measurement:
    """How well the network, in evaluation mode, predicts a batch; means over its positions."""

    positions: int
    policy_loss: float  # cross-entropy -pi^T log p, nats
    value_loss: float  # squared error of v and the value target
    policy_error: float | None  # standard error of policy_loss; None of fewer than two games
    value_error: float | None  # standard error of value_loss, likewise
    total_loss: float  # AlphaGo Zero's, whatever the run minimises: both, weighted, and an l2 term
    policy_entropy: float  # of p, nats
    target_entropy: float  # of pi, nats: the least that policy_loss can be
    policy_agreement: float  # share where the network's first choice is the search's
    search_kl: float  # KL(pi || p), nats: policy_loss above that least
    explained_variance: float | None  # 1 - mean (result - v)^2 / variance of the results, if any
    value_bias: float  # mean of v - result
    distinct_share: float  # distinct observations of all in the batch
    age_games: float  # mean age
    calibration: tuple[Stage, ...]  # of the stages that the batch has positions of

    @property
    def is_finite(self) -> bool:
        """Whether every loss is a number; lost weights show here."""
        return all(map(math.isfinite, (self.policy_loss, self.value_loss, self.total_loss)))

    @property
    def is_sound(self) -> bool:
        """Whether training can go on from these weights: no loss is infinite or absurdly large."""
        return self.is_finite and max(self.policy_loss, self.value_loss) < _ABSURD_LOSS


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandFigures:
    """How fast the trainer draws samples, and could; of the last ten minutes."""

    reuse_target: float = 0.0
    """Samples that a new position pays for at present."""
    wait_share: float | None = None
    """Share of the time in which positions lacked, 0 to 1."""
    reuse: float | None = None
    """Samples drawn for each position received; None: none was received."""
    samples_per_second: float | None = None
    """Samples drawn a second in the rest of the time; None until a batch was drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantFigures:
    """The newest model in fewer bits, compared with its fp32 file."""

    policy_kl: float | None = None
    """KL divergence of the policies, nats; None: it could not be compared."""
    value_difference: float | None = None
    """Mean distance of the values; None: it could not be compared."""
    accepted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerFigures:
    """Of the run's trainer."""

    service: ClassVar[str] = "trainer"

    games: int = 0
    """In the window that is trained on."""
    held_out_games: int = 0
    rejected_games: int = 0
    """That did not replay."""
    positions: int = 0
    """In the window that is trained on."""
    window_limit: int = 0
    """Most positions in it at present."""
    unspent_positions: float | None = None
    """Positions whose samples are not drawn yet; 0 while the trainer itself waits for positions.
    None until it has read its window."""
    samples_per_position: float = 0.0
    """Drawn for each position received since the run began."""
    pace: float = 1.0
    """Share of ``trainer.samples_per_position`` that a new position pays for at present."""
    learning_rate: float = 0.0
    """Of the next step."""
    budget_used: float | None = None
    """Share of the budget over whose last part that rate falls, above 1 after its end; None: it
    has no budget."""
    overfit: bool = False
    """Whether the run overfits at present."""
    policy_gap: float | None = None
    """Held-out policy loss above the training loss, smoothed, nats; None: not known yet."""
    value_gap: float | None = None
    """The same of the value, squared error."""
    gradient_norm: float | None = None
    """Of the last step before a measurement; None before the first."""
    soft_policy_loss: float | None = None
    """Of the batch of that step, nats; None where the head has no weight, as in the next three."""
    opponent_policy_loss: float | None = None
    """Likewise."""
    final_planes_loss: float | None = None
    """Mean over the points, nats."""
    final_score_loss: float | None = None
    """Huber's loss of the lead in sides of the board."""
    distinct_game_share: float | None = None
    """Different ones among the last 1,000 of self-play; None: not looked at yet."""
    drawn_game_share: float | None = None
    """Draws among them."""
    narrow: bool = False
    """Whether self-play explores too little."""
    train: Measurement | None = None
    """On games that are trained on, as last measured."""
    held_out: Measurement | None = None
    """On games that are not."""
    demand: DemandFigures = field(default_factory=DemandFigures)
    variants: Mapping[str, VariantFigures] = field(default_factory=dict[str, VariantFigures])
    """By precision, such as ``int8``."""


@dataclass(slots=True, kw_only=True)
class EvaluatorFigures:
    """Of the run's evaluator, whose parts write into one of these as they get on."""

    service: ClassVar[str] = "evaluator"

    best_version: int = 0
    """The best model; 0 before the first promotion."""
    match_in_play: bool = False
    candidate: int | None = None
    """Of the newest match, as all that follows."""
    match_games: int = 0
    """Stored."""
    match_most_games: int = 0
    match_pairs_counted: float | None = None
    """Without duplicates."""
    match_score: float | None = None
    """The candidate's, 0 to 1."""
    match_llr: float | None = None
    """Log-likelihood ratio of a sequential test."""
    trial_in_play: bool = False
    trial_games: int = 0
    """Of the newest trial, stored."""
    trial_most_games: int = 0
    trial_score: float | None = None
    """Of its first-named player, 0 to 1."""
    rating_in_play: bool = False
    rating_player: int | None = None
    """The model that was rated last."""
    rating_player_games: int = 0
    """Of it, stored."""
    rating_player_most_games: int = 0
    rating_games: int = 0
    """Of all models."""
    games_in_play: tuple[str, ...] = ()
    """Moves of a few games of matches, as far as they have come."""
    exam_error_rate: float | None = None
    """Of the newest exam, 0 to 1, in the positions that a goal is about; None: there was none."""
    exam_prior_error_rate: float | None = None
    """The same of the prior alone."""
    exam_value_error: float | None = None
    """Mean square of the searched value."""
    good_exam_error_rate: float | None = None
    """The same three in positions near good play."""
    good_exam_prior_error_rate: float | None = None
    good_exam_value_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerFigures:
    """Of the autoscaler; None: not known yet."""

    service: ClassVar[str] = "autoscaler"

    selfplay_replicas: int | None = None
    """That are asked for."""
    inference_replicas: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardFigures:
    """Of one process that shows the run in browsers."""

    service: ClassVar[str] = "dashboard"

    open_pages: int = 0
    """That a browser shows now."""


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
"""By the name of the service that says them."""


def numbers(figures: Any, prefix: str = "") -> dict[str, float]:  # noqa: ANN401 - any dataclass
    """The numbers of a dataclass by name, for metrics: those that are known, yes as 1, no as 0."""
    named = ((each.name, getattr(figures, each.name)) for each in fields(figures))
    return {
        f"{prefix}{name}": float(value) for name, value in named if isinstance(value, int | float)
    }
