"""Model files: their interface, and a check of their bytes before any runtime parses them.

The sha256 in Postgres proves that the bytes are the published ones, not that they are
harmless. A trainer that was taken over could publish anything, and each process that loads models
holds secrets that a trainer does not. Names of external files have made loaders read any file of
the machine, time and again (CVE-2022-25882, CVE-2024-27318). Operators of other domains and graphs
inside graphs are more code to attack. Damaged files have crashed the runtime. ONNX Runtime has no
allow-list of operators, and inference does not have onnx. So a file is first read as plain
protobuf, and refused unless all of it is what our exporter writes.

The cost of a prediction is bounded, too: a file of a few kilobytes can make a runtime compute for
hours, or fill its memory, while it loads. ONNX Runtime folds what depends on constants alone, and a
session is tried before it serves. Each operator here has a rule for the shape of its output, so
sizes are known without computing anything. The first axis of whatever depends on the observations
is the batch, and no operator may touch it: a prediction costs the same in any batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from zerofleet.errors import IncompatibleModelError
from zerofleet.models.operators import INT64, ITEM_BYTES, OPERATORS, UINT8, TensorShape, kind_of
from zerofleet.prediction import OBSERVATION

OPSET = 17  # operators mean other things in others

# AlphaGo Zero's larger network on 19x19, 39 blocks of 256 channels, needs 17 billion operations and
# 18 million numbers; 32 million in int8, and 50 million with squeeze-excitation and pooling.
MOST_NODES = 1 << 14
MOST_NUMBERS = 1 << 26
MOST_OPERATIONS = 1 << 35

_MOST_CHARACTERS = 60  # an error repeats no more than this of a file's text
_KEYS = 1 << 32  # other readers cut a larger key of a field to 32 bits, and read another field

# Field numbers of onnx.proto3.
_MODEL_GRAPH, _MODEL_OPSET, _MODEL_FUNCTIONS = 7, 8, 25
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_SPARSE = 1, 5, 11, 15
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OPERATOR, _NODE_ATTRIBUTE = 1, 2, 3, 4, 5
_NODE_DOMAIN = 7
_ATTRIBUTE_NAME, _ATTRIBUTE_I, _ATTRIBUTE_T, _ATTRIBUTE_INTS, _ATTRIBUTE_TYPE = 1, 3, 5, 8, 20
_ATTRIBUTE_TENSORS, _ATTRIBUTE_GRAPHS, _ATTRIBUTE_SPARSE = {5, 10}, {6, 11}, {22, 23}  # one, many
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_RAW = 1, 2, 8, 9
_TENSOR_EXTERNAL, _TENSOR_LOCATION = 13, 14
_VALUE_NAME, _VALUE_TYPE, _TYPE_TENSOR, _TENSOR_SHAPE, _SHAPE_DIM = 1, 2, 1, 2, 1
_ELEMENT_TYPE, _DIM_VALUE, _DIM_PARAM = 1, 1, 2
_IS_FLOAT, _IS_INT, _IS_TENSOR, _IS_INTS = 1, 2, 4, 7  # types of attributes
_FLOAT16 = 10
_DEFAULT_DOMAINS = (b"", b"ai.onnx")


class ModelShape(Protocol):
    """The two sizes a model is checked against; ``zerofleet_core.GameSpec`` has them."""

    @property
    def observation_bytes(self) -> int:
        """Bytes of one bit-packed observation."""
        ...

    @property
    def num_actions(self) -> int:
        """Actions of the game, legal or not."""
        ...


@dataclass(frozen=True, slots=True)
class Shape:
    """The same two sizes as plain numbers, for a process that does not import the rules."""

    observation_bytes: int
    num_actions: int


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of predicting one position."""

    numbers: int  # in the outputs of all operators
    operations: int  # multiplications, and numbers read


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
        raise IncompatibleModelError(f"the model's operators do not belong to opset {OPSET}")
    return graph_cost(graphs[0])


def has_half_weights(model_bytes: bytes) -> bool:
    """Return whether a model that ``check_graph`` let pass keeps weights of 16 bits."""
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
        name = _text(node, _NODE_NAME)[:_MOST_CHARACTERS]
        where = f"node {name!r}: " if name else ""
        raise IncompatibleModelError(f"{where}the model uses the operator {operator[:60]!r}")


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


class Field(NamedTuple):
    """One field. Fields of fixed width come without content."""

    number: int
    value: int  # the number, for a varint
    payload: memoryview  # the content, for a length-delimited field


