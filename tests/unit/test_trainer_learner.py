"""The learner: seeded, resumable to the bit, and it measures without touching the network."""

from typing import Any

import numpy as np
import pytest
import torch

from zerofleet.config import RunConfig, run_from_values
from zerofleet.errors import ConfigError
from zerofleet.games import spec
from zerofleet.learning.learner import Learner
from zerofleet.learning.measurement import Batch, TracedBatch

SPEC = spec("tic_tac_toe")


def a_run(**trainer: Any) -> RunConfig:
    return run_from_values({
        "name": "learner",
        "preset": "plain",
        "game": {"name": "tic_tac_toe"},
        "network": {"blocks": 1, "channels": 8},
        "trainer": {"batch_size": 32, **trainer},
    })  # fmt: skip


def batch(seed: int, size: int = 32) -> Batch:
    generator = np.random.default_rng(seed)
    visits = generator.random((size, 9), np.float32)
    return (
        generator.integers(0, 256, (size, SPEC.observation_bytes), np.uint8),
        visits / visits.sum(1, keepdims=True),
        generator.integers(-1, 2, size).astype(np.float32),
    )


def traced(seed: int, size: int = 32) -> TracedBatch:
    zeros = np.zeros(size, np.int32)
    drawn = batch(seed, size)
    return TracedBatch(drawn, zeros, zeros + 9, zeros.astype(np.int64), drawn[2])


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.state().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_same_seed_and_data_give_the_same_weights() -> None:
    learners = [Learner(SPEC, a_run()) for _ in range(2)]
    for learner in learners:
        for step in range(5):
            learner.train(batch(step))
    assert same(weights(learners[0]), weights(learners[1]))
    learners[1].train(batch(5))
    assert not same(weights(learners[0]), weights(learners[1]))


def test_restored_learner_goes_on_as_if_nothing_had_happened() -> None:
    straight, before = Learner(SPEC, a_run()), Learner(SPEC, a_run())
    for step in range(8):
        straight.train(batch(step))
    for step in range(4):
        before.train(batch(step))
    after = Learner(SPEC, a_run())
    after.restore(weights(before), before.step, before.samples)
    for step in range(4, 8):
        after.train(batch(step))
    assert after.step == straight.step == 8
    assert after.samples == straight.samples == 8 * 32
    assert same(weights(after), weights(straight))


def test_it_says_what_it_runs_on() -> None:
    size = a_run().trainer.batch_size
    device = torch.device("cpu")
    for wanted, words in (("off", "fp32"), ("bf16", "bf16"), ("fp16", "fp16")):
        learner = Learner(SPEC, a_run(mixed_precision=wanted))
        assert learner.device == device
        assert learner.runs_on == f"CPU with 1 thread, {words}, batches of {size} positions"


def test_restoring_before_the_first_step() -> None:
    first, second = Learner(SPEC, a_run()), Learner(SPEC, a_run())
    second.restore(weights(first), 0, 0)
    first.train(batch(0))
    second.train(batch(0))
    assert same(weights(first), weights(second))


def test_another_networks_checkpoint() -> None:
    other = run_from_values({
        "name": "learner",
        "preset": "plain",
        "game": {"name": "tic_tac_toe"},
        "network": {"blocks": 2, "channels": 8},
    })  # fmt: skip
    with pytest.raises(ConfigError, match=r"different network \(.*: .*8.* in it, none here\)"):
        Learner(SPEC, a_run()).restore(weights(Learner(SPEC, other)), 1, 32)


def test_measuring_changes_nothing() -> None:
    learner = Learner(SPEC, a_run())
    learner.train(batch(0))
    before = weights(learner)
    first, second = learner.measure(traced(1)), learner.measure(traced(1))
    assert first == second
    assert same(before, weights(learner))
    assert learner.network.training
    learner.train(batch(1))
    untouched = Learner(SPEC, a_run())
    untouched.train(batch(0))
    untouched.train(batch(1))
    assert same(weights(learner), weights(untouched))


def test_measurement_by_hand() -> None:
    learner = Learner(SPEC, a_run())
    observations, policy_target, value_target = batch(2)
    measured = learner.measure(traced(2))
    with torch.no_grad():
        policy_logits, value = learner.network.eval().predict(torch.from_numpy(observations))
    log_policy = policy_logits.log_softmax(1).numpy()
    assert measured.positions == 32
    assert measured.policy_loss == pytest.approx(-(policy_target * log_policy).sum(1).mean(), 1e-5)
    assert measured.value_loss == pytest.approx(((value.numpy() - value_target) ** 2).mean(), 1e-5)
    entropy = -(policy_target * np.log(policy_target)).sum(1).mean()
    assert measured.target_entropy == pytest.approx(entropy, rel=1e-5)
    policy_entropy = -(np.exp(log_policy) * log_policy).sum(1).mean()
    assert measured.policy_entropy == pytest.approx(policy_entropy, rel=1e-5)
    squares = sum(float(weight.detach().square().sum()) for weight in learner.network.parameters())
    total = measured.policy_loss + measured.value_loss + 1e-4 * squares
    assert measured.total_loss == pytest.approx(total, rel=1e-5)
    agreement = (policy_logits.numpy().argmax(1) == policy_target.argmax(1)).mean()
    assert measured.policy_agreement == pytest.approx(agreement)


def test_a_learning_rate_of_zero_after_annealing_stops_the_weights() -> None:
    learner = Learner(SPEC, a_run(learning_rate=[0.1, 0.0], learning_rate_steps=[1]))
    learner.train(batch(0))
    before = [parameter.detach().clone() for parameter in learner.network.parameters()]
    learner.train(batch(1))
    after = list(learner.network.parameters())
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_weights_that_are_lost_are_noticed() -> None:
    learner = Learner(SPEC, a_run())
    with torch.no_grad():
        next(learner.network.parameters()).fill_(float("nan"))
    with pytest.raises(ConfigError, match=r"lower trainer\.learning_rate"):
        learner.measure(traced(0))
