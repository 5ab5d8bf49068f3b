"""The loss of AlphaGo Zero: ``l = (z - v)^2 - pi^T log p + c * |theta|^2``.

If a network distinguishes win, draw and loss, the first term is a cross-entropy. The last term is
not computed at each step: the optimizers with such a term add its gradient, ``2 * c * theta``, to
the others'. Auxiliary heads have their own losses. ``LossScale`` keeps small gradients above the
smallest number of half precision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from zerofleet.learning.network import AuxiliaryHeads

FIRST_SCALE = 2.0**16
GROWTH_STEPS = 2_000
SOFT_TEMPERATURE = 4.0


@dataclass(frozen=True, slots=True)
class Losses:
    """The data terms of the loss, each a scalar averaged over the batch."""

    policy: Tensor  # cross-entropy -pi^T log p, nats
    value: Tensor  # squared error (z - v)^2, or cross-entropy of win, draw and loss, nats


def losses(
    policy_logits: Tensor, value: Tensor, policy_target: Tensor, value_target: Tensor
) -> Losses:
    """Compare predictions with the results of the search and of the game.

    Args:
        policy_logits: ``[batch, num_actions]`` float32.
        value: ``[batch]`` float32, or logits of win, draw and loss ``[batch, 3]``.
        policy_target: ``[batch, num_actions]`` float32, the search's policy (pi).
        value_target: ``[batch]`` float32, the result or lambda-return for the player to move (z).
    """
    return Losses(
        policy=functional.cross_entropy(policy_logits, policy_target),
        value=functional.mse_loss(value, value_target)
        if value.dim() == 1
        else functional.cross_entropy(value, outcome_target(value_target)),
    )


def outcome_target(value_target: Tensor) -> Tensor:
    """Return probabilities of win, draw and loss ``[batch, 3]`` for values ``[batch]`` in [-1, 1].

    Models the game as two half-point coin tosses with win probability p = (1 + value) / 2: win p^2,
    draw 2p(1-p), loss (1-p)^2. A won or lost result is then certain, and P(win) - P(loss) is the
    value. Putting all uncertainty into draws would give the same value. But where draws are rare, a
    network that expects draws learns a small advantage a fifth as fast, because a softmax near 1
    hardly moves. Therefore a draw, too, is half of each.
    """
    half = (1 + value_target) / 2
    return torch.stack([half.square(), 2 * half * (1 - half), (1 - half).square()], 1)


def auxiliary_losses(
    heads: AuxiliaryHeads, predicted: Tensor, policy_target: Tensor, *drawn: Tensor
) -> dict[str, Tensor]:
    """Return the loss of each auxiliary head by name: the mean over positions with the target.

    Policies have the cross-entropy in nats, and final planes the binary cross-entropy of each
    point. The score has the Huber loss: young networks win by large margins, which would dominate a
    squared error.

    Args:
        predicted: ``[batch, sum of widths]`` float32, from ``AuxiliaryHeads.forward``.
        policy_target: ``[batch, num_actions]`` float32.
        drawn: the other heads' targets ``[batch, drawn_width]``, from
            ``ReplayBuffer.sample_with_auxiliary``: the score in points, NaN where a position has no
            target. A loss without any target is 0. Processes that share a batch take the mean over
            their own positions.
    """
    soft = [softened(policy_target)] if "soft_policy" in heads.widths else []
    target = torch.cat([*soft, *drawn], 1)
    row_losses = {
        "soft_policy": _policy_losses,
        "opponent_policy": _policy_losses,
        "final_planes": _plane_losses,
        "final_score": partial(_score_losses, side=heads.side),
    }
    found: dict[str, Tensor] = {}
    widths = list(heads.widths.values())
    columns = (torch.split(each, widths, 1) for each in (predicted, target))
    for name, ours, wanted in zip(heads.widths, *columns, strict=True):
        is_known = ~wanted[:, 0].isnan()
        each = row_losses[name](ours, wanted.nan_to_num())
        found[name] = torch.where(is_known, each, 0.0).sum() / is_known.sum().clamp(min=1)
    return found


def softened(policy: Tensor) -> Tensor:
    """Return policies ``[batch, num_actions]`` at the soft temperature: p^(1 / T), normalised."""
    return functional.normalize(policy.pow(1 / SOFT_TEMPERATURE), p=1, dim=1)


def _policy_losses(logits: Tensor, target: Tensor) -> Tensor:
    return -(target * logits.log_softmax(1)).sum(1)


def _plane_losses(logits: Tensor, target: Tensor) -> Tensor:
    share = (1 + target) / 2  # a point that neither player has counts half for each
    return functional.binary_cross_entropy_with_logits(logits, share, reduction="none").mean(1)


def _score_losses(score: Tensor, target: Tensor, side: float) -> Tensor:
    return functional.huber_loss(score, target / side, reduction="none").squeeze(1)


def l2_penalty(parameters: Iterable[Tensor], l2: float) -> Tensor:
    """Return ``c * |theta|^2`` over all weights, a scalar, for reports and tests."""
    return l2 * torch.stack([parameter.square().sum() for parameter in parameters]).sum()


class LossScale:
    """A factor on the loss: halved when gradients overflow, doubled after a time without overflow.

    Micikevicius et al. 2018 (arXiv 1710.03740), section 3.2. Only powers of two are used, so that
    scaling and unscaling round nothing.
    """

    def __init__(self) -> None:
        self.scale = FIRST_SCALE
        self.clean_steps = 0  # without overflow since the last change of the scale

    def unscale(self, gradient: Tensor) -> bool:
        """Divide the gradient by the scale, in place.

        Args:
            gradient: ``[weights]``, of the scaled loss.

        Returns:
            Whether it is finite; otherwise it cannot be used, and the scale is halved.
        """
        gradient.div_(self.scale)
        if not bool(torch.isfinite(gradient).all()):
            self.scale, self.clean_steps = self.scale / 2, 0
            return False
        self.clean_steps += 1
        if self.clean_steps == GROWTH_STEPS:
            self.scale, self.clean_steps = self.scale * 2, 0
        return True

    def state(self) -> Tensor:
        """Return ``[2]`` float64: the scale and the clean steps."""
        return torch.tensor([self.scale, float(self.clean_steps)], dtype=torch.float64)

    def restore(self, state: Tensor) -> None:
        """Continue from ``state()``."""
        self.scale, self.clean_steps = float(state[0]), int(state[1])
