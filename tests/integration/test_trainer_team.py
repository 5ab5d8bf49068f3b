"""Several processes train one network, with the same steps as one process.

The tests use two processes on CPUs, joined by gloo, in place of machines with GPUs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from tests.support.fork_server import Fork
from tests.support.random_records import target_record
from zerofleet.config import RunConfig, load_run
from zerofleet.database import Database, Submission
from zerofleet.errors import ConfigError
from zerofleet.games import spec
from zerofleet.learning.learner import Learner
from zerofleet.local.processes import free_port
from zerofleet.services.trainer.checkpoints import CheckpointFolder
from zerofleet.services.trainer.team import ProcessTeam

pytestmark = pytest.mark.slow

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

DEADLINE = 300.0
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m")
GAME = spec("tic_tac_toe")

# Trains as rank 0 or 1 on each series of batches, from the start, and writes the state after it.
PROGRAM = """
import contextlib, sys
from pathlib import Path
import numpy as np, torch
from safetensors.numpy import save_file
from zerofleet.learning.learner import Learner
from zerofleet.services.trainer.team import ProcessTeam
from zerofleet.config import load_run
from zerofleet.games import spec

folder = Path(sys.argv[1])
torch.set_num_threads(1)
run, game = load_run(folder / "run.toml"), spec("tic_tac_toe")
with contextlib.closing(ProcessTeam(run.trainer.batch_size)) as team:
    for series in sys.argv[2:]:
        learner = Learner(game, run, team)
        if team.rank:
            with torch.no_grad():
                next(learner.network.parameters()).zero_()  # the leader's state replaces it
            team.follow(learner, (game.observation_bytes, game.num_actions))
        else:
            learner.share()
            with np.load(folder / f"{series}.npz") as batches:
                for step in range(len(batches["value"])):
                    learner.seconds = 15.0 * step  # the leader has the clock
                    columns = ("observations", "policy", "value", "replies")
                    learner.train(tuple(batches[column][step] for column in columns))
            team.dismiss()
        state = {name: tensor.numpy().copy() for name, tensor in learner.state().items()}
        save_file(state, str(folder / f"{series}-{team.rank}.safetensors"))
