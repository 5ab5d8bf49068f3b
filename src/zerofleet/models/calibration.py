"""What the tensors of a model hold on real positions, so that 8 bits can be dealt out to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

from zerofleet.errors import IncompatibleModelError
from zerofleet.models.runtime import open_runtime
from zerofleet.models.shape import INPUT

_BATCH = 32  # positions: what lies between two layers of a large network is large


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """A tensor over all positions."""

    least: float
    greatest: float
    means: NDArray[np.float64]  # [channels] over positions and points


def observe(
    model: ModelProto, names: Sequence[str], observations: NDArray[np.uint8]
) -> dict[str, Observed]:
    """Run a model on positions and look at some of its tensors.

    Args:
        model: any model of ours.
        names: tensors ``[batch, channels, rows, columns]`` in it.
        observations: ``[positions, observation_bytes]`` uint8.

    Raises:
        IncompatibleModelError: a number is not finite.
        ValueError: no positions.
    """
    if not len(observations):
        raise ValueError("a model cannot be quantized without positions of calibration")
    watched, outputs = _watched(model, names)
    # One thread: self-play and inference may run on the same machine.
    session = open_runtime(watched, [("CPUExecutionProvider", {})], threads=1)
    batches, sizes = list[Sequence[NDArray[np.float32]]](), list[int]()
    for batch in _batches(observations):
        batches.append(cast("Sequence[NDArray[np.float32]]", session.run(outputs, {INPUT: batch})))
        sizes.append(len(batch))
    columns = [np.stack(column) for column in zip(*batches, strict=True)]  # each [batches, ...]
    least, greatest, means = columns[0::3], columns[1::3], columns[2::3]
    observed = {
        name: Observed(
            float(least[i].min()),
            float(greatest[i].max()),
            np.average(means[i].astype(np.float64), axis=0, weights=sizes),
        )
        for i, name in enumerate(names)
    }
    if not all(np.isfinite([each.least, each.greatest]).all() for each in observed.values()):
        raise IncompatibleModelError("the model computes numbers that are not finite")
    return observed


def _watched(model: ModelProto, names: Sequence[str]) -> tuple[bytes, list[str]]:
    """The model with three more outputs for each tensor: least, greatest, means by channel."""
    watched = ModelProto()
    watched.CopyFrom(model)
    outputs: list[str] = []
    for name in names:
        for operator in ("ReduceMin", "ReduceMax", "ReduceMean"):
            output = f"{name}/{operator}"
            node = helper.make_node(operator, [name], [output], keepdims=0)
            if operator == "ReduceMean":
                node.attribute.append(helper.make_attribute("axes", [0, 2, 3]))
            watched.graph.node.append(node)
            watched.graph.output.append(
                helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
            )
            outputs.append(output)
    return watched.SerializeToString(), outputs


def _batches(observations: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    for start in range(0, len(observations), _BATCH):
        yield np.ascontiguousarray(observations[start : start + _BATCH])
