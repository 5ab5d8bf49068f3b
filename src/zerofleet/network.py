"""Base class of all networks: the built-in ones and yours.

A run file names a class with ``network = "python:MODULE:CLASS"``. Only the trainer imports it: it
exports each model to ONNX, and all other services see nothing else. ``zerofleet check-network``
tries a class before a run does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from zerofleet.records import SEARCH_TARGETS

TARGETS = ("soft_policy", "opponent_policy", "final_planes", "final_score")
"""Targets that a weight in ``[trainer]`` adds to policy and value."""
DRAWN_TARGETS = (*TARGETS[1:], *SEARCH_TARGETS)
"""Targets that the replay buffer provides, in the order of a batch's columns."""


class BoardShape(Protocol):
    """The sizes of a game that a network depends on; ``zerofleet_core.GameSpec`` has them."""

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


@dataclass(frozen=True, slots=True)
class Shapes:
    """The sizes that a network is built for."""

    planes: int
    """Input planes; each holds 0 or 1 for every point."""
    rows: int
    columns: int
    num_actions: int
    """Actions of the game, legal or not."""
    final_planes: int = 0
    """Planes that describe the game's end, such as ownership in Go."""
    has_final_score: bool = False
    targets: Mapping[str, int] = field(default_factory=dict[str, int])
    """Targets in addition to policy and value, and how many numbers each has for a position.

    They are the targets with a weight above 0 in ``[trainer]`` and ``Network.extra_targets``.
    Targets that the game lacks are left out.
    """

    @classmethod
    def of(cls, game: BoardShape, targets: Sequence[str] = ()) -> Shapes:
        """Return the sizes of a game."""
        planes, rows, columns = game.observation_shape
        shapes = cls(
            planes=planes,
            rows=rows,
            columns=columns,
            num_actions=game.num_actions,
            final_planes=game.num_final_planes,
            has_final_score=game.has_final_score,
        )
        offered = shapes.offered_targets
        return replace(shapes, targets={name: offered[name] for name in offered if name in targets})

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """Planes, rows and columns."""
        return self.planes, self.rows, self.columns

    @property
    def offered_targets(self) -> dict[str, int]:
        """All targets that the game has, and how many numbers each has for a position."""
        widths = {
            "soft_policy": self.num_actions,
            "opponent_policy": self.num_actions,
            "final_planes": self.final_planes * self.points,
            "final_score": int(self.has_final_score),
            **dict.fromkeys(SEARCH_TARGETS, 1),
        }
        return {name: width for name, width in widths.items() if width}

    @property
    def drawn_targets(self) -> dict[str, int]:
        """The targets that the replay buffer provides, in the order of a batch's columns."""
        return {name: self.targets[name] for name in DRAWN_TARGETS if name in self.targets}

    @property
    def points(self) -> int:
        """Points of the board: rows * columns."""
        return self.rows * self.columns


class Outputs(NamedTuple):
    """The outputs of a network for a batch, all float32."""

    policy_logits: Tensor  # [batch, num_actions]; illegal actions included
    value: Tensor  # [batch] in [-1, 1], or logits of win, draw and loss [batch, 3]
    named: Mapping[str, Tensor]  # further outputs, each [batch, ...]; only in training


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Targets of a batch, which its outputs are compared with, all float32."""

    policy: Tensor
    """``[batch, num_actions]``, the search's policy (pi)."""
    value: Tensor
    """``[batch]``, result or lambda-return for the player to move, in [-1, 1] (z)."""
    named: Mapping[str, Tensor]
    """Targets of ``Shapes.targets`` that the replay buffer provides, for the player to move. A
    position without the target has NaN.

    - ``opponent_policy`` ``[batch, num_actions]``: policy target of the next ply. NaN if the same
      player moves again, or if the next ply had no full search.
    - ``final_planes`` ``[batch, final_planes * rows * columns]``: owner of each point at the end, 1
      the player to move, -1 the opponent, 0 nobody. NaN if a player resigned.
    - ``final_score`` ``[batch, 1]``: final lead in points. NaN if a player resigned.
    - ``root_value`` ``[batch, 1]`` in [-1, 1]: value of the position after the search. Moves of an
      imported game have the game's result.
    - ``search_surprise`` ``[batch, 1]``: KL divergence of ``policy`` from the network's policy
      before the search, without noise, in nats (KataGo, docs/KataGoMethods.md, "Policy Surprise
      Weighting"). At least 0, and at most 24 log 2 = 16.6, because a prior below 2^-24 counts as
      2^-24. Moves of an imported game have 0.
    - ``plies_to_end`` ``[batch, 1]``: number of plies from the position to the end of its game, at
      least 1. A game also ends when a player resigns, or where a result was given.
    """


@dataclass(frozen=True, slots=True, eq=False)
class ParameterGroup:
    """Weights that share settings of the optimizer; see ``Network.parameter_groups``."""

    parameters: Sequence[nn.Parameter]
    learning_rate_factor: float | Callable[[int], float] = 1.0
    """Factor of the run's learning rate, at least 0. For a schedule, give a function of the number
    of steps so far. The function must depend on nothing else, so that a resumed run repeats it."""
    weight_decay_factor: float = 1.0
    """Factor of ``trainer.l2`` and ``trainer.weight_decay`` for these weights, at least 0."""


