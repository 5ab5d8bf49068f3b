"""Data-parallel training: processes started by torchrun that train one network.

The process of rank 0 leads: it alone has the database, the window, the checkpoints and the models.
It draws each batch and scatters equal shares to all processes, itself included. All processes
average their gradients, which lie in one vector. Weights and momentum start equal everywhere, so
they stay equal.

Batch normalisation uses the mean and variance of each share alone, as in
``DistributedDataParallel``. Its running statistics are averaged at each step, so they stay equal
too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from typing import Any, cast

import torch
from torch import Tensor

from zerofleet.errors import ConfigError
from zerofleet.learning.learner import Learner, Team
from zerofleet.learning.measurement import TrainBatch

# The leader may wait days for games between two steps. If it dies, torchrun ends the others.
PATIENCE = timedelta(days=365)


class Order(IntEnum):
    """An order of the leader: the next collective operation."""

    STEP = 1
    STATE = 2
    LEAVE = 3


@dataclass(frozen=True, slots=True)
class Announcement:
    """An order, with the leader's place in training (``STATE``) or its seconds (``STEP``)."""

    order: Order
    step: int
    samples: int
    seconds: float


class ProcessTeam(Team):
    """This process as a member of the team that torchrun started.

    Gloo carries batches and orders from memory to memory. NCCL carries gradients between GPUs.

    Raises:
        ConfigError: a batch cannot be divided evenly.
    """

    def __init__(self, batch_size: int) -> None:
        import torch.distributed as distributed

        self._torch: Any = distributed
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if batch_size % self.size:
            raise ConfigError(
                f"trainer.batch_size = {batch_size} cannot be divided among {self.size} processes: "
                f"give a multiple of {self.size}"
            )
        self._rows = batch_size // self.size
        self._dismissed = False
        self.device = torch.device("cpu")
        backends = "gloo"
        if torch.cuda.is_available():
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(self.device)
            backends = "cpu:gloo,cuda:nccl"
        distributed.init_process_group(backends, timeout=PATIENCE)

    def close(self) -> None:
        """Leave the team."""
        self._torch.destroy_process_group()

    def deal(self, batch: TrainBatch, seconds: float) -> TrainBatch:
        """Scatter the rows of a batch, in order of rank."""
        self._send(Order.STEP, seconds=seconds)
        for column in batch:
            whole = torch.from_numpy(column)  # pyright: ignore[reportUnknownMemberType]
            shares = list(whole.chunk(self.size))
            self._torch.scatter(torch.empty_like(shares[0]), shares)
        return cast("TrainBatch", tuple(column[: self._rows] for column in batch))

    def average(self, vectors: Sequence[Tensor]) -> None:
        """Replace float vectors by their means over all processes, in one all-reduce."""
        whole = vectors[0] if len(vectors) == 1 else torch.cat(list(vectors))
        self._torch.all_reduce(whole)
        whole.div_(self.size)
        if len(vectors) > 1:
            offset = 0
            for vector in vectors:
                vector.copy_(whole[offset : offset + vector.numel()])
                offset += vector.numel()

    def share(self, state: Mapping[str, Tensor], step: int, samples: int) -> None:
        """Send the state to the others."""
        self._send(Order.STATE, step, samples)
        for tensor in state.values():
            self._torch.broadcast(tensor.contiguous(), 0)

    def dismiss(self) -> None:
        """Let the others leave; only the first call sends the order, as nobody listens after it."""
        if not self._dismissed:
            self._dismissed = True
            self._send(Order.LEAVE)

    def follow(self, learner: Learner, row: tuple[int, int]) -> None:
        """Carry out the leader's orders until it dismisses the team.

        Args:
            learner: the learner of this process, which is not the leader.
            row: bytes of an observation, and number of actions.
        """
        while (announced := self.receive_order()).order != Order.LEAVE:
            if announced.order == Order.STATE:
                state = learner.state()
                self.receive_state(state)
                learner.restore(state, announced.step, announced.samples)
            else:
                # By the leader's clock, so that learning rates agree.
                learner.seconds = announced.seconds
                width = sum(learner.network.shapes.drawn_targets.values())
                learner.train_on(self.receive_batch(row, width))

    def receive_order(self) -> Announcement:
        """Wait for the leader's next order."""
        words = torch.empty(4, dtype=torch.float64)  # exact for whole numbers up to 2^53
        self._torch.broadcast(words, 0)
        order, step, samples, seconds = cast("list[float]", words.tolist())  # pyright: ignore[reportUnknownMemberType]
        return Announcement(Order(int(order)), int(step), int(samples), seconds)

    def receive_state(self, state: Mapping[str, Tensor]) -> None:
        """Receive the leader's tensors in place, after ``STATE``."""
        for tensor in state.values():
            self._torch.broadcast(tensor, 0)

    def receive_batch(self, row: tuple[int, int], auxiliary_width: int = 0) -> TrainBatch:
        """Receive this process's share of a batch, after ``STEP``.

        Args:
            row: bytes of an observation, and number of actions.
            auxiliary_width: numbers in the auxiliary targets of one position.
        """
        observation_bytes, num_actions = row
        columns = [
            torch.empty(self._rows, observation_bytes, dtype=torch.uint8),
            torch.empty(self._rows, num_actions),
            torch.empty(self._rows),
        ]
        if auxiliary_width:
            columns.append(torch.empty(self._rows, auxiliary_width))
        for column in columns:
            self._torch.scatter(column)
        return cast("TrainBatch", tuple(cast("Any", column).numpy() for column in columns))

    def _send(self, order: Order, step: int = 0, samples: int = 0, seconds: float = 0.0) -> None:
        words = torch.tensor([order, step, samples, seconds], dtype=torch.float64)
        self._torch.broadcast(words, 0)


def open_team(batch_size: int) -> Team | ProcessTeam:
    """Return the team that torchrun started, or a team of this process alone.

    Raises:
        ConfigError: a batch cannot be divided evenly.
    """
    return ProcessTeam(batch_size) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else Team()
