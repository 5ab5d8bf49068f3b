"""A session loads what our exporter writes for the game at hand, and nothing else."""

from collections.abc import Callable
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from zerofleet.config import NetworkSection
from zerofleet.errors import IncompatibleModelError
from zerofleet.games import spec
from zerofleet.models.graph import check_graph
from zerofleet.models.session import ModelSession
from zerofleet.models.shape import Shape
from zerofleet.network import PolicyValueNet, export_onnx


@cache
def model_bytes() -> bytes:
    network = PolicyValueNet(spec("tic_tac_toe"), NetworkSection(blocks=1, channels=8), seed=1)
    return export_onnx(network, 4, {})


def changed(change: Callable[[onnx.ModelProto], None]) -> bytes:
    model = onnx.load_model_from_string(model_bytes())
    change(model)
    return model.SerializeToString()


def test_runs_a_batch() -> None:
    session = ModelSession(model_bytes(), spec("tic_tac_toe"))
    policy_logits, value = session.run(np.zeros((3, 4), np.uint8))
    assert policy_logits.shape == (3, 9)
    assert policy_logits.dtype == np.float16
    assert value.shape == (3,)
    assert value.dtype == np.float32


def test_rows_of_a_large_batch_keep_their_answers() -> None:
    session = ModelSession(model_bytes(), spec("tic_tac_toe"))
    observations = np.random.default_rng(1).integers(0, 256, (150, 4), np.uint8)
    policy_logits, value = session.run(observations)
    alone = [session.run(observations[row : row + 1]) for row in range(150)]
    np.testing.assert_allclose(policy_logits, np.concatenate([a[0] for a in alone]), atol=2e-3)
    np.testing.assert_allclose(value, np.concatenate([a[1] for a in alone]), atol=1e-5)


@pytest.mark.parametrize("shape", [Shape(16, 7), Shape(4, 7), Shape(16, 9)])
def test_a_model_of_another_game(shape: Shape) -> None:
    with pytest.raises(IncompatibleModelError, match="does not fit this game"):
        ModelSession(model_bytes(), shape)


def poison_weights(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            weights = onnx.numpy_helper.to_array(tensor).copy()
            weights.flat[0] = np.nan
            tensor.CopyFrom(onnx.numpy_helper.from_array(weights, tensor.name))


def name_another_file(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")


def name_another_file_in_a_constant(model: onnx.ModelProto) -> None:
    tensor = helper.make_tensor("weights", TensorProto.FLOAT, [1], [1.0])
    tensor.external_data.add(key="location", value="/etc/passwd")
    model.graph.node.append(helper.make_node("Constant", [], ["unused"], value=tensor))


def use_a_foreign_domain(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("Relu", ["value"], ["unused"], domain="com.microsoft"))


def import_a_foreign_domain(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("org.example", 1))


def use_an_unknown_operator(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("NonZero", ["value"], ["unused"]))


def hide_a_graph(model: onnx.ModelProto) -> None:
    inner = helper.make_graph([], "inner", [], [])
    node = helper.make_node("Identity", ["value"], ["unused"], body=inner)
    model.graph.node.append(node)


def define_a_function(model: onnx.ModelProto) -> None:
    opset = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("", "Relu", ["x"], ["y"], [], opset))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (poison_weights, "not finite"),
        (name_another_file, "another file"),
        (name_another_file_in_a_constant, "another file"),
        (use_a_foreign_domain, "domain 'com.microsoft'"),
        (import_a_foreign_domain, "domain 'org.example'"),
        (use_an_unknown_operator, "operator 'NonZero'"),
        (hide_a_graph, "graph inside a graph"),
        (define_a_function, "functions"),
    ],
)
def test_foreign_parts_are_refused(change: Callable[[onnx.ModelProto], None], reason: str) -> None:
    with pytest.raises(IncompatibleModelError, match=reason):
        ModelSession(changed(change), spec("tic_tac_toe"))


@pytest.mark.parametrize("content", [b"", b"no model", bytes(1_000), b"\xff" * 1_000])
def test_bytes_that_are_no_model(content: bytes) -> None:
    with pytest.raises(IncompatibleModelError):
        ModelSession(content, spec("tic_tac_toe"))


def test_every_truncation_is_refused() -> None:
    whole = model_bytes()
    for part in range(64):
        with pytest.raises(IncompatibleModelError):
            ModelSession(whole[: len(whole) * part // 64], spec("tic_tac_toe"))


def test_the_graph_reader_survives_any_damage() -> None:
    """Bits flipped where the structure is: it passes or refuses, and never fails otherwise."""
    whole = model_bytes()
    generator = np.random.default_rng(3)
    refused = 0
    for bit in generator.integers(0, 8 * min(4_000, len(whole)), 1_000):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        try:
            check_graph(bytes(damaged))
        except IncompatibleModelError:
            refused += 1
    assert refused > 0
