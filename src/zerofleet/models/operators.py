"""Shape rules of the operators that a model file may hold.

Each rule computes one position's share of the output's shape from the shapes of the inputs, and the
number of multiplications. It refuses whatever would touch the first axis, which is the batch, and
whatever size the file alone does not tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

ITEM_BYTES = {1: 4, 2: 1, 3: 1, 6: 4, 7: 8, 9: 1, 10: 2}
"""Bytes of a number by ONNX's type: float, uint8, int8, int32, int64, bool, half."""

UINT8, INT64, BOOL = 2, 7, 9
FLOATS = (1, 10)
"""Types of ONNX."""

_MOST_KERNEL = 3  # a runtime may copy the input this many times, squared, for a convolution


class TensorShape(NamedTuple):
    """A constant's shape, or the shape of one position's share of a tensor."""

    shape: tuple[int, ...]
    constant: bool = False
    integers: tuple[int, ...] | None = None  # the values, for a constant of 64-bit integers
    kind: int = FLOATS[0]  # ONNX's type of its numbers

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


Attributes = Mapping[str, int | tuple[int, ...] | TensorShape]
Answer = tuple[tuple[int, ...], int]
Rule = Callable[[Attributes, Sequence[TensorShape]], Answer]
"""From attributes and inputs to the output's shape and the number of multiplications."""


class Operator(NamedTuple):
    """How a node of one operator is checked, and the attributes that it may have."""

    rule: Rule
    attributes: tuple[str, ...] = ()


