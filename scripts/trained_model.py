"""Make a trained model of the package from a run: ``python scripts/trained_model.py DATA``.

It writes ``src/zerofleet/trained/NAME`` from the newest checkpoint of a data folder: the model, its
weights, its run file, and ``model.toml`` with the revision, the seed, the cost and the exam. What
follows ``--`` are options of ``zerofleet exam``, such as ``--positions 1000``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import tomlkit
import torch
from safetensors.torch import load

import zerofleet
from zerofleet import games
from zerofleet.config import Overrides, load_run
from zerofleet.learning import export_onnx, make_network
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.start import LastCheckpoint
from zerofleet.local.trained_models import MODELS, TrainedModel, published_weights

MOST_BYTES = 1_500_000
"""Largest file of a trained model."""
LICENCE = "Apache-2.0"


def main() -> int:
    """Write the folder, then examine its model; the exit status of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, metavar="DATA", help="data folder of a stopped run")
    parser.add_argument("exam", nargs="*", metavar="EXAM", help="options of zerofleet exam")
    options = parser.parse_args()
    folder = DataFolder.open(options.data)
    run = load_run(folder.run_file, Overrides())
    checkpoint = LastCheckpoint.read(folder.checkpoints / folder.run)
    if checkpoint is None:
        print(f"{options.data} has no checkpoint", file=sys.stderr)
        return 1
    target = MODELS / run.name
    target.mkdir(parents=True, exist_ok=True)
    weights = published_weights(checkpoint.path.with_suffix(".safetensors").read_bytes())
    (target / "weights.safetensors").write_bytes(weights)
    shutil.copyfile(folder.run_file, target / "run.toml")

    spec = games.spec(run.game.name)
    network = make_network(spec, run.network, run.seed)
    names = network.state_dict()
    tensors = {name.removeprefix("network."): each for name, each in load(weights).items()}
    network.load_state_dict({name: tensors[name] for name in names})
    network.eval()
    torch.set_num_threads(1)
    about: dict[str, Any] = {
        "game": run.game.name,
        "seed": run.seed,
        "zerofleet": zerofleet.__version__,
        "revision": revision(),
        "licence": LICENCE,
        "steps": checkpoint.step,
        "samples": checkpoint.samples,
        "minutes": round(checkpoint.seconds / 60, 1),
        **usage(folder),
    }
    metadata = {
        "run": run.name,
        "game": run.game.name,
        "version": "1",
        "step": str(checkpoint.step),
    }
    (target / "model.onnx").write_bytes(export_onnx(network, spec.observation_bytes, metadata))
    (target / "model.toml").write_text(tomlkit.dumps(about), encoding="utf-8")
    about["exam"] = exam(run.name, options.exam)
    (target / "model.toml").write_text(tomlkit.dumps(about), encoding="utf-8")
    sizes = {path.name: path.stat().st_size for path in sorted(target.iterdir())}
    print(json.dumps(sizes), tomlkit.dumps(about), sep="\n")
    too_large = [name for name, size in sizes.items() if size > MOST_BYTES]
    if too_large:
        print(f"over {MOST_BYTES:,} bytes: {', '.join(too_large)}", file=sys.stderr)
    return 1 if too_large else 0


def revision() -> str:
    """Return the commit of this checkout."""
    git = ["git", "rev-parse", "HEAD"]
    return subprocess.run(
        git, cwd=MODELS, check=True, capture_output=True, text=True
    ).stdout.strip()


def usage(folder: DataFolder) -> dict[str, float]:
    """Return the CPU-seconds of the run since its first game, if the folder counts them."""
    path = folder.usage_file
    if not path.exists():
        return {}
    return {"cpu_seconds": round(json.loads(path.read_text(encoding="utf-8"))["cpu_seconds"])}


def exam(name: str, options: list[str]) -> list[str]:
    """Examine the model in the data folder that serves it; return the lines of the report."""
    root = TrainedModel(name).data_folder().root
    command = [sys.executable, "-P", "-m", "zerofleet.cli", "exam", "--data", str(root), *options]
    report = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return report.strip().splitlines()


if __name__ == "__main__":
    sys.exit(main())
