"""Gradient steps on samples of the window, their precision, and measurements of the network."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Literal, cast

import structlog
import torch
from torch import Tensor, nn

from zerofleet.config import RunConfig
from zerofleet.errors import ConfigError
from zerofleet.fleet.figures import Measurement
from zerofleet.fleet.report import counted
from zerofleet.learning.batches import GPU_DEPTH, Prefetcher
from zerofleet.learning.build import (
    checked_groups,
    checked_losses,
    make_network,
    missing_targets_hint,
    widest,
)
from zerofleet.learning.captured import CapturedStep
from zerofleet.learning.loss import LossScale, l2_penalty
from zerofleet.learning.measurement import TracedBatch, TrainBatch, measurement
from zerofleet.learning.optimizer import AdamW, Momentum, Muon, WeightAverage
from zerofleet.learning.schedule import learning_rate
from zerofleet.network import BoardShape, Network, Outputs, Targets

Wanted = Literal["auto", "off", "bf16", "fp16"]
_MAIN = ("policy", "value")
_BF16_CHANNELS = 32  # channels from which a network gains by bf16 on a CPU
# Constants of mallopt in glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MOST_KEPT = 1 << 30  # bytes
_LARGEST_KEPT = 32 << 20  # bytes; glibc accepts no larger value

_log = structlog.get_logger()


class Precision:
    """The precision of the forward pass; weights, losses and momentum are always float32.

    Args:
        wanted: auto selects bf16 if the device computes in it and gains by it, else float32.
    """

    def __init__(self, wanted: Wanted, device: torch.device, channels: int) -> None:
        self._device = device
        self.dtype = _dtype(wanted, device, channels)
        # bf16 has float32's range; only fp16 loses small gradients
        self.loss_scale = LossScale(device) if self.dtype is torch.float16 else None

    def predict(self, network: Callable[[Tensor], Outputs], observations: Tensor) -> Outputs:
        """Return the network's outputs in float32, computed in this precision."""
        if self.dtype is None:
            return network(observations)
        with torch.autocast(self._device.type, dtype=self.dtype):
            found = network(observations)
        named = {name: each.float() for name, each in found.named.items()}
        return Outputs(found.policy_logits.float(), found.value.float(), named)

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss to differentiate."""
        return loss if self.loss_scale is None else loss * self.loss_scale.scale

    def unscale(self, gradient: Tensor) -> Tensor | None:
        """Undo ``scaled`` in the gradient, in place.

        Returns:
            Bool scalar on the device: whether the gradient can be used. None: it always can.
        """
        return None if self.loss_scale is None else self.loss_scale.unscale(gradient)


def keep_freed_memory() -> None:
    """Make this process keep the memory that a step frees for the next one.

    glibc would return it to the kernel, which fills the next step's pages with zeros: 4,000 to
    7,000 pages with the networks of the run files. Other C libraries have their own rules.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT)


class Team:
    """One process alone, without others to lead."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def close(self) -> None:
        """Leave the team."""

    def deal(self, batch: TrainBatch, seconds: float) -> TrainBatch:
        """Give every process its share of a batch and the leader's seconds of training.

        Returns:
            The leader's share.
        """
        return batch

    def average(self, vectors: Sequence[Tensor]) -> None:
        """Replace float vectors by their means over all processes, in place."""

    def share(self, state: Mapping[str, Tensor], step: int, samples: int) -> None:
        """Let the others continue from the leader's state."""

    def dismiss(self) -> None:
        """Let the others leave; a second call does nothing."""


class LostWeightsError(ConfigError):
    """Training has diverged: the weights are unusable, and its settings must change."""


