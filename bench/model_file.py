"""Models for benchmarks: random weights or a run's model, in any precision."""

from __future__ import annotations

from pathlib import Path

from bench.games_played import random_positions
from bench.workloads import Workload
from zerofleet.errors import ConfigError

CALIBRATION_POSITIONS = 512


def model_bytes(workload: Workload, precision: str, file: Path | None = None) -> bytes:
    """Return an ONNX model of the workload's game.

    Args:
        workload: its game and its network.
        precision: one of ``PRECISIONS``; int8 is calibrated on positions of random play.
        file: model in fp32; None: a network with random weights, whose throughput says nothing
            about strength.

    Raises:
        ConfigError: the file cannot be read.
    """
    model = _random_weights(workload) if file is None else _read(file)
    if precision == "int8":
        from zerofleet.models.quantize import quantize_int8

        positions = random_positions(workload.game, CALIBRATION_POSITIONS, seed=2)
        return quantize_int8(model, positions)
    if precision == "fp16":
        from zerofleet.models.quantize import to_fp16

        return to_fp16(model)
    return model


def _random_weights(workload: Workload) -> bytes:
    # Only processes that make a model should import torch.
    from zerofleet.learning import export_onnx, make_network

    spec = workload.spec
    return export_onnx(make_network(spec, workload.network, seed=1), spec.observation_bytes, {})


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the model file {file}: {error.strerror}") from error
