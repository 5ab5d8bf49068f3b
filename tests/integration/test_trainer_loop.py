"""The trainer against a real Postgres and Valkey: it trains, publishes, waits, gives way."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg2
import pytest
import torch
from safetensors.torch import save as save_tensors
from structlog.testing import capture_logs

from tests.support.random_records import changed, target_record
from zerofleet.config import INITIAL_WEIGHTS, RunConfig, run_from_values
from zerofleet.config.presets import PRESETS
from zerofleet.database import Database, Submission
from zerofleet.errors import ConfigError, StaleEpochError, ZerofleetError
from zerofleet.fleet import figures
from zerofleet.fleet.figures import TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.games import spec
from zerofleet.learning.learner import Learner
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.local.postgres_cluster import find_programs
from zerofleet.models.folder import ModelFolder
from zerofleet.models.session import ModelSession
from zerofleet.records import GameRecord, is_held_out
from zerofleet.services.trainer import publishing
from zerofleet.services.trainer.checkpoints import CheckpointFolder, Checkpoints

pytestmark = pytest.mark.slow

BATCH = 32
PUBLISH = 20  # steps: a publication costs as much CPU as fifty
DEADLINE = 120.0


def a_run(**trainer: Any) -> RunConfig:
    return run_from_values({
        "name": "loop",
        "preset": "plain",
        "game": {"name": "tic_tac_toe"},
        "network": {"blocks": 1, "channels": 8},
        "trainer": {
            "batch_size": BATCH,
            "min_positions": 50,
            "publish_every_steps": PUBLISH,
            "checkpoint_every_steps": 5,
            "metrics_every_steps": 5,
            "held_out_share": 0.2,
            **trainer,
        },
    })  # fmt: skip


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@dataclass
class Surroundings:
    """Stores and folders of one test; the trainer itself has only the rights of its role."""

    database: Database
    trainer_url: str
    valkey_url: str
    folder: Path
    train: Callable[..., AbstractContextManager[Future[None]]]
    run: RunConfig = field(default_factory=a_run)
    started: int = 0

    def __post_init__(self) -> None:
        self.beats = Heartbeats(self.valkey_url, "loop")

    def submit(self, seeds: range) -> list[GameRecord]:
        records = [target_record(seed) for seed in seeds]
        answers = self.database.submit_games("loop", "worker", [Submission(r) for r in records])
        assert set(answers) == {"stored"}
        return records

    def training(self) -> AbstractContextManager[Future[None]]:
        """A trainer that is told to leave at the end."""
        self.started += 1
        return self.train(self.run, f"trainer-{self.started}", self.valkey_url)

    def train_until(self, condition: Callable[[], object]) -> None:
        with self.training() as running:
            until(lambda: running.done() or condition())
            assert not running.done() or running.exception() is None
        running.result()

    def steps(self) -> list[int]:
        return [row.step for row in self.database.models("loop")]

    def beat(self) -> Heartbeat | None:
        """Return the heartbeat of the trainer that was started last."""
        return next((b for b in self.beats.read() if b.worker == f"trainer-{self.started}"), None)

    def waits_for(self, words: str) -> bool:
        beat = self.beat()
        return beat is not None and words in beat.waiting_for

    def idle(self) -> bool:
        """Whether all that was paid for has been trained."""
        beat = self.beat()
        return beat is not None and re.fullmatch(r"[\d,]+ positions", beat.waiting_for) is not None

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with self.database._transaction() as connection:
            raw: Any = connection.connection.cursor()
            raw.execute(statement)
            return raw.fetchall()

    def saved_step(self) -> int:
        checkpoint = CheckpointFolder(self.folder / "checkpoints" / "loop").newest()
        assert checkpoint is not None
        return checkpoint.state.step


@pytest.fixture
def surroundings(
    role_url: Callable[[str], str],
    database_url: str,
    valkey_url: str,
    tmp_path: Path,
    train: Any,
) -> Iterator[Surroundings]:
    with Database(database_url) as database:
        database.register_run(a_run())
        yield Surroundings(database, role_url("trainer"), valkey_url, tmp_path, train)


def test_first_model_at_once_and_then_it_says_what_it_waits_for(
    surroundings: Surroundings,
) -> None:
    surroundings.train_until(lambda: surroundings.waits_for("50 positions"))
    [model] = surroundings.database.models("loop")
    assert (model.version, model.step) == (1, 0)
    folder = ModelFolder(surroundings.folder / "models", "loop")
    assert folder.path(model.sha256) == folder.root / model.location
    session = ModelSession(folder.read_verified(model.sha256), spec("tic_tac_toe"))
    policy_logits, value = session.run(np.zeros((1, 4), np.uint8))
    assert policy_logits.shape == (1, 9)
    assert value.shape == (1,)


def test_a_new_run_starts_from_given_weights(surroundings: Surroundings) -> None:
    checkpoints = surroundings.folder / "checkpoints" / "loop"
    other = Learner(spec("tic_tac_toe"), a_run().model_copy(update={"seed": 9}))
    checkpoints.mkdir(parents=True)
    (checkpoints / INITIAL_WEIGHTS).write_bytes(save_tensors(other.state()))
    surroundings.train_until(lambda: surroundings.waits_for("50 positions"))
    newest = CheckpointFolder(checkpoints).newest()
    assert newest is not None
    expected = other.network.state_dict()
    for name, tensor in expected.items():
        assert tensor.equal(newest.tensors[f"network.{name}"]), name
    [model] = surroundings.database.models("loop")
    session = ModelSession(
        ModelFolder(surroundings.folder / "models", "loop").read_verified(model.sha256),
        spec("tic_tac_toe"),
    )
    observation = np.zeros((1, 4), np.uint8)
    _, value = session.run(observation)
    with torch.no_grad():
        assert value == pytest.approx(
            other.network.eval().predict(torch.from_numpy(observation))[1].numpy(), abs=1e-4
        )


def test_damaged_starting_weights_are_refused(surroundings: Surroundings) -> None:
    checkpoints = surroundings.folder / "checkpoints" / "loop"
    checkpoints.mkdir(parents=True)
    (checkpoints / INITIAL_WEIGHTS).write_bytes(b"no tensors")
    with surroundings.training() as running, pytest.raises(ConfigError, match="are damaged"):
        running.result(DEADLINE)


def test_trains_as_much_as_the_games_paid_for(surroundings: Surroundings) -> None:
    records = surroundings.submit(range(60))
    paid = sum(record.length for record in records if not is_held_out(record.game_uid, 0.2))
    steps = paid * 4 // BATCH
    surroundings.train_until(
        lambda: (
            surroundings.query("SELECT max(step) FROM train_metrics")[0][0] == steps // 5 * 5
            and surroundings.idle()
        )
    )
    assert surroundings.saved_step() == steps
    assert surroundings.steps() == [*range(0, steps + 1, PUBLISH)]
    [row] = surroundings.query(
        "SELECT count(*) FILTER (WHERE split = 'train'), "
        "count(*) FILTER (WHERE split = 'held_out'),"
        " max(samples), max(samples_per_position), max(window_games) FROM train_metrics"
    )
    last_measured = steps // 5 * 5
    assert row[:3] == (steps // 5, steps // 5, last_measured * BATCH)
    assert row[3] <= 4
    assert row[4] == sum(not is_held_out(record.game_uid, 0.2) for record in records)
    versions = [model.version for model in surroundings.database.models("loop")]
    assert versions == list(range(1, len(versions) + 1))


def test_at_the_disk_limit_searches_outside_of_the_window_go(surroundings: Surroundings) -> None:
    values = a_run(window_positions=100, min_positions=100).model_dump(
        include={"name", "game", "network", "trainer"}, exclude_unset=True
    )
    values["retention"] = {"searches_days": 1000, "max_disk_gb": 1e-6}
    surroundings.run = run_from_values({**values, "preset": "plain"})
    records = surroundings.submit(range(200))
    surroundings.query("UPDATE games SET ingested_at = ingested_at - interval '1 day' RETURNING 1")

    def warnings() -> list[str]:
        found = surroundings.database.training_warnings("loop")
        return [each.warning for each in found if "disk" in each.warning]

    surroundings.train_until(lambda: warnings() and surroundings.idle())
    [(needed, kept)] = surroundings.query(
        "SELECT (SELECT count(*) FROM games WHERE ingested_at >= n.limit_since), "
        "n.since = '-infinity' FROM position_needs AS n"
    )
    assert kept  # without a limit all would be
    assert 0 < needed <= len(records)
    assert surroundings.database.count_games("loop") == len(records)


def test_the_defaults_train_publish_average_and_compute_v_resign(
    surroundings: Surroundings,
) -> None:
    """With the rights of the trainer's role alone, and again after a restart."""
    values = a_run().model_dump(include={"name", "game", "trainer"}, exclude_unset=True)
    values["network"] = {"blocks": 3, "channels": 8, "global_pooling": True}
    for key in PRESETS["plain"]["trainer"]:
        del values["trainer"][key]
    values["trainer"]["publish_every_steps"] = 30
    surroundings.run = run_from_values(values)
    assert surroundings.run.trainer.growing_window
    surroundings.submit(range(40))
    surroundings.train_until(surroundings.idle)
    surroundings.submit(range(40, 90))
    models = len(surroundings.steps())
    surroundings.train_until(lambda: len(surroundings.steps()) > models and surroundings.idle())
    newest = surroundings.database.models("loop")[-1].metrics
    assert newest["average_decay"] == 0.75
    for model in surroundings.database.models("loop"):
        [variant] = surroundings.database.variants("loop", model.version)
        assert variant.precision == "int8"
    assert {"train_search_kl", "held_out_explained_variance", "gradient_norm"} <= newest.keys()
    assert surroundings.query("SELECT DISTINCT threshold FROM resign_thresholds") == [(None,)]
    [(limit, stages)] = surroundings.query(
        "SELECT max(window_limit), max(jsonb_array_length(calibration)) FROM train_metrics"
    )
    assert (limit, stages) == (250_000, 4)


