"""Check that a run fits its game, this machine and one request to inference."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from typing import Protocol

from zerofleet.config.run import Conflict, RunConfig
from zerofleet.config.training import NetworkSection, TrainerSection
from zerofleet.errors import ConfigError

TRAINED_BYTES = 16  # per weight: itself, gradient, optimizer's average, copy to save; all fp32


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


class GameSizes(_Board, Protocol):
    """The sizes of a game; ``zerofleet_core.GameSpec`` has them."""

    @property
    def max_length(self) -> int:
        """Most plies of a game."""
        ...


def conflicts_with_game(run: RunConfig, sizes: GameSizes) -> Generator[Conflict]:
    """Yield the conflicts that depend on the game and this machine, or on one request's size.

    Args:
        run: the run file.
        sizes: the sizes of its game.
    """
    yield from _messages(run)
    yield from _sizes(run.trainer, sizes.max_length)
    yield from _policy_head(run.network, sizes)
    yield from _memory(run.network, sizes)


def check_request_size(run: RunConfig) -> None:
    """Refuse an engine whose games do not fit into one request to inference.

    Raises:
        ConfigError: the message names both keys.
    """
    _refuse(_messages(run))


def check_sizes(settings: TrainerSection, max_length: int) -> None:
    """Refuse sizes that make the trainer wait forever.

    Args:
        settings: the ``[trainer]`` section.
        max_length: most plies of a game.

    Raises:
        ConfigError: one line that names both keys.
    """
    _refuse(_sizes(settings, max_length))


def check_policy_head(network: NetworkSection, sizes: _Board) -> None:
    """Refuse a policy head that the game or the network does not allow.

    Raises:
        ConfigError: the game has neither as many actions as points nor one more, or pooling leaves
            no channel.
    """
    _refuse(_policy_head(network, sizes))


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


def _refuse(found: Iterable[Conflict]) -> None:
    mistakes = [each.message for each in found]
    if mistakes:
        raise ConfigError(*mistakes)


def _messages(run: RunConfig) -> Generator[Conflict]:
    games, rows = run.selfplay.games_per_engine, run.inference.max_batch_rows
    if games > rows:
        yield Conflict(
            f"selfplay.games_per_engine = {games} is above inference.max_batch_rows = {rows}: "
            "an engine's games are one request",
            ("selfplay.games_per_engine", "inference.max_batch_rows"),
        )


def _sizes(settings: TrainerSection, max_length: int) -> Generator[Conflict]:
    room = settings.window_positions
    in_games = settings.window_games * max_length
    if settings.min_positions > room:
        yield Conflict(
            f"trainer.min_positions = {settings.min_positions}, but trainer.window_positions = "
            f"{room}: training could never start; lower the first or raise the second",
            ("trainer.min_positions", "trainer.window_positions"),
        )
    elif settings.min_positions > in_games:
        yield Conflict(
            f"trainer.min_positions = {settings.min_positions}, but trainer.window_games = "
            f"{settings.window_games} have {in_games} at most: training could never start; lower "
            "the first or raise the second",
            ("trainer.min_positions", "trainer.window_games"),
        )
    if settings.batch_size > room * settings.samples_per_position:
        yield Conflict(
            f"trainer.batch_size = {settings.batch_size}, but trainer.window_positions = {room} "
            f"pay for {room * settings.samples_per_position:g} samples at most: lower the first "
            "or raise the second",
            ("trainer.batch_size", "trainer.window_positions", "trainer.samples_per_position"),
        )


def _policy_head(network: NetworkSection, sizes: _Board) -> Generator[Conflict]:
    if network.is_own:
        return
    _, rows, columns = sizes.observation_shape
    points, actions = rows * columns, sizes.num_actions
    if network.policy_head == "convolutional" and actions not in (points, points + 1):
        yield Conflict(
            f"network.policy_head = 'convolutional' needs {points} or {points + 1} actions on "
            f"a board of {points} points, the game has {actions}: take 'dense'",
            ("network.policy_head",),
        )
    pools = network.global_pooling or network.policy_head == "convolutional"
    if pools and network.channels < 2:
        yield Conflict(
            f"network.channels = {network.channels} leaves no channel next to the pooled one: give "
            "2 or more, or network.global_pooling = false and policy_head = 'dense'",
            ("network.channels", "network.global_pooling", "network.policy_head"),
        )


def _memory(network: NetworkSection, sizes: _Board) -> Generator[Conflict]:
    """Refuse a network whose training needs more memory than this machine has."""
    if network.is_own:
        return
    weights = network_weights(network, sizes)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if weights * TRAINED_BYTES > memory:
        keys = ("blocks", "channels", "policy_channels", "value_channels", "value_hidden")
        yield Conflict(
            f"network.{', '.join(f'{key} = {getattr(network, key)}' for key in keys)} are "
            f"{weights:,} weights: training them takes {weights * TRAINED_BYTES / 1e9:,.0f} GB, "
            f"and this machine has {memory / 1e9:,.0f} GB of memory: lower the largest of them",
            (*(f"network.{key}" for key in keys), "network.policy_head"),
        )
