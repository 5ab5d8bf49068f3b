"""The step that a CUDA graph holds: it reads nothing back, and works without a graph."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from structlog.testing import capture_logs
from torch.utils._python_dispatch import TorchDispatchMode

from tests.unit.test_network_groups import run_of
from tests.unit.test_trainer_learner import SPEC, a_run, batch, same, weights
from zerofleet.config import RunConfig
from zerofleet.games import spec
from zerofleet.learning import Learner
from zerofleet.learning.captured import CapturedStep

READS = {"_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "equal"}


class NothingRead(TorchDispatchMode):
    """Refuses each operation whose result or its size the host must wait for."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        name = func.overloadpacket.__name__
        assert name not in READS, f"the host waits for {name}"
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    torch.set_num_threads(1)


RUNS: dict[str, Callable[[], RunConfig]] = {
    "sgd": a_run,
    "adamw": lambda: a_run(optimizer="adamw", learning_rate=[0.001]),
    "muon": lambda: a_run(optimizer="muon", learning_rate=[0.02]),
    "bf16": lambda: a_run(mixed_precision="bf16"),
    "fp16": lambda: a_run(mixed_precision="fp16"),
    "average": lambda: a_run(average_decay=0.5, average_every_steps=1),
    "groups, sgd": lambda: run_of("Grouped", "sgd"),
    "groups, adamw": lambda: run_of("Grouped", "adamw"),
    "groups, muon": lambda: run_of("Grouped", "muon"),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_step_reads_nothing_from_the_device(name: str) -> None:
    run = RUNS[name]()
    learner, watched = (Learner(spec(run.game.name), run) for _ in range(2))
    for step in range(3):
        learner.train(batch(step))
        with NothingRead():
            watched.train(batch(step))
    assert same(weights(learner), weights(watched))
    assert watched.gradient_norm == learner.gradient_norm


def test_reads_are_noticed() -> None:
    with NothingRead(), pytest.raises(AssertionError, match="the host waits for"):
        torch.ones(1).item()


def test_columns_on_the_device_are_taken_as_they_are() -> None:
    arrays, tensors = Learner(SPEC, a_run()), Learner(SPEC, a_run())
    for step in range(3):
        arrays.train(batch(step))
        tensors.train_on([torch.from_numpy(column) for column in batch(step)])
    assert arrays.samples == tensors.samples == 3 * 32
    assert same(weights(arrays), weights(tensors))


@pytest.mark.skipif(torch.cuda.is_available(), reason="the capture succeeds")
def test_a_capture_that_fails_leaves_the_steps_as_they_are() -> None:
    plain, captured = Learner(SPEC, a_run()), Learner(SPEC, a_run())
    captured._captured = CapturedStep(captured._take_step, warm_up=0)
    with capture_logs() as logs:
        for step in range(3):
            plain.train(batch(step))
            captured.train(batch(step))
    assert [(log["event"], log["log_level"]) for log in logs] == [("step_not_captured", "warning")]
    assert logs[0]["reason"]
    assert not captured._captured.is_captured
    assert same(weights(plain), weights(captured))


def test_on_cpus_nothing_is_captured() -> None:
    learner = Learner(SPEC, a_run())
    assert (learner._captured is None) == (learner.device.type == "cpu")