def test_a_restart_neither_trains_nor_publishes_again(surroundings: Surroundings) -> None:
    surroundings.submit(range(40))
    surroundings.train_until(surroundings.idle)
    step, models = surroundings.saved_step(), surroundings.steps()
    assert step > PUBLISH
    surroundings.train_until(surroundings.idle)
    assert surroundings.saved_step() == step
    assert surroundings.steps() == models
    surroundings.submit(range(40, 120))
    surroundings.train_until(lambda: len(surroundings.steps()) > len(models) + 1)
    assert surroundings.saved_step() > step
    assert surroundings.steps() == sorted(set(surroundings.steps()))
    assert all(step % PUBLISH == 0 for step in surroundings.steps())


def test_stopped_in_the_middle_it_goes_on_from_the_same_step(surroundings: Surroundings) -> None:
    surroundings.submit(range(200))
    for models in (2, 3, 4):
        surroundings.train_until(lambda models=models: len(surroundings.steps()) >= models)
    assert surroundings.steps() == [PUBLISH * i for i in range(len(surroundings.steps()))]


def test_a_model_that_is_being_made_at_a_stop_is_published_from_its_step(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training goes on meanwhile, and the last checkpoint is of the model's step."""
    values = a_run(checkpoint_every_steps=1_000).model_dump(
        include={"name", "game", "network", "trainer"}, exclude_unset=True
    )
    values |= {"preset": "plain", "precision": {"variants": ["int8"], "max_policy_kl": 10.0}}
    surroundings.run = run_from_values(values)
    surroundings.submit(range(200))
    publish = publishing.publish

    def endless(*arguments: Any, wanted: Any, waiting: Any) -> Any:
        while arguments[2] > 1:
            waiting("int8")
            threading.Event().wait(0.01)
        return publish(*arguments, wanted=wanted)

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "publish", endless)

        def is_further() -> bool:
            beat = surroundings.beat()
            return beat is not None and beat.progress > PUBLISH + 5

        surroundings.train_until(is_further)
    assert surroundings.steps() == [0]
    assert surroundings.saved_step() == PUBLISH
    surroundings.train_until(lambda: len(surroundings.steps()) >= 3)
    assert surroundings.steps() == [PUBLISH * i for i in range(len(surroundings.steps()))]


