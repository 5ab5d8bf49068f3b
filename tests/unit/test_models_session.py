"""A session loads what our exporter writes for the game at hand, and nothing else."""

from collections.abc import Callable
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from zerofleet.config import NetworkSection
from zerofleet.errors import IncompatibleModelError, InferenceUnavailableError
from zerofleet.games import spec
from zerofleet.learning import PolicyValueNet, export_onnx
from zerofleet.models.graph import check_graph
from zerofleet.models.runtime import is_machine_failure
from zerofleet.models.session import ModelSession, not_loaded
from zerofleet.models.shape import Shape


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


def name_another_file_in_a_list(model: onnx.ModelProto) -> None:
    tensor = helper.make_tensor("weights", TensorProto.FLOAT, [1], [1.0])
    tensor.external_data.add(key="location", value="/etc/passwd")
    model.graph.node.append(helper.make_node("Identity", ["value"], ["unused"], some=[tensor]))


def sparse_tensor() -> onnx.SparseTensorProto:
    values = helper.make_tensor("values", TensorProto.FLOAT, [1], [1.0])
    values.external_data.add(key="location", value="/etc/passwd")
    return helper.make_sparse_tensor(
        values, helper.make_tensor("indices", TensorProto.INT64, [1], [2]), [3]
    )


def hold_a_sparse_tensor(model: onnx.ModelProto) -> None:
    model.graph.sparse_initializer.append(sparse_tensor())


def hold_a_sparse_constant(model: onnx.ModelProto) -> None:
    node = helper.make_node("Constant", [], ["unused"], sparse_value=sparse_tensor())
    model.graph.node.append(node)


def hold_a_list_of_sparse_tensors(model: onnx.ModelProto) -> None:
    node = helper.make_node("Identity", ["value"], ["unused"], some=[sparse_tensor()])
    model.graph.node.append(node)


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
        (name_another_file_in_a_list, "another file"),
        (hold_a_sparse_tensor, "sparse tensors"),
        (hold_a_sparse_constant, "sparse tensors"),
        (hold_a_list_of_sparse_tensors, "sparse tensors"),
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


def ask_for_more_memory_than_there_is(model: onnx.ModelProto) -> None:
    [value] = [node for node in model.graph.node if "value" in node.output]
    value.output[0] = "modest"
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.array([1 << 50], np.int64), "huge")
    )
    model.graph.node.extend(
        [
            helper.make_node("ReduceMax", ["modest"], ["one"], keepdims=1),
            helper.make_node("Expand", ["one", "huge"], ["copies"]),
            helper.make_node("ReduceMax", ["copies"], ["most"], keepdims=1),
            helper.make_node("Add", ["modest", "most"], ["value"]),
        ]
    )


def test_want_of_memory_is_not_the_files_fault() -> None:
    """ONNX Runtime's own words, here for memory of the host."""
    with pytest.raises(InferenceUnavailableError, match=r"not run on this machine now: .*memory"):
        ModelSession(changed(ask_for_more_memory_than_there_is), spec("tic_tac_toe"))


@pytest.mark.parametrize(
    "said",
    [
        # As people reported them, shortened.
        "[ONNXRuntimeError] : 1 : FAIL : CUDA failure 2: out of memory ; GPU=0 ; hostname=a",
        "CUDNN failure 4: CUDNN_STATUS_INTERNAL_ERROR ; GPU=0 ; hostname=a ; expr=cudnnCreate()",
        "CUDNN_FE failure 8: HEURISTIC_QUERY_FAILED ; GPU=0 ; hostname=a",
        "CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0",
        "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : std::bad_alloc",
    ],
)
def test_a_gpu_that_fails_is_not_the_files_fault(said: str) -> None:
    assert is_machine_failure(RuntimeError(said))
    assert isinstance(not_loaded("it does not run", RuntimeError(said)), InferenceUnavailableError)


def test_what_is_wrong_with_a_file_is_its_own() -> None:
    said = "[ONNXRuntimeError] : 10 : INVALID_GRAPH : Type Error: node 'cuda failure' of opset 99"
    assert not is_machine_failure(RuntimeError(said))
    assert isinstance(not_loaded("it does not run", RuntimeError(said)), IncompatibleModelError)


def varint(value: int) -> bytes:
    size = -(-max(1, value.bit_length()) // 7)
    more = [0x80] * (size - 1) + [0]
    return bytes((value >> 7 * place) & 0x7F | more[place] for place in range(size))


def test_a_key_of_more_than_32_bits_hides_no_field() -> None:
    """Whoever cuts it would read a function where this reader saw a field that nobody knows."""
    function = onnx.FunctionProto(name="Relu").SerializeToString()
    key = 25 << 3 | 2
    for hidden, reason in ((key, "functions"), (key | 1 << 32, "key is too large")):
        field = varint(hidden) + varint(len(function)) + function
        with pytest.raises(IncompatibleModelError, match=reason):
            check_graph(model_bytes() + field)
    check_graph(model_bytes() + varint(1000 << 3 | 2) + varint(0))  # one that nobody knows


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
