"""Learning and storage sections: ``[network]``, ``[trainer]``, ``[overfit]``, ``[retention]``."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from zerofleet.config.section import BASIC, Section


def _network_name(name: str) -> str:
    if name not in ("residual", "attention") and not name.startswith("python:"):
        raise ValueError("give residual, attention or python:MODULE:CLASS")
    return name


class NetworkSection(Section):
    """``[network]``: the residual network with the papers' two heads, or a class of your own.

    ``network = "python:MODULE:CLASS"`` names a class derived from ``zerofleet.network.Network``;
    the section's other keys are then the fields of its ``Options``.
    """

    name: Annotated[str, AfterValidator(_network_name)] = Field(
        default="residual", json_schema_extra=BASIC
    )
    """``residual``; ``attention`` for a tower of attention between points, with a head for each 16
    channels; or ``python:MODULE:CLASS`` for a network of your own."""
    options: dict[str, Any] = Field(default={}, exclude=True)
    """Keys of a network of your own."""
    blocks: int = Field(default=4, ge=0, le=512, json_schema_extra=BASIC)
    """Number of blocks. More blocks learn more from a position and cost more time."""
    channels: int = Field(default=48, ge=1, le=4096, json_schema_extra=BASIC)
    """Filters of every convolution of the tower. More filters learn more from a position and cost
    more time."""
    policy_channels: int = Field(default=2, ge=1, le=1024)
    """Filters of the policy head's 1x1 convolution."""
    policy_head: Literal["dense", "convolutional"] = Field(default="dense", json_schema_extra=BASIC)
    """Last layer of the policy head. ``dense`` fits every game. ``convolutional`` computes the
    logit of an action from the surroundings of its point, and the logit of a pass from the whole
    board (Wu 2019, appendix A). It fits games with one action for each point, in the order of the
    points, and at most one more: Go, Othello and m,n,k."""
    value_channels: int = Field(default=1, ge=1, le=1024)
    """Filters of the value head's 1x1 convolution."""
    value_hidden: int = Field(default=64, ge=1, le=65_536)
    """Width of the value head's hidden layer (256 in the paper)."""
    value_head: Literal["scalar", "outcome"] = "outcome"
    """Form of the value. ``scalar`` is one number, learnt by squared error, as in the paper.
    ``outcome`` is the probabilities of win, draw and loss as in Lc0, learnt by cross-entropy. It
    models the game as two half-point coin tosses with win probability p = (1 + value) / 2. The
    model then answers P(win) - P(loss)."""
    global_pooling: bool = Field(default=False, json_schema_extra=BASIC)
    """Give every third block, and the policy head, means and maxima over the whole board (Wu 2019,
    section 3.3). Switch it on for boards of 9x9 and more."""
    squeeze_excitation: bool = False
    """Let each block scale its filters by a summary of the whole board (Hu et al. 2018)."""

    @model_validator(mode="before")
    @classmethod
    def _keys_of_own_class(cls, values: object) -> object:
        """Collect the keys of a network of one's own, whose class says which it has."""
        if not is_own_network(values):
            return values
        given = cast("dict[str, Any]", values)
        own = cast("dict[str, Any]", given.get("options", {}))
        if not isinstance(own, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("options: Input should be a table")
        options = {key: each for key, each in given.items() if key not in ("name", "options")}
        return {"name": given["name"], "options": {**own, **options}}

    @model_serializer(mode="wrap")
    def _flat(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"name": self.name, **self.options} if self.is_own else handler(self)

    @property
    def is_own(self) -> bool:
        """Whether a class of your own is the network."""
        return self.name.startswith("python:")


def is_own_network(values: object) -> bool:
    """Return whether the values of ``[network]`` name a class of one's own."""
    if isinstance(values, NetworkSection):
        return values.is_own
    name = cast("dict[str, object]", values).get("name") if isinstance(values, dict) else None
    return isinstance(name, str) and name.startswith("python:")


def _ascending(steps: tuple[int, ...]) -> tuple[int, ...]:
    if list(steps) != sorted(set(steps)):
        raise ValueError("each must be greater than the one before")
    return steps


class TrainerSection(Section):
    """``[trainer]``: window, loss and pace."""

    batch_size: int = Field(default=256, ge=1, json_schema_extra=BASIC)
    """Positions of one training step."""
    learning_rate: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        default=(0.12,), json_schema_extra=BASIC
    )
    """Learning rates, in order; ``learning_rate_steps`` says when each one takes over. Change it
    with ``optimizer``, because each optimizer needs its own."""
    learning_rate_steps: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...], AfterValidator(_ascending)
    ] = ()
    """Steps at which the next learning rate takes over: one fewer than there are rates."""
    budget_samples: int = Field(default=0, ge=0)
    """Length of training in samples; 0: no budget. The learning rate falls along a cosine to a
    twentieth at the end of the budget, and stays there (Loshchilov and Hutter 2017, arXiv
    1608.03983, section 3). With two budgets, the one nearer to its end counts. Raising a budget
    that is used up raises the rate again."""
    budget_minutes: float = Field(default=0.0, ge=0, json_schema_extra=BASIC)
    """Length of training in minutes; 0: no budget. It has the effect of ``budget_samples``. Minutes
    count from the first step and continue after the trainer restarts. A gap of more than a minute
    between two steps counts as one minute."""
    annealing_share: float = Field(default=0.25, gt=0, le=1)
    """Share of the budget, at its end, over which the learning rate falls."""
    warmup_samples: int = Field(default=20_000, ge=0)
    """Samples over which the learning rate rises linearly from a twentieth."""
    optimizer: Literal["sgd", "adamw", "muon"] = Field(default="muon", json_schema_extra=BASIC)
    """Optimizer: SGD with momentum as in the paper, AdamW (Loshchilov and Hutter 2019, arXiv
    1711.05101), or Muon (Jordan et al. 2024). Muon orthogonalizes the steps of convolution kernels
    larger than 1x1; all other weights take an SGD step at the same rate. Measured learning rates:
    0.06 for SGD, 0.002 for AdamW, 0.12 for Muon."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Momentum of SGD and Muon; for AdamW, the decay of the gradient's mean."""
    l2: float = Field(default=1e-4, ge=0)
    """L2 regularization: factor of the sum of squared weights in the loss. It applies to SGD, and
    with Muon to the weights that take an SGD step."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled weight decay of AdamW, and of Muon for its kernels. Each step subtracts
    ``learning_rate * weight_decay * weight``."""
    value_loss_weight: ClassVar[float] = 1.0
    """Weight of the value loss in the total loss; the policy's cross-entropy has weight 1."""
    value_lambda: float = Field(default=0.9, ge=0, le=1, json_schema_extra=BASIC)
    """Lambda of the value target, a lambda-return over the root values of the searches and the
    game's result (Sutton and Barto 2018, section 12.1). 1: the result alone, as in the paper. Raise
    it for longer games: 0.97 for 60 plies, 0.98 for 100."""
    soft_policy_weight: float = Field(default=0.0, ge=0)
    """Loss weight of an auxiliary head that predicts the policy target at a temperature of 4; 0: no
    head. KataGo uses 8 (docs/KataGoMethods.md, "Auxiliary Soft Policy Target"). Auxiliary heads
    only help the tower to learn; published models have none."""
    opponent_policy_weight: float = Field(default=0.0, ge=0)
    """Loss weight of an auxiliary head that predicts the opponent's next policy; 0: no head. It
    learns from plies whose next ply had a full search (Wu 2019, arXiv 1902.10565, section 3.4:
    0.15)."""
    final_planes_weight: float = Field(default=0.0, ge=0)
    """Loss weight of an auxiliary head that predicts the owner of each point at the end, as a mean
    over the points; 0: no head (Wu 2019, section 4.1: 1.5). Go, Othello and Python games
    with ``num_final_planes`` have owners; games that were resigned have none."""
    final_score_weight: float = Field(default=0.0, ge=0)
    """Loss weight of an auxiliary head that predicts the final lead, in sides of the board, by
    Huber loss; 0: no head. It applies to the same games as ``final_planes_weight``."""
    window_games: int = Field(default=500_000, ge=1)
    """Size of the replay window in games: training samples from this many of the newest games."""
    window_positions: int = Field(default=1_000_000, ge=1, json_schema_extra=BASIC)
    """Size of the replay window in positions, which are held in memory. The smaller of the two
    sizes applies."""
    growing_window: bool = True
    """Start with a small window and let it grow. Training samples the newest
    ``c (1 + beta ((N / c)^alpha - 1) / alpha)`` of all N positions so far (Wu 2019, appendix C),
    within the window. Off: sample the whole window."""
    growing_window_positions: int = Field(default=250_000, ge=1)
    """Parameter c of the growing window. While the run has up to this many positions, all are
    sampled."""
    growing_window_alpha: ClassVar[float] = 0.75
    """Exponent alpha of the growing window (Wu 2019, appendix C)."""
    growing_window_beta: ClassVar[float] = 0.4
    """Parameter beta of the growing window: its growth per new position when N = c."""
    min_positions: int = Field(default=2_000, ge=1, json_schema_extra=BASIC)
    """Positions in the window before training starts."""
    samples_per_position: float = Field(default=4.0, gt=0, json_schema_extra=BASIC)
    """Replay ratio: number of samples that training draws for each new position (KataGo on one
    machine: 8)."""
    least_samples_per_position: float | None = Field(default=None, gt=0)
    """Replay ratio while the trainer is behind by half of ``selfplay.max_ahead_positions``. Set it
    lower than ``samples_per_position`` to let self-play pause less and bring more games. Unset: the
    same."""
    held_out_share: float = Field(default=0.05, ge=0, lt=1)
    """Share of games in the validation set, which is never trained on. A hash of a game's uid
    selects them."""
    publish_every_steps: int = Field(default=500, ge=1, json_schema_extra=BASIC)
    """Steps between two published models."""
    checkpoint_every_steps: int = Field(default=500, ge=1, json_schema_extra=BASIC)
    """Steps between two checkpoints. A crash loses at most this many steps."""
    metrics_every_steps: int = Field(default=100, ge=1)
    """Steps between two measurements of the losses, on training and validation games."""
    average_decay: float = Field(default=0.75, ge=0, lt=1)
    """Decay of the EMA of weight snapshots that is published; 0: publish the last weights. The
    first snapshots are averaged equally."""
    average_every_steps: int = Field(default=50, ge=1)
    """Steps between two snapshots of the EMA."""
    augment: bool = True
    """Train on each position under a random symmetry of the board."""
    mixed_precision: Literal["auto", "off", "bf16", "fp16"] = "auto"
    """Precision of the forward pass. ``auto`` takes bf16 on a GPU that supports it, and on a CPU
    with AVX-512 BF16 or AMX if the network has 32 channels or more."""
    compile: bool = False
    """Compile the network with torch.compile. Training starts slowly and is then faster on GPUs."""
    tensorboard: bool = False
    """Also write the metrics as TensorBoard events, next to the checkpoints (extra
    ``tensorboard``)."""
    threads: int = Field(default=1, ge=1, json_schema_extra=BASIC)
    """CPU threads of the trainer."""

    @property
    def first_step_positions(self) -> int:
        """Positions before the first step: ``min_positions``, or what one batch costs if more."""
        return max(self.min_positions, math.ceil(self.batch_size / self.samples_per_position))

    def budget_used(self, samples: int, seconds: float) -> float | None:
        """Return the share of the budget that is used up, above 1 after its end.

        It is None without a budget.

        Args:
            samples: positions drawn so far.
            seconds: seconds of training so far.
        """
        parts = ((samples, self.budget_samples), (seconds, 60 * self.budget_minutes))
        shares = [used / budget for used, budget in parts if budget]
        return max(shares) if shares else None

    @property
    def auxiliary_weights(self) -> dict[str, float]:
        """Loss weight of each auxiliary target that is learnt, by its name."""
        weights = {
            "soft_policy": self.soft_policy_weight,
            "opponent_policy": self.opponent_policy_weight,
            "final_planes": self.final_planes_weight,
            "final_score": self.final_score_weight,
        }
        return {name: weight for name, weight in weights.items() if weight > 0}

    @property
    def weights_of_losses(self) -> dict[str, float]:
        """Weight of each loss by its name; 1 for names that are not in it."""
        return {"value": self.value_loss_weight, **self.auxiliary_weights}

    @property
    def drawn_targets(self) -> list[str]:
        """Names of the auxiliary targets that the replay buffer provides, under the same names."""
        return [name for name in self.auxiliary_weights if name != "soft_policy"]


