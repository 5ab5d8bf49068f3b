"""Additional heads learn, can be switched off, and are not part of exported models."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from zerofleet_core import ReplayBuffer, State

from zerofleet.config import RunConfig, run_from_values
from zerofleet.errors import ConfigError
from zerofleet.games import spec
from zerofleet.learning import BoardNetwork, export_onnx, make_network
from zerofleet.learning.learner import Learner
from zerofleet.learning.loss import auxiliary_losses
from zerofleet.learning.measurement import TrainBatch
from zerofleet.learning.window import draw
from zerofleet.network import Network, Shapes, Targets

GO = "go(size=3,komi=0.5)"
DRAWN = {"opponent_policy": 0.15, "final_planes": 1.5, "final_score": 0.5}
WEIGHTS = {"soft_policy": 4.0, **DRAWN}
WIDTHS = {"soft_policy": 10, "opponent_policy": 10, "final_planes": 9, "final_score": 1}


def a_run(game: str = GO, weights: dict[str, float] = WEIGHTS, **trainer: Any) -> RunConfig:
    return run_from_values({
        "name": "auxiliary",
        "preset": "plain",
        "game": {"name": game},
        "network": {"blocks": 1, "channels": 8, "value_hidden": 8},
        "trainer": {
            "batch_size": 64,
            "learning_rate": [0.05],
            **{f"{name}_weight": weight for name, weight in weights.items()},
            **trainer,
        },
    })  # fmt: skip


@cache
def batch(*targets: str, game: str = GO) -> TrainBatch:
    """Make a batch of random games, every other one resigned, and full searches at 3 of 4 plies."""
    drawn = [target for target in targets if target in DRAWN]
    buffer = ReplayBuffer(game, 10_000, 100, auxiliary=drawn)
    for seed in range(8):
        generator, state = random.Random(seed), State(game)
        actions, legal = list[int](), list[list[int]]()
        while not state.is_terminal and not (seed % 2 and len(actions) == 10):
            legal.append(state.legal_actions())
            actions.append(generator.choice(legal[-1]))
            state.apply(actions[-1])
        resigned = not state.is_terminal
        children = [child for each in legal for child in each]
        buffer.add(
            np.array(actions, np.int16),
            (-1 if state.to_play == 0 else 1) if resigned else state.result,
            np.arange(len(actions)) % 4 > 0,
            np.cumsum([0, *map(len, legal)]).astype(np.int32),
            np.array(children, np.int16),
            np.array([generator.randrange(1, 20) for _ in children], np.int32),
            resigned=resigned,
        )
    return draw(buffer, 64, 1, symmetry=True)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_a_buffer_gives_what_it_was_asked_for() -> None:
    auxiliary = batch(*WEIGHTS)[-1]
    assert (auxiliary.dtype, auxiliary.shape) == (np.float32, (64, 20))
    known = ~np.isnan(auxiliary)
    replies, planes, score = known[:, :10], known[:, 10:19], known[:, 19]
    for part in (replies, planes):
        assert (part.all(1) | ~part.any(1)).all()
        assert 0.2 < part.mean() < 0.8
    assert (planes.all(1) == score).all()
    assert auxiliary[replies.all(1), :10].sum(1) == pytest.approx(1)
    assert set(np.unique(auxiliary[score, 10:19])) == {-1, 0, 1}
    assert all((auxiliary[score, 19] + 0.5) % 1 == 0)  # komi 0.5
    for ours, plain in zip(batch(*WEIGHTS), batch(), strict=False):
        np.testing.assert_array_equal(ours, plain)  # the same positions
    with pytest.raises(ValueError, match="not 'ownership'"):
        ReplayBuffer(GO, 1, 1, auxiliary=["ownership"])


def test_each_head_learns_its_target() -> None:
    learner = Learner(spec(GO), a_run())
    losses: list[dict[str, float]] = []
    for _ in range(40):
        learner.train(batch(*WEIGHTS))
        losses.append(learner.auxiliary_losses)
    first, last = losses[0], losses[-1]
    assert first["soft_policy"] == pytest.approx(np.log(10), abs=0.1)
    assert first["opponent_policy"] == pytest.approx(np.log(10), abs=0.1)
    assert first["final_planes"] == pytest.approx(np.log(2), abs=0.05)
    assert last["soft_policy"] < 1.9
    assert last["opponent_policy"] < 2.2  # random policies are hardly more predictable
    assert last["final_planes"] < 0.45
    assert last["final_score"] < 0.4 < first["final_score"]


@pytest.mark.parametrize("target", WEIGHTS)
def test_each_key_asks_for_its_head_alone(target: str) -> None:
    moved: list[torch.Tensor] = []
    for weight in (WEIGHTS[target], 2 * WEIGHTS[target]):
        learner = Learner(spec(GO), a_run(weights={target: weight}))
        assert learner.network.shapes.targets == {target: WIDTHS[target]}
        tower = next(learner.network.parameters())
        before = tower.detach().clone()
        learner.train(batch(target))
        assert [*learner.auxiliary_losses] == [target]
        moved.append(tower.detach() - before)
    assert not torch.equal(*moved)  # the tower learns from the head, by its weight


def test_losses_by_hand() -> None:
    shapes = Shapes.of(spec(GO), [*WEIGHTS])
    assert sum(shapes.drawn_targets.values()) == 20
    nan = float("nan")
    policy = torch.full((4, 10), 0.1)
    policy[0] = torch.tensor([0.96, 0.04] + [0.0] * 8)
    target = torch.full((4, 20), nan)
    target[0, :10] = torch.tensor([0.5, 0.5] + [0.0] * 8)
    target[1, :10] = torch.tensor([0.0] * 9 + [1.0])
    target[2, 10:] = torch.tensor([1.0, -1.0, 0.0] * 3 + [7.5])
    predicted = torch.zeros(4, 30)
    predicted[0, 0] = 1.0
    predicted[1, 19] = 2.0
    predicted[2, 20:] = torch.tensor([3.0, 0.0, 0.0] * 3 + [0.5])
    predicted.requires_grad_()

    def losses_of(target: torch.Tensor) -> dict[str, torch.Tensor]:
        columns = torch.split(target, [*shapes.drawn_targets.values()], 1)
        named = dict(zip(shapes.drawn_targets, columns, strict=True))
        targets = Targets(policy, torch.zeros(4), named)
        outputs = torch.split(predicted, [*shapes.targets.values()], 1)
        return auxiliary_losses(dict(zip(shapes.targets, outputs, strict=True)), targets, shapes)

    losses = losses_of(target)
    # The fourth root of 0.96 / 0.04, which is 24, is the ratio of the first two.
    first = 24**0.25 / (24**0.25 + 1)
    soft = np.log(9 + np.e) - first
    assert losses["soft_policy"].item() == pytest.approx((soft + 3 * np.log(10)) / 4)
    at_one = np.log(9 + np.exp(2)) - 2
    assert losses["opponent_policy"].item() == pytest.approx((np.log(10) + at_one) / 2)
    points = (np.log1p(np.exp(-3)) + 2 * np.log(2)) / 3
    assert losses["final_planes"].item() == pytest.approx(points)
    # 7.5 points are 2.5 board sides, which is 2 more than predicted: 2 - 1/2.
    assert losses["final_score"].item() == pytest.approx(1.5)
    torch.stack([*losses.values()]).sum().backward()  # pyright: ignore[reportUnknownMemberType]
    assert predicted.grad is not None
    assert predicted.grad.isfinite().all()
    assert not predicted.grad[3, 10:].any()
    none = losses_of(torch.full((4, 20), nan))
    assert {name: none[name].item() for name in DRAWN} == dict.fromkeys(DRAWN, 0.0)


def has_no_heads(network: Network) -> bool:
    return isinstance(network, BoardNetwork) and network.auxiliary is None


def exported(network: Network) -> onnx.GraphProto:
    return onnx.load_model_from_string(export_onnx(network, spec(GO).observation_bytes, {})).graph


def unnamed(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield the weights without names: names of folded weights contain a counter of the trace."""
    for weight in graph.initializer:
        weight.ClearField("name")
        yield weight