def fields(message: memoryview) -> Iterator[Field]:
    """Yield the fields of one message in order.

    Raises:
        IncompatibleModelError: this is no message, or it is cut off.
    """
    position, end, empty = 0, len(message), message[:0]
    while position < end:
        key, position = varint(message, position)
        if key >= _KEYS:
            raise IncompatibleModelError(
                "the file is not an ONNX model: a field's key is too large"
            )
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, position = varint(message, position)
            yield Field(number, value, empty)
            continue
        if wire_type == 2:
            size, position = varint(message, position)
        else:
            size = {1: 8, 5: 4}.get(wire_type, end)
        if position + size > end:
            raise IncompatibleModelError("the file is not an ONNX model, or is cut off")
        payload = message[position : position + size] if wire_type == 2 else empty
        yield Field(number, 0, payload)
        position += size


def varint(message: memoryview, position: int) -> tuple[int, int]:
    """Return the number that begins at a position, and the position after it.

    Raises:
        IncompatibleModelError: it is cut off or too long.
    """
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            break
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise IncompatibleModelError("the file is not an ONNX model, or is cut off")


def graph_cost(graph: memoryview) -> Cost:
    """Compute the cost of a graph of allowed operators.

    Raises:
        IncompatibleModelError: it costs more than the bounds above, its batch axis does not stay
            what it is, or a size is not known from the file alone.
    """
    tensors, nodes = dict[str, TensorShape](), list[memoryview]()
    for field in fields(graph):
        if field.number == _GRAPH_INPUT:
            name, shape = _graph_input(field.payload)
            _add(tensors, name, TensorShape(shape, kind=UINT8))
        elif field.number == _GRAPH_INITIALIZER:
            _add(tensors, _text(field.payload, _TENSOR_NAME), _constant(field.payload))
        elif field.number == _GRAPH_NODE:
            nodes.append(field.payload)
    if len(nodes) > MOST_NODES:
        raise IncompatibleModelError(f"the model has {len(nodes)} nodes, more than {MOST_NODES}")
    reader = _Reader(tensors)
    for node in nodes:
        reader.read(node)
    return Cost(reader.numbers, reader.operations)


class _Reader:
    """Follows the nodes in the order of the file, which is one in which they can be computed.

    Args:
        tensors: by name: the input and the weights.
    """

    def __init__(self, tensors: dict[str, TensorShape]) -> None:
        self._tensors = tensors
        # Numbers that may still be computed from constants alone: as many as the file holds.
        self._unfolded = sum(tensor.size for tensor in tensors.values() if tensor.constant)
        self.numbers = self.operations = 0

    def read(self, node: memoryview) -> None:
        """Add one node's cost."""
        operator = _text(node, _NODE_OPERATOR)
        name = _text(node, _NODE_NAME) or next(iter(_texts(node, _NODE_OUTPUT)), "")
        try:
            [output] = _texts(node, _NODE_OUTPUT)
            _add(self._tensors, output, self._output(operator, node))
        except (ValueError, IncompatibleModelError) as error:
            raise IncompatibleModelError(
                f"node {name[:_MOST_CHARACTERS]!r} ({operator}): {error}"
            ) from error

    def _output(self, operator: str, node: memoryview) -> TensorShape:
        rule, known = OPERATORS[operator]
        attributes = _attributes(node, known)
        names = _texts(node, _NODE_INPUT)
        if operator == "Clip":  # either bound may be left out
            names = [name for name in names if name]
        inputs = [self._find(name) for name in names]
        if operator == "Constant":
            value = attributes.get("value")
            if inputs or not isinstance(value, TensorShape):
                raise ValueError("it has no value")
            return value
        if all(tensor.constant for tensor in inputs):
            return self._folded(operator, inputs)
        shape, products = rule(attributes, inputs)
        if min(shape, default=1) < 1:
            raise ValueError("it computes nothing: a size is 0")
        self.numbers += math.prod(shape)
        self.operations += products + sum(t.size for t in inputs if not t.constant)
        if self.numbers > MOST_NUMBERS:
            raise ValueError(
                f"up to here, one position takes {self.numbers} numbers, more than {MOST_NUMBERS}"
            )
        if self.operations > MOST_OPERATIONS:
            raise ValueError(
                f"up to here, one position takes {self.operations} operations, "
                f"more than {MOST_OPERATIONS}"
            )
        return TensorShape(shape, kind=kind_of(operator, attributes, inputs))

    def _folded(self, operator: str, inputs: Sequence[TensorShape]) -> TensorShape:
        """The output of a node that a runtime computes when it loads the model."""
        if operator not in ("Identity", "DequantizeLinear") or not inputs:
            raise ValueError("it computes with constants alone, at load")
        self._unfolded -= inputs[0].size
        if self._unfolded < 0:
            raise ValueError("more numbers are computed from constants alone than the file holds")
        kind = kind_of(operator, {}, inputs)
        return TensorShape(inputs[0].shape, constant=True, kind=kind)

    def _find(self, name: str) -> TensorShape:
        if name not in self._tensors:
            raise ValueError(f"it reads {name[:_MOST_CHARACTERS]!r}, which comes later or never")
        return self._tensors[name]


