"""How well a network predicts positions whose search and whose game's end are known."""

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
"""Observations ``[batch, observation_bytes]``, policy_target ``[batch, num_actions]``,
value_target ``[batch]``, as ``zerofleet_core.ReplayBuffer.sample`` gives them."""

TrainBatch = (
    Batch | tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]
)
"""What is trained on: where a network has auxiliary heads, with their targets."""


@dataclass(frozen=True, slots=True, eq=False)
class TracedBatch:
    """A batch of which it is known where each position comes from."""

    batch: Batch
    ply: NDArray[np.int32]  # [batch] actions played before the position
    game_length: NDArray[np.int32]  # [batch] plies of its whole game
    game_age: NDArray[np.int64]  # [batch] games that have come in since its game
    result: NDArray[np.float32]  # [batch] of its game, for the player to move


def measurement(
    traced: TracedBatch,
    policy_logits: Tensor,
    value: Tensor,
    value_loss_weight: float,
    penalty: Tensor,
) -> Measurement:
    """Compare predictions with what search and the game's end said.

    Args:
        traced: the positions.
        policy_logits: ``[batch, num_actions]`` float32 on the CPU.
        value: ``[batch]`` float32 on the CPU.
        value_loss_weight: of the value's squared error in the total.
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
    """Of the mean, when positions of one game, which share its result, count as one observation.

    The cluster-robust estimate (Liang and Zeger, Biometrika 73, 1986); None of fewer than two
    games.
    """
    _, game = np.unique(games, return_inverse=True)
    sums = np.bincount(game, losses - losses.mean())
    if len(sums) < 2:
        return None
    return math.sqrt(np.square(sums).sum() * len(sums) / (len(sums) - 1)) / len(losses)


def _mean_entropy(probabilities: Tensor) -> float:
    """Nats, averaged over rows; 0 * log 0 is 0."""
    return -torch.xlogy(probabilities, probabilities).sum(1).mean().item()
