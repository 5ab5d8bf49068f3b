"""Losses of the auxiliary heads, the penalty on weights, and the scale of half precision.

The loss of AlphaGo Zero is ``l = (z - v)^2 - pi^T log p + c * |theta|^2``. Its first two terms are
``zerofleet.network.data_losses``. The last term is not computed at each step: the optimizers with
such a term add its gradient, ``2 * c * theta``, to the others'. ``LossScale`` keeps small gradients
above the smallest number of half precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from zerofleet.network import Shapes, Targets

FIRST_SCALE = 2.0**16
GROWTH_STEPS = 2_000
SOFT_TEMPERATURE = 4.0


def auxiliary_losses(
    predicted: Mapping[str, Tensor], targets: Targets, shapes: Shapes
) -> dict[str, Tensor]:
    """Return the loss of each auxiliary head by name: the mean over positions with the target.

    Policies have the cross-entropy in nats, and final planes the binary cross-entropy of each
    point. The score has the Huber loss: young networks win by large margins, which would dominate a
    squared error.

    Args:
        predicted: by name ``[batch, numbers]`` float32; the score in sides of the board.
        targets: the score in points. A loss without any target is 0. Processes that share a batch
            take the mean over their own positions.
        shapes: sizes of the game.
    """
    row_losses = {
        "soft_policy": _policy_losses,
        "opponent_policy": _policy_losses,
        "final_planes": _plane_losses,
        "final_score": partial(_score_losses, side=math.sqrt(shapes.points)),
    }
    found: dict[str, Tensor] = {}
    for name, ours in predicted.items():
        wanted = softened(targets.policy) if name == "soft_policy" else targets.named[name]
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
    scaling and unscaling round nothing. The factor stays on the device, where each step changes it.

    Args:
        device: device of the loss and its gradient.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        # float64, because the factor may exceed float32 before a gradient overflows
        self._state = torch.tensor([FIRST_SCALE, 0.0], dtype=torch.float64, device=device)
        self.scale, self.clean_steps = self._state[0], self._state[1]
        """Scalars: the factor, and the steps without overflow since its last change."""

    def unscale(self, gradient: Tensor) -> Tensor:
        """Divide the gradient by the scale, in place.

        Args:
            gradient: ``[weights]``, of the scaled loss.

        Returns:
            Bool scalar on the device: whether the gradient is finite. Otherwise it cannot be used,
                and the scale is halved.
        """
        gradient.div_(self.scale)
        is_finite = torch.isfinite(gradient).all()
        clean_steps = torch.where(is_finite, self.clean_steps + 1, 0.0)
        grows = clean_steps == GROWTH_STEPS
        self.scale.mul_(torch.where(is_finite, torch.where(grows, 2.0, 1.0), 0.5))
        self.clean_steps.copy_(torch.where(grows, 0.0, clean_steps))
        return is_finite

    def state(self) -> Tensor:
        """Return ``[2]`` float64: the scale and the clean steps."""
        return self._state.clone()

    def restore(self, state: Tensor) -> None:
        """Continue from ``state()``."""
        self._state.copy_(state)