class Network(nn.Module):
    """``(p, v) = f(s)``: policy logits and value of positions. Derive a class and name it.

    A class has ``__init__(self, shapes, options)``, which calls ``super().__init__(shapes)``, and
    ``forward``. ``Options`` is a dataclass of the keys that ``[network]`` may have, with types and
    defaults.

    The first axis of every tensor is the batch. Nothing may move it, or mix its positions: a model
    file with such an operation is refused, because its answers would depend on the batch. All else
    that the file may hold is in the operators of ``zerofleet.models.operators``.

    Args:
        shapes: sizes of the game.
    """

    Options: ClassVar[type[Any]]
    training_only: ClassVar[tuple[str, ...]] = ()
    """Names of submodules that only ``Outputs.named`` needs. The published network has None in
    their place."""
    extra_targets: ClassVar[tuple[str, ...]] = ()
    """Targets that ``losses`` needs in addition to policy and value, by their names in
    ``Targets.named``. Weights in ``[trainer]`` may add more. A target that the game lacks is left
    out."""

    def __init__(self, shapes: Shapes) -> None:
        super().__init__()
        self.shapes = shapes
        self.unpack = UnpackBits(shapes.observation_shape)
        self.loss_weights: Mapping[str, float] = {}
        """Weights of losses of your own, by their names; ``__init__`` may take them from its
        options."""

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor] | Outputs:
        """Evaluate positions.

        Args:
            planes: ``[batch, planes, rows, columns]`` float32, 0 or 1, from the view of the player
                to move.

        Returns:
            Policy logits ``[batch, num_actions]``, and for the player to move values ``[batch]`` in
                [-1, 1] or logits of win, draw and loss ``[batch, 3]``. ``Outputs`` has further
                outputs for ``losses``, only in training mode.
        """
        raise NotImplementedError(f"write {type(self).__name__}.forward")

    def losses(self, outputs: Outputs, targets: Targets) -> dict[str, Tensor]:
        """Return the losses of a batch by name, each a scalar: a mean over positions.

        The trainer minimises their sum, weighted by ``trainer.value_loss_weight`` and its like, and
        by ``self.loss_weights``. Other losses have the weight 1.
        """
        return data_losses(outputs, targets)

    def matrices(self) -> Iterator[Tensor]:
        """Yield the weights whose steps Muon makes orthogonal: kernels of more than one point.

        Override it to add linear layers between hidden layers. Each must have a row for each
        output.
        """
        for each in self.parameters():
            if each.ndim == 4 and each[0, 0].numel() > 1:
                yield each

    def parameter_groups(self) -> list[ParameterGroup]:
        """Return groups that hold each weight once; by default one group with factors of 1.

        The trainer calls it once, before the first step.
        """
        return [ParameterGroup(list(self.parameters()))]

    def outputs(self, observations: Tensor) -> Outputs:
        """Evaluate packed positions for the losses.

        Args:
            observations: ``[batch, observation_bytes]`` uint8, packed as ``numpy.packbits`` does.
        """
        found = self(self.unpack(observations))
        if isinstance(found, Outputs):
            return found
        policy_logits, value = found
        return Outputs(policy_logits, value, {})

    def predict(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Predict a batch.

        Args:
            observations: ``[batch, observation_bytes]`` uint8, packed as ``numpy.packbits`` does.

        Returns:
            Policy logits ``[batch, num_actions]`` float32, which include illegal actions, and
                values ``[batch]`` float32 in [-1, 1], for the player to move.
        """
        policy_logits, value, _ = self.outputs(observations)
        if value.dim() == 1:
            return policy_logits, value
        shares = value.softmax(1)
        return policy_logits, shares[:, 0] - shares[:, 2]


def data_losses(outputs: Outputs, targets: Targets) -> dict[str, Tensor]:
    """Compare policy and value with the results of the search and of the game.

    The loss of AlphaGo Zero, ``l = (z - v)^2 - pi^T log p``. If the network distinguishes win, draw
    and loss, the first term is a cross-entropy.

    Returns:
        ``policy`` and ``value``, each a scalar; cross-entropies are in nats.
    """
    return {
        "policy": functional.cross_entropy(outputs.policy_logits, targets.policy),
        "value": functional.mse_loss(outputs.value, targets.value)
        if outputs.value.dim() == 1
        else functional.cross_entropy(outputs.value, outcome_target(targets.value)),
    }


def outcome_target(value_target: Tensor) -> Tensor:
    """Return probabilities of win, draw and loss ``[batch, 3]`` for values ``[batch]`` in [-1, 1].

    Models the game as two half-point coin tosses with win probability p = (1 + value) / 2: win p^2,
    draw 2p(1-p), loss (1-p)^2. A won or lost result is then certain, and P(win) - P(loss) is the
    value. Putting all uncertainty into draws would give the same value. But where draws are rare, a
    network that expects draws learns a small advantage a fifth as fast, because a softmax near 1
    hardly moves. Therefore a draw, too, is half of each.
    """
    half = (1 + value_target) / 2
    return torch.stack([half.square(), 2 * half * (1 - half), (1 - half).square()], 1)


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
