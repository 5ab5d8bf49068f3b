"""The residual network with the two heads of AlphaGo Zero, for a board of any size."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from zerofleet.config import NetworkSection, check_policy_head
from zerofleet.network.auxiliary import AuxiliaryHeads, BoardShape
from zerofleet.network.blocks import (
    ConvolutionalPolicyHead,
    ConvolutionBlock,
    PooledResidualBlock,
    ResidualBlock,
    policy_head,
)

POOLED_EVERY = 3


class PolicyValueNet(nn.Module):
    """``(p, v) = f(s)``: policy logits and value of bit-packed observations.

    Args:
        spec: the game's board and actions.
        network: blocks, channels, the sizes of the heads, and whether blocks see the whole board.
        seed: of the first weights; they depend on nothing else.
        auxiliary: targets beside policy and value, as ``AuxiliaryHeads`` takes them;
            those that the game offers have heads, which only ``for_losses`` asks.

    Raises:
        ConfigError: the policy head does not fit the game, or there are too few channels for it.
    """

    def __init__(
        self,
        spec: BoardShape,
        network: NetworkSection,
        seed: int = 0,
        auxiliary: Sequence[str] = (),
    ) -> None:
        super().__init__()
        check_policy_head(network, spec)
        planes, rows, columns = spec.observation_shape
        points = rows * columns
        self.unpack = UnpackBits((planes, rows, columns))
        self.tower = nn.Sequential(
            ConvolutionBlock(planes, network.channels, 3),
            *(_block(network, number) for number in range(1, network.blocks + 1)),
        )
        self.policy_head = policy_head(network, points, spec.num_actions)
        self.tells_value = network.value_head == "scalar"
        self.value_head = nn.Sequential(
            ConvolutionBlock(network.channels, network.value_channels, 1),
            nn.Flatten(),
            nn.Linear(network.value_channels * points, network.value_hidden),
            nn.ReLU(inplace=True),
            nn.Linear(network.value_hidden, 1 if self.tells_value else 3),
        )
        # Last, so that all others begin with the same weights as without it.
        heads = AuxiliaryHeads(spec, network, auxiliary)
        self.auxiliary = heads if heads.widths else None
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
        policy_logits, value = self._answer(self.tower(self.unpack(observations)))
        if self.tells_value:
            return policy_logits, value
        shares = value.softmax(1)
        return policy_logits, shares[:, 0] - shares[:, 2]

    def for_losses(self, observations: Tensor) -> tuple[Tensor, ...]:
        """What ``losses`` takes: policy logits, and values or logits of win, draw and loss.

        Returns:
            ``[batch, num_actions]``, and ``[batch]`` or ``[batch, 3]``; float32. Third, if there
            are auxiliary heads, what they predict ``[batch, width]``.
        """
        planes = self.tower(self.unpack(observations))
        answers = self._answer(planes)
        return answers if self.auxiliary is None else (*answers, self.auxiliary(planes))

    def _answer(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        policy_logits, outcome = self.policy_head(planes), self.value_head(planes)
        return policy_logits, outcome.squeeze(1).tanh() if self.tells_value else outcome


def _block(network: NetworkSection, number: int) -> nn.Module:
    """The residual block of this number, from 1: every third one pools where pooling is on."""
    pools = network.global_pooling and number % POOLED_EVERY == 0
    kind = PooledResidualBlock if pools else ResidualBlock
    return kind(network.channels, network.squeeze_excitation)


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
    heads = [network.policy_head, network.value_head]
    if network.auxiliary is not None:
        heads += network.auxiliary.children()
    for head in heads:
        with torch.no_grad():
            for layer in _last_layers(head):
                layer.weight.mul_(0.1)


def _last_layers(head: nn.Module) -> list[nn.Conv2d | nn.Linear]:
    if isinstance(head, ConvolutionalPolicyHead):
        return [head.points] if head.rest is None else [head.points, head.rest]
    return [[each for each in head.modules() if isinstance(each, nn.Conv2d | nn.Linear)][-1]]


class UnpackBits(nn.Module):
    """Unpack ``numpy.packbits`` bytes (most significant bit first) to 0.0 and 1.0.

    Inside the network, so that every caller sends bytes, 1/32 of float planes. A lookup of 256 rows
    of 8 numbers costs nothing measurable beside the first convolution and exports as one
    ``Gather``.

    Args:
        shape: planes, rows, columns; packed in C order, padded with zero bits to whole bytes.
    """

    table: Tensor  # [256, 8] float32

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.shape = shape
        self.bits = math.prod(shape)
        byte = torch.arange(256).unsqueeze(1)
        bit = torch.arange(7, -1, -1).unsqueeze(0)
        # Not a weight: neither saved nor trained nor part of |theta|^2.
        self.register_buffer("table", ((byte >> bit) & 1).float(), persistent=False)

    def forward(self, observations: Tensor) -> Tensor:
        """Planes ``[batch, planes, rows, columns]`` float32 of ``[batch, bytes]`` uint8."""
        bits = functional.embedding(observations.int(), self.table)  # [batch, bytes, 8]
        return bits.flatten(1)[:, : self.bits].reshape(-1, *self.shape)


class WeightAverage:
    """The exponential average of a network's snapshots: steadier than the last of them.

    ``average = decay * average + (1 - decay) * snapshot``, weights and running figures alike. Of
    the first ``1 / (1 - decay)`` snapshots it is the plain mean: else the first one, of a network
    that knows little, would weigh most for long.

    Wu 2019 (arXiv 1902.10565), appendix C ("weight averaging", after Izmailov et al. 2018). Batch
    normalisation's running means and variances are averaged with the weights, so the average needs
    no pass over data.

    Args:
        network: copied without its auxiliary heads; ``network`` of the average stays in
            evaluation mode.
        decay: share that is kept at each snapshot.
    """

    def __init__(self, network: PolicyValueNet, decay: float) -> None:
        self._decay = decay
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        self.network.auxiliary = None

    @torch.no_grad()
    def add(self, snapshot: PolicyValueNet, number: int) -> None:
        """Take a snapshot in.

        Args:
            snapshot: a network of the same sizes; only read.
            number: of the snapshot; 1 is the first, which replaces the untrained weights.
        """
        share = max(1.0 - self._decay, 1.0 / number)
        ours, theirs = self.network.state_dict(), snapshot.state_dict()
        for name, average in ours.items():
            if average.is_floating_point():
                average.lerp_(theirs[name], share)
            else:
                average.copy_(theirs[name])  # a count of batches
