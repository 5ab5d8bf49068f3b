"""What learns and what is kept: ``[network]``, ``[trainer]``, ``[overfit]``, ``[retention]``."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from zerofleet.config.section import Section


class NetworkSection(Section):
    """``[network]``: the residual network with the papers' two heads."""

    blocks: int = Field(default=5, ge=0, le=512)
    """Residual blocks after the first convolution."""
    channels: int = Field(default=64, ge=1, le=4096)
    """Filters of every convolution of the tower."""
    policy_channels: int = Field(default=2, ge=1, le=1024)
    """Filters of the policy head's 1x1 convolution."""
    policy_head: Literal["dense", "convolutional"] = "dense"
    """convolutional: an action is a point of the board, and its logit comes from what is around
    it (one more action, a pass, from the whole board), as in Wu 2019, appendix A. For games with as
    many actions as points, or one more, in the order of the points, such as Go, Othello and
    m,n,k."""
    value_channels: int = Field(default=1, ge=1, le=1024)
    """Filters of the value head's 1x1 convolution."""
    value_hidden: int = Field(default=64, ge=1, le=65_536)
    """Width of the value head's hidden layer (256 in the paper)."""
    value_head: Literal["scalar", "outcome"] = "outcome"
    """scalar: one number, learnt by squared error, as in the paper; outcome: probabilities of win,
    draw and loss, as Lc0 has them, learnt by cross-entropy against two tosses of a coin that wins
    with (1 + value) / 2 (of a drawn game 25, 50 and 25%), of which the model tells P(win) -
    P(loss)."""
    global_pooling: bool = False
    """Every third block, and the policy head, also see means and maxima over the whole board (Wu
    2019, section 3.3)."""
    squeeze_excitation: bool = False
    """Each block scales its filters by what the whole board shows (Hu et al. 2018)."""


