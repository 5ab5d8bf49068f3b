"""``python -m zerofleet.learning.network_check RUN.toml``: try the network before a run does.

It prints one line for each check and stops at the first that fails, with the reason and the way
out. ``zerofleet check-network`` starts it, because only the trainer's packages include torch.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from zerofleet_core import GameSpec

from zerofleet import games
from zerofleet.config import NetworkSection, Overrides, RunConfig, load_run
from zerofleet.config.fit import TRAINED_BYTES
from zerofleet.errors import ConfigError, IncompatibleModelError, ZerofleetError
from zerofleet.learning.build import check_outputs, make_network, missing_targets_hint
from zerofleet.learning.export import (
    export_onnx,
    golden_answers,
    golden_observations,
    random_positions,
)
from zerofleet.learning.learner import Learner
from zerofleet.learning.measurement import TrainBatch
from zerofleet.learning.optimizer import WeightAverage
from zerofleet.models.check import check
from zerofleet.models.session import ModelSession
from zerofleet.models.variant import MAKERS, Positions, measure
from zerofleet.network import Network

_POSITIONS = 256
_STEPS = 30
_SECONDS = 0.5


def check_network(run: RunConfig, say: Callable[[str], object]) -> None:
    """Try the network of a run on positions of random play.

    Args:
        run: the run file.
        say: gets a line for each check that passed.

    Raises:
        ConfigError: a check failed.
    """
    spec = games.spec(run.game.name)
    learner = Learner(spec, run)
    network = learner.network
    weights = sum(each.numel() for each in network.parameters())
    say(
        f"{run.network.name}: {weights:,} weights; training takes "
        f"{weights * TRAINED_BYTES / 1e6:,.1f} MB for them"
    )
    batch = _batch(spec, network)
    check_outputs(network, torch.from_numpy(batch[0]))  # pyright: ignore[reportUnknownMemberType]
    say("outputs: shapes and types are right, all numbers are finite")
    _check_gradients(learner, batch, say)
    model = _check_export(network, spec, say)
    _check_variants(model, spec, say)
    _check_training(learner, batch, say)
    check_outputs(network, torch.from_numpy(batch[0]))  # pyright: ignore[reportUnknownMemberType]
    default = export_onnx(make_network(spec, NetworkSection()), spec.observation_bytes, {})
    speed, ours = _speeds((model, default), spec)
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
    widths = network.shapes.drawn_targets
    if not widths:
        return observations, policy, value
    columns = [_column(name, width, generator) for name, width in widths.items()]
    return observations, policy, value, np.concatenate(columns, 1)


def _column(name: str, width: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """Return a target ``[positions, width]``: zeros, or random numbers of its range.

    As in a run, some positions lack a target that games may lack: they have NaN.
    """
    size = (_POSITIONS, width)
    if name == "root_value":
        return generator.uniform(-1, 1, size).astype(np.float32)
    if name == "search_surprise":
        return generator.exponential(0.3, size).astype(np.float32)
    if name == "plies_to_end":
        return generator.integers(1, 60, size).astype(np.float32)
    column = np.zeros(size, np.float32)
    column[1::4] = np.nan
    return column


def _check_gradients(learner: Learner, batch: TrainBatch, say: Callable[[str], object]) -> None:
    network = learner.network
    name, losses = type(network).__name__, learner.losses_of(batch)
    for loss, found in losses.items():
        if not bool(found.isfinite()):
            raise ConfigError(
                f"{name}.losses: '{loss}' is {found.item()} before any training"
                f"{missing_targets_hint(network)}"
            )
    unknown = [each for each in network.loss_weights if each not in losses]
    if unknown:
        raise ConfigError(
            f"{name}.loss_weights names {', '.join(unknown)}, but losses returns "
            f"{', '.join(losses)}"
        )
    torch.stack(list(losses.values())).sum().backward()  # pyright: ignore[reportUnknownMemberType]
    named = {each: weight for each, weight in network.named_parameters() if weight.requires_grad}
    # The trainer gives every weight a gradient before the first step, so zeros are all there is.
    still = [each for each, weight in named.items() if weight.grad is None or not weight.grad.any()]
    for weight in named.values():
        if weight.grad is not None:
            weight.grad.zero_()
    if len(still) == len(named):
        raise ConfigError(f"no weight of {name} has an effect on a loss")
    missing = [each for each in ("policy", "value") if each not in losses]
    notes = [f"losses() has no {' and no '.join(missing)}"] if missing else []
    if still:
        more = f" and {len(still) - 5} more" if len(still) > 5 else ""
        notes.append(
            f"{', '.join(still[:5])}{more} begin without a gradient: no layer uses them, or zeros "
            "behind them stop it"
        )
    say(f"gradient: {'; '.join(notes) or 'reaches every weight'}")


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
    network = WeightAverage(network, 0.5).network  # the network that a run publishes
    try:
        golden = golden_answers(network, golden_observations(spec))
    except Exception as error:
        raise ConfigError(
            f"{type(network).__name__}.forward fails without what training_only names: "
            f"{type(error).__name__}: {error}; these parts are None in a published network"
        ) from error
    model = export_onnx(network, spec.observation_bytes, {})
    difference = check(model, sha256(model).hexdigest(), golden)
    say(
        f"export: {len(model) / 1e6:.2f} MB; ONNX Runtime agrees with torch "
        f"(largest difference of a value {difference.value:.1e}, of a logit {difference.logit:.1e})"
    )
    return model


def _check_variants(model: bytes, spec: GameSpec, say: Callable[[str], object]) -> None:
    """Say what a model in fewer bits loses, or why there is none: fp32 is served then."""
    observations = random_positions(spec, _POSITIONS, np.random.default_rng(1))
    positions, fp32 = Positions(observations, observations), ModelSession(model, spec)
    for precision, make in MAKERS.items():
        try:
            loss = measure(fp32, ModelSession(make(model, positions), spec), positions.check)
        except IncompatibleModelError as error:
            say(f"{precision}: not available ({error}); such a run serves fp32")
            continue
        say(
            f"{precision}: differs from fp32 by {loss.policy_kl:.1e} nats of the policy and "
            f"{loss.value_difference:.1e} of the value"
        )


def _speeds(models: Sequence[bytes], spec: GameSpec) -> list[float]:
    """Return positions per second of one core for each model, in batches of 256.

    The models run in turns, and the fastest batch counts: other programs disturb the others.
    """
    sessions = [ModelSession(model, spec) for model in models]
    positions: NDArray[np.uint8] = np.zeros((_POSITIONS, spec.observation_bytes), np.uint8)
    fastest = [math.inf] * len(sessions)
    started = time.monotonic()
    while time.monotonic() - started < _SECONDS * len(sessions) or math.inf in fastest:
        for place, session in enumerate(sessions):
            before = time.perf_counter()
            session.run(positions)
            fastest[place] = min(fastest[place], time.perf_counter() - before)
    return [_POSITIONS / seconds for seconds in fastest]


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
