"""The shape table: every layer of the published networks, its output and its parameters."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from zerofleet.config import NetworkSection
from zerofleet.errors import ConfigError
from zerofleet.learning import make_network

BATCH = 2
Row = tuple[str, tuple[int, ...], int]  # layer, output without the batch, parameters


@dataclass(frozen=True)
class Board:
    observation_shape: tuple[int, int, int]
    num_actions: int
    num_final_planes: int = 0
    has_final_score: bool = False


GO_19 = Board((17, 19, 19), 362)
GO_9 = Board((17, 9, 9), 82)


def paper(blocks: int) -> NetworkSection:
    """Silver et al. 2017, Methods, "Neural network architecture"."""
    return NetworkSection(
        blocks=blocks,
        channels=256,
        policy_channels=2,
        value_channels=1,
        value_hidden=256,
        value_head="scalar",
    )


def shape_table(board: Board, network: NetworkSection) -> list[Row]:
    """A row for each layer that computes, in the order in which they do; no memory is used."""
    rows: list[Row] = []
    with torch.device("meta"):
        built = make_network(board, network).eval()
        for name, layer in built.named_modules():
            if isinstance(layer, nn.Conv2d | nn.BatchNorm2d | nn.Linear):
                count = sum(parameter.numel() for parameter in layer.parameters())
                layer.register_forward_hook(
                    lambda _layer, _inputs, output, name=name, count=count: rows.append(
                        (name, tuple(output.shape[1:]), count)
                    )
                )
        planes, height, width = board.observation_shape
        packed = -(-planes * height * width // 8)
        built.predict(torch.zeros(BATCH, packed, dtype=torch.uint8))
    return rows


def expected_table(board: Board, network: NetworkSection) -> list[Row]:
    """The paper's description, layer by layer; biases stand with batch normalisation's scales."""
    planes, height, width = board.observation_shape
    channels, points = network.channels, height * width
    tower = (channels, height, width)
    rows: list[Row] = [
        ("tower.0.0", tower, planes * channels * 9),
        ("tower.0.1", tower, 2 * channels),
    ]
    for block in range(1, network.blocks + 1):
        rows += [
            (f"tower.{block}.first.0", tower, channels * channels * 9),
            (f"tower.{block}.first.1", tower, 2 * channels),
            (f"tower.{block}.second", tower, channels * channels * 9),
            (f"tower.{block}.norm", tower, 2 * channels),
        ]
    policy, value = network.policy_channels, network.value_channels
    hidden, actions = network.value_hidden, board.num_actions
    return [
        *rows,
        ("policy_head.0.0", (policy, height, width), channels * policy),
        ("policy_head.0.1", (policy, height, width), 2 * policy),
        ("policy_head.2", (actions,), policy * points * actions + actions),
        ("value_head.0.0", (value, height, width), channels * value),
        ("value_head.0.1", (value, height, width), 2 * value),
        ("value_head.2", (hidden,), value * points * hidden + hidden),
        ("value_head.4", (1,), hidden + 1),
    ]


def test_the_19_block_network_row_by_row() -> None:
    """Numbers written out, so that neither the code nor the formula above can drift."""
    rows = shape_table(GO_19, paper(19))
    assert rows[:6] == [
        ("tower.0.0", (256, 19, 19), 39_168),
        ("tower.0.1", (256, 19, 19), 512),
        ("tower.1.first.0", (256, 19, 19), 589_824),
        ("tower.1.first.1", (256, 19, 19), 512),
        ("tower.1.second", (256, 19, 19), 589_824),
        ("tower.1.norm", (256, 19, 19), 512),
    ]
    assert rows[-7:] == [
        ("policy_head.0.0", (2, 19, 19), 512),
        ("policy_head.0.1", (2, 19, 19), 4),
        ("policy_head.2", (362,), 261_726),
        ("value_head.0.0", (1, 19, 19), 256),
        ("value_head.0.1", (1, 19, 19), 2),
        ("value_head.2", (256,), 92_672),
        ("value_head.4", (1,), 257),
    ]


@pytest.mark.parametrize(
    ("board", "network", "layers", "parameters"),
    [
        (GO_19, paper(19), 2 + 4 * 19 + 7, 22_827_877),
        (GO_19, paper(39), 2 + 4 * 39 + 7, 46_441_317),
        (GO_9, NetworkSection(blocks=6, channels=64, value_head="scalar"), 2 + 4 * 6 + 7, 472_701),
    ],
    ids=["go19-19x256", "go19-39x256", "go9-6x64"],
)
def test_the_shape_table(
    board: Board, network: NetworkSection, layers: int, parameters: int
) -> None:
    rows = shape_table(board, network)
    assert rows == expected_table(board, network)
    assert len(rows) == layers
    assert sum(count for _, _, count in rows) == parameters


def test_every_third_block_and_the_policy_head_see_the_whole_board() -> None:
    network = NetworkSection(blocks=7, channels=64, global_pooling=True)
    rows = {name: (shape, count) for name, shape, count in shape_table(GO_9, network)}
    pooling = {name for name in rows if name.endswith("bias")}
    assert pooling == {"tower.3.bias", "tower.6.bias"}
    for block in (3, 6):
        assert rows[f"tower.{block}.first"] == ((64, 9, 9), 64 * 64 * 9)
        assert rows[f"tower.{block}.bias"] == ((48,), 2 * 16 * 48 + 48)  # means and maxima of 16
        assert rows[f"tower.{block}.second"] == ((64, 9, 9), 48 * 64 * 9)
    assert rows["policy_head.pooled.0"] == ((16, 9, 9), 64 * 16)
    assert rows["policy_head.last"] == ((82,), (2 * 81 + 2 * 16) * 82 + 82)


def test_every_block_has_a_gate_for_each_channel() -> None:
    network = NetworkSection(blocks=3, channels=64, global_pooling=True, squeeze_excitation=True)
    rows = {name: (shape, count) for name, shape, count in shape_table(GO_9, network)}
    for block in (1, 2, 3):
        assert rows[f"tower.{block}.gate.squeeze"] == ((16,), 64 * 16 + 16)
        assert rows[f"tower.{block}.gate.excite"] == ((64,), 16 * 64 + 64)


def test_pooling_leaves_a_channel_to_be_pooled_for() -> None:
    make_network(GO_9, NetworkSection(blocks=3, channels=2, global_pooling=True))
    with pytest.raises(ConfigError, match=r"network\.channels = 1 leaves no channel"):
        make_network(GO_9, NetworkSection(blocks=3, channels=1, global_pooling=True))