class TrainerSection(Section):
    """``[trainer]``: window, loss and pace."""

    batch_size: int = Field(default=256, ge=1)
    """Positions of one step."""
    learning_rate: tuple[Annotated[float, Field(ge=0)], ...] = (0.12,)
    """One learning rate, or several, which come in this order ..."""
    learning_rate_steps: tuple[int, ...] = ()
    """... each change at one of these steps (one fewer than the rates)."""
    schedule: Literal["steps", "samples"] = "steps"
    """Whether ``learning_rate_steps`` count steps, or samples (positions drawn)."""
    budget_samples: int = Field(default=0, ge=0)
    """Samples after which the rate has fallen to a twentieth, along a cosine, and stays there
    (Loshchilov and Hutter 2017, arXiv 1608.03983, section 3); 0: it does not. Of two budgets the
    one that is nearer to its end counts, and one that is larger than what was used lifts the rate
    again."""
    budget_minutes: float = Field(default=0.0, ge=0)
    """Minutes of training after which the rate has fallen to a twentieth, as with
    ``budget_samples``, however fast the machine is; 0: it does not. They count from the first step
    on, over restarts; more than a minute between two steps counts as one minute."""
    annealing_share: float = Field(default=0.25, gt=0, le=1)
    """Last share of the budget over which it falls."""
    warmup_samples: int = Field(default=20_000, ge=0)
    """The rate rises in a straight line from a twentieth over the first this many samples."""
    optimizer: Literal["sgd", "adamw", "muon"] = "muon"
    """SGD with momentum, as in the paper; AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101); or
    Muon (Jordan et al. 2024), which makes the steps of the convolution kernels larger than 1x1
    orthogonal; all other weights take SGD's step at the same rate. Each needs a ``learning_rate``
    of its own: 0.06 for SGD, 0.002 for AdamW and 0.12 for Muon were measured."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Momentum of SGD and Muon; of AdamW, the decay of the gradient's mean."""
    l2: float = Field(default=1e-4, ge=0)
    """SGD and Muon: weight c of ``c * |theta|^2`` in the loss; with Muon, of the weights that take
    SGD's step."""
    weight_decay: float = Field(default=0.01, ge=0)
    """AdamW, and Muon for its kernels: a step takes this share of each weight, times the rate,
    off."""
    value_loss_weight: float = Field(default=1.0, gt=0)
    """Weight of the value's loss beside the policy's cross-entropy."""
    value_lambda: float = Field(default=0.9, ge=0, le=1)
    """The value's target is the lambda-return of the searches' root values and the game's result
    (Sutton and Barto 2018, section 12.1); 1: the result alone, as in the paper."""
    soft_policy_weight: float = Field(default=0.0, ge=0)
    """Weight of the loss of a head that predicts the policy target at a temperature of 4, which
    tells the less good actions apart (KataGo, docs/KataGoMethods.md, "Auxiliary Soft Policy
    Target", has 8); 0: no such head. The models that are published have none of these heads: they
    are there for what the tower learns from them."""
    opponent_policy_weight: float = Field(default=0.0, ge=0)
    """Weight of the loss of a head, not published either, that predicts the opponent's next policy,
    where that ply had a full search (Wu 2019, arXiv 1902.10565, section 3.4: 0.15)."""
    final_planes_weight: float = Field(default=0.0, ge=0)
    """Weight of the loss of a head, not published either, that predicts who has which point in the
    end, as a mean over the points, in games that tell it (Go, Othello) and were not resigned (Wu
    2019, section 4.1: 1.5)."""
    final_score_weight: float = Field(default=0.0, ge=0)
    """Weight of the loss of a head, not published either, that predicts the lead in the end,
    counted in sides of the board, by Huber's loss, which is simpler than Wu's distribution of
    scores; in the games of ``final_planes_weight``."""
    window_games: int = Field(default=500_000, ge=1)
    """Only the most recent this many games are sampled."""
    window_positions: int = Field(default=1_000_000, ge=1)
    """The window holds at most this many positions in memory."""
    growing_window: bool = True
    """Sample the newest ``c (1 + beta ((N / c)^alpha - 1) / alpha)`` of all N positions so far (Wu
    2019, appendix C) instead of the whole window, which still bounds it."""
    growing_window_positions: int = Field(default=250_000, ge=1)
    """c of the growing window: up to so many positions, all are sampled."""
    growing_window_alpha: float = Field(default=0.75, gt=0, le=1)
    """alpha of the growing window."""
    growing_window_beta: float = Field(default=0.4, gt=0, le=1)
    """beta of the growing window: its growth when N = c."""
    min_positions: int = Field(default=2_000, ge=1)
    """Training starts when the window holds this many."""
    samples_per_position: float = Field(default=4.0, gt=0)
    """The train bucket: each new position pays for this many samples, never more (KataGo's loop on
    one machine: 8)."""
    least_samples_per_position: float | None = Field(default=None, gt=0)
    """What a new position pays for, if that is less, while the trainer is behind by half of
    ``selfplay.max_ahead_positions`` (and by no fewer than its first step needs): self-play that
    is faster than training then pauses less, and brings more games. Without
    ``max_ahead_positions`` it does nothing. Unset: as many."""
    held_out_share: float = Field(default=0.05, ge=0, lt=1)
    """Share of games (by hash of their uid) that is never trained on."""
    publish_every_steps: int = Field(default=1_000, ge=1)
    """A candidate model is published this often."""
    checkpoint_every_steps: int = Field(default=1_000, ge=1)
    """State for resuming is written this often: the most that a crash loses."""
    metrics_every_steps: int = Field(default=100, ge=1)
    """Losses are recorded this often, on trained and on held-out games."""
    average_decay: float = Field(default=0.75, ge=0, lt=1)
    """Published weights are an exponential average of snapshots with this decay, at first their
    mean; 0: the last."""
    average_every_steps: int = Field(default=50, ge=1)
    """Steps between two snapshots."""
    policy_surprise_share: float = Field(default=0.0, ge=0, le=1)
    """Share of a game's weight that its positions get in proportion to how far the search took
    their policy from the network's (the KL divergence of the target from the priors), the rest
    evenly: each is in the window a whole number of times, once on average in every game (KataGo,
    docs/KataGoMethods.md, "Policy Surprise Weighting", has 0.5, and takes the distance from the
    softened priors with noise); 0: off."""
    repeated_positions: Literal["all", "once"] = "all"
    """once: a position that the window has k times is drawn as often as one that it has once, and
    so learns the mean of its k targets."""
    age_halflife: float = Field(default=0.0, ge=0)
    """A position's chance to be drawn halves with every so many newer positions in the window; 0:
    it does not."""
    augment: bool = True
    """Train on each position under a random symmetry of the board."""
    mixed_precision: Literal["auto", "off", "bf16", "fp16"] = "auto"
    """Precision of the forward pass, off, bf16 or fp16; auto: bf16 on a GPU that has it, and on
    a CPU with AVX-512 BF16 or AMX where the network has 32 channels or more; else off."""
    channels_last: bool = True
    """Memory layout of the convolutions."""
    compile: bool = False
    """Compile the network with torch.compile; slow to start, faster afterwards on GPUs."""
    tensorboard: bool = False
    """Also write the metrics as TensorBoard events, beside the checkpoints (extra
    ``tensorboard``)."""
    threads: int = Field(default=1, ge=1)
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
    """slow: new positions pay for less training; wait: no step until new games close the gap; off:
    it is only recorded."""
    max_policy_gap: float = Field(default=0.2, gt=0)
    """Most that the held-out policy loss may exceed the training one, nats."""
    max_value_gap: float = Field(default=0.1, gt=0)
    """Most that the held-out value loss may exceed the training one, squared error."""
    smoothing: float = Field(default=0.8, ge=0, lt=1)
    """Gaps are exponential averages with this decay over measurements."""
    slow_factor: float = Field(default=0.25, gt=0, lt=1)
    """While too wide, a new position pays for this share of ``samples_per_position``."""
    min_positions: int = Field(default=1_000, ge=1)
    """Held-out positions needed before anything is concluded."""


class RetentionSection(Section):
    """``[retention]``: what is kept on disk.

    Games, their moves and results, matches and figures are kept forever.
    """

    forget: bool = True
    """Forget old searches and remove old models' files; off, everything is kept."""
    searches_days: float = Field(default=1.0, ge=0, le=1_000_000)
    """Keep searches (the table ``positions``) this many days longer than the trainer's window
    reaches back."""
    max_disk_gb: float | None = Field(default=None, ge=0, le=1e9)
    """Most disk space to use, in GB. Near it, the trainer drops the oldest searches that training
    does not need, even within ``searches_days``. Games, results, matches and promotions stay.
    ``zerofleet up`` counts the whole data folder, a cluster its database. 0: no limit. Unset: 20
    for ``zerofleet up`` with its own Postgres, otherwise no limit."""
    partition_hours: int = Field(default=24, ge=1, le=24 * 365)
    """Length of a partition of searches, in hours; ``max_disk_gb`` may shorten it. Searches are
    dropped by partition."""
    models_newest: int = Field(default=20, ge=2)
    """Keep the files of this many of the newest models, in addition to all promoted ones."""
    models_every: int = Field(default=10, ge=0)
    """Also keep the files of every Nth model; 0: no others."""

    @property
    def limit_bytes(self) -> float | None:
        """The disk limit; None: there is none."""
        return 1e9 * self.max_disk_gb if self.forget and self.max_disk_gb else None
