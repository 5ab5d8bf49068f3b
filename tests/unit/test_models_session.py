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
from zerofleet.learning import export_onnx, make_network
from zerofleet.models import graph
from zerofleet.models.graph import MOST_NODES, MOST_NUMBERS, Shape, check_graph
from zerofleet.models.runtime import is_machine_failure, open_runtime
from zerofleet.models.session import ModelSession, not_loaded


@cache
def model_bytes() -> bytes:
    network = make_network(spec("tic_tac_toe"), NetworkSection(blocks=1, channels=8), seed=1)
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
    model = changed(ask_for_more_memory_than_there_is)
    session = open_runtime(model, [("CPUExecutionProvider", {})], threads=1)
    with pytest.raises(Exception, match="memory") as raised:
        session.run(["value"], {"observation": np.zeros((1, 4), np.uint8)})
    error = not_loaded("the model does not run", raised.value)
    assert isinstance(error, InferenceUnavailableError)
    assert "not run on this machine now" in str(error)


def multiply_constants(model: onnx.ModelProto) -> None:
    """ONNX Runtime would compute the product when it loads the model."""
    square = onnx.numpy_helper.from_array(np.ones((2, 2), np.float32), "square")
    model.graph.initializer.append(square)
    model.graph.node.append(helper.make_node("MatMul", ["square", "square"], ["folded"], "bomb"))


def copy_constants(model: onnx.ModelProto) -> None:
    """Each copy is one more tensor in memory."""
    largest = max(model.graph.initializer, key=lambda tensor: np.prod(tensor.dims))
    for number in range(8):
        model.graph.node.append(helper.make_node("Identity", [largest.name], [f"copy{number}"]))


def double_again_and_again(model: onnx.ModelProto) -> None:
    before = next(node.output[0] for node in model.graph.node if node.op_type == "Flatten")
    for number in range(30):
        node = helper.make_node("Concat", [before, before], [f"double{number}"], axis=1)
        model.graph.node.append(node)
        before = node.output[0]


def make_too_many_nodes(model: onnx.ModelProto) -> None:
    model.graph.node.extend(
        helper.make_node("Relu", ["value"], [f"copy{number}"]) for number in range(MOST_NODES)
    )


def add_to_the_batch(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("Concat", ["value", "value"], ["more"], axis=0))


def lay_the_batch_across(model: onnx.ModelProto) -> None:
    """Added to the values, this would give the square of the number of positions."""
    axis = onnx.numpy_helper.from_array(np.array([0], np.int64), "first")
    model.graph.initializer.append(axis)
    model.graph.node.append(helper.make_node("Unsqueeze", ["value", "first"], ["across"]))


def take_a_size_from_the_observation(model: onnx.ModelProto) -> None:
    model.graph.node.extend(
        [
            helper.make_node("Cast", ["observation"], ["size"], to=TensorProto.INT64),
            helper.make_node("Reshape", ["value", "size"], ["any"]),
        ]
    )


def pad_a_convolution(model: onnx.ModelProto) -> None:
    node = next(node for node in model.graph.node if node.op_type == "Conv")
    [pads] = [attribute for attribute in node.attribute if attribute.name == "pads"]
    pads.ints[:] = [10_000] * 4


def claim_a_larger_weight(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = 1 << 40


def mean_other_operators(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 18


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (ask_for_more_memory_than_there_is, r"\(ReduceMax\): it touches the axis of the batch"),
        (multiply_constants, r"node 'bomb' \(MatMul\): it computes with constants alone, at load"),
        (copy_constants, r"\(Identity\): more numbers .* than the file holds"),
        (double_again_and_again, rf"node 'double\d+' \(Concat\): .*more than {MOST_NUMBERS}"),
        (make_too_many_nodes, rf"nodes, more than {MOST_NODES}"),
        (add_to_the_batch, r"\(Concat\): it touches the axis of the batch"),
        (lay_the_batch_across, r"\(Unsqueeze\): it touches the axis of the batch"),
        (take_a_size_from_the_observation, r"\(Reshape\): its inputs are unusual"),
        (pad_a_convolution, r"\(Conv\): its convolution is unusual"),
        (claim_a_larger_weight, "another size than their shape"),
        (mean_other_operators, "opset 17"),
    ],
)
def test_a_model_that_costs_too_much_is_refused_before_it_is_loaded(
    change: Callable[[onnx.ModelProto], None], reason: str
) -> None:
    with pytest.raises(IncompatibleModelError, match=reason):
        check_graph(changed(change))


def test_products_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "MOST_OPERATIONS", 10_000)
    with pytest.raises(IncompatibleModelError, match=r"\(Conv\): .* operations, more than 10000"):
        check_graph(model_bytes())


def test_the_cost_of_a_small_network() -> None:
    cost = check_graph(model_bytes())
    convolutions = 9 * (3 * 8 * 9 + 2 * 8 * 8 * 9 + 8 * 2 + 8)
    layers = 18 * 9 + 9 * 64 + 64
    assert convolutions + layers < cost.operations < 1.2 * (convolutions + layers)


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