class Learner:
    """The network, its optimiser and the number of steps taken.

    The same seed and the same batches in the same order give the same weights, bit for bit, on one
    kind of CPU with one number of threads. With a budget of minutes, ``seconds`` must also be the
    same.

    The process keeps the memory that its steps free (``keep_freed_memory``). On a GPU the step, up
    to the new weights, is captured as a CUDA graph. It is not captured if several processes train,
    if ``trainer.compile`` is set, or for a network of your own.

    Args:
        spec: the game's board and actions.
        run: network, seed and the trainer's settings.
        team: the processes that train together; by default this one alone.
        cuda_graph: whether the step may be captured as a CUDA graph.
    """

    def __init__(
        self,
        spec: BoardShape,
        run: RunConfig,
        team: Team | None = None,
        *,
        cuda_graph: bool = True,
    ) -> None:
        keep_freed_memory()
        self._settings = settings = run.trainer
        self._team = team or Team()
        network = make_network(spec, run.network, run.seed, list(settings.auxiliary_weights))
        self.network = network.to(self._team.device).train()
        self._loss_weights = settings.weights_of_losses | dict(network.loss_weights)
        self.step = 0
        self.samples = 0  # positions drawn, by all processes
        self.seconds = 0.0  # seconds of training, which the caller measures
        parameters, groups = self.network.parameters(), checked_groups(self.network)
        momentum, decay = settings.momentum, settings.weight_decay
        if settings.optimizer == "adamw":
            self._optimizer = AdamW(parameters, momentum, decay, groups)
        elif settings.optimizer == "muon":
            self._optimizer = Muon(self.network, momentum, settings.l2, decay, groups)
        else:
            self._optimizer = Momentum(parameters, momentum, settings.l2, groups)
        channels = widest(network) if run.network.is_own else run.network.channels
        self._precision = Precision(settings.mixed_precision, self._team.device, channels)
        average_decay = settings.average_decay
        self._average = WeightAverage(self.network, average_decay) if average_decay else None
        self._running_figures = _running_figures(self.network)
        # Each step writes it on the device. The host reads it only for the metrics.
        self._gradient_norm = torch.full((), torch.nan, device=self._team.device)
        self._auxiliary_losses: Mapping[str, Tensor] = {}
        self._forward = self.network.outputs
        if settings.compile:
            self._forward = torch.compile(self._forward)  # pyright: ignore[reportUnknownMemberType]
        self._captured: CapturedStep | None = None
        if self.device.type == "cuda" and cuda_graph and not settings.compile:
            if self._team.size > 1:
                _log.info("step_not_captured", reason=f"{self._team.size} processes train")
            elif run.network.is_own:
                # A graph would repeat what its Python code, such as a counter, did in one step.
                _log.info("step_not_captured", reason="the network is a class of your own")
            else:
                self._captured = CapturedStep(self._take_step)

    @property
    def device(self) -> torch.device:
        """Device of the weights and of each batch."""
        return self._team.device

    @property
    def runs_on(self) -> str:
        """Device, precision and sizes of the training step, in words."""
        place, ahead = f"CPU with {counted(torch.get_num_threads(), 'thread')}", ""
        if self.device.type == "cuda":
            name, (_, memory) = torch.cuda.get_device_name(), torch.cuda.mem_get_info()
            place = f"GPU {self.device.index or 0} ({name}, {memory / 2**30:.0f} GiB)"
            ahead = f", {GPU_DEPTH} prefetched"
        if self._team.size > 1:
            place = f"{self._team.size} processes, the first on {place}"
        precisions = {None: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
        precision = precisions[self._precision.dtype]
        return f"{place}, {precision}, batches of {self._settings.batch_size} positions{ahead}"

    def batches(self, draw: Callable[[int], TrainBatch], depth: int | None = None) -> Prefetcher:
        """Return a prefetcher of batches for ``train``; the caller must close it.

        Args:
            draw: returns the batch of a step; see ``Prefetcher``.
            depth: batches to draw ahead; by default ``GPU_DEPTH`` on a GPU and 0 on a CPU.
        """
        is_gpu = self.device.type == "cuda"
        depth = (GPU_DEPTH if is_gpu else 0) if depth is None else depth
        # A team distributes the shares of a batch from host memory.
        return Prefetcher(draw, depth, self.device if self._team.size == 1 else None)

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next step."""
        return learning_rate(self._settings, self.step, self.samples, self.seconds)

    @property
    def budget_used(self) -> float | None:
        """Share of the budget that is used; None without a budget."""
        return self._settings.budget_used(self.samples, self.seconds)

    @property
    def published(self) -> Network:
        """The network to measure and publish: the average of snapshots, if there is one."""
        return self.network if self._average is None else self._average.network

    @property
    def gradient_norm(self) -> float | None:
        """Norm of the last usable gradient of all losses, without the l2 term; None before it."""
        norm = self._gradient_norm.item()
        return None if math.isnan(norm) else norm

    @property
    def auxiliary_losses(self) -> dict[str, float]:
        """Return the losses of the last step's share of a batch, but policy and value, by name."""
        return {name: loss.item() for name, loss in self._auxiliary_losses.items()}

    def train(self, batch: TrainBatch | Sequence[Tensor]) -> None:
        """Take one gradient step, together with the other processes of the team.

        Args:
            batch: columns as arrays. A process that trains alone also takes tensors on ``device``.
        """
        if self._team.size == 1:
            self.train_on(batch)
        else:
            self.train_on(self._team.deal(cast("TrainBatch", batch), self.seconds))

    def train_on(self, share: TrainBatch | Sequence[Tensor]) -> None:
        """Take one gradient step on this process's share of a batch.

        Args:
            share: columns as arrays, or as tensors on ``device``.
        """
        self._optimizer.prepare(self.learning_rate, self.step)
        take = self._captured or self._take_step
        self._auxiliary_losses = take(self._tensors(share))
        self.step += 1
        self.samples += len(share[0]) * self._team.size
        every = self._settings.average_every_steps
        if self._average is not None and (self.step < every or self.step % every == 0):
            # until the first snapshot the average is the network itself
            self._average.add(self.network, max(1, self.step // every))

    def _take_step(self, columns: Sequence[Tensor]) -> Mapping[str, Tensor]:
        """Take one gradient step without reading anything from the device.

        Args:
            columns: a batch on the device.

        Returns:
            The losses except policy and value by name, each a scalar on the device.
        """
        parts = self._losses(columns)
        self._precision.scaled(self.total(parts)).backward()  # pyright: ignore[reportUnknownMemberType]
        gradient = self._optimizer.gradient
        self._team.average([gradient])
        usable = self._precision.unscale(gradient)
        norm = gradient.square().sum().sqrt()
        if usable is not None:  # after an overflow of half precision the batch is lost
            norm = torch.where(usable, norm, self._gradient_norm)
        self._gradient_norm.copy_(norm)
        self._optimizer.step(usable)
        self._team.average(self._running_figures)
        return {name: parts[name].detach() for name in parts if name not in _MAIN}

    def losses_of(self, share: TrainBatch) -> dict[str, Tensor]:
        """Return the network's losses on a batch by name, each a scalar."""
        return self._losses(self._tensors(share))

    def _losses(self, columns: Sequence[Tensor]) -> dict[str, Tensor]:
        observations, policy_target, value_target, *drawn = columns
        outputs = self._precision.predict(self._forward, observations)
        targets = Targets(policy_target, value_target, self._named_targets(drawn))
        return checked_losses(self.network, outputs, targets)

    def _named_targets(self, drawn: Sequence[Tensor]) -> dict[str, Tensor]:
        widths = self.network.shapes.drawn_targets
        if not widths:
            return {}
        columns = torch.split(drawn[0], list(widths.values()), 1)
        return dict(zip(widths, columns, strict=True))

    def total(self, parts: Mapping[str, Tensor]) -> Tensor:
        """Return the weighted sum of ``losses_of``, which a step minimises."""
        weighted = {name: self._loss_weights.get(name, 1.0) * part for name, part in parts.items()}
        main = [weighted.pop(name) for name in _MAIN if name in weighted]
        if weighted:
            main.append(torch.stack(list(weighted.values())).sum())
        return reduce(torch.add, main)

    def measure(self, traced: TracedBatch) -> Measurement:
        """Predict a batch, in full precision, without learning from it.

        Raises:
            LostWeightsError: the loss is not finite.
        """
        measured = self._measured(traced, self.published)
        if not measured.is_finite:
            raise LostWeightsError(
                f"the loss is not finite at step {self.step}: lower trainer.learning_rate "
                f"(now {self.learning_rate:g}) and start again, which continues from the last "
                f"checkpoint{missing_targets_hint(self.network)}"
            )
        return measured

    def is_sound(self, traced: TracedBatch) -> bool:
        """Return whether training can continue from these weights, by their loss on a batch.

        Raises:
            LostWeightsError: the loss of the published weights is not finite.
        """
        is_average = self.published is not self.network
        return self.measure(traced).is_sound and not (
            is_average and not self._measured(traced, self.network).is_sound
        )

    @torch.no_grad()
    def _measured(self, traced: TracedBatch, network: Network) -> Measurement:
        observations = self._tensors(traced.batch)[0]
        was_training = network.training
        policy_logits, value = network.eval().predict(observations)
        network.train(was_training)
        penalty = l2_penalty(network.parameters(), self._settings.l2)
        weight = self._settings.value_loss_weight
        return measurement(traced, policy_logits.cpu(), value.cpu(), weight, penalty)

    def state(self) -> dict[str, Tensor]:
        """Return weights, running statistics, optimizer averages, weight average and loss scale."""
        state = _named("network", self.network.state_dict()) | self._gradient_averages()
        if self._average is not None:
            state |= _named("average", self._average.network.state_dict())
        if self._precision.loss_scale is not None:
            state["loss_scale"] = self._precision.loss_scale.state()
        return {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}

    def restore(
        self, state: Mapping[str, Tensor], step: int, samples: int, seconds: float = 0.0
    ) -> None:
        """Continue from ``state()`` after ``step`` steps on ``samples`` positions.

        A weight average that the state does not contain begins with the state's weights.

        Raises:
            ConfigError: the state belongs to a network of other sizes, or to an optimizer with
                other averages: SGD and Muon may follow one another, AdamW may not.
        """
        weights = _below("network", state)
        if difference := _difference(weights, self.network.state_dict()):
            raise ConfigError(
                f"the checkpoint has a different network ({difference}). Restore [network] of the "
                "run file, and which of trainer.soft_policy_weight, opponent_policy_weight, "
                "final_planes_weight and final_score_weight are above 0; or start a new run "
                "from its games: `zerofleet fork RUN --to NEW.toml`. An upgrade that changes a "
                "game's input planes also needs a new run (CHANGELOG.md)"
            )
        self.network.load_state_dict(weights)
        for name, average in self._gradient_averages().items():
            if name not in state:
                raise ConfigError(
                    "the checkpoint is from another optimizer: within a run trainer.optimizer may "
                    "change between sgd and muon, but not to or from adamw; `zerofleet fork RUN "
                    "--to NEW.toml` starts a run that learns from the same games"
                )
            average.copy_(state[name])
        if self._average is not None:
            average = _below("average", state) or weights
            ours = self._average.network.state_dict()  # without auxiliary heads
            self._average.network.load_state_dict({name: average[name] for name in ours})
        if self._precision.loss_scale is not None and "loss_scale" in state:
            self._precision.loss_scale.restore(state["loss_scale"])
        self.step, self.samples, self.seconds = step, samples, seconds

    def start_from(self, weights: Mapping[str, Tensor]) -> None:
        """Begin with the weights of another run's network, and with a new optimizer.

        What only training needs keeps its first weights where they lack it.

        Args:
            weights: tensors named as in ``state()``: ``network.tower.0.0.weight`` and so on.

        Raises:
            ConfigError: they are of a network of other sizes.
        """
        ours = self.network.state_dict()
        given = {name: each for name, each in _below("network", weights).items() if name in ours}
        extra = self.network.training_only
        heads = {name: each for name, each in ours.items() if name.partition(".")[0] in extra}
        if difference := _difference(heads | given, ours):
            raise ConfigError(
                f"the starting weights are of a different network ({difference}): give [network] "
                "of the run file the values of the model that the run starts from"
            )
        self.network.load_state_dict(heads | given)
        if self._average is not None:
            average = self._average.network.state_dict()  # without auxiliary heads
            self._average.network.load_state_dict({name: given[name] for name in average})

    def share(self) -> None:
        """Let every process of the team continue from here."""
        if self._team.size > 1:
            self._team.share(self.state(), self.step, self.samples)

    def _gradient_averages(self) -> dict[str, Tensor]:
        names = [name for name, _ in self.network.named_parameters()]
        return {
            f"{kind}.{name}": average
            for kind, averages in self._optimizer.averages().items()
            for name, average in zip(names, averages, strict=True)
        }

    def _tensors(self, batch: TrainBatch | Sequence[Tensor]) -> Sequence[Tensor]:
        return [
            torch.as_tensor(column).to(self._team.device, non_blocking=True) for column in batch
        ]


def _running_figures(network: nn.Module) -> list[Tensor]:
    """Return means and variances of every batch normalisation, each ``[channels]``."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    figures = [figure for norm in norms for figure in (norm.running_mean, norm.running_var)]
    return [figure for figure in figures if figure is not None]


def _named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {
        name.removeprefix(start): tensor
        for name, tensor in tensors.items()
        if name.startswith(start)
    }


def _difference(theirs: Mapping[str, Tensor], ours: Mapping[str, Tensor]) -> str:
    """Return the first tensor of a checkpoint that the network lacks or has in another shape."""

    def size(tensors: Mapping[str, Tensor], name: str) -> str:
        return "x".join(map(str, tensors[name].shape)) or "one" if name in tensors else "none"

    for name in {**ours, **theirs}:
        sizes = size(theirs, name), size(ours, name)
        if sizes[0] != sizes[1]:
            return f"{name}: {sizes[0]} in it, {sizes[1]} here"
    return ""


def gpu_fault() -> str:
    """Return why torch cannot use a GPU here; empty if it can, or if it was built for CPUs."""
    if torch.version.cuda is None or torch.cuda.is_available():
        return ""
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return (str(error).splitlines() or [type(error).__name__])[0]
    return "torch.cuda.is_available() is false"


def _dtype(wanted: Wanted, device: torch.device, channels: int) -> torch.dtype | None:
    if wanted == "auto":
        if device.type == "cuda":
            gains = torch.cuda.is_bf16_supported(including_emulation=False)
        else:
            instructions = torch.cpu.get_capabilities()
            has_it = any(instructions.get(name) for name in ("avx512_bf16", "amx_bf16"))
            # Measured: 1.6 to 1.7 times the samples a second, and 0.8 times with 16 channels.
            gains = has_it and channels >= _BF16_CHANNELS
        return torch.bfloat16 if gains else None
    return {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[wanted]
