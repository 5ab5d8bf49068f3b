"""Blocks that see the whole board: computed by hand, on any board, and with the l2 term."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from zerofleet.config import NetworkSection
from zerofleet.learning import Momentum, export_onnx, make_network
from zerofleet.learning.residual import PooledResidualBlock, SqueezeExcitation, over_the_board
from zerofleet.models.graph import Shape
from zerofleet.models.session import ModelSession
from zerofleet.network import Network

OPTIONS = [
    {"global_pooling": pooling, "squeeze_excitation": squeeze}
    for pooling in (False, True)
    for squeeze in (False, True)
]


@dataclass(frozen=True)
class Board:
    observation_shape: tuple[int, int, int]
    num_actions: int
    num_final_planes: int = 0
    has_final_score: bool = False

    @property
    def observation_bytes(self) -> int:
        return -(-int(np.prod(self.observation_shape)) // 8)


BOARDS = [
    Board((3, 6, 7), 7),
    Board((17, 9, 9), 82),
    Board((2, 1, 5), 5),
    Board((40, 1, 1), 12),  # a game without a board: a list of bits
]


def with_options(options: dict[str, bool]) -> NetworkSection:
    return NetworkSection(blocks=3, channels=8, value_hidden=16, **options)


def lively(network: Network) -> Network:
    """Move the running statistics and weights from their initial values, as after training."""
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 2.0, generator=generator)
            elif tensor.is_floating_point():
                tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
    return network


def observations(board: Board, batch: int) -> Tensor:
    shape = (batch, board.observation_bytes)
    return torch.from_numpy(np.random.default_rng(batch).integers(0, 256, shape, np.uint8))


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: str(board.observation_shape))
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_exported_file_answers_as_torch_does(board: Board, options: dict[str, bool]) -> None:
    network = lively(make_network(board, with_options(options), seed=4)).eval()
    inputs = observations(board, 33)
    exported = export_onnx(network, board.observation_bytes, {})
    session = ModelSession(exported, Shape(board.observation_bytes, board.num_actions))
    policy_logits, value = session.run(inputs.numpy())
    with torch.no_grad():
        wanted_logits, wanted_value = network.predict(inputs)
    np.testing.assert_allclose(policy_logits, wanted_logits.numpy(), rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(value, wanted_value.numpy(), atol=1e-5)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: str(board.observation_shape))
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_parameter_learns_and_is_under_the_l2_term(
    board: Board, options: dict[str, bool]
) -> None:
    network = make_network(board, with_options(options), seed=4).train()
    parameters = dict(network.named_parameters())
    momentum = Momentum(parameters.values(), 0.9, l2=0.25)
    policy_logits, value = network.predict(observations(board, 64))
    (policy_logits.log_softmax(1)[:, 0].sum() + value.square().sum()).backward()
    for name, parameter in parameters.items():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    momentum.clear()
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    momentum.prepare(0.5)
    momentum.step()  # only the gradient of 0.25 * |theta|^2, which is theta / 2
    for name, parameter in parameters.items():
        torch.testing.assert_close(parameter.detach(), 0.75 * before[name], msg=name)


def test_means_and_maxima_over_the_board() -> None:
    planes = torch.tensor([[[[1.0, 2.0, 3.0]], [[-4.0, 0.0, 1.0]]]])
    assert torch.equal(over_the_board(planes), torch.tensor([[2.0, -1.0, 3.0, 1.0]]))


def test_a_gate_is_a_sigmoid_of_the_means() -> None:
    torch.manual_seed(0)
    layer = SqueezeExcitation(8)
    planes = torch.randn(5, 8, 4, 3)
    hidden = layer.squeeze(planes.mean((2, 3))).relu()
    wanted = planes * torch.sigmoid(layer.excite(hidden))[:, :, None, None]
    torch.testing.assert_close(layer(planes), wanted)


def test_a_pooling_block_carries_news_across_the_board() -> None:
    """One stone in a corner changes the far corner, which two 3x3 convolutions cannot reach."""
    torch.manual_seed(0)
    block = PooledResidualBlock(8).eval()
    empty = torch.zeros(1, 8, 9, 9)
    stone = empty.clone()
    stone[:, :, 0, 0] = 5.0
    with torch.no_grad():
        change = (block(stone) - block(empty)).abs()
    assert change[..., 8, 8].max() > 1e-4


def test_plain_networks_did_not_change_with_the_options() -> None:
    """Checkpoints and seeds of runs without the options stay valid."""
    network = make_network(BOARDS[0], NetworkSection(blocks=1, channels=2), seed=1)
    names = [name for name, _ in network.named_parameters() if name.startswith("tower.1")]
    assert names == [
        "tower.1.first.0.weight",
        "tower.1.first.1.weight",
        "tower.1.first.1.bias",
        "tower.1.second.weight",
        "tower.1.norm.weight",
        "tower.1.norm.bias",
    ]
