"""The network: bit unpacking, published sizes, loss, and that it learns."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import nn

from zerofleet.config import NetworkSection
from zerofleet.learning import AdamW, Momentum, Muon, l2_penalty, make_network
from zerofleet.learning.optimizer import orthogonal
from zerofleet.network import Network, Outputs, Targets, UnpackBits, data_losses, outcome_target


@dataclass(frozen=True)
class Board:
    observation_shape: tuple[int, int, int]
    num_actions: int
    num_final_planes: int = 0
    has_final_score: bool = False

    @property
    def observation_bytes(self) -> int:
        return -(-int(np.prod(self.observation_shape)) // 8)


TIC_TAC_TOE = Board((3, 3, 3), 9)
CONNECT_FOUR = Board((3, 6, 7), 7)
GO_19 = Board((17, 19, 19), 362)
PAPER: dict[str, Any] = {
    "value_head": "scalar",
    "channels": 256,
    "policy_channels": 2,
    "value_channels": 1,
    "value_hidden": 256,
}


@pytest.mark.parametrize("shape", [(3, 3, 3), (3, 6, 7), (17, 9, 9), (1, 1, 1), (2, 4, 4)])
def test_unpacking_is_that_of_numpy(shape: tuple[int, int, int]) -> None:
    generator = np.random.default_rng(0)
    planes = generator.integers(0, 2, (20, *shape), np.uint8)
    packed = np.packbits(planes.reshape(20, -1), axis=1)
    unpacked = UnpackBits(shape)(torch.from_numpy(packed))
    assert unpacked.dtype == torch.float32
    np.testing.assert_array_equal(unpacked.numpy(), planes.astype(np.float32))


def test_unpacking_knows_every_byte() -> None:
    every_byte = np.arange(256, dtype=np.uint8)[:, np.newaxis]
    unpacked = UnpackBits((1, 2, 4))(torch.from_numpy(every_byte)).reshape(256, 8)
    np.testing.assert_array_equal(unpacked.numpy(), np.unpackbits(every_byte, axis=1))


def parameters_by_hand(board: Board, section: NetworkSection) -> int:
    """Counted from the description of the architecture, not from the code."""
    planes, rows, columns = board.observation_shape
    points = rows * columns
    channels = section.channels

    def convolution(inputs: int, outputs: int, kernel: int) -> int:
        return inputs * outputs * kernel**2 + 2 * outputs  # and scale and shift of the norm

    tower = convolution(planes, channels, 3)
    tower += section.blocks * 2 * convolution(channels, channels, 3)
    policy = convolution(channels, section.policy_channels, 1)
    policy += section.policy_channels * points * board.num_actions + board.num_actions
    value = convolution(channels, section.value_channels, 1)
    value += section.value_channels * points * section.value_hidden + section.value_hidden
    outputs = 3 if section.value_head == "outcome" else 1
    value += outputs * (section.value_hidden + 1)
    return tower + policy + value


@pytest.mark.parametrize(
    ("board", "section", "expected"),
    [
        # AlphaGo Zero's two networks on 19x19: 19 and 39 residual blocks of 256 filters.
        (GO_19, NetworkSection(blocks=19, **PAPER), 22_827_877),
        (GO_19, NetworkSection(blocks=39, **PAPER), 46_441_317),
        (CONNECT_FOUR, NetworkSection(blocks=5, channels=64), 375_516),
        (TIC_TAC_TOE, NetworkSection(blocks=2, channels=32), 39_156),
    ],
)
def test_number_of_parameters(board: Board, section: NetworkSection, expected: int) -> None:
    network = make_network(board, section)
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count == parameters_by_hand(board, section)
    assert count == expected


@pytest.mark.parametrize("board", [TIC_TAC_TOE, CONNECT_FOUR, Board((5, 4, 9), 40)])
def test_shapes_of_the_answers(board: Board) -> None:
    network = make_network(board, NetworkSection(blocks=1, channels=8)).eval()
    observations = torch.zeros(7, board.observation_bytes, dtype=torch.uint8)
    policy_logits, value = network.predict(observations)
    assert policy_logits.shape == (7, board.num_actions)
    assert value.shape == (7,)
    assert value.abs().max() <= 1


def test_first_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = make_network(TIC_TAC_TOE, NetworkSection(blocks=1, channels=8), seed=5).state_dict()
    torch.manual_seed(2)
    again = make_network(TIC_TAC_TOE, NetworkSection(blocks=1, channels=8), seed=5).state_dict()
    other = make_network(TIC_TAC_TOE, NetworkSection(blocks=1, channels=8), seed=6).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["tower.0.0.weight"], other["tower.0.0.weight"])


@pytest.mark.parametrize("head", ["scalar", "outcome"])
def test_untrained_network_has_no_opinion(head: Literal["scalar", "outcome"]) -> None:
    section = NetworkSection(blocks=5, channels=64, value_head=head)
    network = make_network(CONNECT_FOUR, section, seed=3).eval()
    bits = np.random.default_rng(0).integers(0, 256, (256, 16), np.uint8)
    policy_logits, value = network.predict(torch.from_numpy(bits))
    assert policy_logits.softmax(1).max() < 0.6
    assert value.abs().mean() < 0.3


def test_loss_by_hand() -> None:
    policy_logits = torch.tensor([[0.0, 0.0], [1.0, 3.0]])
    policy_target = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    outputs = Outputs(policy_logits, torch.tensor([0.5, -1.0]), {})
    parts = data_losses(outputs, Targets(policy_target, torch.tensor([1.0, -1.0]), {}))
    second = float(np.log(np.exp(1.0) + np.exp(3.0)) - 3.0)
    assert parts["policy"].item() == pytest.approx((np.log(2) + second) / 2, rel=1e-6)
    assert parts["value"].item() == pytest.approx((0.25 + 0.0) / 2)


def two_alike() -> list[Network]:
    section = NetworkSection(blocks=1, channels=8)
    return [make_network(CONNECT_FOUR, section, seed=2) for _ in range(2)]


def random_batches(batches: int) -> torch.Tensor:
    bits = np.random.default_rng(0).integers(0, 256, (batches, 32, 16), np.uint8)
    return torch.from_numpy(bits)


def some_loss(network: Network, observations: torch.Tensor) -> torch.Tensor:
    policy_logits, value = network.predict(observations)
    # Rows against each other: the gradients of two batches have little in common.
    return policy_logits.square().mean() + value[::2].sum() - value[1::2].sum()


def go_backward(observations: torch.Tensor, *networks: Network) -> None:
    for network in networks:
        some_loss(network, observations).backward()


def test_momentum_goes_where_the_written_out_loss_goes() -> None:
    """The reference takes the gradient of the whole loss, l2 term and all, tensor by tensor."""
    ours, reference = two_alike()
    momentum = Momentum(ours.parameters(), 0.9, l2=0.01)
    weights = list(reference.parameters())
    velocities = [torch.zeros_like(weight) for weight in weights]
    for observations in random_batches(3):
        go_backward(observations, ours)
        momentum.prepare(0.05)
        momentum.step()
        loss = some_loss(reference, observations) + l2_penalty(weights, 0.01)
        with torch.no_grad():
            gradients = torch.autograd.grad(loss, weights)
            for weight, velocity, gradient in zip(weights, velocities, gradients, strict=True):
                velocity.mul_(0.9).add_(gradient)
                weight.sub_(0.05 * velocity)
    for first, second in zip(ours.parameters(), reference.parameters(), strict=True):
        assert first.stride() == second.stride()
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


def test_adamw_goes_where_torchs_own_goes() -> None:
    ours, reference = two_alike()
    optimizer = AdamW(ours.parameters(), 0.9, weight_decay=0.05)
    theirs = torch.optim.AdamW(reference.parameters(), betas=(0.9, 0.999), weight_decay=0.05)
    for steps, observations in enumerate(random_batches(5)):
        go_backward(observations, ours, reference)
        rate = 0.01 / (1 + steps)
        optimizer.prepare(rate, steps)
        optimizer.step()
        theirs.param_groups[0]["lr"] = rate
        theirs.step()
        theirs.zero_grad()
    for first, second in zip(ours.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


def test_muon_goes_where_torchs_own_goes_and_momentum_moves_all_but_kernels() -> None:
    ours, reference = two_alike()
    muon = Muon(ours, 0.9, l2=0.01, weight_decay=1.0)
    weights = list(reference.parameters())
    kernels = [weight for weight in weights if weight.ndim == 4 and weight.shape[2] == 3]
    others = [weight for weight in weights if all(weight is not kernel for kernel in kernels)]
    matrices = [nn.Parameter(kernel.detach().flatten(1)) for kernel in kernels]
    theirs = torch.optim.Muon(matrices, weight_decay=1.0, momentum=0.9, nesterov=True)
    momentum = torch.optim.SGD(others, momentum=0.9, weight_decay=0.02)
    assert len(matrices) == 3
    for steps, observations in enumerate(random_batches(5)):
        go_backward(observations, ours, reference)
        rate = 0.01 / (1 + steps)
        muon.prepare(rate, steps)
        muon.step()
        for matrix, kernel in zip(matrices, kernels, strict=True):
            assert kernel.grad is not None
            matrix.grad = kernel.grad.flatten(1)
        for each in (theirs, momentum):
            each.param_groups[0]["lr"] = rate
            each.step()
        with torch.no_grad():
            for matrix, kernel in zip(matrices, kernels, strict=True):
                kernel.copy_(matrix.view(kernel.shape))
        reference.zero_grad()
    for first, second in zip(ours.parameters(), weights, strict=True):
        # Torch rounds its kernels' steps to bf16, of 8 bits.
        torch.testing.assert_close(first, second, rtol=1e-4, atol=5e-4)


def test_orthogonal_matrices_keep_their_directions_and_lose_their_lengths() -> None:
    generator = torch.Generator().manual_seed(3)
    for rows, columns in ((8, 72), (72, 8), (16, 16)):
        matrices = torch.randn((2, rows, columns), generator=generator)
        left, _, right = torch.linalg.svd(matrices, full_matrices=False)
        lengths = torch.linspace(0.1, 3.0, min(rows, columns))
        found = orthogonal(left * lengths @ right)
        # In the same directions the matrix found is diagonal, with about 1 in each place.
        turned = left.mT @ found @ right.mT
        diagonal = turned.diagonal(dim1=1, dim2=2)
        assert diagonal.min() > 0.65
        assert diagonal.max() < 1.25
        torch.testing.assert_close(turned, torch.diag_embed(diagonal), rtol=0, atol=1e-4)


def test_outcomes_of_values_are_those_of_two_tosses() -> None:
    values = torch.tensor([1.0, 0.0, -1.0, 0.5, -0.5])
    target = outcome_target(values)
    assert target.tolist() == [
        [1.0, 0.0, 0.0],
        [0.25, 0.5, 0.25],
        [0.0, 0.0, 1.0],
        [0.5625, 0.375, 0.0625],
        [0.0625, 0.375, 0.5625],
    ]
    assert torch.equal(target[:, 0] - target[:, 2], values)


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"value_head": "outcome", "value_channels": 4},
        {"policy_head": "convolutional", "policy_channels": 8},
    ],
)
def test_learns_a_fixed_set_of_positions(section: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    observations = torch.from_numpy(np.packbits(generator.integers(0, 2, (24, 27), np.uint8), 1))
    actions = torch.from_numpy(generator.integers(0, 9, 24))
    policy_target = torch.nn.functional.one_hot(actions, 9).float()
    value_target = torch.from_numpy(generator.integers(-1, 2, 24)).float()
    network = make_network(TIC_TAC_TOE, NetworkSection(blocks=1, channels=16, **section), seed=1)
    momentum = Momentum(network.parameters(), 0.9, l2=0.0)
    targets = Targets(policy_target, value_target, {})
    for _ in range(150):
        parts = data_losses(network.outputs(observations), targets)
        (parts["policy"] + parts["value"]).backward()
        momentum.prepare(0.05)
        momentum.step()
    with torch.no_grad():
        policy_logits, value = network.eval().predict(observations)
    assert torch.equal(policy_logits.argmax(1), actions)
    assert (value - value_target).abs().max() < 0.3
