"""What learns and what is kept: ``[network]``, ``[trainer]``, ``[overfit]``, ``[retention]``."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from zerofleet.config.section import BASIC, Section


class NetworkSection(Section):
    """``[network]``: the residual network with the papers' two heads."""

    blocks: int = Field(default=4, ge=0, le=512, json_schema_extra=BASIC)
    """Residual blocks after the first convolution. More blocks learn more from a position and cost
    more time."""
    channels: int = Field(default=48, ge=1, le=4096, json_schema_extra=BASIC)
    """Filters of every convolution of the tower."""
    policy_channels: int = Field(default=2, ge=1, le=1024)
    """Filters of the policy head's 1x1 convolution."""
    policy_head: Literal["dense", "convolutional"] = Field(default="dense", json_schema_extra=BASIC)
    """``convolutional`` computes the logit of an action from the surroundings of its point, and
    that of a pass from the whole board (Wu 2019, appendix A). It is for games with as many actions
    as points, or one more, in the order of the points: Go, Othello and m,n,k. ``dense`` fits every
    game."""
    value_channels: int = Field(default=1, ge=1, le=1024)
    """Filters of the value head's 1x1 convolution."""
    value_hidden: int = Field(default=64, ge=1, le=65_536)
    """Width of the value head's hidden layer (256 in the paper)."""
    value_head: Literal["scalar", "outcome"] = "outcome"
    """``scalar`` is one number, learnt by squared error, as in the paper. ``outcome`` is
    probabilities of win, draw and loss as in Lc0, learnt by cross-entropy. It models the game as
    two half-point coin tosses with win probability p = (1 + value) / 2; the model answers P(win) -
    P(loss)."""
    global_pooling: bool = Field(default=False, json_schema_extra=BASIC)
    """Every third block, and the policy head, also see means and maxima over the whole board (Wu
    2019, section 3.3). Switch it on for boards of 9x9 and more."""
    squeeze_excitation: bool = False
    """Each block scales its filters by what the whole board shows (Hu et al. 2018)."""


