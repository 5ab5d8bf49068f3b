"""``python -m zerofleet.learning.network_check RUN.toml``: try the network before a run does.

It prints one line for each check and stops at the first that fails, with the reason and the way
out. ``zerofleet check-network`` starts it, because only the trainer's packages include torch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from zerofleet_core import GameSpec

from zerofleet import games
from zerofleet.config import NetworkSection, Overrides, RunConfig, load_run
from zerofleet.errors import ConfigError, IncompatibleModelError, ZerofleetError
from zerofleet.learning.build import check_outputs, make_network
from zerofleet.learning.export import (
    export_onnx,
    golden_answers,
    golden_observations,
    random_positions,
)
from zerofleet.learning.learner import Learner
from zerofleet.learning.measurement import TrainBatch
from zerofleet.models.check import check
from zerofleet.models.quantize import quantize_int8, to_fp16
from zerofleet.models.session import ModelSession
from zerofleet.models.variant import measure
from zerofleet.network import Network

_POSITIONS = 256
_STEPS = 30
_SECONDS = 0.5
_TRAINED_BYTES = 16  # per weight: itself, gradient, optimizer's average, copy to save; all fp32


def check_network(run: RunConfig, say: Callable[[str], object]) -> None:
    """Try the network of a run on positions of random play.

    Args:
        run: the run file.
        say: gets a line for each check that passed.

    Raises:
        ConfigError: what is wrong with the class, and where to mend it.
    """
    spec = games.spec(run.game.name)
    learner = Learner(spec, run)
    network = learner.network
    weights = sum(each.numel() for each in network.parameters())
    say(
        f"{run.network.name}: {weights:,} weights; training takes "
        f"{weights * _TRAINED_BYTES / 1e6:,.1f} MB for them"
    )
    batch = _batch(spec, network)
    check_outputs(network, torch.from_numpy(batch[0]))  # pyright: ignore[reportUnknownMemberType]
    say("outputs: shapes and types are right, all numbers are finite")
    _check_gradients(learner, batch)
    say("gradient: reaches every weight")
    _check_training(learner, batch, say)
    model = _check_export(network, spec, say)
    for precision in ("int8", "fp16"):
        _check_precision(precision, model, spec, say)
    speed = _speed(model, spec)
    default = export_onnx(make_network(spec, NetworkSection()), spec.observation_bytes, {})
    ours = _speed(default, spec)
    say(
        f"speed: {speed:,.0f} positions/s in fp32 on one core; the default network has "
        f"{ours:,.0f} ({speed / ours:.2f} times)"
    )


def _batch(spec: GameSpec, network: Network) -> TrainBatch:
    """Return positions of random play with random targets."""
    generator = np.random.default_rng(0)
    observations = random_positions(spec, _POSITIONS, generator)
    policy = generator.dirichlet(np.full(spec.num_actions, 0.1), _POSITIONS).astype(np.float32)
    value = generator.choice(np.array([-1, 0, 1], np.float32), _POSITIONS)
    width = sum(network.shapes.drawn_targets.values())
    if not width:
        return observations, policy, value
    return observations, policy, value, np.zeros((_POSITIONS, width), np.float32)


def _check_gradients(learner: Learner, batch: TrainBatch) -> None:
    network = learner.network
    losses = learner.losses_of(batch)
    for name, loss in losses.items():
        if loss.dim() or not loss.is_floating_point():
            raise ConfigError(
                f"{type(network).__name__}.losses: '{name}' must be a scalar of floats, not "
                f"{list(loss.shape)} of {str(loss.dtype).removeprefix('torch.')}: take the mean"
            )
        if not bool(loss.isfinite()):
            raise ConfigError(f"{type(network).__name__}.losses: '{name}' is {loss.item()}")
    torch.stack(list(losses.values())).sum().backward()  # pyright: ignore
    named = dict(network.named_parameters())
    unused = [name for name, each in named.items() if each.grad is None or not each.grad.any()]
    for each in named.values():
        if each.grad is not None:
            each.grad.zero_()
    if unused:
        raise ConfigError(
            f"no loss depends on {', '.join(unused[:5])}"
            f"{f' and {len(unused) - 5} more' if len(unused) > 5 else ''}: use these weights in "
            "forward, or remove them"
        )


def _check_training(learner: Learner, batch: TrainBatch, say: Callable[[str], object]) -> None:
    first = _total(learner, batch)
    started = time.monotonic()
    for _ in range(_STEPS):
        learner.train(batch)
    seconds = time.monotonic() - started
    last = _total(learner, batch)
    if not last < first:
        raise ConfigError(
            f"{_STEPS} steps on one batch change its loss from {first:.3f} to {last:.3f}: lower "
            f"trainer.learning_rate, or look for a layer that stops the gradient"
        )
    say(
        f"training: {_STEPS} steps on one batch lower its loss from {first:.3f} to {last:.3f}; "
        f"{_STEPS * _POSITIONS / seconds:,.0f} samples/s"
    )


@torch.no_grad()
def _total(learner: Learner, batch: TrainBatch) -> float:
    return learner.total(learner.losses_of(batch)).item()


def _check_export(network: Network, spec: GameSpec, say: Callable[[str], object]) -> bytes:
    network.eval()
    golden = golden_answers(network, golden_observations(spec))
    model = export_onnx(network, spec.observation_bytes, {})
    difference = check(model, sha256(model).hexdigest(), golden)
    say(
        f"export: {len(model) / 1e6:.2f} MB; ONNX Runtime agrees with torch "
        f"(largest difference of a value {difference.value:.1e}, of a logit {difference.logit:.1e})"
    )
    return model


def _check_precision(
    precision: str, model: bytes, spec: GameSpec, say: Callable[[str], object]
) -> None:
    """Say what a model in fewer bits loses, or why there is none: fp32 is served then."""
    positions = random_positions(spec, _POSITIONS, np.random.default_rng(1))
    try:
        variant = quantize_int8(model, positions) if precision == "int8" else to_fp16(model)
        loss = measure(ModelSession(model, spec), ModelSession(variant, spec), positions)
    except IncompatibleModelError as error:
        say(f"{precision}: not available ({error}); such a run serves fp32")
        return
    say(
        f"{precision}: differs from fp32 by {loss.policy_kl:.1e} nats of the policy and "
        f"{loss.value_difference:.1e} of the value"
    )


def _speed(model: bytes, spec: GameSpec) -> float:
    """Return positions per second of one core, in batches of 256."""
    session = ModelSession(model, spec)
    positions: NDArray[np.uint8] = np.zeros((_POSITIONS, spec.observation_bytes), np.uint8)
    session.run(positions)
    rows, started = 0, time.monotonic()
    while time.monotonic() - started < _SECONDS:
        session.run(positions)
        rows += _POSITIONS
    return rows / (time.monotonic() - started)


def main() -> int:
    """Check the run file that the command line names, with its ``--set`` options."""
    path, *options = sys.argv[1:]
    try:
        run = load_run(Path(path), Overrides.read(options))
        torch.set_num_threads(run.trainer.threads)
        check_network(run, lambda line: print(line, flush=True))  # noqa: T201
    except ZerofleetError as error:
        print(f"zerofleet: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
