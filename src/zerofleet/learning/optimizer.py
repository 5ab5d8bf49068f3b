"""SGD with momentum, AdamW and Muon, over all weights as one vector.

Four operations on one vector replace a few for each of some dozens of tensors. This also saves a
process the 0.9 CPU-seconds of importing ``torch.optim``, which matter in a small run's first
minute.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import torch
from torch import Tensor, nn

from zerofleet.errors import ConfigError
from zerofleet.network import Network, ParameterGroup


class _Optimizer(ABC):
    """The weights and their gradient as vectors; subclasses implement the step.

    ``prepare`` writes the learning rates of the next step to the device. ``step`` reads nothing
    back, so that it can be part of a CUDA graph.

    Args:
        parameters: moved into one vector; their shapes, strides and values stay. Do not move them
            to another device afterwards.
        groups: groups of these parameters; factors of a parameter without a group are 1.
        order: the parameters in the order of the vector; by default their own.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        groups: Sequence[ParameterGroup] = (),
        order: Sequence[nn.Parameter] | None = None,
    ) -> None:
        self._parameters = list(parameters)
        sizes = [parameter.numel() for parameter in self._parameters]
        ordered = self._parameters if order is None else order
        ends = accumulate(parameter.numel() for parameter in ordered)
        first = {id(each): end - each.numel() for each, end in zip(ordered, ends, strict=True)}
        self._offsets = [first[id(each)] for each in self._parameters]
        self._weights = torch.empty(sum(sizes), device=self._parameters[0].device)
        self.gradient = torch.zeros_like(self._weights)
        """Gradient ``[weights]`` float32, to which ``backward`` adds; change it only in place."""
        for parameter, weights, gradient in zip(
            self._parameters, self._views(self._weights), self._views(self.gradient), strict=True
        ):
            weights.copy_(parameter.detach())
            parameter.data = weights
            parameter.grad = gradient  # backward adds to it
        self._rate = torch.zeros((), device=self._weights.device)  # learning rate
        places = {id(each): _place(each) for each in self._parameters}
        # None: all factors are 1, and a step costs no more than without groups.
        self._rates: Tensor | None = None
        self._decays: Tensor | None = None
        self._schedules: list[tuple[ParameterGroup, list[slice]]] = []
        for group in groups:
            ours = [places[id(each)] for each in group.parameters]
            factor = group.learning_rate_factor
            if factor != 1:
                if self._rates is None:
                    self._rates = torch.ones_like(self._weights)
                if callable(factor):
                    self._schedules.append((group, ours))
                else:
                    _fill(self._rates, ours, factor)
            if group.weight_decay_factor != 1:
                if self._decays is None:
                    self._decays = torch.ones_like(self._weights)
                _fill(self._decays, ours, group.weight_decay_factor)

    def clear(self) -> None:
        """Clear the gradient; weights and averages of earlier gradients stay."""
        self.gradient.zero_()

    @abstractmethod
    def averages(self) -> Mapping[str, list[Tensor]]:
        """Averages of earlier gradients by name, one tensor for each parameter in their order.

        Writing to them changes the optimizer.
        """

    def prepare(self, learning_rate: float, steps: int = 0) -> None:
        """Write the learning rates of the next step to the device.

        Args:
            learning_rate: factor of the step.
            steps: number of steps before it.

        Raises:
            ConfigError: the schedule of a group returns no number of at least 0.
        """
        self._rate.fill_(learning_rate)
        for group, places in self._schedules:
            factor = rate_factor(group, steps)
            check_factor(f"learning_rate_factor at step {steps}", factor)
            assert self._rates is not None
            _fill(self._rates, places, factor)

    @torch.no_grad()
    def step(self, usable: Tensor | None = None) -> None:
        """Move the weights against the gradient of ``backward``, and clear it.

        Args:
            usable: bool scalar on the device; if false, weights and averages stay as they are.
                None: the gradient is usable.
        """
        vectors = [] if usable is None else [self._weights, *self._average_vectors()]
        before = [vector.clone() for vector in vectors]
        self._update()
        for vector, kept in zip(vectors, before, strict=True):
            assert usable is not None
            vector.copy_(torch.where(usable, vector, kept))
        self.clear()

    @abstractmethod
    def _update(self) -> None:
        """Move the weights against the gradient."""

    @abstractmethod
    def _average_vectors(self) -> list[Tensor]:
        """Return the averages of earlier gradients, each ``[weights]``."""

    def _move(self, direction: Tensor) -> None:
        """Move the weights against a direction ``[weights]``, at each group's rate."""
        if self._rates is None:
            self._weights.addcmul_(direction, self._rate, value=-1)
        else:
            self._weights.addcmul_(direction * self._rate, self._rates, value=-1)

    def _views(self, vector: Tensor) -> list[Tensor]:
        """Return the vector's parts in the parameters' shapes and memory layouts."""
        return [
            vector.as_strided(parameter.shape, parameter.stride(), offset)
            for parameter, offset in zip(self._parameters, self._offsets, strict=True)
        ]


