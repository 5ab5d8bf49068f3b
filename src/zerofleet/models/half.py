"""An fp16 model out of an fp32 one, for GPUs, which compute so at several times the speed.

Weights and all that is computed are in half precision; input and outputs stay what every model
file has, policy logits in fp16 and the value in fp32.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from zerofleet.errors import IncompatibleModelError
from zerofleet.models.graph import check_graph
from zerofleet.models.shape import VALUE_OUTPUT


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
            if name == VALUE_OUTPUT:
                node.output[place] = f"{VALUE_OUTPUT}/half"
    del model.graph.value_info[:]
    model.graph.node.append(
        helper.make_node(
            "Cast", [f"{VALUE_OUTPUT}/half"], [VALUE_OUTPUT], "widen", to=TensorProto.FLOAT
        )
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
