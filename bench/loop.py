"""Compare a whole run with ONNX Runtime alone and a bare training loop alone.

``python -m bench.loop runs/connect_four.toml`` starts ``zerofleet up`` in a temporary folder and
measures it after the second model. Then it stops the run, and measures one session of its newest
model and ``bench.train``'s bare loop on the same machine. The table has:

- the rates of the run, its CPU time by service, and the fill and the queue wait of its batches;
- ``bottleneck share``: the run's predictions per second, divided by the lower of two limits. One is
  inference alone; the other is the predictions that training alone can use.
- ``serial share``: the time that the two alone would need for the run's work, one after the other,
  as a share of the measured time. On a CPU it is a share of the time of all cores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import psutil
import torch
from rich.console import Console
from rich.table import Table

from bench.games_played import played_games, random_positions
from bench.processes import cpu_seconds
from bench.providers import PROVIDERS, provider_of
from bench.raw import RAW_BATCHES, Raw
from bench.report import WIDTH, Row, positive, run_main
from bench.soak import RunEndedError, running_fleet, service_of
from bench.train import bare_step, window_of
from bench.workloads import Workload
from zerofleet.config import RunConfig, load_run
from zerofleet.cpus import usable_cpus
from zerofleet.database import Database
from zerofleet.errors import ConfigError
from zerofleet.fleet.figures import InferenceFigures, SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.learning.learner import Team, keep_freed_memory
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.stores import joined
from zerofleet.models.folder import ModelFolder
from zerofleet.models.runtime import GPUS
from zerofleet.models.session import ModelSession, open_session

_POLL_SECONDS = 1.0
_START_SECONDS = 900.0
_BARE_SECONDS = 3.0
_BARE_GAMES = 200


@dataclass(slots=True)
class Samples:
    """Figures of a run: one entry for each reading, or for each process that sent a heartbeat."""

    rows_per_second: list[float] = field(default_factory=list[float])
    fill: list[float] = field(default_factory=list[float])
    queue_wait: list[float] = field(default_factory=list[float])
    training_positions: list[float] = field(default_factory=list[float])
    waiting: list[float] = field(default_factory=list[float])
    gpu_busy: list[float] = field(default_factory=list[float])
    steps: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    provider: str = "cpu"
    precision: str = "fp32"

    def add(self, now: float, beats: Sequence[Heartbeat]) -> None:
        """Add the heartbeats of one moment."""
        inference = [b.figures for b in beats if isinstance(b.figures, InferenceFigures)]
        workers = [b.figures for b in beats if isinstance(b.figures, SelfplayFigures)]
        self.rows_per_second.append(sum(each.rows_per_second for each in inference))
        for each in inference:
            self.provider, self.precision = each.provider or self.provider, each.precision or "fp32"
            if each.fill is not None:
                self.fill.append(each.fill)
            if each.queue_wait_per_compute is not None:
                self.queue_wait.append(each.queue_wait_per_compute)
        self.training_positions.append(sum(w.training_positions_per_second for w in workers))
        self.waiting += [each.waiting_share for each in workers]
        self.steps += [(now, b.progress) for b in beats if isinstance(b.figures, TrainerFigures)]

    @property
    def steps_per_second(self) -> float:
        """Gradient steps per second between the first and the last heartbeat."""
        (start, first), (end, last) = self.steps[0], self.steps[-1]
        return (last - first) / (end - start) if end > start else 0.0


def main(argv: Sequence[str] | None = None) -> None:
    """Measure a run, and print the row."""
    # Without a handler, SIGTERM would end this process and leave `zerofleet up` running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse(argv)
    with tempfile.TemporaryDirectory(prefix="zerofleet-bench-") as folder:
        row = measure(options, options.data or Path(folder))
    if options.json:
        print(json.dumps(row), flush=True)
        return
    table = Table(title=f"{options.run_file}, {options.seconds:g} s", show_header=False)
    for name, value in row.items():
        number = isinstance(value, float)
        text = f"{value:,.0f}" if number and value >= 100 else f"{value:.3g}" if number else value
        table.add_row(name.replace("_", " "), str("-" if text is None else text))
    Console(width=WIDTH).print(table)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.loop",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_file", metavar="RUN.toml", type=Path, help="run file")
    parser.add_argument(
        "--seconds", type=positive(float), default=60.0, help="seconds of the measurement [60]"
    )
    parser.add_argument("--models", type=int, default=2, help="measure after this model [2]")
    parser.add_argument("--workers", type=int, default=1, help="number of self-play workers [1]")
    parser.add_argument("--provider", choices=PROVIDERS, help="execution provider [the run file's]")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a key of the run file; may be repeated",
    )
    parser.add_argument(
        "--data", metavar="FOLDER", type=Path, help="folder for the run's data and log [temporary]"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(argv)


def measure(options: argparse.Namespace, folder: Path) -> Row:
    """Measure a run, then inference and training alone; return the row.

    Args:
        options: the command line.
        folder: folder for the data and the log of the run.

    Raises:
        RunEndedError: the fleet ended by itself.
        ConfigError: the run did not start or did not publish its models in 15 minutes.
    """
    keys = [*options.set, *([f"inference.provider={options.provider}"] if options.provider else [])]
    arguments = [part for key in keys for part in ("--set", key)]
    samples, cpu = Samples(), defaultdict[str, float](float)
    with running_fleet(
        options.run_file, folder, *arguments, "--workers", str(options.workers)
    ) as fleet:
        data = _await_data_folder(fleet, folder)
        run = load_run(data.run_file)
        with (
            joined(data, "loop") as stores,
            Database(stores.database_urls["console"], pool_size=1) as database,
            contextlib.closing(Heartbeats(stores.redis_url, run.name)) as heartbeats,
        ):
            _await_models(fleet, folder, database, run, options.models)
            before = cpu_by_service(fleet.pid)
            start = time.monotonic()
            while (now := time.monotonic() - start) < options.seconds:
                _require_running(fleet, folder)
                samples.add(now, heartbeats.read())
                samples.gpu_busy += gpu_busy()
                _show_progress(f"measuring: {now:.0f} s of {options.seconds:.0f}")
                time.sleep(_POLL_SECONDS)
            wall = time.monotonic() - start
            for name, seconds in cpu_by_service(fleet.pid).items():
                cpu[name] = seconds - before.get(name, 0.0)
            newest = max(database.models(run.name), key=lambda row: row.version)
            variants = database.variants(run.name, newest.version)
    sha256 = {each.precision: each.sha256 for each in variants if each.accepted}
    model = ModelFolder(data.models, run.name).read_verified(
        sha256.get(samples.precision) or newest.sha256
    )
    _show_progress("measuring ONNX Runtime and training alone")
    workload = Workload("loop", run.game.name, run.network, 32, 40)
    return summary(
        run,
        samples,
        cpu,
        wall,
        bare_inference(workload, model, samples.provider),
        bare_training(workload, run),
    )


def summary(
    run: RunConfig,
    samples: Samples,
    cpu: dict[str, float],
    wall: float,
    inference: float,
    training: float,
) -> Row:
    """Compare the run with inference and training alone; return the row.

    Args:
        run: the run.
        samples: its figures during the measurement.
        cpu: CPU-seconds of each service.
        wall: seconds of the measurement.
        inference: positions per second of one session alone.
        training: steps per second of the bare loop alone.
    """
    rows, steps = fmean(samples.rows_per_second), samples.steps_per_second
    positions = fmean(samples.training_positions)
    batch, reuse = run.trainer.batch_size, run.trainer.samples_per_position
    cores = usable_cpus()
    is_gpu = samples.provider in GPUS
    # Predictions per second that training can use. A position is sampled ``reuse`` times, and it
    # takes ``rows / positions`` predictions to play one.
    usable = training * batch / reuse * (rows / positions) if positions else float("inf")
    serial_share = rows / inference + steps / training
    return {
        "bench": "loop",
        "run": run.name,
        "provider": samples.provider,
        "precision": samples.precision,
        "predictions_per_second": rows,
        "steps_per_second": steps,
        "training_positions_per_second": positions,
        "alone_predictions_per_second": inference,
        "alone_steps_per_second": training,
        "bottleneck_share": rows / min(inference, usable),
        "serial_share": serial_share if is_gpu else serial_share / cores,
        "batch_fill": fmean(samples.fill) if samples.fill else None,
        "queue_wait_per_compute": fmean(samples.queue_wait) if samples.queue_wait else None,
        "selfplay_waiting_share": fmean(samples.waiting) if samples.waiting else None,
        "gpu_busy": fmean(samples.gpu_busy) if samples.gpu_busy else None,
        **{f"cores_of_{name}": seconds / wall for name, seconds in sorted(cpu.items())},
    }


def bare_inference(workload: Workload, model: bytes, provider: str) -> float:
    """Return the positions per second of one session alone, at its best batch size.

    Args:
        workload: its game gives the positions.
        model: contents of the model file.
        provider: execution provider.
    """
    if provider in GPUS:
        session = open_session(model, workload.spec, provider_of(provider))
    else:
        session = ModelSession(model, workload.spec)
    observations = random_positions(workload.game, max(RAW_BATCHES), seed=3)
    raw = Raw(session, observations)
    raw.choose_batch(_BARE_SECONDS / len(RAW_BATCHES), time.monotonic)
    return raw.rate(_BARE_SECONDS, time.monotonic)


def bare_training(workload: Workload, run: RunConfig) -> float:
    """Return the steps per second of the bare loop, on the trainer's device, with its threads."""
    keep_freed_memory()
    torch.set_num_threads(run.trainer.threads)
    window = window_of(workload, run, played_games(workload, _BARE_GAMES, seed=5))
    step = bare_step(workload, run, window.sample(run.trainer.batch_size, 1, symmetry=False))
    step()
    start, steps = time.monotonic(), 0
    while time.monotonic() - start < _BARE_SECONDS:
        step()
        steps += 1
    if Team().device.type == "cuda":
        torch.cuda.synchronize()
    return steps / (time.monotonic() - start)


