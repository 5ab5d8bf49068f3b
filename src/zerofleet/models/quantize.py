"""Models in fewer bits, made from an fp32 one: int8 for CPUs, fp16 for GPUs.

int8: where a ``QuantizeLinear`` meets a ``DequantizeLinear`` a tensor is in 8 bits, and a runtime
with integer kernels computes in integers what stands between such pairs. Here that is the tower
behind the first convolution: convolutions of more than one point, the additions around them, and
the gates and biases that see the whole board. The first convolution and both heads are left out:
they cost little, and logits of 8 bits tie. Activations are unsigned, with one scale for each
tensor, from the least to the greatest value on positions of calibration. Weights are signed, with
one scale for each output channel.

fp16: weights and all that is computed are in half precision. Input and outputs are the same
as in every model file: policy logits in fp16 and the value in fp32.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from zerofleet.errors import IncompatibleModelError
from zerofleet.models.graph import check_graph
from zerofleet.models.runtime import open_runtime
from zerofleet.prediction import OBSERVATION, VALUE

_ACTIVATION_MAX = 255
_WEIGHT_MAX = 127
_BATCH = 32  # positions: what lies between two layers of a large network is large
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
    """Scale of a tensor: a byte means ``(byte - zero) * step``."""

    step: np.float32
    zero: np.uint8

    @classmethod
    def of(cls, observed: Observed) -> _Scale:
        """Return the scale that covers the observed range and represents 0 exactly.

        Borders are padded with 0.
        """
        least, greatest = min(observed.least, 0.0), max(observed.greatest, 0.0)
        step = np.float32((greatest - least) / _ACTIVATION_MAX)
        if not step > 0:  # nothing but zeros was observed
            return cls(np.float32(1), np.uint8(0))
        return cls(step, np.uint8(np.rint(-least / step)))


class _Rewriting:
    """Puts pairs of quantization around the tensors of a tower; changes the graph in place."""

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


@dataclass(frozen=True, slots=True)
class Tower:
    """The nodes that compute in 8 bits and the tensors between them, by name."""

    convolutions: tuple[NodeProto, ...]
    tensors: tuple[str, ...]
    """Inputs and outputs of all nodes; of a rectified output the rectified tensor."""
    parts: dict[str, str]
    """Further tensors that are slices, by the tensor they are cut from."""
    rectified: dict[str, str]
    """The rectified tensor by the output before it, which only the rectification reads."""


def find_tower(graph: GraphProto) -> Tower:
    """Find the tower of a network as ``zerofleet.learning.export_onnx`` writes it.

    Raises:
        IncompatibleModelError: there is none.
    """
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    nodes = [
        node
        for node in _behind_the_first_convolution(graph)
        if (node.op_type == "Conv" and max(_kernel(node)) > 1 and _groups(node) == 1)
        or (node.op_type in {"Add", "Mul"} and constants.isdisjoint(node.input))
    ]
    convolutions = tuple(node for node in nodes if node.op_type == "Conv")
    if not convolutions:
        raise IncompatibleModelError(
            "the model has nothing to quantize: no convolution larger than 1x1 comes after the "
            "first one, apart from grouped ones"
        )
    rectified = _rectified(graph, {node.output[0] for node in nodes})
    inputs = [name for node in nodes for name in activations(node)]
    outputs = [rectified.get(node.output[0], node.output[0]) for node in nodes]
    makers = {node.output[0]: node for node in graph.node}
    parts = {name: makers[name].input[0] for name in inputs if makers[name].op_type == "Slice"}
    tensors = dict.fromkeys([*inputs, *outputs])  # each once, in a fixed order
    return Tower(
        convolutions, tuple(name for name in tensors if name not in parts), parts, rectified
    )


def _groups(node: NodeProto) -> int:
    return next((each.i for each in node.attribute if each.name == "group"), 1)


def activations(node: NodeProto) -> Sequence[str]:
    """The inputs of a node of the tower that are no weights."""
    return node.input[:1] if node.op_type == "Conv" else node.input


def _behind_the_first_convolution(graph: GraphProto) -> list[NodeProto]:
    nodes = list(graph.node)
    first = next((place for place, node in enumerate(nodes) if node.op_type == "Conv"), len(nodes))
    return nodes[first + 1 :]


def _kernel(node: NodeProto) -> Sequence[int]:
    return next(attribute.ints for attribute in node.attribute if attribute.name == "kernel_shape")


def _rectified(graph: GraphProto, outputs: set[str]) -> dict[str, str]:
    readers: dict[str, list[NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
    return {
        name: readers[name][0].output[0]
        for name in outputs
        if len(readers[name]) == 1 and readers[name][0].op_type == "Relu"
    }


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
        batches.append(
            cast("Sequence[NDArray[np.float32]]", session.run(outputs, {OBSERVATION: batch}))
        )
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


def to_fp16(model_bytes: bytes) -> bytes:
    """Write an fp32 model of ours again in half precision.

    Args:
        model_bytes: a model as ``zerofleet.learning.export_onnx`` writes it.

    Returns:
        A model with the same input and outputs.

    Raises:
        IncompatibleModelError: a weight is beyond half precision.
    """
    model = onnx.load_model_from_string(model_bytes)
    for tensor in model.graph.initializer:
        _halve(tensor)
    for node in model.graph.node:
        _halve_inside(node)
        for place, name in enumerate(node.output):
            if name == VALUE:
                node.output[place] = f"{VALUE}/half"
    del model.graph.value_info[:]
    model.graph.node.append(
        helper.make_node("Cast", [f"{VALUE}/half"], [VALUE], "widen", to=TensorProto.FLOAT)
    )
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    helper.set_model_props(model, metadata | {"precision": "fp16"})
    cast("Any", onnx.checker).check_model(model, full_check=True)
    halved = model.SerializeToString()
    check_graph(halved)
    return halved


def _halve_inside(node: NodeProto) -> None:
    """Constants become half precision, and what was cast to fp32 is cast to fp16."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            _halve(attribute.t)
        elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.FLOAT16


def _halve(tensor: TensorProto) -> None:
    if tensor.data_type != TensorProto.FLOAT:
        return
    numbers = numpy_helper.to_array(tensor)
    with np.errstate(over="ignore"):
        halved = numbers.astype(np.float16)
    if not np.isfinite(halved).all():
        raise IncompatibleModelError(
            f"a weight of {tensor.name} is {np.abs(numbers).max():g}, beyond half precision"
        )
    tensor.CopyFrom(numpy_helper.from_array(halved, tensor.name))
