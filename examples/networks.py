"""Two networks of your own: a perceptron of two layers, and a transformer over the board's points.

Name one in a run file, and check it before a run does:

    network = "python:examples.networks:Transformer"

    zerofleet check-network RUN.toml
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from zerofleet.network import Network, Shapes


class Perceptron(Network):
    """Hidden layers that see the whole board at once, and know nothing of neighbours."""

    @dataclass(frozen=True)
    class Options:
        """Keys of ``[network]``."""

        layers: int = 2
        width: int = 256

    def __init__(self, shapes: Shapes, options: Options) -> None:
        super().__init__(shapes)
        layers: list[nn.Module] = [nn.Flatten()]
        inputs = shapes.planes * shapes.points
        for _ in range(options.layers):
            layers += [nn.Linear(inputs, options.width), nn.ReLU()]
            inputs = options.width
        self.body = nn.Sequential(*layers)
        self.policy = nn.Linear(inputs, shapes.num_actions)
        self.outcome = nn.Linear(inputs, 3)  # logits of win, draw and loss

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Return policy logits, and logits of win, draw and loss."""
        hidden = self.body(planes)
        return self.policy(hidden), self.outcome(hidden)


class Transformer(Network):
    """Attention between the points of the board (Vaswani et al. 2017, arXiv 1706.03762).

    Each point is a token: its input planes and a learnt position. Blocks are normalised before each
    part ("pre-norm"). The policy sees all points, the value their mean.
    """

    @dataclass(frozen=True)
    class Options:
        """Keys of ``[network]``."""

        blocks: int = 3
        width: int = 64
        heads: int = 4

    def __init__(self, shapes: Shapes, options: Options) -> None:
        super().__init__(shapes)
        if options.width % options.heads:
            raise ValueError(f"width {options.width} is no multiple of heads {options.heads}")
        self.embed = nn.Linear(shapes.planes, options.width)
        self.position = nn.Parameter(0.02 * torch.randn(shapes.points, options.width))
        self.blocks = nn.Sequential(
            *(Block(options.width, options.heads, shapes.points) for _ in range(options.blocks))
        )
        self.norm = nn.LayerNorm(options.width)
        self.shrink = nn.Linear(options.width, 8)
        self.policy = nn.Linear(8 * shapes.points, shapes.num_actions)
        self.outcome = nn.Linear(options.width, 3)  # logits of win, draw and loss

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Return policy logits, and logits of win, draw and loss."""
        tokens = planes.flatten(2).transpose(1, 2)  # [batch, points, planes]
        tokens = self.norm(self.blocks(self.embed(tokens) + self.position))
        policy = self.policy(functional.gelu(self.shrink(tokens)).flatten(1))
        return policy, self.outcome(tokens.mean(1))


class Block(nn.Module):
    """Attention, then a perceptron for each point, both added to what was there.

    Args:
        width: numbers of a token.
        heads: of the attention; each has a learnt bias for every pair of points.
        points: tokens.
    """

    def __init__(self, width: int, heads: int, points: int) -> None:
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.bias = nn.Parameter(torch.zeros(heads, points, points))
        self.mix = nn.Linear(width, width)
        self.perceptron = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return tokens ``[batch, points, width]``."""
        batch, points, width = tokens.shape
        parts = self.queries_keys_values(self.first_norm(tokens)).chunk(3, -1)
        query, key, value = (
            part.reshape(batch, points, self.heads, width // self.heads).transpose(1, 2)
            for part in parts
        )
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=self.bias)
        tokens = tokens + self.mix(seen.transpose(1, 2).reshape(batch, points, width))
        return tokens + self.perceptron(self.second_norm(tokens))
