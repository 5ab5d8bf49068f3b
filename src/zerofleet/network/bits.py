"""Bit-packed observations become planes inside the network, so every caller sends bytes.

A lookup of 256 rows of 8 numbers costs nothing measurable beside the first convolution, exports as
one ``Gather``, and cuts what travels to the network to 1/32 of float planes.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class UnpackBits(nn.Module):
    """Unpack ``numpy.packbits`` bytes (most significant bit first) to 0.0 and 1.0.

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