def test_a_last_checkpoint_that_cannot_be_written_is_reported(surroundings: Surroundings) -> None:
    surroundings.run = a_run(checkpoint_every_steps=1_000)
    surroundings.submit(range(60))
    folder = surroundings.folder / "checkpoints" / "loop"
    with surroundings.training() as running:
        until(surroundings.idle)
        folder.rename(folder.with_name("moved"))
        folder.write_text("no folder")
    with pytest.raises(ZerofleetError, match="the last checkpoint, after step"):
        running.result()


def test_minutes_of_training_are_counted_over_restarts_and_waits_are_not(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    surroundings.run = a_run(budget_minutes=1e-6)
    rate = surroundings.run.trainer.learning_rate[0]

    def shows(used: float, rate: float) -> bool:
        beat = surroundings.beat()
        figures = beat.figures if beat is not None and surroundings.idle() else None
        return (
            isinstance(figures, TrainerFigures)
            and figures.budget_used is not None
            and min(1.0, figures.budget_used) == used
            and figures.learning_rate == pytest.approx(rate)
        )

    surroundings.submit(range(40))
    with monkeypatch.context() as patch:
        patch.setattr("zerofleet.services.trainer.trainer._LONGEST_GAP_SECONDS", 0.0)
        surroundings.train_until(lambda: shows(0.0, rate))
    surroundings.submit(range(40, 80))
    surroundings.train_until(lambda: shows(1.0, rate / 20))
    step = surroundings.saved_step()
    surroundings.train_until(lambda: shows(1.0, rate / 20))
    assert surroundings.saved_step() == step


def test_a_game_that_does_not_replay_is_left_out(surroundings: Surroundings) -> None:
    bad = target_record(1_000)
    assert bad.result is not None
    bad = changed(bad, result=1 if bad.result < 1 else -1)
    assert surroundings.database.submit_games("loop", "worker", [Submission(bad)]) == ["stored"]
    surroundings.submit(range(60))
    surroundings.train_until(lambda: len(surroundings.steps()) >= 2)
    rows = surroundings.query("SELECT game_uid::text, reason FROM unreadable_games")
    assert [row[0] for row in rows] == [str(bad.game_uid)]
    assert "result" in rows[0][1]


def test_games_that_cannot_be_read_do_not_stop_a_run(surroundings: Surroundings) -> None:
    """72 of them, among others in the same transactions, once ended every trainer that came."""
    records = surroundings.submit(range(200))
    bad = [str(record.game_uid) for record in records[:144:2]]
    with surroundings.database._transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE positions SET visit_counts = "
            "('[0:' || cardinality(visit_counts) - 1 || ']=' || visit_counts::text)::integer[] "
            "WHERE ply = 1 AND game_uid = ANY (%s::uuid[])",
            (bad,),
        )
    surroundings.train_until(lambda: len(surroundings.steps()) >= 2)
    rows = surroundings.query("SELECT game_uid::text, reason FROM unreadable_games")
    assert {row[0] for row in rows} == set(bad)
    assert all("is no plain array" in row[1] for row in rows)