def _add(tensors: dict[str, TensorShape], name: str, tensor: TensorShape) -> None:
    if name in tensors:
        raise IncompatibleModelError(f"two tensors are called {name[:_MOST_CHARACTERS]!r}")
    tensors[name] = tensor


def _graph_input(message: memoryview) -> tuple[str, tuple[int, ...]]:
    """Read the name of the model's input and the shape of one position."""
    name = _text(message, _VALUE_NAME)
    shape = message
    for number in (_VALUE_TYPE, _TYPE_TENSOR, _TENSOR_SHAPE):
        shape = _only(shape, number)
    kinds = [
        f.value
        for f in fields(_only(_only(message, _VALUE_TYPE), _TYPE_TENSOR))
        if f.number == _ELEMENT_TYPE
    ]
    dims = [list(fields(field.payload)) for field in fields(shape) if field.number == _SHAPE_DIM]
    # Other readers take the last of a field that is there twice.
    is_usual = [[field.number for field in dim] for dim in dims] == [[_DIM_PARAM], [_DIM_VALUE]]
    if name != OBSERVATION or kinds != [UINT8] or not is_usual:
        raise IncompatibleModelError(f"the model has the input {name[:_MOST_CHARACTERS]!r}")
    size = _signed(dims[1][0].value)
    if size < 1:
        raise IncompatibleModelError(f"the model's input has {size} bytes")
    return name, (size,)


def _constant(message: memoryview) -> TensorShape:
    """Read a tensor of the file, and its numbers if they may be a shape."""
    shape, kinds = list[int](), list[int]()
    for field in fields(message):
        if field.number == _TENSOR_DIMS:
            shape += _packed(field.payload) if len(field.payload) else [_signed(field.value)]
        elif field.number == _TENSOR_TYPE:
            kinds.append(field.value)
    raw = _only(message, _TENSOR_RAW)
    kind = kinds[0] if len(kinds) == 1 else 0
    if kind not in ITEM_BYTES or min(shape, default=1) < 1:
        raise IncompatibleModelError("the model holds weights of a foreign type, or of no size")
    if math.prod(shape) * ITEM_BYTES[kind] != len(raw):
        raise IncompatibleModelError("the model holds weights of another size than their shape")
    integers = tuple(memoryview(bytes(raw)).cast("q")) if kind == INT64 else None
    return TensorShape(tuple(shape), True, integers, kind)


def _attributes(
    node: memoryview, known: Sequence[str]
) -> dict[str, int | tuple[int, ...] | TensorShape]:
    found = dict[str, int | tuple[int, ...] | TensorShape]()
    for field in fields(node):
        if field.number != _NODE_ATTRIBUTE:
            continue
        name = _text(field.payload, _ATTRIBUTE_NAME)
        if name in found or name not in known:
            raise ValueError(f"it has the attribute {name[:_MOST_CHARACTERS]!r}")
        found[name] = _attribute(field.payload)
    return found


def _attribute(message: memoryview) -> int | tuple[int, ...] | TensorShape:
    """Read a value of the type that the attribute declares; of a float, that there is one."""
    kinds, numbers, lists = list[int](), list[int](), list[int]()
    for field in fields(message):
        if field.number == _ATTRIBUTE_TYPE:
            kinds.append(field.value)
        elif field.number == _ATTRIBUTE_I:
            numbers.append(_signed(field.value))
        elif field.number == _ATTRIBUTE_INTS:
            lists += _packed(field.payload) if len(field.payload) else [_signed(field.value)]
    if kinds == [_IS_INT] and len(numbers) == 1:
        return numbers[0]
    if kinds == [_IS_INTS]:
        return tuple(lists)
    if kinds == [_IS_TENSOR]:
        return _constant(_only(message, _ATTRIBUTE_T))
    if kinds == [_IS_FLOAT]:
        return ()
    raise ValueError("an attribute of it has a foreign type")


def _packed(payload: memoryview) -> list[int]:
    values, position = list[int](), 0
    while position < len(payload):
        value, position = varint(payload, position)
        values.append(_signed(value))
    return values


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _only(message: memoryview, number: int) -> memoryview:
    """A field that a message has once at most: parsers merge two of a kind."""
    found = [field.payload for field in fields(message) if field.number == number]
    if len(found) > 1:
        raise IncompatibleModelError("the file holds a field twice")
    return found[0] if found else message[:0]


def _text(message: memoryview, number: int) -> str:
    return bytes(_only(message, number)).decode("utf-8", "replace")


def _texts(message: memoryview, number: int) -> list[str]:
    return [
        bytes(field.payload).decode("utf-8", "replace")
        for field in fields(message)
        if field.number == number
    ]