class TrainerSection(Section):
    """``[trainer]``: window, loss and pace."""

    batch_size: int = Field(default=256, ge=1, json_schema_extra=BASIC)
    """Positions of one training step."""
    learning_rate: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        default=(0.12,), json_schema_extra=BASIC
    )
    """Learning rate, or several that follow each other at ``learning_rate_steps``. Each optimizer
    needs its own."""
    learning_rate_steps: tuple[int, ...] = ()
    """Steps at which the learning rate changes, one fewer than the rates."""
    budget_samples: int = Field(default=0, ge=0)
    """Samples after which the learning rate has fallen to a twentieth along a cosine, and stays
    there (Loshchilov and Hutter 2017, arXiv 1608.03983, section 3); 0: no budget. Of two budgets,
    the one nearer to its end counts. A budget larger than what was used raises the rate again."""
    budget_minutes: float = Field(default=0.0, ge=0, json_schema_extra=BASIC)
    """Minutes of training after which the learning rate has fallen to a twentieth, as with
    ``budget_samples``; 0: no budget. They count from the first step, over restarts. More than a
    minute between two steps counts as one minute."""
    annealing_share: float = Field(default=0.25, gt=0, le=1)
    """Last share of the budget, over which the rate falls."""
    warmup_samples: int = Field(default=20_000, ge=0)
    """Samples over which the rate rises in a straight line from a twentieth."""
    optimizer: Literal["sgd", "adamw", "muon"] = Field(default="muon", json_schema_extra=BASIC)
    """SGD with momentum as in the paper, AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101), or
    Muon (Jordan et al. 2024). Muon makes the steps of convolution kernels larger than 1x1
    orthogonal; all other weights take an SGD step at the same rate. Measured learning rates: 0.06
    for SGD, 0.002 for AdamW, 0.12 for Muon."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Momentum of SGD and Muon; for AdamW, the decay of the gradient's mean."""
    l2: float = Field(default=1e-4, ge=0)
    """Weight c of ``c * |theta|^2`` in the loss, for SGD and for the weights that take an SGD step
    with Muon."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled weight decay of AdamW, and of Muon for its kernels. Each step subtracts
    ``learning_rate * weight_decay * weight``."""
    value_loss_weight: ClassVar[float] = 1.0
    """Weight of the value's loss in the total, next to the policy's cross-entropy."""
    value_lambda: float = Field(default=0.9, ge=0, le=1, json_schema_extra=BASIC)
    """Lambda of the value target, a lambda-return of the searches' root values and the result
    (Sutton and Barto 2018, section 12.1); 1: the result alone, as in the paper. Raise it for longer
    games: 0.97 for 60 plies, 0.98 for 100."""
    soft_policy_weight: float = Field(default=0.0, ge=0)
    """Loss weight of an auxiliary head that predicts the policy target at a temperature of 4
    (KataGo, docs/KataGoMethods.md, "Auxiliary Soft Policy Target", has 8); 0: no head. Published
    models have no auxiliary heads; they only help the tower to learn."""
    opponent_policy_weight: float = Field(default=0.0, ge=0)
    """Loss weight of an auxiliary head that predicts the opponent's next policy, where that ply had
    a full search (Wu 2019, arXiv 1902.10565, section 3.4: 0.15); 0: no head."""
    final_planes_weight: float = Field(default=0.0, ge=0)
    """Loss weight of an auxiliary head that predicts who owns each point at the end, as a mean over
    the points (Wu 2019, section 4.1: 1.5); 0: no head. Only Go and Othello have owners, and
    resigned games have none."""
    final_score_weight: float = Field(default=0.0, ge=0)
    """Loss weight of an auxiliary head that predicts the final lead, in sides of the board, by
    Huber loss; 0: no head. It applies to the games of ``final_planes_weight``."""
    window_games: int = Field(default=500_000, ge=1)
    """Most recent games that are sampled."""
    window_positions: int = Field(default=1_000_000, ge=1, json_schema_extra=BASIC)
    """Most positions of the window, which is held in memory."""
    growing_window: bool = True
    """Sample the newest ``c (1 + beta ((N / c)^alpha - 1) / alpha)`` of all N positions so far (Wu
    2019, appendix C), within the window. Off: sample the whole window."""
    growing_window_positions: int = Field(default=250_000, ge=1)
    """c of the growing window: up to this many positions, all are sampled."""
    growing_window_alpha: ClassVar[float] = 0.75
    """alpha of the growing window (Wu 2019, appendix C)."""
    growing_window_beta: ClassVar[float] = 0.4
    """beta of the growing window: its growth when N = c."""
    min_positions: int = Field(default=2_000, ge=1, json_schema_extra=BASIC)
    """Positions in the window before training starts."""
    samples_per_position: float = Field(default=4.0, gt=0, json_schema_extra=BASIC)
    """Replay ratio: samples that each new position pays for (KataGo on one machine: 8)."""
    least_samples_per_position: float | None = Field(default=None, gt=0)
    """Replay ratio while the trainer is behind by half of ``selfplay.max_ahead_positions``. Lower
    than ``samples_per_position``, it lets self-play pause less and bring more games. Unset: the
    same."""
    held_out_share: float = Field(default=0.05, ge=0, lt=1)
    """Share of games in the validation set, which is never trained on. Games are chosen by a hash
    of their uid."""
    publish_every_steps: int = Field(default=500, ge=1, json_schema_extra=BASIC)
    """Steps between two published models."""
    checkpoint_every_steps: int = Field(default=500, ge=1, json_schema_extra=BASIC)
    """Steps between two checkpoints, the most that a crash loses."""
    metrics_every_steps: int = Field(default=100, ge=1)
    """Steps between two measurements of the losses, on training and validation games."""
    average_decay: float = Field(default=0.75, ge=0, lt=1)
    """Decay of the EMA of snapshots that is published, at first their mean; 0: publish the last
    weights."""
    average_every_steps: int = Field(default=50, ge=1)
    """Steps between two snapshots."""
    augment: bool = True
    """Train on each position under a random symmetry of the board."""
    mixed_precision: Literal["auto", "off", "bf16", "fp16"] = "auto"
    """Precision of the forward pass. ``auto`` takes bf16 on a GPU that has it, and on a CPU with
    AVX-512 BF16 or AMX if the network has 32 channels or more."""
    compile: bool = False
    """Compile the network with torch.compile. It starts slowly and is faster afterwards on GPUs."""
    tensorboard: bool = False
    """Also write the metrics as TensorBoard events, next to the checkpoints (extra
    ``tensorboard``)."""
    threads: int = Field(default=1, ge=1, json_schema_extra=BASIC)
    """CPU threads of the trainer."""

    @property
    def first_step_positions(self) -> int:
        """Positions before the first step: the fewest of a window, or what one batch costs."""
        return max(self.min_positions, math.ceil(self.batch_size / self.samples_per_position))

    def budget_used(self, samples: int, seconds: float) -> float | None:
        """Return the share of the budget that is used up, above 1 after its end.

        None without a budget.

        Args:
            samples: positions drawn so far.
            seconds: of training so far.
        """
        parts = ((samples, self.budget_samples), (seconds, 60 * self.budget_minutes))
        shares = [used / budget for used, budget in parts if budget]
        return max(shares) if shares else None

    @property
    def auxiliary_weights(self) -> dict[str, float]:
        """Of each auxiliary target that is learnt, by its name."""
        weights = {
            "soft_policy": self.soft_policy_weight,
            "opponent_policy": self.opponent_policy_weight,
            "final_planes": self.final_planes_weight,
            "final_score": self.final_score_weight,
        }
        return {name: weight for name, weight in weights.items() if weight > 0}

    @property
    def drawn_targets(self) -> list[str]:
        """Those that a replay buffer gives, which knows them by these names."""
        return [name for name in self.auxiliary_weights if name != "soft_policy"]

    @model_validator(mode="after")
    def _rates_and_steps_agree(self) -> TrainerSection:
        if len(self.learning_rate) != len(self.learning_rate_steps) + 1:
            raise ValueError(
                f"learning_rate has {len(self.learning_rate)} values and learning_rate_steps "
                f"{len(self.learning_rate_steps)}: give exactly one rate more than steps"
            )
        if list(self.learning_rate_steps) != sorted(set(self.learning_rate_steps)):
            raise ValueError(
                f"learning_rate_steps is {list(self.learning_rate_steps)}: each must be greater "
                "than the one before"
            )
        return self