def test_postgres_away_is_waited_out(
    surroundings: Surroundings, postgres: EmbeddedPostgres
) -> None:
    name = surroundings.trainer_url.split("?")[0].rpartition("/")[2]
    admin = psycopg2.connect(postgres.url("superuser", "postgres"))
    admin.autocommit = True
    with surroundings.training() as running, admin.cursor() as cursor:
        until(surroundings.steps)
        surroundings.submit(range(80))
        until(lambda: len(surroundings.steps()) >= 2)
        cursor.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        until(lambda: surroundings.waits_for("Postgres"))
        cursor.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        surroundings.database.wait_ready(DEADLINE)
        models = len(surroundings.steps())
        surroundings.submit(range(80, 130))
        until(lambda: len(surroundings.steps()) > models)
        assert not running.done()
    admin.close()
    running.result()
    assert surroundings.steps() == [PUBLISH * i for i in range(len(surroundings.steps()))]


def test_the_newer_trainer_wins(surroundings: Surroundings) -> None:
    surroundings.submit(range(60))
    with surroundings.training() as first:
        until(surroundings.idle)  # torch cannot export from two threads of one process at a time
        with surroundings.training() as second:
            until(lambda: surroundings.query("SELECT max(epoch) FROM fences") == [(2,)])
            surroundings.submit(range(60, 400))
            until(first.done)
            assert isinstance(first.exception(), StaleEpochError)
            models = len(surroundings.steps())
            surroundings.submit(range(400, 500))
            until(lambda: second.done() or len(surroundings.steps()) > models)
        second.result()
    assert surroundings.steps() == sorted(set(surroundings.steps()))


