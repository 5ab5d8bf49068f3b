"""Heads from which the tower learns more than policy and value; no model has them.

Wu 2019 (arXiv 1902.10565), section 3.4 (the opponent's next policy) and section 4.1 (who has which
point in the end, and by how much): a game's result is one number for all of its positions, these
are many that say where it comes from. And the softened policy (KataGo, docs/KataGoMethods.md,
"Auxiliary Soft Policy Target"): which of the actions that are not the best come near it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from zerofleet.config import NetworkSection
from zerofleet.network.blocks import over_the_board, policy_head

SOFT_TEMPERATURE = 4.0


class BoardShape(Protocol):
    """What the heads need to know of a game; ``zerofleet_core.GameSpec`` has it."""

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """Planes, rows and columns."""
        ...

    @property
    def num_actions(self) -> int:
        """Actions of the game, legal or not."""
        ...

    @property
    def num_final_planes(self) -> int:
        """Planes that the game tells of its end."""
        ...

    @property
    def has_final_score(self) -> bool:
        """Whether the game tells a score of its end."""
        ...


class AuxiliaryHeads(nn.Module):
    """A head for each target beside policy and value, in the order of a batch's columns.

    Args:
        spec: the game; what it does not offer has no head.
        network: channels of the tower, and the sizes of policy and value heads, which these take
            over.
        targets: ``soft_policy``, and names as ``zerofleet_core.ReplayBuffer`` takes them.
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
        """Numbers that each head predicts of a position."""
        self.drawn_width = sum(self.widths.values()) - self.widths.get("soft_policy", 0)
        """Of those that a replay buffer gives the targets of."""
        self._side = math.sqrt(points)
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
        """Logits, and the score in sides of the board.

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

    def losses(self, predicted: Tensor, policy_target: Tensor, *drawn: Tensor) -> dict[str, Tensor]:
        """Of each head by name, a scalar: the mean over the positions that have the target.

        Policies by their cross-entropy, each point of a final plane by that of having
        it, both in nats; the score by Huber's loss, which the great leads of young networks' games
        impress less than they do squares.

        Args:
            predicted: ``[batch, sum of widths]`` float32, as ``forward`` gives it.
            policy_target: ``[batch, num_actions]`` float32.
            drawn: of the other heads, if there are any, ``[batch, drawn_width]``, as
                ``ReplayBuffer.sample_with_auxiliary`` gives it: the score in points, NaN where a
                position has none. Without any, a loss is 0. Of processes that share a batch each
                takes the mean over its own positions.
        """
        soft = [softened(policy_target)] if "soft_policy" in self.widths else []
        target = torch.cat([*soft, *drawn], 1)
        row_losses = {
            "soft_policy": _policy_losses,
            "opponent_policy": _policy_losses,
            "final_planes": _plane_losses,
            "final_score": self._score_losses,
        }
        found: dict[str, Tensor] = {}
        widths = list(self.widths.values())
        columns = (torch.split(each, widths, 1) for each in (predicted, target))
        for name, ours, wanted in zip(self.widths, *columns, strict=True):
            is_known = ~wanted[:, 0].isnan()
            each = row_losses[name](ours, wanted.nan_to_num())
            found[name] = torch.where(is_known, each, 0.0).sum() / is_known.sum().clamp(min=1)
        return found

    def _score_losses(self, score: Tensor, target: Tensor) -> Tensor:
        return functional.huber_loss(score, target / self._side, reduction="none").squeeze(1)


def softened(policy: Tensor) -> Tensor:
    """Policies ``[batch, num_actions]`` at the soft temperature: ``p^(1 / T)``, normalised."""
    return functional.normalize(policy.pow(1 / SOFT_TEMPERATURE), p=1, dim=1)


def _policy_losses(logits: Tensor, target: Tensor) -> Tensor:
    return -(target * logits.log_softmax(1)).sum(1)


def _plane_losses(logits: Tensor, target: Tensor) -> Tensor:
    share = (1 + target) / 2  # what neither has is half of each
    return functional.binary_cross_entropy_with_logits(logits, share, reduction="none").mean(1)
