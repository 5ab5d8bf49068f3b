"""SGD with momentum on samples of the window, and the figures that show how well it fits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zerofleet.config import RunConfig
from zerofleet.errors import ConfigError
from zerofleet.network import Losses, Momentum, PolicyValueNet, l2_penalty, losses
from zerofleet.network.model import BoardShape

Batch = tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.float32]]
"""Observations ``[batch, observation_bytes]``, policy_target ``[batch, num_actions]``,
value_target ``[batch]``, as ``zerofleet_core.ReplayBuffer.sample`` gives them."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """How well the network, in evaluation mode, predicts a batch; means over its positions."""

    positions: int
    policy_loss: float  # cross-entropy -pi^T log p, nats
    value_loss: float  # squared error (z - v)^2
    total_loss: float  # what SGD minimises: both, weighted, and the l2 term
    policy_entropy: float  # of p, nats
    target_entropy: float  # of pi, nats: the least that policy_loss can be
    policy_agreement: float  # share where the network's first choice is the search's


class Learner:
    """The network, its optimiser and the number of steps taken.

    The same seed and the same batches in the same order give the same weights, bit for bit, on
    one kind of CPU with one number of threads.

    Args:
        spec: the game's board and actions.
        run: network, seed and the trainer's numbers.
    """

    def __init__(self, spec: BoardShape, run: RunConfig) -> None:
        self._settings = run.trainer
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.network = PolicyValueNet(spec, run.network, run.seed).to(self.device).train()
        self.step = 0
        self._momentum = Momentum(
            self.network.parameters(), self._settings.momentum, self._settings.l2
        )

    @property
    def learning_rate(self) -> float:
        """Of the next step."""
        section = bisect_right(self._settings.learning_rate_steps, self.step)
        return self._settings.learning_rate[section]

    def train(self, batch: Batch) -> None:
        """Take one step of SGD."""
        observations, policy_target, value_target = self._tensors(batch)
        policy_logits, value = self.network(observations)
        parts = losses(policy_logits, value, policy_target, value_target)
        self._weighted(parts).backward()  # pyright: ignore[reportUnknownMemberType]
        self._momentum.step(self.learning_rate)
        self.step += 1

    @torch.no_grad()
    def measure(self, batch: Batch) -> Measurement:
        """Predict a batch without learning from it; the network stays as it was.

        Raises:
            ConfigError: the loss is not finite: the weights are lost, and the numbers that led
                there must change.
        """
        observations, policy_target, value_target = self._tensors(batch)
        self.network.eval()
        policy_logits, value = self.network(observations)
        self.network.train()
        parts = losses(policy_logits, value, policy_target, value_target)
        total = self._weighted(parts) + l2_penalty(self.network.parameters(), self._settings.l2)
        agreement = policy_logits.argmax(1) == policy_target.argmax(1)
        means: list[float] = [
            parts.policy.item(),
            parts.value.item(),
            total.item(),
            _mean_entropy(policy_logits.softmax(1)),
            _mean_entropy(policy_target),
            agreement.float().mean().item(),
        ]
        if not np.isfinite(means).all():
            raise ConfigError(
                f"the loss is not finite at step {self.step}: lower trainer.learning_rate "
                f"(now {self.learning_rate}) and start again"
            )
        return Measurement(len(observations), *means)

    def state(self) -> dict[str, Tensor]:
        """Weights, batch normalisation's running figures and momentum, by name."""
        state = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        state |= self._velocities()
        return {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}

    def restore(self, state: Mapping[str, Tensor], step: int) -> None:
        """Continue from ``state()`` as it was after ``step`` steps.

        Raises:
            ConfigError: the state belongs to a network of other sizes.
        """
        weights = {
            name.removeprefix("network."): tensor
            for name, tensor in state.items()
            if name.startswith("network.")
        }
        try:
            self.network.load_state_dict(weights)
        except RuntimeError as error:
            raise ConfigError(
                "the checkpoint belongs to a network of other sizes: [network] of the run file "
                "must not change within a run"
            ) from error
        for name, velocity in self._velocities().items():
            velocity.copy_(state[name])
        self.step = step

    def _weighted(self, parts: Losses) -> Tensor:
        return parts.policy + self._settings.value_loss_weight * parts.value

    def _velocities(self) -> dict[str, Tensor]:
        names = [f"momentum.{name}" for name, _ in self.network.named_parameters()]
        return dict(zip(names, self._momentum.velocities(), strict=True))

    def _tensors(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        observations, policy_target, value_target = (
            torch.from_numpy(column).to(self.device, non_blocking=True)  # pyright: ignore[reportUnknownMemberType]
            for column in batch
        )
        return observations, policy_target, value_target


def _mean_entropy(probabilities: Tensor) -> float:
    """Nats, averaged over rows; 0 * log 0 is 0."""
    return -torch.xlogy(probabilities, probabilities).sum(1).mean().item()