def test_beside_an_older_dump_of_postgres_nothing_new_is_deleted(
    surroundings: Surroundings, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    """The fence of the dump is behind the checkpoints, whose names begin with its epoch."""
    checkpoints = CheckpointFolder(tmp_path / "checkpoints" / "loop")
    name = surroundings.trainer_url.split("?")[0].rpartition("/")[2]
    programs, dump = find_programs().folder, tmp_path / "dump"
    superuser = postgres.url("superuser", name)
    surroundings.submit(range(60))
    surroundings.train_until(lambda: len(surroundings.steps()) >= 2)
    subprocess.run([programs / "pg_dump", "-Fc", "-f", dump, superuser], check=True)
    for more in range(2):
        surroundings.submit(range(60 + 40 * more, 100 + 40 * more))
        models = len(surroundings.steps())
        surroundings.train_until(lambda models=models: len(surroundings.steps()) > models)
    assert checkpoints.newest_epoch() == 3
    newest = checkpoints.newest()
    assert newest is not None

    server = postgres.url("superuser", "postgres")
    admin = psycopg2.connect(server)
    admin.autocommit = True
    with admin.cursor() as cursor:
        cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    admin.close()
    subprocess.run([programs / "pg_restore", "--create", "-d", server, dump], check=True)
    surroundings.database.wait_ready(DEADLINE)
    assert surroundings.query("SELECT epoch FROM fences") == [(1,)]
    surroundings.submit(range(300, 440))
    further = newest.state.step + 10
    surroundings.train_until(lambda: max(surroundings.steps()) >= further)
    assert surroundings.query("SELECT epoch FROM fences") == [(4,)]
    after = checkpoints.newest()
    assert after is not None
    assert after.path.name.startswith("checkpoint-000004-")
    assert after.state.step >= further
    metrics = {"policy_loss": 1.0, "value_loss": 1.0}
    for epoch in range(1, 4):  # the trainers from before, should one be there still
        with pytest.raises(StaleEpochError):
            surroundings.database.insert_train_metrics("loop", 1, "train", metrics, epoch)


def test_valkey_away_changes_nothing(surroundings: Surroundings) -> None:
    surroundings.submit(range(60))
    away = replace(surroundings, valkey_url="redis://127.0.0.1:1/0")
    away.train_until(lambda: len(away.steps()) >= 2)


def test_lost_checkpoints_are_not_papered_over(surroundings: Surroundings) -> None:
    surroundings.submit(range(60))
    surroundings.train_until(lambda: len(surroundings.steps()) >= 2)
    for path in (surroundings.folder / "checkpoints" / "loop").iterdir():
        path.write_bytes(b"")
    with (
        surroundings.training() as running,
        pytest.raises(ConfigError, match="no whole checkpoint"),
    ):
        running.result(timeout=DEADLINE)


def test_a_newer_torn_checkpoint_falls_back(surroundings: Surroundings) -> None:
    surroundings.submit(range(60))
    surroundings.train_until(lambda: len(surroundings.steps()) >= 3)
    folder = surroundings.folder / "checkpoints" / "loop"
    newest = max(folder.glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-1])
    models = surroundings.steps()
    surroundings.submit(range(60, 120))
    surroundings.train_until(lambda: len(surroundings.steps()) > len(models))
    assert surroundings.steps() == [PUBLISH * i for i in range(len(surroundings.steps()))]


def test_a_run_that_diverged_goes_on_with_a_lower_learning_rate(surroundings: Surroundings) -> None:
    surroundings.run = a_run(learning_rate=[1e6], checkpoint_every_steps=1, warmup_samples=0)
    surroundings.submit(range(60))
    with surroundings.training() as running:
        until(running.done)
    with pytest.raises(
        ConfigError, match=r"not finite at step .*continues from the last checkpoint"
    ):
        running.result()
    saved = surroundings.saved_step()
    surroundings.run = a_run(checkpoint_every_steps=1)
    surroundings.train_until(lambda: surroundings.saved_step() > saved + 2)


def test_a_trainer_with_an_absurd_loss_says_once_that_it_keeps_no_checkpoint(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    surroundings.submit(range(60))
    surroundings.train_until(surroundings.idle)
    saved = surroundings.saved_step()
    monkeypatch.setattr(figures, "ABSURD_LOSS", 1e-9)
    monkeypatch.setattr(Checkpoints, "go_back", lambda *_: None)
    surroundings.submit(range(60, 160))
    with capture_logs() as logs:
        surroundings.train_until(surroundings.idle)
    assert surroundings.saved_step() == saved
    told = [entry for entry in logs if entry["event"] == "checkpoint_not_kept"]
    assert len(told) == 1
    assert "lower trainer.learning_rate (now 0." in told[0]["reason"]


def test_checkpoints_of_training_that_diverged_are_passed_over(surroundings: Surroundings) -> None:
    surroundings.submit(range(60))
    surroundings.train_until(surroundings.idle)
    folder = CheckpointFolder(surroundings.folder / "checkpoints" / "loop", keep=9)
    good = folder.newest()
    assert good is not None
    lost = {name: tensor * 1e30 for name, tensor in good.tensors.items()}  # as 1.0 kept them
    for step in (good.state.step + 1, good.state.step + 2):
        folder.write(replace(good.state, step=step), lost, epoch=9)
    surroundings.submit(range(100, 160))
    with surroundings.training():
        until(lambda: surroundings.saved_step() > good.state.step + 2)

    for path in folder.folder.glob("checkpoint-*"):
        path.unlink()
    folder.write(replace(good.state, step=good.state.step + 1), lost, epoch=99)
    with surroundings.training() as running:
        until(running.done)
    with pytest.raises(ConfigError, match=r"had diverged in every checkpoint .*start a new run"):
        running.result()