class OverfitSection(Section):
    """``[overfit]``: when held-out games are predicted worse than those trained on."""

    action: Literal["slow", "wait", "off"] = "slow"
    """Reaction to overfitting. ``slow``: new positions pay for a quarter of the training. ``wait``:
    no step until new games close the gap. ``off``: only record it."""
    max_policy_gap: float = Field(default=0.2, gt=0)
    """Most that the validation policy loss may exceed the training one, nats."""
    max_value_gap: float = Field(default=0.1, gt=0)
    """Most that the validation value loss may exceed the training one, squared error."""
    smoothing: ClassVar[float] = 0.8
    """Decay of the exponential averages of the gaps, over measurements."""
    slow_factor: ClassVar[float] = 0.25
    """While overfitting, a new position pays for this share of ``samples_per_position``."""
    min_positions: int = Field(default=1_000, ge=1)
    """Held-out positions needed before anything is concluded."""


class RetentionSection(Section):
    """``[retention]``: what is kept on disk.

    Games, their moves and results, matches and figures are kept forever.
    """

    forget: bool = True
    """Drop old searches and remove old models' files. Off: keep everything."""
    searches_days: float = Field(default=1.0, ge=0, le=1_000_000)
    """Keep searches (the table ``positions``) this many days longer than the trainer's window
    reaches back."""
    max_disk_gb: float | None = Field(default=None, ge=0, le=1e9, json_schema_extra=BASIC)
    """Most disk space to use, in GB. Near it, the trainer drops the oldest searches that training
    does not need, even within ``searches_days``. Games, results, matches and promotions stay.
    ``zerofleet up`` counts the whole data folder, a cluster its database. 0: no limit. Unset: 20
    for ``zerofleet up`` with its own Postgres, otherwise no limit."""
    partition_hours: int = Field(default=24, ge=1, le=24 * 365)
    """Length of a partition of searches, in hours; ``max_disk_gb`` may shorten it. Searches are
    dropped by partition."""
    models_newest: int = Field(default=20, ge=2)
    """Keep the files of this many of the newest models, in addition to all promoted ones."""
    models_every: ClassVar[int] = 10
    """The files of every Nth model are kept, too."""

    @property
    def limit_bytes(self) -> float | None:
        """The disk limit; None: there is none."""
        return 1e9 * self.max_disk_gb if self.forget and self.max_disk_gb else None
