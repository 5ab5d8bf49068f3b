"""Messages of a trainer that stands still: a slow step, a full disk."""

from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from structlog.testing import capture_logs

from zerofleet.config import run_from_values
from zerofleet.errors import ZerofleetError
from zerofleet.learning.learner import Team
from zerofleet.services.trainer import service
from zerofleet.services.trainer.checkpoints import TrainerStores
from zerofleet.services.trainer.service import TrainerThread
from zerofleet.waiting import StoppedError, Waits

NOTHING = cast("Any", None)


def test_a_heartbeat_says_that_a_step_takes_long_and_ends_when_it_is_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [1_000.0]
    monkeypatch.setattr(service.time, "monotonic", lambda: clock[0])
    run = run_from_values({"name": "slow", "game": "tic_tac_toe"})
    thread = TrainerThread(run, NOTHING, NOTHING, NOTHING, NOTHING, Team(), NOTHING)
    pulse = thread.heartbeat()
    assert pulse is not None
    assert (pulse.waiting_for, pulse.figures.unspent_positions) == ("", None)
    clock[0] += 45
    pulse = thread.heartbeat()
    assert pulse is not None
    assert pulse.waiting_for == "a step that has taken 45 s so far"
    clock[0] += 600
    assert thread.heartbeat() is None


def test_a_trainer_without_enough_memory_names_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_from_values({"name": "large", "game": "tic_tac_toe"})
    checkpoints = cast("Any", SimpleNamespace(folder=Path()))
    for allocate in (lambda *_: torch.empty(1 << 60), lambda *_: np.empty(1 << 50)):
        monkeypatch.setattr(service, "take_over", allocate)
        thread = TrainerThread(run, NOTHING, NOTHING, checkpoints, NOTHING, Team(), NOTHING)
        with pytest.raises(
            ZerofleetError, match=r"out of memory \(.*\): lower trainer\.batch_size = 256"
        ):
            thread.train()


def test_a_full_disk_is_an_error_with_the_folder_and_what_is_free(tmp_path: Path) -> None:
    stop = Event()
    stop.set()  # it does not wait for the next try
    stores = TrainerStores(NOTHING, NOTHING, NOTHING, Waits(), stop, lambda: None)

    def full() -> None:
        raise OSError(28, "No space left on device")

    folder = tmp_path / "not yet there"
    with capture_logs() as logs, pytest.raises(StoppedError):
        stores.on_disk("checkpoint folder", folder, full)
    [said] = [entry for entry in logs if entry["log_level"] == "error"]
    assert (said["event"], said["folder"]) == ("disk_refuses", str(folder))
    assert said["free_bytes"] > 0
    assert str(stores.waits) == f"the checkpoint folder {folder}: No space left on device"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 GiB.", r"lower trainer\.batch_size = 256"),
        ("CUDA error: out of memory\nmore", r"lower trainer\.batch_size = 256"),
        ("CUDA error: an illegal memory access was encountered\nmore", "the trainer's GPU failed"),
        ("CUDA error: unspecified launch failure", "continues from the last checkpoint once"),
        ("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "the trainer's GPU failed"),
        ("shape '[3]' is invalid for input of size 4", None),
    ],
)
def test_an_error_of_a_gpu_ends_the_trainer_with_one_line(
    message: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(message)

    run = run_from_values({"name": "failing", "game": "tic_tac_toe"})
    monkeypatch.setattr(service, "take_over", fail)
    checkpoints = cast("Any", SimpleNamespace(folder=Path()))
    thread = TrainerThread(run, NOTHING, NOTHING, checkpoints, NOTHING, Team(), NOTHING)
    with pytest.raises(ZerofleetError if expected else RuntimeError, match=expected) as raised:
        thread.train()
    if expected:
        assert "\n" not in str(raised.value)
        assert cast("ZerofleetError", raised.value).exit_code == 1  # which is restarted
