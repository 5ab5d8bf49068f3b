"""SGD with momentum, over all weights as one vector.

Four operations on one vector take the place of a few for each of some dozens of tensors. It also
spares a process the 0.9 CPU-seconds that ``torch.optim`` takes to be imported, which is seconds
of a small run's first minute.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Momentum:
    """Minimises ``loss + l2 * |theta|^2`` (AlphaGo Zero, Methods, "Optimisation").

    One step, with ``g`` the loss's gradient at ``theta``::

        velocity = momentum * velocity + g + 2 * l2 * theta
        theta    = theta - learning_rate * velocity

    The gradient of the l2 term is written out, so it is exact, and it covers every weight: biases
    and batch normalisation's scales and shifts too, as the paper's theta does.

    Args:
        parameters: moved into one vector; their shapes, strides and values stay. Do not move
            them to another device afterwards.
        momentum: share of the velocity that is kept at each step.
        l2: weight c of the l2 term.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], momentum: float, l2: float) -> None:
        self._momentum = momentum
        self._l2 = l2
        self._parameters = list(parameters)
        size = sum(parameter.numel() for parameter in self._parameters)
        self._weights = torch.empty(size, device=self._parameters[0].device)
        self._velocity = torch.zeros_like(self._weights)
        self.gradient = torch.zeros_like(self._weights)
        """``[weights]`` float32, what ``backward`` adds to; to be changed in place, if at all."""
        for parameter, weights, gradient in zip(
            self._parameters, self._views(self._weights), self._views(self.gradient), strict=True
        ):
            weights.copy_(parameter.detach())
            parameter.data = weights
            parameter.grad = gradient  # backward adds to what is there

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Move the weights against the gradient that ``backward`` left, and clear it."""
        self.gradient.add_(self._weights, alpha=2 * self._l2)
        self._velocity.mul_(self._momentum).add_(self.gradient)
        self._weights.add_(self._velocity, alpha=-learning_rate)
        self.clear()

    def clear(self) -> None:
        """Forget the gradient; weights and velocity stay."""
        self.gradient.zero_()

    def velocities(self) -> list[Tensor]:
        """The velocity as one tensor for each parameter, in their order; writing changes it."""
        return self._views(self._velocity)

    def _views(self, vector: Tensor) -> list[Tensor]:
        """The vector's parts in the parameters' shapes and memory layouts."""
        views: list[Tensor] = []
        offset = 0
        for parameter in self._parameters:
            views.append(vector.as_strided(parameter.shape, parameter.stride(), offset))
            offset += parameter.numel()
        return views
