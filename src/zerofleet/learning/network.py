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

import copy
import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from zerofleet.config import NetworkSection, check_policy_head

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


class BoardShape(Protocol):
    """The sizes of a game that the heads depend on; ``zerofleet_core.GameSpec`` has them."""

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """Planes, rows and columns."""
        ...

    @property
    def num_actions(self) -> int:
        """Number of actions of the game, legal or not."""
        ...

    @property
    def num_final_planes(self) -> int:
        """Number of planes that describe the game's end."""
        ...

    @property
    def has_final_score(self) -> bool:
        """Whether the game has a score at its end."""
        ...


class AuxiliaryHeads(nn.Module):
    """A head for each target in addition to policy and value, in the order of a batch's columns.

    Args:
        spec: the game; targets that it does not have get no head.
        network: channels of the tower, and the sizes of policy and value heads, which these use
            too.
        targets: ``soft_policy``, and names of ``zerofleet_core.ReplayBuffer``.
    """

    def __init__(self, spec: BoardShape, network: NetworkSection, targets: Sequence[str]) -> None:
        super().__init__()
        _, rows, columns = spec.observation_shape
        points, channels, hidden = rows * columns, network.channels, network.value_hidden
        widths = {
            "soft_policy": spec.num_actions,
            "opponent_policy": spec.num_actions,
            "final_planes": spec.num_final_planes * points,
            "final_score": int(spec.has_final_score),
        }
        self.widths = {name: width for name, width in widths.items() if name in targets and width}
        """Number of outputs of each head for a position."""
        self.drawn_width = sum(self.widths.values()) - self.widths.get("soft_policy", 0)
        """Total width of the heads whose targets come from the replay buffer."""
        self.side = math.sqrt(points)
        """Side of the board, in points: the unit of the score."""
        if "soft_policy" in self.widths:
            self.soft_policy = policy_head(network, points, spec.num_actions)
        if "opponent_policy" in self.widths:
            self.opponent_policy = policy_head(network, points, spec.num_actions)
        if "final_planes" in self.widths:
            self.final_planes = nn.Conv2d(channels, spec.num_final_planes, 1)
        if "final_score" in self.widths:
            self.final_score = nn.Sequential(
                nn.Linear(2 * channels, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, 1)
            )

    def forward(self, planes: Tensor) -> Tensor:
        """Return logits, and the score in sides of the board.

        Args:
            planes: ``[batch, channels, rows, columns]``.

        Returns:
            ``[batch, sum of widths]``.
        """
        found: list[Tensor] = []
        if "soft_policy" in self.widths:
            found.append(self.soft_policy(planes))
        if "opponent_policy" in self.widths:
            found.append(self.opponent_policy(planes))
        if "final_planes" in self.widths:
            found.append(self.final_planes(planes).flatten(1))
        if "final_score" in self.widths:
            found.append(self.final_score(over_the_board(planes)))
        return torch.cat(found, 1)


class PolicyValueNet(nn.Module):
    """``(p, v) = f(s)``: policy logits and value of bit-packed observations.

    Args:
        spec: the game's board and actions.
        network: blocks, channels, the sizes of the heads, and whether blocks see the whole board.
        seed: seed of the first weights, which depend on nothing else.
        auxiliary: targets in addition to policy and value, see ``AuxiliaryHeads``. Targets that the
            game has get heads, which only ``for_losses`` evaluates.

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
            Policy logits ``[batch, num_actions]`` float32, which include illegal actions, and
                values ``[batch]`` float32 in [-1, 1], for the player to move.
        """
        policy_logits, value = self._answer(self.tower(self.unpack(observations)))
        if self.tells_value:
            return policy_logits, value
        shares = value.softmax(1)
        return policy_logits, shares[:, 0] - shares[:, 2]

    def for_losses(self, observations: Tensor) -> tuple[Tensor, ...]:
        """Return the inputs of ``losses``: policy logits, and values or win, draw and loss logits.

        Returns:
            ``[batch, num_actions]``, and ``[batch]`` or ``[batch, 3]``; float32. Third, if there
                are auxiliary heads, their predictions ``[batch, width]``.
        """
        planes = self.tower(self.unpack(observations))
        answers = self._answer(planes)
        return answers if self.auxiliary is None else (*answers, self.auxiliary(planes))

    def _answer(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        policy_logits, outcome = self.policy_head(planes), self.value_head(planes)
        return policy_logits, outcome.squeeze(1).tanh() if self.tells_value else outcome


def _block(network: NetworkSection, number: int) -> nn.Module:
    """Return the residual block of this number, from 1: every third one pools if pooling is on."""
    pools = network.global_pooling and number % POOLED_EVERY == 0
    kind = PooledResidualBlock if pools else ResidualBlock
    return kind(network.channels, network.squeeze_excitation)


def _initialise(network: PolicyValueNet, seed: int) -> None:
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


class UnpackBits(nn.Module):
    """Unpacks ``numpy.packbits`` bytes (most significant bit first) to 0.0 and 1.0.

    It is inside the network, so that every caller sends bytes, 1/32 of float planes. A lookup of
    256 rows of 8 numbers costs nothing measurable compared with the first convolution, and exports
    as one ``Gather``.

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
        """Return planes ``[batch, planes, rows, columns]`` float32 for ``[batch, bytes]`` uint8."""
        bits = functional.embedding(observations.int(), self.table)  # [batch, bytes, 8]
        return bits.flatten(1)[:, : self.bits].reshape(-1, *self.shape)


class WeightAverage:
    """The exponential average (EMA) of a network's snapshots, steadier than the last one.

    ``average = decay * average + (1 - decay) * snapshot``, for weights and running statistics. For
    the first ``1 / (1 - decay)`` snapshots it is the plain mean. Otherwise the first snapshot, of a
    network that knows little, would have the largest weight for a long time.

    Wu 2019 (arXiv 1902.10565), appendix C ("weight averaging", after Izmailov et al. 2018). Batch
    normalisation's running means and variances are averaged with the weights, so the average needs
    no pass over data.

    Args:
        network: copied without its auxiliary heads; ``network`` of the average stays in evaluation
            mode.
        decay: share that is kept at each snapshot.
    """

    def __init__(self, network: PolicyValueNet, decay: float) -> None:
        self._decay = decay
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        self.network.auxiliary = None

    @torch.no_grad()
    def add(self, snapshot: PolicyValueNet, number: int) -> None:
        """Add a snapshot.

        Args:
            snapshot: a network of the same sizes; only read.
            number: number of the snapshot; 1 is the first, which replaces the untrained weights.
        """
        share = max(1.0 - self._decay, 1.0 / number)
        ours, theirs = self.network.state_dict(), snapshot.state_dict()
        for name, average in ours.items():
            if average.is_floating_point():
                average.lerp_(theirs[name], share)
            else:
                average.copy_(theirs[name])  # a count of batches
