"""Which part of an exported network is worth computing in 8 bits, found in its graph.

That is the tower behind its first convolution: convolutions of more than one point, the additions
around them, and the gates and biases that see the whole board. The first convolution and both heads
are left out: they cost little, and logits of 8 bits tie.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from onnx import GraphProto, NodeProto

from zerofleet.errors import IncompatibleModelError


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

    Args:
        graph: copies of initializers under another name are removed from it, which is how the
            exporter writes equal biases.

    Raises:
        IncompatibleModelError: there is none.
    """
    _remove_copies(graph)
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    nodes = [
        node
        for node in _behind_the_first_convolution(graph)
        if (node.op_type == "Conv" and max(_kernel(node)) > 1)
        or (node.op_type in {"Add", "Mul"} and constants.isdisjoint(node.input))
    ]
    convolutions = tuple(node for node in nodes if node.op_type == "Conv")
    if not convolutions:
        raise IncompatibleModelError(
            "the model has nothing to quantize: it is a first convolution and heads, without blocks"
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


def activations(node: NodeProto) -> Sequence[str]:
    """The inputs of a node of the tower that are no weights."""
    return node.input[:1] if node.op_type == "Conv" else node.input


def _remove_copies(graph: GraphProto) -> None:
    initializers = {tensor.name for tensor in graph.initializer}
    originals = {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "Identity" and node.input[0] in initializers
    }
    kept = [node for node in graph.node if node.output[0] not in originals]
    for node in kept:
        for place, name in enumerate(node.input):
            node.input[place] = originals.get(name, name)
    del graph.node[:]
    graph.node.extend(kept)


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
