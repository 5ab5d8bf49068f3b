"""An int8 model out of an fp32 one, for processors that multiply bytes faster than floats.

Where a ``QuantizeLinear`` meets a ``DequantizeLinear`` a tensor is in 8 bits, and a runtime with
integer kernels computes in integers what stands between such pairs: here the tower (see
``zerofleet.models.tower``). Activations are unsigned, with one scale for each tensor, from the
least to the greatest value on positions of calibration; weights are signed, with one scale for each
output channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, helper, numpy_helper

from zerofleet.models.calibration import Observed, observe
from zerofleet.models.graph import check_graph
from zerofleet.models.tower import Tower, find_tower

_ACTIVATION_MAX = 255
_WEIGHT_MAX = 127
_BIAS_MAX = 2**30  # half of int32: products are added to it


def quantize_int8(model_bytes: bytes, calibration: NDArray[np.uint8]) -> bytes:
    """Write an fp32 model of ours again with its tower in 8 bits.

    Args:
        model_bytes: a model as ``zerofleet.learning.export_onnx`` writes it.
        calibration: ``[positions, observation_bytes]`` uint8, positions of the kind that the model
            will see.

    Returns:
        A model with the same input and outputs.

    Raises:
        IncompatibleModelError: the model has no tower, or computes numbers that are not finite.
        ValueError: there are no positions.
    """
    model = onnx.load_model_from_string(model_bytes)
    tower = find_tower(model.graph)
    observed = observe(model, tower.tensors, calibration)
    _Rewriting(model.graph, tower, observed).rewrite()
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    helper.set_model_props(model, metadata | {"precision": "int8"})
    cast("Any", onnx.checker).check_model(model)
    quantized = model.SerializeToString()
    check_graph(quantized)
    return quantized


@dataclass(frozen=True, slots=True)
class _Scale:
    """What a byte of a tensor stands for: ``(byte - zero) * step``."""

    step: np.float32
    zero: np.uint8

    @classmethod
    def of(cls, observed: Observed) -> _Scale:
        """For all that was observed, and for 0, exactly: borders are padded with it."""
        least, greatest = min(observed.least, 0.0), max(observed.greatest, 0.0)
        step = np.float32((greatest - least) / _ACTIVATION_MAX)
        if not step > 0:  # nothing but zeros was observed
            return cls(np.float32(1), np.uint8(0))
        return cls(step, np.uint8(np.rint(-least / step)))


class _Rewriting:
    """Puts pairs of quantization around the tensors of a tower.

    Args:
        graph: changed in place.
        tower: of the graph.
        observed: its tensors.
    """

    def __init__(self, graph: GraphProto, tower: Tower, observed: Mapping[str, Observed]) -> None:
        self._graph = graph
        self._tower = tower
        self._observed = observed
        scales = {name: _Scale.of(each) for name, each in observed.items()}
        # A slice has the scale of the whole, so that a runtime may slice bytes.
        self._scales = scales | {part: scales[whole] for part, whole in tower.parts.items()}
        self._weights = {tensor.name: tensor for tensor in graph.initializer}

    def rewrite(self) -> None:
        """Make everything of the tower 8 bits wide."""
        weights = [made for node in self._tower.convolutions for made in self._convolution(node)]
        rectified = self._tower.rectified
        nodes: list[NodeProto] = []
        for node in self._graph.node:
            if node.op_type == "Relu" and node.output[0] in rectified.values():
                continue  # bytes that begin at 0 do the same
            node.output[0] = rectified.get(node.output[0], node.output[0])
            for place, name in enumerate(node.input):
                if name in self._scales:
                    node.input[place] = f"{name}/float"
            nodes.append(node)
            if node.output[0] in self._scales:
                nodes += self._pair(node.output[0])
        del self._graph.node[:]
        self._graph.node.extend([*weights, *nodes])
        self._drop_unused()

    def _pair(self, name: str) -> list[NodeProto]:
        scale = self._scales[name]
        parameters = [
            self._constant(f"{name}/step", np.asarray(scale.step)),
            self._constant(f"{name}/zero", np.asarray(scale.zero)),
        ]
        return [
            helper.make_node("QuantizeLinear", [name, *parameters], [f"{name}/bytes"]),
            helper.make_node("DequantizeLinear", [f"{name}/bytes", *parameters], [f"{name}/float"]),
        ]

    def _convolution(self, node: NodeProto) -> list[NodeProto]:
        """Turn its weights and its bias to integers; returns what makes floats of them again."""
        source, weights_name, *bias_name = node.input
        weights = numpy_helper.to_array(self._weights[weights_name])
        bias = np.zeros(len(weights), np.float32)
        if bias_name:
            bias = numpy_helper.to_array(self._weights[bias_name[0]])
        input_step = self._scales[source].step
        steps = np.abs(weights).max(axis=(1, 2, 3)) / _WEIGHT_MAX
        # A channel of tiny weights would want a bias beyond int32: its weights become coarser.
        steps = np.maximum(steps, np.abs(bias) / (input_step * _BIAS_MAX))
        steps = np.where(steps > 0, steps, 1).astype(np.float32)  # [outputs]
        integers = np.rint(weights / steps[:, None, None, None]).astype(np.int8)
        # Rounding the weights of a channel shifts its mean: the bias takes that back (Nagel et al.
        # 2019, arXiv 1906.04721, section 4.2).
        lost = (weights - integers * steps[:, None, None, None]).sum(axis=(2, 3))
        bias = bias + lost @ self._observed[source].means
        bias_steps = steps * input_step
        parts = {
            "weights": (integers, steps, np.zeros(len(steps), np.int8)),
            "bias": (np.rint(bias / bias_steps).astype(np.int32), bias_steps),
        }
        del node.input[1:]
        node.input.extend(f"{node.name}/{part}/float" for part in parts)
        return [
            helper.make_node(
                "DequantizeLinear",
                [
                    self._constant(f"{node.name}/{part}/{role}", values)
                    for role, values in zip(("integers", "step", "zero"), columns, strict=False)
                ],
                [f"{node.name}/{part}/float"],
                axis=0,
            )
            for part, columns in parts.items()
        ]

    def _constant(self, name: str, values: NDArray[Any]) -> str:
        self._graph.initializer.append(numpy_helper.from_array(values, name))
        return name

    def _drop_unused(self) -> None:
        used = {name for node in self._graph.node for name in node.input}
        kept = [tensor for tensor in self._graph.initializer if tensor.name in used]
        del self._graph.initializer[:]
        self._graph.initializer.extend(kept)
