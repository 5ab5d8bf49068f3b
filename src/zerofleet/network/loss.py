"""The loss of AlphaGo Zero: ``l = (z - v)^2 - pi^T log p + c * |theta|^2``.

The last term is not computed at each step: ``zerofleet.network.momentum`` adds its gradient,
``2 * c * theta``, to the others'.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Losses:
    """The data terms of the loss, each a scalar averaged over the batch."""

    policy: Tensor  # cross-entropy -pi^T log p, nats
    value: Tensor  # squared error (z - v)^2


def losses(
    policy_logits: Tensor, value: Tensor, policy_target: Tensor, value_target: Tensor
) -> Losses:
    """Compare predictions with what search and the game's end said.

    Args:
        policy_logits: ``[batch, num_actions]`` float32.
        value: ``[batch]`` float32.
        policy_target: ``[batch, num_actions]`` float32, normalised visit counts (pi).
        value_target: ``[batch]`` float32, the game's result for the player to move (z).
    """
    return Losses(
        policy=functional.cross_entropy(policy_logits, policy_target),
        value=functional.mse_loss(value, value_target),
    )


def l2_penalty(parameters: Iterable[Tensor], l2: float) -> Tensor:
    """``c * |theta|^2`` over all weights, a scalar, for reports and tests."""
    return l2 * torch.stack([parameter.square().sum() for parameter in parameters]).sum()
