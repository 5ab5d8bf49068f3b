"""Training steps on a real GPU: a CUDA graph takes the same steps as torch without a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from structlog.testing import capture_logs

from zerofleet.config import RunConfig, run_from_values
from zerofleet.games import spec
from zerofleet.learning import Learner
from zerofleet.learning.measurement import TrainBatch

GAME = "connect_four"
SIZE = 64

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def torch_has_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")


def a_run(**trainer: Any) -> RunConfig:
    return run_from_values({
        "name": "gpu",
        "preset": "plain",
        "game": GAME,
        "network": {"blocks": 3, "channels": 16, "global_pooling": True},
        "trainer": {"batch_size": SIZE, "mixed_precision": "off", **trainer},
    })  # fmt: skip


def batch(seed: int, size: int = SIZE) -> TrainBatch:
    game, generator = spec(GAME), np.random.default_rng(seed)
    policy = generator.random((size, game.num_actions), np.float32)
    return (
        generator.integers(0, 256, (size, game.observation_bytes), np.uint8),
        policy / policy.sum(1, keepdims=True),
        generator.integers(-1, 2, size).astype(np.float32),
    )


OPTIONS: list[dict[str, Any]] = [
    {},
    {"optimizer": "adamw", "learning_rate": [0.001]},
    {"optimizer": "muon", "learning_rate": [0.02], "average_decay": 0.5, "average_every_steps": 2},
    {"mixed_precision": "bf16"},
    {"mixed_precision": "fp16"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_captured_steps_are_those_without_a_graph(options: dict[str, Any]) -> None:
    run = a_run(**options)
    eager, captured = Learner(spec(GAME), run, cuda_graph=False), Learner(spec(GAME), run)
    for step in range(12):
        for learner in (eager, captured):
            learner.train(batch(step))
    assert captured._captured is not None
    assert captured._captured.is_captured
    ours, theirs = captured.state(), eager.state()
    bound = 1e-3 if run.trainer.mixed_precision == "off" else 5e-2
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=bound, atol=bound, msg=name)
    assert captured.gradient_norm == pytest.approx(eager.gradient_norm, rel=10 * bound)


def test_a_captured_learner_resumes_and_takes_batches_of_another_size() -> None:
    run = a_run()
    straight, before = Learner(spec(GAME), run), Learner(spec(GAME), run)
    for step in range(6):
        straight.train(batch(step))
        before.train(batch(step))
    before.restore(straight.state(), 6, 6 * SIZE)
    for learner in (straight, before):
        learner.train(batch(6, SIZE // 2))
        learner.train(batch(7))
    assert straight.samples == before.samples
    for name, tensor in straight.state().items():
        torch.testing.assert_close(tensor, before.state()[name], rtol=1e-3, atol=1e-3, msg=name)


def test_a_step_that_cannot_be_captured_runs_without_a_graph() -> None:
    learner = Learner(spec(GAME), a_run())
    losses = learner.network.losses

    def reading(*arguments: Any) -> Any:
        found = losses(*arguments)
        assert found["policy"].item() > 0
        return found

    learner.network.losses = reading  # pyright: ignore[reportAttributeAccessIssue]
    with capture_logs() as logs:
        for step in range(6):
            learner.train(batch(step))
    assert [log["event"] for log in logs] == ["step_not_captured"]
    assert learner.gradient_norm is not None


@pytest.mark.parametrize("depth", [1, 2])
def test_batches_that_are_copied_ahead_are_those_of_their_steps(depth: int) -> None:
    run = a_run()
    plain, fed = Learner(spec(GAME), run), Learner(spec(GAME), run)
    batches = fed.batches(batch, depth)
    for step in range(20):
        if step == 10:
            batches.discard()
        taken = batches.take(step)
        for ours, column in zip(taken, batch(step), strict=True):
            assert torch.equal(torch.as_tensor(ours).cpu(), torch.from_numpy(column))
        fed.train(taken)
        plain.train(batch(step))
    batches.close()
    for name, tensor in plain.state().items():
        torch.testing.assert_close(tensor, fed.state()[name], rtol=1e-3, atol=1e-3, msg=name)


def test_it_says_what_it_runs_on() -> None:
    words = Learner(spec(GAME), a_run()).runs_on
    assert words.startswith(f"GPU 0 ({torch.cuda.get_device_name(0)}, ")
    assert words.endswith(f" GiB), fp32, batches of {SIZE} positions, 2 prefetched")