"""

RUN_FILE = """
name = "team"
preset = "plain"
game = "tic_tac_toe"
[network]
blocks = 3
channels = 8
global_pooling = true
[trainer]
batch_size = 32
min_positions = 50
publish_every_steps = 10
checkpoint_every_steps = 5
metrics_every_steps = 1
average_decay = 0.5
average_every_steps = 2
opponent_policy_weight = 0.15
budget_minutes = 1
annealing_share = 1
"""


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    torch.set_num_threads(1)
    (tmp_path / "run.toml").write_text(RUN_FILE)
    (tmp_path / "program.py").write_text(PROGRAM)
    return load_run(tmp_path / "run.toml")


def half(seed: int) -> Columns:
    generator = np.random.default_rng(seed)
    visits, replies = generator.random((2, 16, 9), np.float32)
    return (
        generator.integers(0, 256, (16, GAME.observation_bytes), np.uint8),
        visits / visits.sum(1, keepdims=True),
        generator.integers(-1, 2, 16).astype(np.float32),
        replies / replies.sum(1, keepdims=True),
    )


def joined(first: Columns, second: Columns) -> Columns:
    observations, policy, value, replies = (
        np.concatenate(pair) for pair in zip(first, second, strict=True)
    )
    return observations, policy, value, replies


def train_in_two_processes(
    folder: Path, **series: list[Columns]
) -> dict[str, dict[str, np.ndarray]]:
    """Return the state after each series of batches, on which both processes must agree."""
    for name, batches in series.items():
        stacked = (np.stack(column) for column in zip(*batches, strict=True))
        columns = zip(("observations", "policy", "value", "replies"), stacked, strict=True)
        np.savez(folder / f"{name}.npz", **dict(columns))
    team = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        Fork(
            folder / "program.py", [folder, *series], {**team, "RANK": rank}, folder / f"{rank}.log"
        )
        for rank in ("0", "1")
    ]
    for rank in ranks:
        assert rank.wait(DEADLINE) == 0, [each.output() for each in ranks]
    states: dict[str, dict[str, np.ndarray]] = {}
    for name in series:
        leader, follower = (load_file(folder / f"{name}-{rank}.safetensors") for rank in (0, 1))
        assert leader.keys() == follower.keys()
        for key, tensor in leader.items():
            np.testing.assert_array_equal(tensor, follower[key], err_msg=key)
        states[name] = leader
    return states


def test_two_processes_take_the_steps_of_one(run: RunConfig, tmp_path: Path) -> None:
    """Two processes compute the same state as one process.

    In ``same``, both halves of each batch have the same positions with other targets. Batch
    normalization, which sees one half, then computes the same as in one process. In ``different``
    the halves differ, and the first step is the mean of the steps on either half.
    """
    same: list[Columns] = []
    for step in range(4):
        observations, *_ = first = half(step)
        _, policy, value, replies = half(100 + step)
        same.append(joined(first, (observations, policy, value, replies)))
    halves = half(0), half(1)
    found = train_in_two_processes(tmp_path, same=same)
    found |= train_in_two_processes(tmp_path, different=[joined(*halves)])
    alone = Learner(GAME, run)
    for step, batch in enumerate(same):
        alone.seconds = 15.0 * step
        alone.train(batch)
    for name, tensor in alone.state().items():
        # One process divides its running variances by n - 1 for an n that is twice as large.
        bound = 0.02 if name.endswith("running_var") else 2e-4
        found_here = found["same"][name]
        np.testing.assert_allclose(found_here, tensor, rtol=bound, atol=1e-5, err_msg=name)
    either: list[dict[str, torch.Tensor]] = []
    for each in halves:
        learner = Learner(GAME, run)
        learner.train(each)
        either.append(learner.state())
    for name, first in either[0].items():
        wanted = (first.double() + either[1][name].double()) / 2
        found_here = found["different"][name]
        np.testing.assert_allclose(found_here, wanted, rtol=2e-4, atol=1e-5, err_msg=name)


@pytest.fixture
def environment(role_url: Callable[[str], str], valkey_url: str, tmp_path: Path) -> dict[str, str]:
    return {
        "ZEROFLEET_DATABASE_URL": role_url("trainer"),
        "ZEROFLEET_REDIS_URL": valkey_url,
        "ZEROFLEET_MODEL_FOLDER": str(tmp_path / "models"),
        "ZEROFLEET_CHECKPOINT_FOLDER": str(tmp_path / "checkpoints"),
    }


def until(condition: Callable[[], object], process: Fork) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert process.poll() is None, process.output()
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.fleet  # four processes import torch
@pytest.mark.timeout(1800)
def test_torchrun_starts_one_trainer_of_two_processes(
    run: RunConfig, environment: dict[str, str], database_url: str, tmp_path: Path
) -> None:
    """The team trains, publishes and saves at SIGTERM; a trainer of one process takes over."""
    checkpoints = CheckpointFolder(tmp_path / "checkpoints" / "team")
    with Database(database_url) as database:
        database.register_run(run)

        def measured() -> int:
            [row] = database._rows("SELECT coalesce(max(step), 0) AS step FROM train_metrics")
            return row.step

        def submit(seeds: range) -> None:
            records = [target_record(seed) for seed in seeds]
            database.submit_games("team", "worker", [Submission(r) for r in records])

        submit(range(150))
        for prefix in (TORCHRUN, ()):
            begun = measured()
            program, *arguments = (*prefix, "zerofleet.services.trainer", tmp_path / "run.toml")
            process = Fork(program, arguments, environment, tmp_path / "trainer.log")
            until(lambda begun=begun: measured() >= begun + 12, process)
            process.terminate()
            process.wait(DEADLINE)
            newest = checkpoints.newest()
            assert newest is not None
            assert newest.state.step >= measured() >= begun + 12
            assert newest.state.drawn == 32 * newest.state.step
            submit(range(200 + begun, 400 + begun))
        models = database.models("team")
        assert [model.step for model in models] == [10 * i for i in range(len(models))]
        assert len(models) > 2
        assert models[-1].metrics["average_decay"] == 0.5

    # If the leader fails before it trains, the other process ends, too.
    environment["ZEROFLEET_METRICS_ADDRESS"] = "nowhere"
    program, *arguments = (*TORCHRUN, "zerofleet.services.trainer", tmp_path / "run.toml")
    failed = Fork(program, arguments, environment, tmp_path / "failed.log")
    failed.wait(DEADLINE)
    assert "cannot serve metrics on 'nowhere'" in failed.output()
    assert "Connection closed by peer" not in failed.output()
    assert "exitcode  : 2 " in failed.output()


def test_a_batch_that_cannot_be_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"batch_size = 33 cannot be divided among 2 processes"):
        ProcessTeam(33)
