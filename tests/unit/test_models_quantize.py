"""The int8 model: near the fp32 one, integer where it matters, with nothing else in the file."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from zerofleet.config import NetworkSection
from zerofleet.errors import IncompatibleModelError
from zerofleet.games import spec
from zerofleet.learning import export_onnx, make_network
from zerofleet.learning.export import random_positions
from zerofleet.models.graph import OPERATORS
from zerofleet.models.quantize import find_tower, observe, quantize_int8
from zerofleet.models.session import ModelSession
from zerofleet.models.variant import measure
from zerofleet.network import Network

BLOCKS = 3  # the third one pools
KINDS = [
    ("connect_four", {}),
    ("go(size=5)", {"global_pooling": True}),
    ("othello", {"squeeze_excitation": True}),
    ("tic_tac_toe", {"global_pooling": True, "squeeze_excitation": True}),
]
every_kind = pytest.mark.parametrize(("game", "options"), KINDS, ids=str)


@cache
def network(game: str, **options: bool) -> Network:
    """Weights and running figures away from their first values, as after training."""
    sizes = NetworkSection(blocks=BLOCKS, channels=12, **options)
    network = make_network(spec(game), sizes, seed=4)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 2.0, generator=generator)
            elif tensor.is_floating_point():
                tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
    return network


@cache
def exported(game: str, **options: bool) -> bytes:
    return export_onnx(network(game, **options), spec(game).observation_bytes, {"run": "a"})


def positions(game: str, seed: int, count: int = 96) -> NDArray[np.uint8]:
    return random_positions(spec(game), count, np.random.default_rng(seed))


@cache
def quantized(game: str, **options: bool) -> bytes:
    return quantize_int8(exported(game, **options), positions(game, 1))


def initializers(model_bytes: bytes) -> dict[str, NDArray[Any]]:
    graph = onnx.load_model_from_string(model_bytes).graph
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


@every_kind
def test_answers_are_near_those_of_fp32_but_not_equal(game: str, options: dict[str, bool]) -> None:
    fp32, int8 = (
        ModelSession(model, spec(game))
        for model in (exported(game, **options), quantized(game, **options))
    )
    loss = measure(fp32, int8, positions(game, 2))
    assert 0 < loss.policy_kl < 0.005
    assert 0 < loss.value_difference < 0.05


@every_kind
def test_the_tower_runs_on_integers(game: str, options: dict[str, bool], tmp_path: Path) -> None:
    """Whatever stood between the pairs in a way that the runtime cannot fuse would stay in fp32."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    settings.optimized_model_filepath = str(tmp_path / "fused.onnx")
    model = quantized(game, **options)
    onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    operators = [node.op_type for node in onnx.load(tmp_path / "fused.onnx").graph.node]
    assert operators.count("QLinearConv") == 2 * BLOCKS
    assert operators.count("QLinearAdd") == BLOCKS + bool(options.get("global_pooling"))
    gates = BLOCKS if options.get("squeeze_excitation") else 0
    assert operators.count("QLinearMul") == gates
    heads = 3 if options.get("global_pooling") else 2
    floating = sum(operator.endswith("Conv") for operator in operators) - 2 * BLOCKS
    assert floating == 1 + heads


@every_kind
def test_only_allowed_parts_are_in_the_file(game: str, options: dict[str, bool]) -> None:
    model = onnx.load_model_from_string(quantized(game, **options))
    onnx.checker.check_model(model, full_check=True)
    assert {node.op_type for node in model.graph.node} <= OPERATORS.keys()
    assert {opset.domain for opset in model.opset_import} == {""}
    assert {entry.key: entry.value for entry in model.metadata_props} == {
        "run": "a",
        "precision": "int8",
    }
    used = {name for node in model.graph.node for name in node.input}
    assert {tensor.name for tensor in model.graph.initializer} <= used


@every_kind
def test_heads_and_the_first_convolution_keep_their_weights(
    game: str, options: dict[str, bool]
) -> None:
    before, after = (
        initializers(exported(game, **options)),
        initializers(quantized(game, **options)),
    )
    kept = {name for name in before if name in after}
    assert all(np.array_equal(before[name], after[name]) for name in kept)
    matrices = [name for name in before if "_head" in name and before[name].ndim == 2]
    assert set(matrices) <= kept
    convolutions = [name for name in kept if before[name].ndim == 4]
    assert len(convolutions) == 1 + (3 if options.get("global_pooling") else 2)
    assert sum(array.dtype == np.int8 and array.ndim == 4 for array in after.values()) == 2 * BLOCKS


