"""Checks that the numbers of a run fit each other, its game and the memory of this machine."""

from __future__ import annotations

import os
from typing import Protocol

from zerofleet.config.run import RunConfig
from zerofleet.config.training import NetworkSection, TrainerSection
from zerofleet.errors import ConfigError

_TRAINED_BYTES = 16  # of a weight, its gradient, the optimizer's average and a copy to save, fp32


class _Board(Protocol):
    """Board and actions that a network is built for; ``zerofleet_core.GameSpec`` has them."""

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """Planes, rows and columns."""
        ...

    @property
    def num_actions(self) -> int:
        """Actions of the game, legal or not."""
        ...


class _Sizes(_Board, Protocol):
    """The sizes of a game; ``zerofleet_core.GameSpec`` has them."""

    @property
    def max_length(self) -> int:
        """Most plies of a game."""
        ...


def check_fit(run: RunConfig, sizes: _Sizes) -> None:
    """Make all checks of this module.

    Args:
        run: the run file.
        sizes: of its game.

    Raises:
        ConfigError: one line for each check that failed.
    """
    mistakes: list[str] = []
    for check in (
        lambda: check_messages(run),
        lambda: check_sizes(run.trainer, sizes.max_length),
        lambda: check_policy_head(run.network, sizes),
        lambda: _check_memory(run.network, sizes),
    ):
        try:
            check()
        except ConfigError as error:
            mistakes.extend(error.mistakes)
    if mistakes:
        raise ConfigError(*mistakes)


def check_messages(run: RunConfig) -> None:
    """Refuse an engine whose games do not fit into one request to inference.

    Raises:
        ConfigError: the message names both keys.
    """
    games, rows = run.selfplay.games_per_engine, run.inference.max_batch_rows
    if games > rows:
        raise ConfigError(
            f"selfplay.games_per_engine = {games} is above inference.max_batch_rows = {rows}: "
            "an engine's games are one request"
        )


def check_sizes(settings: TrainerSection, max_length: int) -> None:
    """Refuse sizes that make the trainer wait forever.

    Args:
        settings: the sizes.
        max_length: most plies of a game.

    Raises:
        ConfigError: one line that names both keys.
    """
    room = settings.window_positions
    if settings.min_positions > room:
        raise ConfigError(
            f"trainer.min_positions = {settings.min_positions}, but trainer.window_positions = "
            f"{room}: training could never start; lower the first or raise the second"
        )
    if settings.min_positions > settings.window_games * max_length:
        raise ConfigError(
            f"trainer.min_positions = {settings.min_positions}, but trainer.window_games = "
            f"{settings.window_games} have {settings.window_games * max_length} at most: training "
            "could never start; lower the first or raise the second"
        )
    if settings.batch_size > room * settings.samples_per_position:
        raise ConfigError(
            f"trainer.batch_size = {settings.batch_size}, but trainer.window_positions = {room} "
            f"pay for {room * settings.samples_per_position:g} samples at most: lower the first "
            "or raise the second"
        )


def check_policy_head(network: NetworkSection, sizes: _Board) -> None:
    """Refuse a policy head that the game or the network does not allow.

    Raises:
        ConfigError: the actions are not the points of the board, nor one more; or pooling leaves no
            channel.
    """
    _, rows, columns = sizes.observation_shape
    points, actions = rows * columns, sizes.num_actions
    if network.policy_head == "convolutional" and actions not in (points, points + 1):
        raise ConfigError(
            f"network.policy_head = 'convolutional' needs {points} or {points + 1} actions on "
            f"a board of {points} points, the game has {actions}: take 'dense'"
        )
    pools = network.global_pooling or network.policy_head == "convolutional"
    if pools and network.channels < 2:
        raise ConfigError(
            f"network.channels = {network.channels} leaves no channel next to the pooled one: give "
            "2 or more, or network.global_pooling = false and policy_head = 'dense'"
        )


def _check_memory(network: NetworkSection, sizes: _Board) -> None:
    """Refuse a network whose training needs more memory than this machine has."""
    weights = network_weights(network, sizes)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if weights * _TRAINED_BYTES <= memory:
        return
    raise ConfigError(
        f"network.blocks = {network.blocks}, channels = {network.channels}, policy_channels = "
        f"{network.policy_channels}, value_channels = {network.value_channels}, value_hidden = "
        f"{network.value_hidden} are {weights:,} weights: training them takes "
        f"{weights * _TRAINED_BYTES / 1e9:,.0f} GB, and this machine has {memory / 1e9:,.0f} GB of "
        "memory: lower the largest of them"
    )


def network_weights(network: NetworkSection, sizes: _Board) -> int:
    """Return the approximate number of weights of a network, from its largest layers."""
    planes, rows, columns = sizes.observation_shape
    points, channels = rows * columns, network.channels
    tower = 9 * channels * (planes + 2 * network.blocks * channels)
    policy = network.policy_channels * channels
    if network.policy_head == "dense":
        policy += network.policy_channels * points * sizes.num_actions
    value = network.value_channels * (channels + points * network.value_hidden)
    return tower + policy + value