def cpu_by_service(pid: int) -> dict[str, float]:
    """Return the CPU-seconds of ``zerofleet up`` and its descendants, by service or program."""
    found = defaultdict[str, float](float)
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error, ProcessLookupError, FileNotFoundError):
            found[service_of(process)] += cpu_seconds(process.pid)
    found["up"] = cpu_seconds(pid)
    return found


def gpu_busy() -> list[float]:
    """Return each GPU's share of the last second with a kernel; empty without nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return [float(line) / 100 for line in output.split()]


def _await_data_folder(fleet: subprocess.Popen[bytes], folder: Path) -> DataFolder:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        _require_running(fleet, folder)
        with contextlib.suppress(ConfigError):
            data = DataFolder.open(folder / "data")
            if data.is_held() and data.run_file.exists():
                return data
        time.sleep(_POLL_SECONDS)
    raise ConfigError(
        f"zerofleet up did not start in {_START_SECONDS:g} s: pass --data FOLDER to keep its up.log"
    )


def _await_models(
    fleet: subprocess.Popen[bytes], folder: Path, database: Database, run: RunConfig, models: int
) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while (found := len(database.models(run.name))) < models:
        _require_running(fleet, folder)
        if time.monotonic() > deadline:
            raise ConfigError(
                f"zerofleet up published {found} of {models} models in {_START_SECONDS:g} s: lower "
                "trainer.publish_every_steps with --set, or lower --models"
            )
        _show_progress(f"waiting for model {models}; {found} published")
        time.sleep(_POLL_SECONDS)


def _require_running(fleet: subprocess.Popen[bytes], folder: Path) -> None:
    if fleet.poll() is not None:
        log = (folder / "up.log").read_text(errors="replace")[-2000:]
        raise RunEndedError(f"zerofleet up ended: {log}")


def _show_progress(text: str) -> None:
    print(f"{text:<70}", end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run_main(main)
