"""Builds the network that a run file names: ours, or a class of your own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass
from pydantic_core import ErrorDetails
from torch import Tensor
from torch.nn.parameter import UninitializedParameter

from zerofleet.config import NetworkSection
from zerofleet.errors import ConfigError
from zerofleet.games.python_game import import_class
from zerofleet.learning.optimizer import check_factor, rate_factor
from zerofleet.learning.residual import BoardNetwork
from zerofleet.network import (
    DRAWN_TARGETS,
    TARGETS,
    BoardShape,
    Network,
    Outputs,
    ParameterGroup,
    Shapes,
    Targets,
)


def make_network(
    game: BoardShape, section: NetworkSection, seed: int = 0, targets: Sequence[str] = ()
) -> Network:
    """Return a network with its first weights, on the CPU.

    Args:
        game: sizes of the game.
        section: the ``[network]`` section of the run file.
        seed: seed of the first weights, which depend on nothing else.
        targets: targets in addition to policy, value and ``extra_targets`` of the class. A target
            that the game does not have is ignored.

    Raises:
        ConfigError: the network does not fit the game, there is no such class, or the class cannot
            be built with its options.
    """
    with torch.random.fork_rng(devices=[]):  # pyright: ignore[reportUnknownMemberType]
        torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
        if section.is_own:
            network = _own_network(section, game, targets)
            _check_weights(network)
            bits = math.prod(network.shapes.observation_shape)
            check_outputs(network, torch.zeros(2, -(-bits // 8), dtype=torch.uint8))
            return network
        return BoardNetwork(Shapes.of(game, targets), section)


def _own_network(section: NetworkSection, game: BoardShape, targets: Sequence[str]) -> Network:
    name = section.name
    kind = import_class(name, "network", "python:examples.networks:Transformer")
    if not issubclass(kind, Network):
        raise ConfigError(f"network '{name}': derive the class from zerofleet.network.Network")
    options = _options(name, kind, section.options)
    shapes = Shapes.of(game, [*targets, *_extra_targets(kind)])
    try:
        return kind(shapes, options)  # pyright: ignore[reportCallIssue]
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"network '{name}': __init__(shapes, options) fails with {shapes} and {options}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _extra_targets(kind: type[Network]) -> tuple[str, ...]:
    """Return the targets that a class names.

    Raises:
        ConfigError: they are not a tuple, or a name is unknown.
    """
    label, known = f"{kind.__name__}.extra_targets", ", ".join(DRAWN_TARGETS)
    names = cast("object", kind.extra_targets)
    if not isinstance(names, tuple):
        raise ConfigError(f"{label}: give a tuple of names, such as ('root_value',)")
    for each in cast("tuple[object, ...]", names):
        if each not in DRAWN_TARGETS:
            raise ConfigError(f"{label}: unknown target {each!r}; known targets are {known}")
    return kind.extra_targets


def _options(name: str, kind: type[Network], given: dict[str, Any]) -> object:
    """Return the options of a class, with the types that its dataclass declares.

    Raises:
        ConfigError: one message for each mistake.
    """
    options = getattr(kind, "Options", None)
    if options is None:
        if given:
            raise ConfigError(
                f"network '{name}': unknown keys {', '.join(given)}: the class has no Options; "
                "write a dataclass Options in it with the keys that [network] may have"
            )
        return None
    if not is_dataclass(options):
        raise ConfigError(f"network '{name}': write @dataclass(frozen=True) above its Options")
    try:
        is_frozen = cast("Any", options).__dataclass_params__.frozen
        config = ConfigDict(extra="forbid")
        checked = checked_dataclass(cast("Any", options), config=config, frozen=is_frozen)
        return TypeAdapter[object](checked).validate_python(given)
    except ValidationError as error:
        known = ", ".join(each.name for each in fields(options))
        raise ConfigError(*(_mistake(each, known) for each in error.errors())) from error
    except Exception as error:
        raise ConfigError(
            f"network '{name}': Options is not a dataclass with types: {error}"
        ) from error


def _mistake(error: ErrorDetails, known: str) -> str:
    key = ".".join(("network", *map(str, error["loc"])))
    if "unexpected" in error["type"]:
        return f"unknown key '{key}': known keys are {known}"
    return f"{key}: {error['msg']}"


def _check_weights(network: Network) -> None:
    """Refuse a class whose weights or parts are not what the trainer needs.

    Raises:
        ConfigError: what is wrong, and where to mend it.
    """
    name, parts = type(network).__name__, network.training_only
    if not any(each.requires_grad for each in network.parameters()):
        raise ConfigError(f"{name}: the network has no weights to learn")
    wrong = (
        [parts]
        if isinstance(parts, str)
        else [each for each in parts if each not in dict(network.named_children())]
    )
    if wrong:
        raise ConfigError(
            f"{name}.training_only names {', '.join(wrong)}: give a tuple of names of submodules, "
            "such as ('ownership',)"
        )
    for loss, weight in cast("Mapping[str, object]", network.loss_weights).items():
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise ConfigError(f"{name}.loss_weights: '{loss}' must be a number, not {weight!r}")


def check_outputs(network: Network, observations: Tensor) -> None:
    """Evaluate positions in training and in evaluation mode, and check the outputs.

    Args:
        network: left in training mode.
        observations: ``[batch, observation_bytes]`` uint8.

    Raises:
        ConfigError: ``forward`` fails, or its outputs have other shapes or types than they must.
    """
    positions, shapes = len(observations), network.shapes
    name, forms = type(network).__name__, set[int]()
    for mode in (True, False):
        try:
            with torch.no_grad():
                outputs = network.train(mode).outputs(observations)
        except Exception as error:
            given = (positions, *shapes.observation_shape)
            raise ConfigError(
                f"{name}.forward(planes) fails for planes {given}: {type(error).__name__}: {error}"
            ) from error
        wanted = (positions, shapes.num_actions)
        _check_tensor(f"{name}.forward: policy logits", outputs.policy_logits, [wanted])
        _check_tensor(f"{name}.forward: value", outputs.value, [(positions,), (positions, 3)])
        forms.add(outputs.value.dim())
        if outputs.value.dim() == 1 and outputs.value.abs().max() > 1:
            raise ConfigError(
                f"{name}.forward: values must be in [-1, 1]: take tanh of the last layer"
            )
    network.train()
    unused = [
        each
        for each, weight in network.named_parameters()
        if isinstance(weight, UninitializedParameter)
    ]
    if unused:
        raise ConfigError(f"{name}.forward does not use {', '.join(unused)}: remove it")
    if len(forms) > 1:
        raise ConfigError(
            f"{name}.forward: the value must have the same form in training and in evaluation mode"
        )


def _check_tensor(label: str, found: object, shapes: list[tuple[int, ...]]) -> None:
    wanted = " or ".join(str(list(shape)) for shape in shapes)
    if not isinstance(found, Tensor):
        raise ConfigError(f"{label}: must be a tensor {wanted}, not {type(found).__name__}")
    if tuple(found.shape) not in shapes:
        raise ConfigError(f"{label}: must have the shape {wanted}, not {list(found.shape)}")
    if found.dtype != torch.float32:
        kind = str(found.dtype).removeprefix("torch.")
        raise ConfigError(f"{label}: must be float32, not {kind}")
    if not bool(found.isfinite().all()):
        raise ConfigError(f"{label}: holds numbers that are not finite before any training")


def checked_groups(network: Network) -> list[ParameterGroup]:
    """Return the groups of a network's weights, for the optimizer.

    Raises:
        ConfigError: ``parameter_groups`` fails, a weight is in no group or in two, a group has a
            tensor that is not a weight, or a factor is not a number of at least 0.
    """
    label = f"{type(network).__name__}.parameter_groups"
    try:
        groups = [
            replace(group, parameters=list(group.parameters))  # which may be a generator
            for group in network.parameter_groups()
        ]
    except Exception as error:
        raise ConfigError(f"{label} fails: {type(error).__name__}: {error}") from error
    names = {id(weight): name for name, weight in network.named_parameters()}
    seen = set[int]()
    for group in groups:
        for weight in group.parameters:
            if id(weight) not in names:
                raise ConfigError(f"{label} has a tensor that is not a weight of the network")
            if id(weight) in seen:
                raise ConfigError(
                    f"{label}: {names[id(weight)]} is in two groups, or twice in one: name it once"
                )
            seen.add(id(weight))
        check_factor(f"{label}: learning_rate_factor", rate_factor(group, 0))
        check_factor(f"{label}: weight_decay_factor", group.weight_decay_factor)
    missing = [name for weight, name in names.items() if weight not in seen]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ConfigError(
            f"{label}: {', '.join(missing[:5])}{more} are in no group: add a group with the rest"
        )
    return groups


def widest(network: Network) -> int:
    """Return the largest number of outputs of any layer of the tower."""
    return max((each.shape[0] for each in network.parameters() if each.dim() > 1), default=1)


def checked_losses(network: Network, outputs: Outputs, targets: Targets) -> dict[str, Tensor]:
    """Return the losses of a network on a batch, each a scalar.

    Raises:
        ConfigError: ``losses`` fails, or returns something else.
    """
    name = type(network).__name__
    try:
        losses = network.losses(outputs, targets)
    except Exception as error:
        offered = [each for each in DRAWN_TARGETS if each in network.shapes.offered_targets]
        raise ConfigError(
            f"{name}.losses fails: {type(error).__name__}: {error} "
            f"(targets.named: {', '.join(targets.named) or 'none'}; "
            f"outputs.named: {', '.join(outputs.named) or 'none'}). "
            f"Targets that {name}.extra_targets can name in this game: {', '.join(offered)}"
        ) from error
    if not isinstance(losses, dict) or not losses:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{name}.losses must return a dictionary of losses by their names")
    for loss, found in losses.items():
        is_tensor = isinstance(found, Tensor)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_tensor or found.dim() or not found.is_floating_point():
            raise ConfigError(
                f"{name}.losses: '{loss}' must be a tensor with one number of a float type, such "
                "as a mean over positions"
            )
    return losses


def missing_targets_hint(network: Network) -> str:
    """Return a hint, to append to a message, if a class may compute with missing targets."""
    sparse = [each for each in network.shapes.drawn_targets if each in TARGETS]
    if not sparse or isinstance(network, BoardNetwork):
        return ""
    return f"; positions without {', '.join(sparse)} have NaN: leave them out of the mean"
