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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from zerofleet.errors import IncompatibleModelError
from zerofleet.prediction import OBSERVATION

OPSET = 17  # operators mean other things in others

# AlphaGo Zero's larger network on 19x19, 39 blocks of 256 channels, needs 17 billion operations and
# 18 million numbers; 32 million in int8, and 50 million with squeeze-excitation and pooling.
MOST_NODES = 1 << 14
MOST_NUMBERS = 1 << 26
MOST_OPERATIONS = 1 << 35

_MOST_KERNEL = 3  # a runtime may copy the input this many times, squared, for a convolution
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
_VALUE_NAME, _VALUE_TYPE, _TYPE_TENSOR, _TENSOR_SHAPE, _SHAPE_DIM, _DIM_VALUE = 1, 2, 1, 2, 1, 1
_IS_FLOAT, _IS_INT, _IS_TENSOR, _IS_INTS = 1, 2, 4, 7  # types of attributes
_INT64, _FLOAT16 = 7, 10
_ITEM_BYTES = {1: 4, 2: 1, 3: 1, 6: 4, _INT64: 8, _FLOAT16: 2}  # float, uint8, int8, int32, half
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


class _Tensor(NamedTuple):
    """A constant's shape, or the shape of one position's share of a tensor."""

    shape: tuple[int, ...]
    constant: bool = False
    integers: tuple[int, ...] | None = None  # the values, for a constant of 64-bit integers

    @property
    def size(self) -> int:
        return math.prod(self.shape)


_Attributes = Mapping[str, int | tuple[int, ...] | _Tensor]
_Answer = tuple[tuple[int, ...], int]
_Rule = Callable[[_Attributes, Sequence[_Tensor]], _Answer]
"""From attributes and inputs to the output's shape and the number of multiplications."""


class _Operator(NamedTuple):
    rule: _Rule
    attributes: tuple[str, ...] = ()


def graph_cost(graph: memoryview) -> Cost:
    """Compute the cost of a graph of allowed operators.

    Raises:
        IncompatibleModelError: it costs more than the bounds above, its batch axis does not stay
            what it is, or a size is not known from the file alone.
    """
    tensors, nodes = dict[str, _Tensor](), list[memoryview]()
    for field in fields(graph):
        if field.number == _GRAPH_INPUT:
            name, shape = _graph_input(field.payload)
            _add(tensors, name, _Tensor(shape))
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

    def __init__(self, tensors: dict[str, _Tensor]) -> None:
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

    def _output(self, operator: str, node: memoryview) -> _Tensor:
        rule, known = OPERATORS[operator]
        attributes = _attributes(node, known)
        inputs = [self._find(name) for name in _texts(node, _NODE_INPUT)]
        if operator == "Constant":
            value = attributes.get("value")
            if inputs or not isinstance(value, _Tensor):
                raise ValueError("it has no value")
            return value
        if all(tensor.constant for tensor in inputs):
            return self._folded(operator, inputs)
        shape, products = rule(attributes, inputs)
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
        return _Tensor(shape)

    def _folded(self, operator: str, inputs: Sequence[_Tensor]) -> _Tensor:
        """The output of a node that a runtime computes when it loads the model."""
        if operator not in ("Identity", "DequantizeLinear") or not inputs:
            raise ValueError("it computes with constants alone, at load")
        self._unfolded -= inputs[0].size
        if self._unfolded < 0:
            raise ValueError("more numbers are computed from constants alone than the file holds")
        return _Tensor(inputs[0].shape, constant=True)

    def _find(self, name: str) -> _Tensor:
        if name not in self._tensors:
            raise ValueError(f"it reads {name[:_MOST_CHARACTERS]!r}, which comes later or never")
        return self._tensors[name]


