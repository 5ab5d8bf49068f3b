"""The residual network with the two heads of AlphaGo Zero, for a board of any size.

Blocks are AlphaGo Zero's, with two options that bring information about the whole board to every
point. A convolution sees only its neighbourhood, but a ko threat, a ladder or the number of stones
left is a property of the whole board.

Auxiliary heads are for training only; no exported model has them. They follow Wu 2019 (arXiv
1902.10565), section 3.4 (the opponent's next policy) and section 4.1 (ownership of each point at
the end, and the score). A game's result is one number for all its positions, and these targets
explain it. The softened policy (KataGo, docs/KataGoMethods.md, "Auxiliary Soft Policy Target")
teaches which of the other actions come close to the best one.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from zerofleet.config import NetworkSection, check_policy_head
from zerofleet.learning.attention import AttentionTower
from zerofleet.learning.loss import auxiliary_losses
from zerofleet.network import Network, Outputs, Shapes, Targets, data_losses

POOLED_EVERY = 3
SQUEEZE_RATIO = 4
POOLED_SHARE = 4


class ConvolutionBlock(nn.Sequential):
    """Convolution, batch normalisation, rectifier."""

    def __init__(self, inputs: int, channels: int, kernel: int) -> None:
        super().__init__(
            # Batch normalisation subtracts the mean, so a bias before it would have no effect.
            nn.Conv2d(inputs, channels, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
        )


class SqueezeExcitation(nn.Module):
    """Scales each channel by a gate in (0, 1), computed from all channels' means over the board.

    Hu et al. 2018 (arXiv 1709.01507), section 3, with the reduction ratio 4 of small networks. It
    only scales (Lc0's variant also adds a bias for each channel).
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = max(1, channels // SQUEEZE_RATIO)
        self.squeeze = nn.Linear(channels, squeezed)
        self.excite = nn.Linear(squeezed, channels)

    def forward(self, planes: Tensor) -> Tensor:
        """Scale planes ``[batch, channels, rows, columns]``."""
        squeezed = functional.relu(self.squeeze(planes.mean((2, 3))))
        # The sigmoid, by the identity sigmoid(x) = (1 + tanh(x / 2)) / 2, because tanh is among the
        # few operators of a model file.
        gates = 0.5 * torch.tanh(0.5 * self.excite(squeezed)) + 0.5
        return planes * gates[:, :, None, None]


class ResidualBlock(nn.Module):
    """Two convolutions with a skip connection, rectified after the addition."""

    def __init__(self, channels: int, squeeze_excitation: bool = False) -> None:
        super().__init__()
        self.first = ConvolutionBlock(channels, channels, 3)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.gate = SqueezeExcitation(channels) if squeeze_excitation else nn.Identity()

    def forward(self, planes: Tensor) -> Tensor:
        """Return ``[batch, channels, rows, columns]``, the same shape as the input."""
        carried = self.gate(self.norm(self.second(self.first(planes))))
        return functional.relu(planes + carried, inplace=True)


class PooledResidualBlock(nn.Module):
    """A residual block in which a quarter of the inner channels describes the whole board.

    Wu 2019 (arXiv 1902.10565), section 3.3 and appendices A.2 and A.3. One linear layer turns means
    and maxima of those channels over the board into a bias for each of the other channels, which
    alone enter the second convolution. Each network is for one size of board, so the paper's means
    scaled by that size would add no information. The bias comes after the batch normalisation and
    not before it: the functions are the same, and the normalisation can be folded into its
    convolution.
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
        """Return ``[batch, channels, rows, columns]``, the same shape as the input."""
        inner = self.first_norm(self.first(planes))
        bias = self.bias(over_the_board(functional.relu(inner[:, : self.pooled])))
        rest = functional.relu(inner[:, self.pooled :] + bias[:, :, None, None])
        carried = self.gate(self.norm(self.second(rest)))
        return functional.relu(planes + carried, inplace=True)


class PooledPolicyHead(nn.Module):
    """AlphaGo Zero's policy head, whose last layer also sees means and maxima over the board.

    Wu 2019, section 3.3 and appendix A.4. A pass has no point of its own: its worth shows only on
    the whole board.
    """

    def __init__(self, channels: int, filters: int, points: int, num_actions: int) -> None:
        super().__init__()
        pooled = pooled_channels(channels)
        self.filters = ConvolutionBlock(channels, filters, 1)
        self.pooled = ConvolutionBlock(channels, pooled, 1)
        self.last = nn.Linear(filters * points + 2 * pooled, num_actions)

    def forward(self, planes: Tensor) -> Tensor:
        """Return policy logits ``[batch, num_actions]``."""
        local = self.filters(planes).flatten(1)
        return self.last(torch.cat([local, over_the_board(self.pooled(planes))], 1))


class ConvolutionalPolicyHead(nn.Module):
    """A policy head whose actions are points of the board, and at most one other action.

    The logit of each point comes from a 1x1 convolution over filters, to which means and maxima
    over the board add a bias. The other action's logit comes from a linear layer over these (Wu
    2019, appendix A.4). The head has the same number of weights on every board, and what it learns
    at one point applies to all.
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
        """Return policy logits ``[batch, num_actions]``."""
        board = over_the_board(self.pooled(planes))
        local = functional.relu(self.filters(planes) + self.bias(board)[:, :, None, None])
        logits = self.points(local).flatten(1)
        return logits if self.rest is None else torch.cat([logits, self.rest(board)], 1)


def policy_head(network: NetworkSection, points: int, num_actions: int) -> nn.Module:
    """Return a head with policy logits ``[batch, num_actions]``."""
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
    """Return means, then maxima over the board: ``[batch, 2 * channels]``."""
    return torch.cat([planes.mean((2, 3)), planes.amax((2, 3))], 1)


def pooled_channels(channels: int) -> int:
    """Return how many of a block's channels are pooled: a quarter, and at least one."""
    return max(1, channels // POOLED_SHARE)


class AuxiliaryHeads(nn.Module):
    """A head for each target in addition to policy and value.

    Args:
        shapes: sizes of the game, and the targets.
        network: channels of the tower, and the sizes of policy and value heads, which these use
            too.
    """

    def __init__(self, shapes: Shapes, network: NetworkSection) -> None:
        super().__init__()
        points, channels, hidden = shapes.points, network.channels, network.value_hidden
        self.names = list(shapes.targets)
        if "soft_policy" in self.names:
            self.soft_policy = policy_head(network, points, shapes.num_actions)
        if "opponent_policy" in self.names:
            self.opponent_policy = policy_head(network, points, shapes.num_actions)
        if "final_planes" in self.names:
            self.final_planes = nn.Conv2d(channels, shapes.final_planes, 1)
        if "final_score" in self.names:
            self.final_score = nn.Sequential(
                nn.Linear(2 * channels, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, 1)
            )

    def forward(self, planes: Tensor) -> dict[str, Tensor]:
        """Return logits by target, ``[batch, numbers]`` each, and the score in sides of the board.

        Args:
            planes: ``[batch, channels, rows, columns]``.
        """
        found: dict[str, Tensor] = {}
        for name in self.names:
            if name == "final_planes":
                found[name] = self.final_planes(planes).flatten(1)
            elif name == "final_score":
                found[name] = self.final_score(over_the_board(planes))
            else:
                found[name] = getattr(self, name)(planes)
        return found


class BoardNetwork(Network):
    """A residual or attention tower with a policy head and a value head.

    Args:
        shapes: sizes of the game. Its targets get heads, which are evaluated in training only.
        options: blocks, channels, the sizes of the heads, and whether blocks see the whole board.

    Raises:
        ConfigError: the policy head does not fit the game, or there are too few channels for it.
    """

    Options = NetworkSection
    training_only = ("auxiliary",)

    def __init__(self, shapes: Shapes, options: NetworkSection) -> None:
        super().__init__(shapes)
        check_policy_head(options, shapes)
        points = shapes.points
        self.tower: nn.Module
        if options.name == "attention":
            planes = shapes.observation_shape
            self.tower = AttentionTower(planes, options.channels, options.blocks)
        else:
            self.tower = nn.Sequential(
                ConvolutionBlock(shapes.planes, options.channels, 3),
                *(_block(options, number) for number in range(1, options.blocks + 1)),
            )
        self.policy_head = policy_head(options, points, shapes.num_actions)
        self.tells_value = options.value_head == "scalar"
        self.value_head = nn.Sequential(
            ConvolutionBlock(options.channels, options.value_channels, 1),
            nn.Flatten(),
            nn.Linear(options.value_channels * points, options.value_hidden),
            nn.ReLU(inplace=True),
            nn.Linear(options.value_hidden, 1 if self.tells_value else 3),
        )
        # Last, so that all others begin with the same weights as without it.
        self.auxiliary = AuxiliaryHeads(shapes, options) if shapes.targets else None
        _initialise(self, torch.initial_seed())
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def forward(self, planes: Tensor) -> Outputs:
        """Return policy logits, the value or its logits, and in training the further targets."""
        planes = self.tower(planes)
        policy_logits, outcome = self.policy_head(planes), self.value_head(planes)
        value = outcome.squeeze(1).tanh() if self.tells_value else outcome
        heads = self.auxiliary if self.training else None
        return Outputs(policy_logits, value, {} if heads is None else heads(planes))

    def matrices(self) -> Iterator[Tensor]:
        """Yield the kernels of more than one point, and the linear layers of attention blocks."""
        yield from super().matrices()
        if isinstance(self.tower, AttentionTower):
            for module in self.tower.blocks.modules():
                if isinstance(module, nn.Linear):
                    yield module.weight

    def losses(self, outputs: Outputs, targets: Targets) -> dict[str, Tensor]:
        """Return the losses of policy, value and each further target."""
        more = auxiliary_losses(outputs.named, targets, self.shapes)
        return data_losses(outputs, targets) | more


def _block(network: NetworkSection, number: int) -> nn.Module:
    """Return the residual block of this number, from 1: every third one pools if pooling is on."""
    pools = network.global_pooling and number % POOLED_EVERY == 0
    kind = PooledResidualBlock if pools else ResidualBlock
    return kind(network.channels, network.squeeze_excitation)


def _initialise(network: BoardNetwork, seed: int) -> None:
    """Set normal weights of variance 2 / fan-in (He et al. 2015), all from one generator.

    The last layer of either head starts small, so that the untrained network is nearly neutral:
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
