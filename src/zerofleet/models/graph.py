"""What a model file may contain, told from its bytes before any runtime parses them.

A file's sha256 stands in Postgres. It proves that the bytes are those that were published, not
that they are harmless: a trainer that was taken over could publish anything, and each process
that loads models holds secrets that a trainer does not. Names of external files have made loaders
read any file of the machine, time and again (CVE-2022-25882, CVE-2024-27318); operators of other
domains and graphs inside graphs are more code to attack; damaged files have crashed the runtime.
ONNX Runtime has no allow-list of operators, and inference does not have onnx. So a file is first
read as plain protobuf, and refused unless all of it is what our exporter writes.
"""

from __future__ import annotations

from zerofleet.errors import IncompatibleModelError
from zerofleet.models.graph_cost import OPERATORS, Cost, graph_cost
from zerofleet.models.protobuf import fields

OPSET = 17  # operators mean other things in others

# Field numbers of onnx.proto3; only those that can carry a graph, an operator or a file name.
_MODEL_GRAPH, _MODEL_OPSET, _MODEL_FUNCTIONS = 7, 8, 25
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_SPARSE = 1, 5, 15
_NODE_OPERATOR, _NODE_ATTRIBUTE, _NODE_DOMAIN = 4, 5, 7
_ATTRIBUTE_TENSORS, _ATTRIBUTE_GRAPHS, _ATTRIBUTE_SPARSE = {5, 10}, {6, 11}, {22, 23}  # one, many
_TENSOR_TYPE, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 2, 13, 14
_FLOAT16 = 10
_DEFAULT_DOMAINS = (b"", b"ai.onnx")


def check_graph(model_bytes: bytes) -> Cost:
    """Refuse a model file with anything in it that our exporter does not write.

    Returns:
        The cost of a prediction.

    Raises:
        IncompatibleModelError: not a model at all, or one with external data, functions,
            subgraphs, sparse tensors, foreign domains or unknown operators; or it costs too much.
    """
    graphs, opsets = list[memoryview](), list[int]()
    for number, _, payload in fields(memoryview(model_bytes)):
        if number == _MODEL_GRAPH:
            graphs.append(payload)
            _check_nodes(payload)
        elif number == _MODEL_OPSET:
            _check_domain(payload, _OPSET_DOMAIN)
            opsets += [field.value for field in fields(payload) if field.number == _OPSET_VERSION]
        elif number == _MODEL_FUNCTIONS:
            raise IncompatibleModelError("the model defines functions of its own")
    if len(graphs) != 1:
        raise IncompatibleModelError("the file is not an ONNX model: it holds no graph")
    if opsets != [OPSET]:
        raise IncompatibleModelError(f"the model's operators are not those of opset {OPSET}")
    return graph_cost(graphs[0])


def has_half_weights(model_bytes: bytes) -> bool:
    """Whether a model that ``check_graph`` let pass keeps weights of 16 bits."""
    return any(
        field == _TENSOR_TYPE and value == _FLOAT16
        for number, _, graph in fields(memoryview(model_bytes))
        if number == _MODEL_GRAPH
        for part, _, tensor in fields(graph)
        if part == _GRAPH_INITIALIZER
        for field, value, _ in fields(tensor)
    )


def _check_nodes(graph: memoryview) -> None:
    for number, _, payload in fields(graph):
        if number == _GRAPH_NODE:
            _check_node(payload)
        elif number == _GRAPH_INITIALIZER:
            _check_tensor(payload)
        elif number == _GRAPH_SPARSE:
            raise IncompatibleModelError("the model holds sparse tensors")


def _check_node(node: memoryview) -> None:
    operator = ""
    for number, _, payload in fields(node):
        if number == _NODE_OPERATOR:
            operator = bytes(payload).decode("utf-8", "replace")
        elif number == _NODE_ATTRIBUTE:
            _check_attribute(payload)
    _check_domain(node, _NODE_DOMAIN)
    if operator not in OPERATORS:
        raise IncompatibleModelError(f"the model uses the operator {operator[:60]!r}")


def _check_attribute(attribute: memoryview) -> None:
    for number, _, payload in fields(attribute):
        if number in _ATTRIBUTE_GRAPHS:
            raise IncompatibleModelError("the model holds a graph inside a graph")
        if number in _ATTRIBUTE_SPARSE:
            raise IncompatibleModelError("the model holds sparse tensors")
        if number in _ATTRIBUTE_TENSORS:
            _check_tensor(payload)


def _check_tensor(tensor: memoryview) -> None:
    for number, value, _ in fields(tensor):
        if number == _TENSOR_EXTERNAL or (number == _TENSOR_LOCATION and value != 0):
            raise IncompatibleModelError("the model keeps weights in another file")


def _check_domain(message: memoryview, domain_field: int) -> None:
    for number, _, payload in fields(message):
        if number == domain_field and bytes(payload) not in _DEFAULT_DOMAINS:
            domain = bytes(payload).decode("utf-8", "replace")
            raise IncompatibleModelError(f"the model uses the operator domain {domain[:60]!r}")