def _same(_: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    data, *others = inputs
    _need(not data.constant and all(other.constant for other in others), "its inputs are unusual")
    return data.shape, 0


def _cast(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    _need(attributes.get("to") in _ITEM_BYTES, "it casts to another type than numbers of ours")
    return _same(attributes, inputs)


def _elementwise(_: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    first, second = inputs
    if first.constant or second.constant:  # a constant of more axes would meet the batch's
        data, other = (second, first) if first.constant else (first, second)
        _need(len(other.shape) <= len(data.shape), "a constant meets the axis of the batch")
        missing = len(data.shape) - len(other.shape)
        first, second = data, _Tensor((1,) * missing + other.shape)
    _need(len(first.shape) == len(second.shape), "its inputs have different numbers of axes")
    pairs = list(zip(first.shape, second.shape, strict=True))
    _need(all(a == b or 1 in (a, b) for a, b in pairs), "the shapes of its inputs do not fit")
    return tuple(b if a == 1 else a for a, b in pairs), 0


def _conv(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    data, weights, *bias = inputs
    _same(attributes, inputs)
    _need(len(bias) <= 1, "it has too many inputs")
    _need(len(data.shape) == 3 and len(weights.shape) == 4, "its convolution is not over planes")
    channels, *board = data.shape
    outputs, weight_channels, *kernel = weights.shape
    _need(weight_channels == channels, "the shapes of its inputs do not fit")
    _need(max(kernel) <= _MOST_KERNEL, f"its kernel is larger than {_MOST_KERNEL}")
    ones, pads = (1, 1), _integers(attributes, "pads", (0, 0, 0, 0))
    _need(
        attributes.get("group", 1) == 1
        and attributes.get("strides", ones) == ones
        and attributes.get("dilations", ones) == ones
        and attributes.get("kernel_shape", tuple(kernel)) == tuple(kernel)
        and len(pads) == 4
        and all(0 <= pad < _MOST_KERNEL for pad in pads),
        "its convolution is unusual",
    )
    out = [board[axis] + pads[axis] + pads[axis + 2] - kernel[axis] + 1 for axis in (0, 1)]
    _need(min(out) > 0, "its kernel is larger than the board")
    return (outputs, *out), outputs * channels * math.prod((*kernel, *out))


def _gemm(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    data, weights, *bias = inputs
    _same(attributes, inputs)
    _need(len(bias) <= 1 and attributes.get("transA", 0) == 0, "its product is unusual")
    _need(all(len(b.shape) <= 1 for b in bias), "its bias has too many axes")
    if attributes.get("transB", 0) == 1:
        weights = _Tensor(weights.shape[::-1], constant=True)
    _need(len(data.shape) == 1, "its product is unusual")
    return _product(data, weights)


def _matmul(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    data, weights = inputs
    _same(attributes, inputs)
    return _product(data, weights)


def _product(data: _Tensor, weights: _Tensor) -> _Answer:
    _need(
        len(data.shape) >= 1 and len(weights.shape) == 2 and data.shape[-1] == weights.shape[0],
        "the shapes of its inputs do not fit",
    )
    return (*data.shape[:-1], weights.shape[1]), data.size * weights.shape[1]


def _gather(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    data, places = inputs
    axis = _integer(attributes, "axis", 0)
    if data.constant:
        _need(axis == 0 and len(data.shape) >= 1, "it gathers along another axis than the first")
        return places.shape + data.shape[1:], 0
    _need(places.constant, "it gathers one position's numbers by another's")
    _check_axes([axis], data)
    return data.shape[: axis - 1] + places.shape + data.shape[axis:], 0


def _flatten(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    [data] = inputs
    _check_axis_one(attributes)
    return (data.size,), 0


def _reshape(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    data, shape = inputs
    _same(attributes, inputs)
    batch, *rest = _known(shape)
    _need(
        batch == -1 and min(rest, default=1) > 0 and math.prod(rest) == data.size,
        "it changes the number of positions",
    )
    return tuple(rest), 0


def _slice(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    data, *places = inputs
    _same(attributes, inputs)
    starts, ends, axes, steps = map(_known, places)
    _need(set(steps) == {1} and len(set(axes)) == len(axes), "its slice is unusual")
    _check_axes(axes, data)
    sizes = list(data.shape)
    for start, end, axis in zip(starts, ends, axes, strict=True):
        sizes[axis - 1] = len(range(*slice(start, end).indices(sizes[axis - 1])))
    return tuple(sizes), 0


def _concat(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    axis = _integer(attributes, "axis", 0)
    _need(not any(each.constant for each in inputs), "it joins constants with what is computed")
    _check_axes([axis], inputs[0])
    others = {(*t.shape[: axis - 1], -1, *t.shape[axis:]) for t in inputs}
    _need(len(others) == 1, "the shapes of its inputs do not fit")
    sizes = list(inputs[0].shape)
    sizes[axis - 1] = sum(t.shape[axis - 1] for t in inputs)
    return tuple(sizes), 0


def _squeeze(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    data, axes = inputs
    _same(attributes, inputs)
    gone = _known(axes)
    _check_axes(gone, data)
    _need(all(data.shape[axis - 1] == 1 for axis in gone), "it removes an axis that is not 1")
    return tuple(n for axis, n in enumerate(data.shape, 1) if axis not in gone), 0


def _unsqueeze(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    data, axes = inputs
    _same(attributes, inputs)
    [axis] = _known(axes)
    _need(1 <= axis <= len(data.shape) + 1, "it touches the axis of the batch")
    return (*data.shape[: axis - 1], 1, *data.shape[axis - 1 :]), 0


def _reduce(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    [data] = inputs
    axes = _integers(attributes, "axes", ())
    _need(axes != (), "it touches the axis of the batch")
    _check_axes(axes, data)
    kept = attributes.get("keepdims", 1) == 1
    sizes = [
        1 if axis in axes else n for axis, n in enumerate(data.shape, 1) if kept or axis not in axes
    ]
    return tuple(sizes), 0


def _softmax(attributes: _Attributes, inputs: Sequence[_Tensor]) -> _Answer:
    _check_axis_one(attributes)
    return _same(attributes, inputs)


OPERATORS: Mapping[str, _Operator] = {
    "Add": _Operator(_elementwise),
    "Cast": _Operator(_cast, ("to",)),
    "Concat": _Operator(_concat, ("axis",)),
    "Constant": _Operator(_same, ("value",)),
    "Conv": _Operator(_conv, ("dilations", "group", "kernel_shape", "pads", "strides")),
    "DequantizeLinear": _Operator(_same, ("axis",)),
    "Flatten": _Operator(_flatten, ("axis",)),
    "Gather": _Operator(_gather, ("axis",)),
    "Gemm": _Operator(_gemm, ("alpha", "beta", "transA", "transB")),
    "Identity": _Operator(_same),
    "MatMul": _Operator(_matmul),
    "Mul": _Operator(_elementwise),
    "QuantizeLinear": _Operator(_same, ("axis",)),
    "ReduceMax": _Operator(_reduce, ("axes", "keepdims")),
    "ReduceMean": _Operator(_reduce, ("axes", "keepdims")),
    "Relu": _Operator(_same),
    "Reshape": _Operator(_reshape, ("allowzero",)),
    "Slice": _Operator(_slice),
    "Softmax": _Operator(_softmax, ("axis",)),
    "Squeeze": _Operator(_squeeze),
    "Sub": _Operator(_elementwise),
    "Tanh": _Operator(_same),
    "Unsqueeze": _Operator(_unsqueeze),
}
"""The operators that a model may hold, each with its rule and its attributes."""


def _need(fits: bool, reason: str) -> None:
    if not fits:
        raise ValueError(reason)


def _check_axes(axes: Sequence[int], data: _Tensor) -> None:
    inner = range(1, len(data.shape) + 1)
    _need(all(axis in inner for axis in axes), "it touches the axis of the batch, or none")


def _check_axis_one(attributes: _Attributes) -> None:
    _need(attributes.get("axis", 1) == 1, "it touches the axis of the batch")


def _integer(attributes: _Attributes, name: str, default: int) -> int:
    value = attributes.get(name, default)
    if not isinstance(value, int):
        raise ValueError(f"its attribute {name} is not an integer")
    return value


def _integers(attributes: _Attributes, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = attributes.get(name, default)
    if isinstance(value, int | _Tensor):
        raise ValueError(f"its attribute {name} is not a list of integers")
    return value


def _known(tensor: _Tensor) -> tuple[int, ...]:
    if tensor.integers is None:
        raise ValueError("a size or an axis is not a constant")
    return tensor.integers


def _add(tensors: dict[str, _Tensor], name: str, tensor: _Tensor) -> None:
    if name in tensors:
        raise IncompatibleModelError(f"two tensors are called {name[:_MOST_CHARACTERS]!r}")
    tensors[name] = tensor


def _graph_input(message: memoryview) -> tuple[str, tuple[int, ...]]:
    """Read the name of the model's input and the shape of one position."""
    name = _text(message, _VALUE_NAME)
    shape = message
    for number in (_VALUE_TYPE, _TYPE_TENSOR, _TENSOR_SHAPE):
        shape = _only(shape, number)
    dims = [field.payload for field in fields(shape) if field.number == _SHAPE_DIM]
    sizes = [sum(f.value for f in fields(dim) if f.number == _DIM_VALUE) for dim in dims]
    if name != OBSERVATION or len(sizes) != 2:
        raise IncompatibleModelError(f"the model has the input {name[:_MOST_CHARACTERS]!r}")
    return name, (sizes[1],)


def _constant(message: memoryview) -> _Tensor:
    """Read a tensor of the file, and its numbers if they may be a shape."""
    shape, kinds = list[int](), list[int]()
    for field in fields(message):
        if field.number == _TENSOR_DIMS:
            shape += _packed(field.payload) if len(field.payload) else [_signed(field.value)]
        elif field.number == _TENSOR_TYPE:
            kinds.append(field.value)
    raw = _only(message, _TENSOR_RAW)
    kind = kinds[0] if len(kinds) == 1 else 0
    if kind not in _ITEM_BYTES or min(shape, default=1) < 0:
        raise IncompatibleModelError("the model holds weights of a foreign type")
    if math.prod(shape) * _ITEM_BYTES[kind] != len(raw):
        raise IncompatibleModelError("the model holds weights of another size than their shape")
    integers = tuple(memoryview(bytes(raw)).cast("q")) if kind == _INT64 else None
    return _Tensor(tuple(shape), True, integers)


def _attributes(
    node: memoryview, known: Sequence[str]
) -> dict[str, int | tuple[int, ...] | _Tensor]:
    found = dict[str, int | tuple[int, ...] | _Tensor]()
    for field in fields(node):
        if field.number != _NODE_ATTRIBUTE:
            continue
        name = _text(field.payload, _ATTRIBUTE_NAME)
        if name in found or name not in known:
            raise ValueError(f"it has the attribute {name[:_MOST_CHARACTERS]!r}")
        found[name] = _attribute(field.payload)
    return found


def _attribute(message: memoryview) -> int | tuple[int, ...] | _Tensor:
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
