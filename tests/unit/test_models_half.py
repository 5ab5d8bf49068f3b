"""The fp16 model: half the weights' bytes, the same interface."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from zerofleet.config import NetworkSection
from zerofleet.errors import IncompatibleModelError
from zerofleet.games import spec
from zerofleet.learning import export_onnx, make_network
from zerofleet.learning.export import random_positions
from zerofleet.models.graph import OPERATORS, has_half_weights
from zerofleet.models.quantize import to_fp16
from zerofleet.models.session import ModelSession
from zerofleet.models.variant import measure

KINDS = [
    ("connect_four", {}),
    ("go(size=5)", {"global_pooling": True}),
    ("tic_tac_toe", {"squeeze_excitation": True}),
]


def exported(game: str, **options: bool) -> bytes:
    network = make_network(spec(game), NetworkSection(blocks=3, channels=12, **options), seed=4)
    return export_onnx(network, spec(game).observation_bytes, {"run": "a"})


@pytest.mark.parametrize(("game", "options"), KINDS, ids=str)
def test_the_same_model_in_half_precision(game: str, options: dict[str, bool]) -> None:
    fp32 = exported(game, **options)
    fp16 = to_fp16(fp32)
    observations = random_positions(spec(game), 64, np.random.default_rng(1))
    loss = measure(ModelSession(fp32, spec(game)), ModelSession(fp16, spec(game)), observations)
    assert abs(loss.policy_kl) < 1e-5
    assert 0 < loss.value_difference < 1e-3
    assert (has_half_weights(fp32), has_half_weights(fp16)) == (False, True)

    model = onnx.load_model_from_string(fp16)
    onnx.checker.check_model(model, full_check=True)
    assert {node.op_type for node in model.graph.node} <= OPERATORS.keys()
    kinds = {tensor.data_type for tensor in model.graph.initializer}
    assert TensorProto.FLOAT not in kinds
    assert {entry.key: entry.value for entry in model.metadata_props} == {
        "run": "a",
        "precision": "fp16",
    }


def test_a_weight_beyond_half_precision() -> None:
    model = onnx.load_model_from_string(exported("tic_tac_toe"))
    [tensor] = [t for t in model.graph.initializer if t.name == "network.value_head.2.weight"]
    weights = numpy_helper.to_array(tensor).copy()
    weights[0, 0] = 70_000
    tensor.CopyFrom(numpy_helper.from_array(weights, tensor.name))
    with pytest.raises(IncompatibleModelError, match=r"value_head\.2\.weight is 70000, beyond"):
        to_fp16(model.SerializeToString())