def test_a_model_has_none_of_the_heads() -> None:
    learner = Learner(spec(GO), a_run(average_decay=0.5, average_every_steps=1))
    for _ in range(2):
        learner.train(batch(*WEIGHTS))
    assert has_no_heads(learner.published)
    for network in (learner.network, learner.published):
        without = make_network(spec(GO), a_run().network)
        state = {n: t for n, t in network.state_dict().items() if not n.startswith("auxiliary.")}
        without.load_state_dict(state)
        ours, plain = exported(network), exported(without)
        assert [each.name for each in ours.output] == [each.name for each in plain.output]
        assert [each.op_type for each in ours.node] == [each.op_type for each in plain.node]
        weights = [[each.SerializeToString() for each in unnamed(graph)] for graph in (ours, plain)]
        assert weights[0] == weights[1]


def test_without_a_weight_all_is_as_if_there_were_no_heads() -> None:
    plain, with_heads = Learner(spec(GO), a_run(weights={})), Learner(spec(GO), a_run())
    first, second = plain.network.state_dict(), with_heads.network.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert {name.partition(".")[0] for name in second.keys() - first.keys()} == {"auxiliary"}
    # If the game has no such target, a weight has no effect.
    game, weights = "tic_tac_toe", {"final_planes": 1.5, "final_score": 0.5}
    states: list[dict[str, torch.Tensor]] = []
    for run in (a_run(game, {}), a_run(game, weights)):
        learner = Learner(spec(game), run)
        learner.train(batch(*run.trainer.auxiliary_weights, game=game))
        assert learner.auxiliary_losses == {}
        states.append(learner.state())
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_checkpoint_goes_on_with_the_same_heads_only() -> None:
    run = a_run(average_decay=0.5, average_every_steps=2)
    straight, before, after = (Learner(spec(GO), run) for _ in range(3))
    for _ in range(3):
        straight.train(batch(*WEIGHTS))
        before.train(batch(*WEIGHTS))
    after.restore({name: each.clone() for name, each in before.state().items()}, 3, 192)
    for learner in (straight, after):
        learner.train(batch(*WEIGHTS))
    first, second = straight.state(), after.state()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = Learner(spec(GO), a_run(weights={"opponent_policy": 0.15}))
    with pytest.raises(ConfigError, match="final_planes_weight and final_score_weight are above 0"):
        other.restore(before.state(), 3, 192)
    # An average that is new begins with the weights.
    alone = Learner(spec(GO), a_run())
    after.restore(alone.state(), 0, 0)
    assert has_no_heads(after.published)
