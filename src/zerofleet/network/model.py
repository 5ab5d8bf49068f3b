"""The residual network with the two heads of AlphaGo Zero, for a board of any size."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from zerofleet.config import NetworkSection
from zerofleet.network.bits import UnpackBits


class BoardShape(Protocol):
    """What the network needs to know of a game; ``zerofleet_core.GameSpec`` has it."""

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """Planes, rows and columns."""
        ...

    @property
    def num_actions(self) -> int:
        """Actions of the game, legal or not."""
        ...


class _ConvolutionBlock(nn.Sequential):
    """Convolution, batch normalisation, rectifier."""

    def __init__(self, inputs: int, channels: int, kernel: int) -> None:
        super().__init__(
            # Batch normalisation subtracts the mean: a bias before it would do nothing.
            nn.Conv2d(inputs, channels, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
        )


class _ResidualBlock(nn.Module):
    """Two convolutions around which the input is carried, rectified after the addition."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = _ConvolutionBlock(channels, channels, 3)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, planes: Tensor) -> Tensor:
        return functional.relu(planes + self.norm(self.second(self.first(planes))), inplace=True)


class PolicyValueNet(nn.Module):
    """``(p, v) = f(s)``: policy logits and value of bit-packed observations.

    Args:
        spec: the game's board and actions.
        network: blocks, channels and the sizes of the heads.
        seed: of the first weights; they depend on nothing else.
    """

    def __init__(self, spec: BoardShape, network: NetworkSection, seed: int = 0) -> None:
        super().__init__()
        planes, rows, columns = spec.observation_shape
        points = rows * columns
        self.unpack = UnpackBits((planes, rows, columns))
        self.tower = nn.Sequential(
            _ConvolutionBlock(planes, network.channels, 3),
            *(_ResidualBlock(network.channels) for _ in range(network.blocks)),
        )
        self.policy_head = nn.Sequential(
            _ConvolutionBlock(network.channels, network.policy_channels, 1),
            nn.Flatten(),
            nn.Linear(network.policy_channels * points, spec.num_actions),
        )
        self.value_head = nn.Sequential(
            _ConvolutionBlock(network.channels, network.value_channels, 1),
            nn.Flatten(),
            nn.Linear(network.value_channels * points, network.value_hidden),
            nn.ReLU(inplace=True),
            nn.Linear(network.value_hidden, 1),
            nn.Tanh(),
        )
        _initialise(self, seed)
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Predict a batch.

        Args:
            observations: ``[batch, observation_bytes]`` uint8, packed as ``numpy.packbits`` does.

        Returns:
            Policy logits ``[batch, num_actions]`` float32 (of all actions: illegal ones are for
            the caller to leave out) and values ``[batch]`` float32 in [-1, 1], for the player to
            move.
        """
        planes = self.tower(self.unpack(observations))
        return self.policy_head(planes), self.value_head(planes).squeeze(1)


def _initialise(network: PolicyValueNet, seed: int) -> None:
    """Normal weights of variance 2 / fan-in (He et al. 2015), from one generator alone.

    The last layer of either head starts small, so that the untrained network says nothing loudly:
    priors near uniform, values near 0.
    """
    generator = torch.Generator().manual_seed(seed)
    layers = [module for module in network.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    for layer in layers:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    for head in (network.policy_head, network.value_head):
        last = [module for module in head.modules() if isinstance(module, nn.Linear)][-1]
        with torch.no_grad():
            last.weight.mul_(0.1)