class Momentum(_Optimizer):
    """SGD: minimises ``loss + l2 * |theta|^2`` (AlphaGo Zero, Methods, "Optimisation").

    One step, with ``g`` the loss's gradient at ``theta``::

        velocity = momentum * velocity + g + 2 * l2 * theta
        theta    = theta - learning_rate * velocity

    The gradient of the l2 term is explicit, so it is exact. It covers every weight, including
    biases and batch normalisation's scales and shifts, as the paper's theta does.

    Args:
        parameters: see ``_Optimizer``.
        momentum: share of the velocity that is kept at each step.
        l2: weight c of the l2 term.
        groups: see ``_Optimizer``.
        order: see ``_Optimizer``.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        momentum: float,
        l2: float,
        groups: Sequence[ParameterGroup] = (),
        order: Sequence[nn.Parameter] | None = None,
    ) -> None:
        super().__init__(parameters, groups, order)
        self._momentum = momentum
        self._l2 = l2
        self._velocity = torch.zeros_like(self._weights)

    def _update(self) -> None:
        if self._decays is None:
            self.gradient.add_(self._weights, alpha=2 * self._l2)
        else:
            self.gradient.addcmul_(self._weights, self._decays, value=2 * self._l2)
        self._velocity.mul_(self._momentum).add_(self.gradient)
        self._move(self._velocity)

    def _average_vectors(self) -> list[Tensor]:
        return [self._velocity]

    def averages(self) -> Mapping[str, list[Tensor]]:
        """The velocity."""
        return {"momentum": self._views(self._velocity)}


class AdamW(_Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2).

    The step after ``t - 1`` others, with ``g`` the loss's gradient at ``theta``::

        mean   = beta * mean   + (1 - beta) * g
        square = 0.999 * square + 0.001 * g^2
        theta  = theta - rate * (m / (sqrt(s) + 1e-8) + weight_decay * theta)

    where ``m = mean / (1 - beta^t)`` and ``s = square / (1 - 0.999^t)``.

    Args:
        parameters: see ``_Optimizer``.
        beta: share of the gradient's mean that is kept at each step.
        weight_decay: see above.
        groups: see ``_Optimizer``.
    """

    _BETA_SQUARE = 0.999
    _EPSILON = 1e-8

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        beta: float,
        weight_decay: float,
        groups: Sequence[ParameterGroup] = (),
    ) -> None:
        super().__init__(parameters, groups)
        self._beta = beta
        self._weight_decay = weight_decay
        self._mean = torch.zeros_like(self._weights)
        self._square = torch.zeros_like(self._weights)
        self._decay = torch.zeros_like(self._rate)  # learning_rate * weight_decay
        self._kept = torch.zeros_like(self._rate)  # 1 - learning_rate * weight_decay
        self._square_correction = torch.zeros_like(self._rate)  # 1 - 0.999^t

    def prepare(self, learning_rate: float, steps: int = 0) -> None:
        """See ``_Optimizer.prepare``."""
        super().prepare(learning_rate / (1 - self._beta ** (steps + 1)), steps)
        self._decay.fill_(learning_rate * self._weight_decay)
        self._kept.fill_(1 - learning_rate * self._weight_decay)
        self._square_correction.fill_(1 - self._BETA_SQUARE ** (steps + 1))

    def _update(self) -> None:
        self._mean.lerp_(self.gradient, 1 - self._beta)
        self._square.lerp_(self.gradient.square(), 1 - self._BETA_SQUARE)
        root = (self._square / self._square_correction).sqrt_().add_(self._EPSILON)
        rates, decays = self._rates, self._decays
        if rates is None and decays is None:
            self._weights.mul_(self._kept).addcdiv_(self._mean * self._rate, root, value=-1)
        else:
            kept = torch.ones_like(self._weights) if decays is None else decays.clone()
            kept.mul_(-self._decay)
            step = self._mean / root
            if rates is not None:
                kept.mul_(rates)
                step.mul_(rates)
            self._weights.mul_(kept.add_(1)).addcmul_(step, self._rate, value=-1)

    def _average_vectors(self) -> list[Tensor]:
        return [self._mean, self._square]

    def averages(self) -> Mapping[str, list[Tensor]]:
        """The means of gradients and of their squares."""
        return {"mean": self._views(self._mean), "square": self._views(self._square)}


