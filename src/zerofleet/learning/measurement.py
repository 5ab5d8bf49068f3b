"""The quality of a network's predictions for positions with a known search and result."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zerofleet.fleet.figures import Measurement, Stage

STAGES = 4

Batch = tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.float32]]
"""A batch as ``zerofleet_core.ReplayBuffer.sample`` returns it.

Observations ``[batch, observation_bytes]``, policy_target ``[batch, num_actions]``, value_target
``[batch]``.
"""

TrainBatch = (
    Batch | tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]
)
"""A batch for training, with the targets of the auxiliary heads if the network has any."""


@dataclass(frozen=True, slots=True, eq=False)
class TracedBatch:
    """A batch with the origin of each position."""

    batch: Batch
    ply: NDArray[np.int32]  # [batch] actions played before the position
    game_length: NDArray[np.int32]  # [batch] plies of its whole game
    game_age: NDArray[np.int64]  # [batch] games that have arrived since its game
    result: NDArray[np.float32]  # [batch] result of its game, for the player to move


def measurement(
    traced: TracedBatch,
    policy_logits: Tensor,
    value: Tensor,
    value_loss_weight: float,
    penalty: Tensor,
) -> Measurement:
    """Compare predictions with the results of the search and of the game.

    Args:
        traced: the positions.
        policy_logits: ``[batch, num_actions]`` float32 on the CPU.
        value: ``[batch]`` float32 on the CPU.
        value_loss_weight: weight of the value's squared error in the total.
        penalty: the weights' term of the total, a scalar.
    """
    observations, policy_target, value_target = traced.batch
    pi = torch.from_numpy(policy_target)  # pyright: ignore[reportUnknownMemberType]
    z = torch.from_numpy(value_target)  # pyright: ignore[reportUnknownMemberType]
    policy_losses = -(pi * policy_logits.log_softmax(1)).sum(1).numpy()
    value_losses = (value - z).square().numpy()
    policy_loss, value_loss = float(policy_losses.mean()), float(value_losses.mean())
    target_entropy = _mean_entropy(pi)
    errors = value.numpy() - traced.result
    variance = float(traced.result.var())
    return Measurement(
        positions=len(observations),
        policy_loss=policy_loss,
        value_loss=value_loss,
        policy_error=_standard_error(policy_losses, traced.game_age),
        value_error=_standard_error(value_losses, traced.game_age),
        total_loss=policy_loss + value_loss_weight * value_loss + penalty.item(),
        policy_entropy=_mean_entropy(policy_logits.softmax(1)),
        target_entropy=target_entropy,
        policy_agreement=(policy_logits.argmax(1) == pi.argmax(1)).float().mean().item(),
        search_kl=policy_loss - target_entropy,
        explained_variance=1 - float(np.square(errors).mean()) / variance if variance > 0 else None,
        value_bias=float(errors.mean()),
        distinct_share=len({row.tobytes() for row in observations}) / len(observations),
        age_games=float(traced.game_age.mean()),
        calibration=_calibration(traced, value.numpy()),
    )


def _calibration(traced: TracedBatch, value: NDArray[np.float32]) -> tuple[Stage, ...]:
    stages = np.minimum(STAGES * traced.ply // np.maximum(traced.game_length, 1), STAGES - 1)
    rows: list[Stage] = []
    for stage in range(STAGES):
        chosen = stages == stage
        if chosen.any():
            predicted, actual = value[chosen], traced.result[chosen]
            rows.append(
                Stage(
                    stage=stage + 1,
                    positions=int(chosen.sum()),
                    predicted=float(predicted.mean()),
                    actual=float(actual.mean()),
                    squared_error=float(np.square(predicted - actual).mean()),
                )
            )
    return tuple(rows)


def _standard_error(losses: NDArray[np.float32], games: NDArray[np.int64]) -> float | None:
    """Return the standard error of the mean, where positions of one game count as one observation.

    Positions of one game share its result. The estimate is cluster-robust (Liang and Zeger,
    Biometrika 73, 1986); None with fewer than two games.
    """
    _, game = np.unique(games, return_inverse=True)
    sums = np.bincount(game, losses - losses.mean())
    if len(sums) < 2:
        return None
    return math.sqrt(np.square(sums).sum() * len(sums) / (len(sums) - 1)) / len(losses)


def _mean_entropy(probabilities: Tensor) -> float:
    """Return the entropy in nats, averaged over rows; 0 * log 0 is 0."""
    return -torch.xlogy(probabilities, probabilities).sum(1).mean().item()