def test_rounding_the_weights_does_not_shift_a_channel() -> None:
    """The bias restores what rounding takes from a channel's mean."""
    game, calibration = "connect_four", positions("connect_four", 1)
    model = onnx.load_model_from_string(exported(game))
    tower = find_tower(model.graph)
    observed = observe(model, tower.tensors, calibration)
    before = initializers(exported(game))
    after = initializers(quantize_int8(exported(game), calibration))
    shifts: list[float] = []
    for node in tower.convolutions:
        means = observed[node.input[0]].means
        step = after[f"{node.name}/weights/step"]
        weights = after[f"{node.name}/weights/integers"] * step[:, None, None, None]
        bias_step = after[f"{node.name}/bias/step"]
        wanted = before[node.input[1]].sum(axis=(2, 3)) @ means + before[node.input[2]]
        found = weights.sum(axis=(2, 3)) @ means + after[f"{node.name}/bias/integers"] * bias_step
        assert (abs(found - wanted) <= 0.51 * bias_step).all()  # the bias is rounded too
        shifts += list(abs(wanted - weights.sum(axis=(2, 3)) @ means - before[node.input[2]]))
    assert max(shifts) > 1e-3  # without it they would be off


def test_an_untrained_network() -> None:
    """Its biases are all zero, which torch's exporter writes as one tensor under many names."""
    fresh = make_network(spec("connect_four"), NetworkSection(blocks=2, channels=8), seed=1)
    fp32 = export_onnx(fresh, spec("connect_four").observation_bytes, {})
    kinds = {node.op_type for node in onnx.load_model_from_string(fp32).graph.node}
    assert "Identity" not in kinds
    int8 = quantize_int8(fp32, positions("connect_four", 1))
    sessions = [ModelSession(model, spec("connect_four")) for model in (fp32, int8)]
    assert measure(*sessions, positions("connect_four", 2)).policy_kl < 1e-4


def test_channels_that_are_dead_or_nearly() -> None:
    """No weights at all, or so small ones that their bias, in their steps, is beyond int32."""

    def kill(model: onnx.ModelProto) -> None:
        node = find_tower(model.graph).convolutions[0]
        tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        weights = numpy_helper.to_array(tensors[node.input[1]]).copy()
        bias = numpy_helper.to_array(tensors[node.input[2]]).copy()
        weights[0], bias[0] = 0, 0
        weights[1] *= 1e-12
        bias[1] = 3.0
        tensors[node.input[1]].CopyFrom(numpy_helper.from_array(weights, node.input[1]))
        tensors[node.input[2]].CopyFrom(numpy_helper.from_array(bias, node.input[2]))

    model = onnx.load_model_from_string(exported("connect_four"))
    kill(model)
    fp32 = model.SerializeToString()
    int8 = quantize_int8(fp32, positions("connect_four", 1))
    sessions = [ModelSession(each, spec("connect_four")) for each in (fp32, int8)]
    assert measure(*sessions, positions("connect_four", 2)).policy_kl < 0.005


def test_equal_input_gives_equal_bytes() -> None:
    game, options = KINDS[3]
    again = quantize_int8(exported(game, **options), positions(game, 1))
    assert again == quantized(game, **options)
    assert quantize_int8(exported(game, **options), positions(game, 7)) != again


def test_a_network_without_blocks_has_nothing_to_quantize() -> None:
    small = make_network(spec("tic_tac_toe"), NetworkSection(blocks=0, channels=4), seed=1)
    with pytest.raises(IncompatibleModelError, match="nothing to quantize"):
        quantize_int8(export_onnx(small, 4, {}), positions("tic_tac_toe", 1))


def test_numbers_that_are_not_finite_are_refused() -> None:
    model = onnx.load_model_from_string(exported("connect_four"))
    node = find_tower(model.graph).convolutions[1]
    for tensor in model.graph.initializer:
        if tensor.name == node.input[1]:
            weights = numpy_helper.to_array(tensor).copy()
            weights[0] = np.inf
            tensor.CopyFrom(numpy_helper.from_array(weights, tensor.name))
    with pytest.raises(IncompatibleModelError, match="not finite"):
        quantize_int8(model.SerializeToString(), positions("connect_four", 1))


def test_no_positions() -> None:
    with pytest.raises(ValueError, match="without positions"):
        quantize_int8(exported("connect_four"), positions("connect_four", 1, count=0))
