"""Loss scaling: small gradients stay above the least number that half precision can tell from 0."""

from __future__ import annotations

import torch
from torch import Tensor

FIRST_SCALE = 2.0**16
GROWTH_STEPS = 2_000


class LossScale:
    """A factor on the loss that is halved when gradients overflow and doubled when they do not.

    Micikevicius et al. 2018 (arXiv 1710.03740), section 3.2. Only powers of two: scaling and
    unscaling round nothing.
    """

    def __init__(self) -> None:
        self.scale = FIRST_SCALE
        self.clean_steps = 0  # without overflow since the scale changed last

    def unscale(self, gradient: Tensor) -> bool:
        """Divide the gradient by the scale, in place.

        Args:
            gradient: ``[weights]`` of the scaled loss.

        Returns:
            Whether it is finite; if not, it is of no use and the scale is halved.
        """
        gradient.div_(self.scale)
        if not bool(torch.isfinite(gradient).all()):
            self.scale, self.clean_steps = self.scale / 2, 0
            return False
        self.clean_steps += 1
        if self.clean_steps == GROWTH_STEPS:
            self.scale, self.clean_steps = self.scale * 2, 0
        return True

    def state(self) -> Tensor:
        """``[2]`` float64: the scale and the clean steps."""
        return torch.tensor([self.scale, float(self.clean_steps)], dtype=torch.float64)

    def restore(self, state: Tensor) -> None:
        """Go on from ``state()``."""
        self.scale, self.clean_steps = float(state[0]), int(state[1])