@dataclass(frozen=True, slots=True)
class _Kernels:
    """Kernels of one shape, which are adjacent in the vector of weights."""

    place: slice
    shape: tuple[int, int, int]  # kernels, rows and columns
    decay: float | Tensor  # weight decay of all kernels, or of each: ``[kernels, 1, 1]``

    def part(self, vector: Tensor) -> Tensor:
        """Return the kernels' part of a vector, as ``[kernels, rows, columns]``."""
        return vector[self.place].view(self.shape)


class Muon(Momentum):
    """Momentum whose steps of convolution kernels are made orthogonal (Jordan et al. 2024, "Muon").

    The gradient of a kernel, a matrix with a row for each output channel, has only few strong
    directions. Its step makes all directions equally strong, so that rare ones are learnt as fast.
    One step, with ``g`` the loss's gradient at a kernel ``W`` of more than one point::

        velocity = momentum * velocity + g
        W        = W - learning_rate * (s * orthogonal(g + momentum * velocity) + weight_decay * W)

    where ``orthogonal(U S V^T)`` is about ``U V^T`` and ``s = sqrt(max(1, rows / columns))``. All
    other weights take the step of ``Momentum``, at the same rate. Kernels of one shape are
    adjacent in the vector of weights, so that one operation works on all of them.

    Args:
        network: see ``_Optimizer`` for its parameters. Its ``matrices`` take such steps.
        momentum: share of the velocity that is kept at each step.
        l2: as in ``Momentum``, for all weights except such kernels.
        weight_decay: weight decay of such kernels.
        groups: see ``_Optimizer``.
    """

    def __init__(
        self,
        network: Network,
        momentum: float,
        l2: float,
        weight_decay: float,
        groups: Sequence[ParameterGroup] = (),
    ) -> None:
        parameters = list(network.parameters())
        matrices = {id(each) for each in network.matrices()}
        by_shape: dict[tuple[int, int], list[nn.Parameter]] = defaultdict(list)  # rows, columns
        for each in parameters:
            if id(each) in matrices:
                by_shape[len(each), each.numel() // len(each)].append(each)
        others = [each for each in parameters if id(each) not in matrices]
        order = [*chain.from_iterable(by_shape.values()), *others]
        super().__init__(parameters, momentum, l2, groups, order)
        self._penalty = torch.full_like(self._weights, 2 * l2)
        if self._decays is not None:
            self._penalty *= self._decays
        self._kernels: list[_Kernels] = []
        for (rows, columns), kernels in by_shape.items():
            places = [_place(each) for each in kernels]
            place = slice(places[0].start, places[-1].stop)
            self._penalty[place] = 0
            decay: float | Tensor = weight_decay
            if self._decays is not None:
                factors = [float(self._decays[each.start]) for each in places]
                each_decay = torch.tensor([weight_decay * factor for factor in factors])
                decay = each_decay.view(-1, 1, 1).to(self._weights.device)
            self._kernels.append(_Kernels(place, (len(kernels), rows, columns), decay))

    def _update(self) -> None:
        self.gradient.addcmul_(self._weights, self._penalty)
        self._velocity.mul_(self._momentum).add_(self.gradient)
        step = self._velocity.clone()
        for kernels in self._kernels:
            _, rows, columns = kernels.shape
            ahead = kernels.part(self.gradient) + self._momentum * kernels.part(self._velocity)
            direction = orthogonal(ahead) * max(1, rows / columns) ** 0.5
            weights = kernels.part(self._weights)
            if isinstance(kernels.decay, Tensor):
                direction.addcmul_(weights, kernels.decay)
            else:
                direction.add_(weights, alpha=kernels.decay)
            kernels.part(step).copy_(direction)
        self._move(step)


def rate_factor(group: ParameterGroup, steps: int) -> float:
    """Return a group's factor of the learning rate after this many steps."""
    factor = group.learning_rate_factor
    return factor(steps) if callable(factor) else factor


def check_factor(label: str, factor: object) -> None:
    """Check that a factor is a number of at least 0.

    Raises:
        ConfigError: the factor and its label.
    """
    if isinstance(factor, (int, float)) and not isinstance(factor, bool) and 0 <= factor < math.inf:
        return
    raise ConfigError(f"{label} is {factor!r}: give a number of at least 0")


def _fill(vector: Tensor, places: Iterable[slice], number: float) -> None:
    for place in places:
        vector[place] = number


def _place(parameter: nn.Parameter) -> slice:
    """Return the part of the vector that has a parameter's weights."""
    first = parameter.storage_offset()
    return slice(first, first + parameter.numel())


def orthogonal(matrices: Tensor) -> Tensor:
    """Return about ``U V^T`` of each ``U S V^T``: singular values of 0.7 to 1.2, unless tiny.

    Five rounds of an odd polynomial of fifth degree, whose coefficients raise small singular values
    as fast as they can (Jordan et al. 2024, "Muon", section "Newton-Schulz"; Bernstein and Newhouse
    2024, arXiv 2409.20325).

    Args:
        matrices: ``[matrices, rows, columns]`` float32.
    """
    if matrices.shape[1] > matrices.shape[2]:  # the products are of the shorter side
        return orthogonal(matrices.mT).mT
    length = matrices.square().sum((1, 2), keepdim=True).sqrt()
    found = matrices / length.clamp(min=1e-7)
    for _ in range(5):
        square = found @ found.mT
        factor = torch.baddbmm(square, square, square, beta=-4.7750, alpha=2.0315)
        found = torch.baddbmm(found, factor, found, beta=3.4445)
    return found


class WeightAverage:
    """The exponential average (EMA) of a network's snapshots, steadier than the last one.

    ``average = decay * average + (1 - decay) * snapshot``, for weights and running statistics. For
    the first ``1 / (1 - decay)`` snapshots it is the plain mean. Otherwise the first snapshot, of a
    network that knows little, would have the largest weight for a long time.

    Wu 2019 (arXiv 1902.10565), appendix C ("weight averaging", after Izmailov et al. 2018). Batch
    normalisation's running means and variances are averaged with the weights, so the average needs
    no pass over data.

    Args:
        network: copied without what only training needs; ``network`` of the average stays in
            evaluation mode.
        decay: share that is kept at each snapshot.
    """

    def __init__(self, network: Network, decay: float) -> None:
        self._decay = decay
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        for name in network.training_only:
            setattr(self.network, name, None)

    @torch.no_grad()
    def add(self, snapshot: Network, number: int) -> None:
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