def _same(_: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    data, *others = inputs
    _need(not data.constant and all(other.constant for other in others), "its inputs are unusual")
    return data.shape, 0


def _cast(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    _need(attributes.get("to") in ITEM_BYTES, "it casts to another type than numbers of ours")
    return _same(attributes, inputs)


def _elementwise(_: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    first, second = inputs
    return _broadcast(_aligned(inputs, max(_axes(first), _axes(second)))), 0


def _divide(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    """Division and powers of integers may end the process: INT64_MIN / -1."""
    _need(all(tensor.kind in FLOATS for tensor in inputs), "its numbers are integers")
    return _elementwise(attributes, inputs)


def _where(_: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    _need(len(inputs) == 3, "its inputs are unusual")
    return _broadcast(_aligned(inputs, max(map(_axes, inputs)))), 0


def _axes(tensor: TensorShape) -> int:
    """Number of axes, without the batch for what is computed."""
    return len(tensor.shape)


def _aligned(inputs: Sequence[TensorShape], axes: int) -> list[tuple[int, ...]]:
    """Return the shapes, to which constants get axes of size 1 in front."""
    computed = [tensor for tensor in inputs if not tensor.constant]
    # A constant of more axes would meet the batch's.
    _need(any(_axes(each) == axes for each in computed), "a constant meets the axis of the batch")
    _need(
        all(_axes(each) == axes for each in computed), "its inputs have different numbers of axes"
    )
    return [(1,) * (axes - _axes(tensor)) + tensor.shape for tensor in inputs]


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    sizes = [{size for size in column if size != 1} for column in zip(*shapes, strict=True)]
    _need(all(len(each) <= 1 for each in sizes), "the shapes of its inputs do not fit")
    return tuple(next(iter(each), 1) for each in sizes)


def _conv(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    data, weights, *bias = inputs
    _same(attributes, inputs)
    _need(len(bias) <= 1, "it has too many inputs")
    _need(len(data.shape) == 3 and len(weights.shape) == 4, "its convolution is not over planes")
    channels, *board = data.shape
    outputs, weight_channels, *kernel = weights.shape
    groups = _integer(attributes, "group", 1)
    _need(
        groups >= 1 and weight_channels * groups == channels and outputs % groups == 0,
        "the shapes of its inputs do not fit",
    )
    _need(max(kernel) <= _MOST_KERNEL, f"its kernel is larger than {_MOST_KERNEL}")
    ones, pads = (1, 1), _integers(attributes, "pads", (0, 0, 0, 0))
    _need(
        attributes.get("strides", ones) == ones
        and attributes.get("dilations", ones) == ones
        and attributes.get("kernel_shape", tuple(kernel)) == tuple(kernel)
        and len(pads) == 4
        and all(0 <= pad < _MOST_KERNEL for pad in pads),
        "its convolution is unusual",
    )
    out = [board[axis] + pads[axis] + pads[axis + 2] - kernel[axis] + 1 for axis in (0, 1)]
    _need(min(out) > 0, "its kernel is larger than the board")
    return (outputs, *out), outputs * weight_channels * math.prod((*kernel, *out))


def _gemm(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    data, weights, *bias = inputs
    _same(attributes, inputs)
    _need(len(bias) <= 1 and attributes.get("transA", 0) == 0, "its product is unusual")
    _need(all(len(b.shape) <= 1 for b in bias), "its bias has too many axes")
    if attributes.get("transB", 0) == 1:
        weights = TensorShape(weights.shape[::-1], constant=True)
    _need(len(data.shape) == 1, "its product is unusual")
    return _product(data, weights)


def _matmul(_: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    first, second = inputs
    if second.constant and len(second.shape) == 2:
        return _product(first, second)
    # A vector would lose an axis, and another one would take the place of the batch.
    _need(min(map(_axes, inputs)) >= 2, "the shapes of its inputs do not fit")
    axes = max(_axes(first), _axes(second))
    (*before, rows, inner), (*behind, also_inner, columns) = _aligned(inputs, axes)
    _need(inner == also_inner, "the shapes of its inputs do not fit")
    many = _broadcast([tuple(before), tuple(behind)])
    return (*many, rows, columns), math.prod(many) * rows * inner * columns


def _product(data: TensorShape, weights: TensorShape) -> Answer:
    _need(
        len(data.shape) >= 1 and len(weights.shape) == 2 and data.shape[-1] == weights.shape[0],
        "the shapes of its inputs do not fit",
    )
    return (*data.shape[:-1], weights.shape[1]), data.size * weights.shape[1]


def _gather(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    data, places = inputs
    axis = _integer(attributes, "axis", 0)
    if data.constant:
        _need(axis == 0 and len(data.shape) >= 1, "it gathers along another axis than the first")
        return places.shape + data.shape[1:], 0
    _need(places.constant, "it gathers one position's numbers by another's")
    _check_axes([axis], data)
    return data.shape[: axis - 1] + places.shape + data.shape[axis:], 0


def _flatten(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    [data] = inputs
    _check_axis_one(attributes)
    return (data.size,), 0


def _reshape(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    data, shape = inputs
    _same(attributes, inputs)
    batch, *rest = _known(shape)
    _need(
        batch == -1 and min(rest, default=1) > 0 and math.prod(rest) == data.size,
        "it changes the number of positions",
    )
    return tuple(rest), 0


def _slice(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    data, *places = inputs
    _same(attributes, inputs)
    starts, ends, axes, steps = map(_known, places)
    _need(set(steps) == {1} and len(set(axes)) == len(axes), "its slice is unusual")
    _check_axes(axes, data)
    sizes = list(data.shape)
    for start, end, axis in zip(starts, ends, axes, strict=True):
        sizes[axis - 1] = len(range(*slice(start, end).indices(sizes[axis - 1])))
    return tuple(sizes), 0


def _concat(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    axis = _integer(attributes, "axis", 0)
    _need(not any(each.constant for each in inputs), "it joins constants with what is computed")
    _check_axes([axis], inputs[0])
    others = {(*t.shape[: axis - 1], -1, *t.shape[axis:]) for t in inputs}
    _need(len(others) == 1, "the shapes of its inputs do not fit")
    sizes = list(inputs[0].shape)
    sizes[axis - 1] = sum(t.shape[axis - 1] for t in inputs)
    return tuple(sizes), 0


def _squeeze(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    data, axes = inputs
    _same(attributes, inputs)
    gone = _known(axes)
    _need(len(gone) > 0, "it names no axis")  # a runtime would take all of size 1, the batch too
    _check_axes(gone, data)
    _need(all(data.shape[axis - 1] == 1 for axis in gone), "it removes an axis that is not 1")
    return tuple(n for axis, n in enumerate(data.shape, 1) if axis not in gone), 0


def _unsqueeze(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    data, axes = inputs
    _same(attributes, inputs)
    [axis] = _known(axes)
    _need(1 <= axis <= len(data.shape) + 1, "it touches the axis of the batch")
    return (*data.shape[: axis - 1], 1, *data.shape[axis - 1 :]), 0


def _reduce(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    [data] = inputs
    axes = _integers(attributes, "axes", ())
    _need(axes != (), "it touches the axis of the batch")
    _check_axes(axes, data)
    kept = attributes.get("keepdims", 1) == 1
    sizes = [
        1 if axis in axes else n for axis, n in enumerate(data.shape, 1) if kept or axis not in axes
    ]
    return tuple(sizes), 0


def _reduce_sum(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    data, axes = inputs
    return _reduce({**attributes, "axes": _known(axes)}, [data])


def _softmax(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    _check_axes([_integer(attributes, "axis", -1)], inputs[0])
    return _same(attributes, inputs)


def _transpose(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    [data] = inputs
    batch, *order = _integers(attributes, "perm", (1,))
    _need(batch == 0, "it moves the axis of the batch")
    _need(sorted(order) == list(range(1, _axes(data) + 1)), "its order has other axes")
    return tuple(data.shape[axis - 1] for axis in order), 0


def _expand(_: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    data, shape = inputs
    _need(not data.constant, "its inputs are unusual")
    batch, *sizes = _known(shape)
    _need(batch == 1, "it changes the number of positions")
    _need(len(sizes) == _axes(data) and min(sizes, default=1) > 0, "it adds axes")
    return _broadcast([data.shape, tuple(sizes)]), 0


def _layer_norm(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    data, *weights = inputs
    axis = _integer(attributes, "axis", -1)
    _check_axes([axis], data)
    _need(1 <= len(weights) <= 2, "its inputs are unusual")
    _need(
        all(each.shape == data.shape[axis - 1 :] for each in weights),
        "the shapes of its inputs do not fit",
    )
    return _same(attributes, inputs)


def _channel_norm(attributes: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    """Normalisation with vectors of one number for each channel, the first axis."""
    data, *vectors = inputs
    _need(len(vectors) in (2, 4) and _axes(data) >= 1, "its inputs are unusual")
    _need(attributes.get("training_mode", 0) == 0, "it is in training mode")
    _need(
        all(each.shape == data.shape[:1] for each in vectors),
        "the shapes of its inputs do not fit",
    )
    return _same(attributes, inputs)


def _global_pool(_: Attributes, inputs: Sequence[TensorShape]) -> Answer:
    [data] = inputs
    _need(not data.constant and _axes(data) >= 2, "its inputs are unusual")
    return (data.shape[0], *(1 for _ in data.shape[1:])), 0


OPERATORS: Mapping[str, Operator] = {
    "Abs": Operator(_same),
    "Add": Operator(_elementwise),
    "And": Operator(_elementwise),
    "BatchNormalization": Operator(_channel_norm, ("epsilon", "momentum", "training_mode")),
    "Cast": Operator(_cast, ("to",)),
    "Clip": Operator(_same),
    "Concat": Operator(_concat, ("axis",)),
    "Constant": Operator(_same, ("value",)),
    "Conv": Operator(_conv, ("dilations", "group", "kernel_shape", "pads", "strides")),
    "DequantizeLinear": Operator(_same, ("axis",)),
    "Div": Operator(_divide),
    "Elu": Operator(_same, ("alpha",)),
    "Equal": Operator(_elementwise),
    "Erf": Operator(_same),
    "Exp": Operator(_same),
    "Expand": Operator(_expand),
    "Flatten": Operator(_flatten, ("axis",)),
    "Gather": Operator(_gather, ("axis",)),
    "Gemm": Operator(_gemm, ("alpha", "beta", "transA", "transB")),
    "GlobalAveragePool": Operator(_global_pool),
    "GlobalMaxPool": Operator(_global_pool),
    "Greater": Operator(_elementwise),
    "GreaterOrEqual": Operator(_elementwise),
    "HardSigmoid": Operator(_same, ("alpha", "beta")),
    "HardSwish": Operator(_same),
    "Identity": Operator(_same),
    "InstanceNormalization": Operator(_channel_norm, ("epsilon",)),
    "LayerNormalization": Operator(_layer_norm, ("axis", "epsilon", "stash_type")),
    "LeakyRelu": Operator(_same, ("alpha",)),
    "Less": Operator(_elementwise),
    "LessOrEqual": Operator(_elementwise),
    "Log": Operator(_same),
    "LogSoftmax": Operator(_softmax, ("axis",)),
    "MatMul": Operator(_matmul),
    "Max": Operator(_elementwise),
    "Min": Operator(_elementwise),
    "Mul": Operator(_elementwise),
    "Neg": Operator(_same),
    "Not": Operator(_same),
    "Or": Operator(_elementwise),
    "Pow": Operator(_divide),
    "PRelu": Operator(_elementwise),
    "QuantizeLinear": Operator(_same, ("axis",)),
    "Reciprocal": Operator(_same),
    "ReduceL2": Operator(_reduce, ("axes", "keepdims")),
    "ReduceMax": Operator(_reduce, ("axes", "keepdims")),
    "ReduceMean": Operator(_reduce, ("axes", "keepdims")),
    "ReduceMin": Operator(_reduce, ("axes", "keepdims")),
    "ReduceSum": Operator(_reduce_sum, ("keepdims",)),
    "Relu": Operator(_same),
    "Reshape": Operator(_reshape, ("allowzero",)),
    "Selu": Operator(_same, ("alpha", "gamma")),
    "Sigmoid": Operator(_same),
    "Slice": Operator(_slice),
    "Softmax": Operator(_softmax, ("axis",)),
    "Softplus": Operator(_same),
    "Softsign": Operator(_same),
    "Sqrt": Operator(_same),
    "Squeeze": Operator(_squeeze),
    "Sub": Operator(_elementwise),
    "Tanh": Operator(_same),
    "Transpose": Operator(_transpose, ("perm",)),
    "Unsqueeze": Operator(_unsqueeze),
    "Where": Operator(_where),
}
"""The operators that a model may hold, each with its rule and its attributes."""


_TRUTHS = {
    *("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or"),
}


def kind_of(operator: str, attributes: Attributes, inputs: Sequence[TensorShape]) -> int:
    """Return ONNX's type of the numbers that a node computes."""
    if operator in _TRUTHS:
        return BOOL
    match operator:
        case "Cast":
            return _integer(attributes, "to", 0)
        case "DequantizeLinear":
            return FLOATS[0]
        case "QuantizeLinear":
            return inputs[2].kind if len(inputs) > 2 else UINT8
        case "Where":
            return inputs[1].kind
        case _:
            return inputs[0].kind


def _need(fits: bool, reason: str) -> None:
    if not fits:
        raise ValueError(reason)


def _check_axes(axes: Sequence[int], data: TensorShape) -> None:
    inner = range(1, len(data.shape) + 1)
    _need(all(axis in inner for axis in axes), "it touches the axis of the batch, or none")


def _check_axis_one(attributes: Attributes) -> None:
    _need(attributes.get("axis", 1) == 1, "it touches the axis of the batch")


def _integer(attributes: Attributes, name: str, default: int) -> int:
    value = attributes.get(name, default)
    if not isinstance(value, int):
        raise ValueError(f"its attribute {name} is not an integer")
    return value


def _integers(attributes: Attributes, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = attributes.get(name, default)
    if isinstance(value, int | TensorShape):
        raise ValueError(f"its attribute {name} is not a list of integers")
    return value


def _known(tensor: TensorShape) -> tuple[int, ...]:
    if tensor.integers is None:
        raise ValueError("a size or an axis is not a constant")
    return tensor.integers
