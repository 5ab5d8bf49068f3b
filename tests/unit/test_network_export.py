"""The exported file: the same answers as torch, and nothing in it but what is allowed."""

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from zerofleet.config import NetworkSection
from zerofleet.games import spec
from zerofleet.learning import export_onnx, make_network
from zerofleet.models.graph import OPERATORS
from zerofleet.models.session import ModelSession
from zerofleet.network import Network

GAMES = ["connect_four", "tic_tac_toe"]


def lively_network(game: str, **section: Any) -> Network:
    """Weights and running figures away from their first values, as after training."""
    network = make_network(spec(game), NetworkSection(blocks=2, channels=16, **section), seed=4)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 2.0, generator=generator)
            elif tensor.is_floating_point():
                tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
    return network


@pytest.mark.parametrize(
    ("game", "section"),
    [
        ("connect_four", {}),
        ("tic_tac_toe", {}),
        ("connect_four", {"value_head": "outcome"}),
        ("tic_tac_toe", {"policy_head": "convolutional"}),
        ("go(size=9)", {"policy_head": "convolutional", "value_head": "outcome"}),
    ],
)
@pytest.mark.parametrize("batch", [1, 5, 64])
def test_onnx_runtime_agrees_with_torch(game: str, section: dict[str, Any], batch: int) -> None:
    network = lively_network(game, **section)
    size = spec(game).observation_bytes
    observations = np.random.default_rng(batch).integers(0, 256, (batch, size), np.uint8)
    session = ModelSession(export_onnx(network, size, {}), spec(game))
    policy_logits, value = session.run(observations)
    with torch.no_grad():
        wanted_logits, wanted_value = network.eval().predict(torch.from_numpy(observations))
    assert policy_logits.dtype == np.float16
    assert value.dtype == np.float32
    np.testing.assert_allclose(policy_logits, wanted_logits.numpy(), rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(value, wanted_value.numpy(), atol=1e-5)


@pytest.mark.parametrize("game", GAMES)
def test_only_allowed_parts_are_in_the_file(game: str) -> None:
    model_bytes = export_onnx(lively_network(game), spec(game).observation_bytes, {"run": "a"})
    model = onnx.load_model_from_string(model_bytes)
    onnx.checker.check_model(model, full_check=True)
    assert {node.op_type for node in model.graph.node} <= OPERATORS.keys()
    assert {node.domain for node in model.graph.node} == {""}
    assert {opset.domain for opset in model.opset_import} == {""}
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    assert "BatchNormalization" not in {node.op_type for node in model.graph.node}
    assert {entry.key: entry.value for entry in model.metadata_props} == {"run": "a"}


def test_export_is_quiet_and_leaves_the_network_as_it_was() -> None:
    network = lively_network("tic_tac_toe").train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export_onnx(network, 4, {})
    assert network.training
    assert all(module.training for module in network.modules())
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_metadata_makes_files_of_equal_weights_differ() -> None:
    network = lively_network("tic_tac_toe")
    files = [export_onnx(network, 4, {"version": version}) for version in ("1", "1", "2")]
    assert files[0] == files[1]
    assert files[0] != files[2]
