"""What the tower is made of: AlphaGo Zero's blocks, and two ways to look at the whole board.

A convolution sees its neighbourhood; a ko threat, a ladder or the number of stones left lies
anywhere. Both options below carry what the whole board shows to every point of it.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from zerofleet.config import NetworkSection

SQUEEZE_RATIO = 4
POOLED_SHARE = 4


class ConvolutionBlock(nn.Sequential):
    """Convolution, batch normalisation, rectifier."""

    def __init__(self, inputs: int, channels: int, kernel: int) -> None:
        super().__init__(
            # Batch normalisation subtracts the mean: a bias before it would do nothing.
            nn.Conv2d(inputs, channels, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
        )


class SqueezeExcitation(nn.Module):
    """Scales each channel by a gate in (0, 1) that all channels' means over the board decide.

    Hu et al. 2018 (arXiv 1709.01507), section 3, with the reduction ratio 4 of small networks. It
    scales and adds nothing (Lc0's variant also adds a bias for each channel).
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = max(1, channels // SQUEEZE_RATIO)
        self.squeeze = nn.Linear(channels, squeezed)
        self.excite = nn.Linear(squeezed, channels)

    def forward(self, planes: Tensor) -> Tensor:
        """Planes ``[batch, channels, rows, columns]``, scaled."""
        squeezed = functional.relu(self.squeeze(planes.mean((2, 3))))
        # The sigmoid, by the identity sigmoid(x) = (1 + tanh(x / 2)) / 2: tanh is among the few
        # operators that a model file may hold.
        gates = 0.5 * torch.tanh(0.5 * self.excite(squeezed)) + 0.5
        return planes * gates[:, :, None, None]


class ResidualBlock(nn.Module):
    """Two convolutions around which the input is carried, rectified after the addition."""

    def __init__(self, channels: int, squeeze_excitation: bool = False) -> None:
        super().__init__()
        self.first = ConvolutionBlock(channels, channels, 3)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.gate = SqueezeExcitation(channels) if squeeze_excitation else nn.Identity()

    def forward(self, planes: Tensor) -> Tensor:
        """``[batch, channels, rows, columns]``, as it came."""
        carried = self.gate(self.norm(self.second(self.first(planes))))
        return functional.relu(planes + carried, inplace=True)


class PooledResidualBlock(nn.Module):
    """A residual block, a quarter of whose inner channels speak of the whole board.

    Wu 2019 (arXiv 1902.10565), section 3.3 and appendices A.2 and A.3: means and maxima of those
    channels over the board give, by one linear layer, a bias for each of the other channels, which
    alone enter the second convolution. Each network is for one size of board, so the paper's means
    scaled by that size would say nothing new. The bias comes after the batch normalisation and
    not before: the same functions, and the normalisation can be folded into its convolution.
    """

    def __init__(self, channels: int, squeeze_excitation: bool = False) -> None:
        super().__init__()
        self.pooled = pooled_channels(channels)
        rest = channels - self.pooled
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.bias = nn.Linear(2 * self.pooled, rest)
        self.second = nn.Conv2d(rest, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.gate = SqueezeExcitation(channels) if squeeze_excitation else nn.Identity()

    def forward(self, planes: Tensor) -> Tensor:
        """``[batch, channels, rows, columns]``, as it came."""
        inner = self.first_norm(self.first(planes))
        bias = self.bias(over_the_board(functional.relu(inner[:, : self.pooled])))
        rest = functional.relu(inner[:, self.pooled :] + bias[:, :, None, None])
        carried = self.gate(self.norm(self.second(rest)))
        return functional.relu(planes + carried, inplace=True)


class PooledPolicyHead(nn.Module):
    """AlphaGo Zero's policy head, whose last layer also sees means and maxima over the board.

    Wu 2019, section 3.3 and appendix A.4. A pass has no point of its own: what it is worth can be
    seen on the whole board only.
    """

    def __init__(self, channels: int, filters: int, points: int, num_actions: int) -> None:
        super().__init__()
        pooled = pooled_channels(channels)
        self.filters = ConvolutionBlock(channels, filters, 1)
        self.pooled = ConvolutionBlock(channels, pooled, 1)
        self.last = nn.Linear(filters * points + 2 * pooled, num_actions)

    def forward(self, planes: Tensor) -> Tensor:
        """Policy logits ``[batch, num_actions]`` of ``[batch, channels, rows, columns]``."""
        local = self.filters(planes).flatten(1)
        return self.last(torch.cat([local, over_the_board(self.pooled(planes))], 1))


class ConvolutionalPolicyHead(nn.Module):
    """A policy head whose actions are points of the board, and perhaps one that is none.

    A logit of each point by a 1x1 convolution over filters, to which what the whole board shows
    adds a bias; the one more action's by a linear layer over that (Wu 2019, appendix A.4). It has
    as many weights on a large board as on a small one, and what it learns at one point it knows at
    all.
    """

    def __init__(self, channels: int, filters: int, points: int, num_actions: int) -> None:
        super().__init__()
        pooled = pooled_channels(channels)
        self.filters = ConvolutionBlock(channels, filters, 1)
        self.pooled = ConvolutionBlock(channels, pooled, 1)
        self.bias = nn.Linear(2 * pooled, filters)
        self.points = nn.Conv2d(filters, 1, 1)
        self.rest = nn.Linear(2 * pooled, 1) if num_actions > points else None

    def forward(self, planes: Tensor) -> Tensor:
        """Policy logits ``[batch, num_actions]`` of ``[batch, channels, rows, columns]``."""
        board = over_the_board(self.pooled(planes))
        local = functional.relu(self.filters(planes) + self.bias(board)[:, :, None, None])
        logits = self.points(local).flatten(1)
        return logits if self.rest is None else torch.cat([logits, self.rest(board)], 1)


def policy_head(network: NetworkSection, points: int, num_actions: int) -> nn.Module:
    """Policy logits ``[batch, num_actions]`` of ``[batch, channels, rows, columns]``."""
    filters = network.policy_channels
    if network.policy_head == "convolutional":
        return ConvolutionalPolicyHead(network.channels, filters, points, num_actions)
    if network.global_pooling:
        return PooledPolicyHead(network.channels, filters, points, num_actions)
    return nn.Sequential(
        ConvolutionBlock(network.channels, filters, 1),
        nn.Flatten(),
        nn.Linear(filters * points, num_actions),
    )


def over_the_board(planes: Tensor) -> Tensor:
    """Means, then maxima: ``[batch, 2 * channels]`` of ``[batch, channels, rows, columns]``."""
    return torch.cat([planes.mean((2, 3)), planes.amax((2, 3))], 1)


def pooled_channels(channels: int) -> int:
    """How many of a block's channels are pooled: a quarter, and at least one."""
    return max(1, channels // POOLED_SHARE)