class OverfitSection(Section):
    """``[overfit]``: the reaction when validation losses are above training losses."""

    action: Literal["slow", "wait", "off"] = "slow"
    """Reaction to overfitting. ``slow``: lower the replay ratio to a quarter. ``wait``: take no
    step until new games close the gap. ``off``: only record it."""
    max_policy_gap: float = Field(default=0.2, gt=0)
    """Highest allowed gap between validation and training policy loss, in nats."""
    max_value_gap: float = Field(default=0.1, gt=0)
    """Highest allowed gap between validation and training value loss, as squared error."""
    smoothing: ClassVar[float] = 0.8
    """Decay of the EMAs of the gaps, per measurement."""
    slow_factor: ClassVar[float] = 0.25
    """Factor on the replay ratio, ``samples_per_position``, while overfitting."""
    min_positions: int = Field(default=1_000, ge=1)
    """Validation positions needed before overfitting is judged."""


class RetentionSection(Section):
    """``[retention]``: how long searches and model files stay on disk.

    Games, their moves and results, matches and figures are kept forever.
    """

    forget: bool = True
    """Drop old searches and remove old models' files. Off: keep everything."""
    searches_days: float = Field(default=1.0, ge=0, le=1_000_000)
    """Days to keep searches (the table ``positions``) after the trainer's window no longer needs
    them."""
    max_disk_gb: float | None = Field(default=None, ge=0, le=1e9, json_schema_extra=BASIC)
    """Disk limit in GB; 0: no limit. Near it, the trainer drops the oldest searches that training
    does not need, even within ``searches_days``. Games, results, matches and promotions stay.
    ``zerofleet up`` counts the whole data folder, a cluster counts its database. Unset: 20 for
    ``zerofleet up`` with its own Postgres, otherwise no limit."""
    partition_hours: int = Field(default=24, ge=1, le=24 * 365)
    """Hours of searches in one partition; ``max_disk_gb`` may shorten it. Searches are dropped by
    whole partitions."""
    models_newest: int = Field(default=20, ge=2)
    """Number of the newest models whose files are kept, in addition to all promoted models."""
    models_every: ClassVar[int] = 10
    """Interval N: the files of every Nth model are kept, too."""

    @property
    def limit_bytes(self) -> float | None:
        """Disk limit in bytes; None: no limit."""
        return 1e9 * self.max_disk_gb if self.forget and self.max_disk_gb else None
