"""A tower of attention between the points of the board, in place of convolutions.

Each point is a token (Vaswani et al. 2017, arXiv 1706.03762). Blocks normalise before each part,
which needs no warm-up of its own (Xiong et al. 2020, arXiv 2002.04745). Each head adds a learnt
bias for the distance between two points in rows and columns (Liu et al. 2021, arXiv 2103.14030,
section 3.2), so that what it learns about neighbours applies everywhere on the board.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

HEAD_CHANNELS = 16
WIDENING = 2


class AttentionTower(nn.Module):
    """Planes in, planes of ``channels`` out, as a tower of convolutions has them.

    Args:
        shape: planes, rows and columns of the input.
        channels: numbers of a token.
        blocks: number of attention blocks.
    """

    def __init__(self, shape: tuple[int, int, int], channels: int, blocks: int) -> None:
        super().__init__()
        planes, self.rows, self.columns = shape
        self.embed = nn.Linear(planes, channels)
        points = self.rows * self.columns
        self.position = nn.Parameter(0.02 * torch.randn(points, channels))
        self.blocks = nn.Sequential(
            *(AttentionBlock(channels, self.rows, self.columns) for _ in range(blocks))
        )
        self.norm = nn.LayerNorm(channels)

    def forward(self, planes: Tensor) -> Tensor:
        """Return ``[batch, channels, rows, columns]`` for ``[batch, planes, rows, columns]``."""
        tokens = self.embed(planes.flatten(2).transpose(1, 2)) + self.position
        tokens = self.norm(self.blocks(tokens))
        return tokens.transpose(1, 2).unflatten(2, (self.rows, self.columns))


class AttentionBlock(nn.Module):
    """Attention, then a perceptron for each point, each added to what was there."""

    distance: Tensor  # [points, points] int64: the distance of two points, as one number

    def __init__(self, channels: int, rows: int, columns: int) -> None:
        super().__init__()
        self.heads = number_of_heads(channels)
        self.first_norm = nn.LayerNorm(channels)
        self.attention = nn.Linear(channels, 3 * channels)
        self.bias = nn.Parameter(torch.zeros(self.heads, (2 * rows - 1) * (2 * columns - 1)))
        self.mix = nn.Linear(channels, channels)
        self.second_norm = nn.LayerNorm(channels)
        self.widen = nn.Linear(channels, WIDENING * channels)
        self.narrow = nn.Linear(WIDENING * channels, channels)
        self.register_buffer("distance", distances(rows, columns), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return tokens ``[batch, points, channels]``."""
        batch, points, channels = tokens.shape
        parts = self.attention(self.first_norm(tokens)).chunk(3, -1)
        query, key, value = (
            part.reshape(batch, points, self.heads, channels // self.heads).transpose(1, 2)
            for part in parts
        )
        bias = self.bias[:, self.distance]  # [heads, points, points]
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        tokens = tokens + self.mix(seen.transpose(1, 2).reshape(batch, points, channels))
        return tokens + self.narrow(functional.gelu(self.widen(self.second_norm(tokens))))


def number_of_heads(channels: int) -> int:
    """Return about one head for each 16 channels, and a number that divides them."""
    wanted = max(1, channels // HEAD_CHANNELS)
    return next(heads for heads in range(wanted, 0, -1) if channels % heads == 0)


def distances(rows: int, columns: int) -> Tensor:
    """Return a number for the distance between each two points in rows and columns.

    Returns:
        ``[points, points]`` int64, from 0 to ``(2 * rows - 1) * (2 * columns - 1) - 1``.
    """
    row, column = torch.arange(rows * columns) // columns, torch.arange(rows * columns) % columns
    down = row[:, None] - row[None, :] + rows - 1
    across = column[:, None] - column[None, :] + columns - 1
    return down * (2 * columns - 1) + across
