"""Puts an exported graph into the form that a model file may have.

Torch's exporter leaves work to the runtime that depends on weights and sizes alone: it asks a
tensor for its shape, and computes the target of a reshape from it. A model file has no such nodes
(``zerofleet.models.operators``): every size is a number, and the number of positions is free. The
graph is exported for one number of positions, so all shapes are known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from zerofleet.errors import IncompatibleModelError

_Array = NDArray[Any]


def settle(model: ModelProto) -> ModelProto:
    """Replace what depends on sizes and weights alone by its value, and free the batch axis.

    Args:
        model: a graph that was exported for one number of positions; it is not changed.

    Returns:
        A graph with the same nodes elsewhere, for any number of positions.

    Raises:
        IncompatibleModelError: a node moves or mixes the axis of the positions.
    """
    settled = onnx.ModelProto()
    settled.CopyFrom(model)
    while True:  # a shape that was computed tells the shapes of what follows
        del settled.graph.value_info[:]
        settled = cast("Any", onnx.shape_inference).infer_shapes(settled, data_prop=True)
        settling = _Settling(settled.graph)
        if not settling.fold():
            break
    settling.rewrite()
    for value in (*settled.graph.input, *settled.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del settled.graph.value_info[:]
    return settled


class _Settling:
    """Rewrites the nodes of one graph in their order; changes the graph in place."""

    def __init__(self, graph: GraphProto) -> None:
        self._graph = graph
        self._shapes = dict(_shapes(graph))
        self._values = {each.name: each for each in graph.initializer}
        constants = (node for node in graph.node if node.op_type == "Constant")
        self._constants = {node.output[0]: node.attribute[0].t for node in constants}
        self._added = 0
        self._rewrite: dict[str, Callable[[NodeProto], list[NodeProto]]] = {
            "Concat": self._positive_axis,
            "Conv": self._padded,
            "Expand": self._expand,
            "Flatten": self._flatten,
            "Gather": self._positive_axis,
            "LayerNormalization": self._positive_axis,
            "LogSoftmax": self._positive_axis,
            "ReduceL2": self._positive_axes,
            "ReduceMax": self._positive_axes,
            "ReduceMean": self._positive_axes,
            "ReduceMin": self._positive_axes,
            "ReduceSum": self._axes_input,
            "Reshape": self._reshape,
            "Slice": self._slice,
            "Softmax": self._positive_axis,
            "Split": self._split,
            "Squeeze": self._squeeze,
            "Unsqueeze": self._unsqueeze,
        }

    def fold(self) -> bool:
        """Replace nodes by their values where these are known; return whether there were any."""
        kept = [node for node in self._graph.node if not self._folds(node)]
        has_folded = len(kept) < len(self._graph.node)
        self._replace(kept)
        return has_folded

    def rewrite(self) -> None:
        """Write the other nodes as the rules of a model file want them."""
        nodes: list[NodeProto] = []
        for node in self._graph.node:
            rewrite = self._rewrite.get(node.op_type)
            nodes += [node] if rewrite is None else rewrite(node)
        self._replace(nodes)

    def _replace(self, nodes: Sequence[NodeProto]) -> None:
        used = {name for node in nodes for name in node.input}
        used |= {value.name for value in self._graph.output}
        nodes = [node for node in nodes if set(node.output) & used]
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        kept = [each for each in self._values.values() if each.name in used]
        del self._graph.initializer[:]
        self._graph.initializer.extend(kept)

    def _folds(self, node: NodeProto) -> bool:
        """Compute a node whose inputs are all known, and return whether there was nothing else."""
        if node.op_type == "Shape" and (shape := self._shapes.get(node.input[0])):
            self._keep(node.output[0], np.array(shape, np.int64))
            return True
        names = [name for name in node.input if name]
        if not names or not all(map(self._is_constant, names)):
            return False
        named = {name: self._array(name) for name in names}
        outputs = cast("Any", ReferenceEvaluator(node)).run(None, named)
        for name, output in zip(node.output, outputs, strict=True):
            self._keep(name, np.asarray(output))
        return True

    def _is_constant(self, name: str) -> bool:
        return name in self._values or name in self._constants

    def _array(self, name: str) -> _Array:
        """Return the numbers of a constant."""
        tensor = self._values[name] if name in self._values else self._constants[name]
        return numpy_helper.to_array(tensor)

    def _keep(self, name: str, array: _Array) -> str:
        self._values[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        self._shapes[name] = array.shape
        return name

    def _numbers(self, node: NodeProto, numbers: Sequence[int]) -> str:
        """Add a constant of integers for a node; return its name."""
        self._added += 1
        name = f"{node.output[0]}/sizes{self._added}"
        return self._keep(name, np.array(numbers, np.int64))

    def _known(self, node: NodeProto, place: int) -> list[int] | None:
        if place >= len(node.input) or not node.input[place]:
            return None
        if not self._is_constant(node.input[place]):
            raise _refused(node, "it takes a size or an axis from the positions")
        return [int(number) for number in self._array(node.input[place]).reshape(-1)]

    def _shape(self, name: str, node: NodeProto) -> tuple[int, ...]:
        if name not in self._shapes:
            raise _refused(node, "its shape is not known from the sizes of the game")
        return self._shapes[name]

    def _inner(self, axis: int, node: NodeProto, added: int = 0) -> int:
        """Return an axis counted from the front."""
        axes = len(self._shape(node.input[0], node)) + added
        return axis + axes if axis < 0 else axis

    def _padded(self, node: NodeProto) -> list[NodeProto]:
        """Write the padding of a convolution that keeps the size as numbers."""
        named = {each.name: each for each in node.attribute}
        if "auto_pad" in named and named["auto_pad"].s.startswith(b"SAME"):
            kernel = self._shape(node.input[1], node)[2:]
            node.attribute.remove(named["auto_pad"])
            if "pads" in named:
                node.attribute.remove(named["pads"])
            pads = [(size - 1) // 2 for size in kernel] + [size // 2 for size in kernel]
            node.attribute.append(helper.make_attribute("pads", pads))
        return [node]

    def _positive_axis(self, node: NodeProto) -> list[NodeProto]:
        usual = {"Gather": 0}.get(node.op_type, -1)
        [axis] = [each for each in node.attribute if each.name == "axis"] or [None]
        if axis is None:
            axis = node.attribute.add()
            axis.CopyFrom(helper.make_attribute("axis", usual))
        axis.i = self._inner(axis.i, node)
        return [node]

    def _positive_axes(self, node: NodeProto) -> list[NodeProto]:
        for attribute in node.attribute:
            if attribute.name == "axes":
                attribute.ints[:] = [self._inner(axis, node) for axis in attribute.ints]
        return [node]

    def _axes_input(self, node: NodeProto) -> list[NodeProto]:
        axes = self._known(node, 1)
        if axes is None:
            raise _refused(node, "it sums over the axis of the positions")
        node.input[1] = self._numbers(node, [self._inner(axis, node) for axis in axes])
        return [node]

    def _squeeze(self, node: NodeProto) -> list[NodeProto]:
        axes = self._known(node, 1)
        if axes is None:
            sizes = self._shape(node.input[0], node)
            axes = [axis for axis, size in enumerate(sizes) if size == 1]
            node.input.append("")
        if not axes:
            return [helper.make_node("Identity", node.input[:1], node.output, node.name)]
        node.input[1] = self._numbers(node, [self._inner(axis, node) for axis in axes])
        return [node]

    def _unsqueeze(self, node: NodeProto) -> list[NodeProto]:
        axes = self._known(node, 1) or []
        last, nodes = node.input[0], list[NodeProto]()
        for axis in sorted(self._inner(axis, node, len(axes)) for axis in axes):
            is_last = len(nodes) == len(axes) - 1
            output = node.output[0] if is_last else f"{node.output[0]}/axis{axis}"
            place = self._numbers(node, [axis])
            nodes.append(helper.make_node("Unsqueeze", [last, place], [output], output))
            last = output
        return nodes

    def _reshape(self, node: NodeProto) -> list[NodeProto]:
        sizes = self._shape(node.output[0], node)
        node.input[1] = self._numbers(node, [-1, *sizes[1:]])
        del node.attribute[:]
        return [node]

    def _flatten(self, node: NodeProto) -> list[NodeProto]:
        axis = next((each.i for each in node.attribute if each.name == "axis"), 1)
        if self._inner(axis, node) != 1:
            raise _refused(node, "it joins the axis of the positions with another")
        return [helper.make_node("Flatten", node.input, node.output, node.name, axis=1)]

    def _expand(self, node: NodeProto) -> list[NodeProto]:
        _, *sizes = self._shape(node.output[0], node)
        node.input[1] = self._numbers(node, [1, *sizes])
        return [node]

    def _slice(self, node: NodeProto) -> list[NodeProto]:
        starts, ends = self._known(node, 1) or [], self._known(node, 2) or []
        axes = self._known(node, 3) or list(range(len(starts)))
        steps = self._known(node, 4) or [1] * len(starts)
        parts = (starts, ends, [self._inner(axis, node) for axis in axes], steps)
        del node.input[1:]
        node.input.extend(self._numbers(node, each) for each in parts)
        return [node]

    def _split(self, node: NodeProto) -> list[NodeProto]:
        """Return a slice for each part."""
        axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
        axis, start, nodes = self._inner(axis, node), 0, list[NodeProto]()
        for output in node.output:
            end = start + self._shape(output, node)[axis]
            places = [self._numbers(node, [each]) for each in (start, end, axis, 1)]
            nodes.append(helper.make_node("Slice", [node.input[0], *places], [output], output))
            start = end
        return nodes


def _refused(node: NodeProto, reason: str) -> IncompatibleModelError:
    return IncompatibleModelError(f"node {node.name!r} ({node.op_type}): {reason}")


def _shapes(graph: GraphProto) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the names and shapes of all tensors whose sizes are all known."""
    for tensor in graph.initializer:
        yield tensor.name, tuple(tensor.dims)
    for value in (*graph.input, *graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if all(dim.HasField("dim_value") for dim in dims):
            yield value.name, tuple(dim.dim_value for dim in dims)
