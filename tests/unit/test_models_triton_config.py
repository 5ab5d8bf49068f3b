"""The published folder as NVIDIA Triton reads it, parsed with Triton's own schema."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as triton

from zerofleet.config import NetworkSection
from zerofleet.games import spec
from zerofleet.learning import export_onnx, make_network
from zerofleet.models.folder import ModelFolder

KINDS = {
    onnx.TensorProto.UINT8: triton.TYPE_UINT8,
    onnx.TensorProto.FLOAT16: triton.TYPE_FP16,
    onnx.TensorProto.FLOAT: triton.TYPE_FP32,
}


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    return ModelFolder(tmp_path, "my-run", 256)


def published(folder: ModelFolder, game: str, versions: int = 1) -> triton.ModelConfig:
    """Publish real models and read the configuration as Triton would: unknown fields fail."""
    for version in range(1, versions + 1):
        network = make_network(spec(game), NetworkSection(blocks=1, channels=8), seed=version)
        content = export_onnx(network, spec(game).observation_bytes, {"version": str(version)})
        staged = folder.stage(content)
        folder.publish(staged)
        folder.expose(staged.sha256, version, spec(game))
    text = (folder.root / folder.run / "config.pbtxt").read_text()
    return text_format.Parse(text, triton.ModelConfig())


def test_it_says_what_the_run_file_says(folder: ModelFolder) -> None:
    config = published(folder, "connect_four")
    assert config.name == "my-run"  # Triton wants the folder's name
    assert config.platform == "onnxruntime_onnx"
    assert config.max_batch_size == 256
    assert config.WhichOneof("scheduling_choice") == "dynamic_batching"
    assert config.dynamic_batching.max_queue_delay_microseconds == 0
    assert config.version_policy.WhichOneof("policy_choice") == "all"


@pytest.mark.parametrize("game", ["connect_four", "go(size=9)"])
def test_its_tensors_are_those_of_the_file(folder: ModelFolder, game: str) -> None:
    """With a batch dimension before its dims, each tensor of the file is described."""
    config = published(folder, game)
    graph = onnx.load(folder.root / "my-run" / "1" / "model.onnx").graph
    for described, tensors in ((config.input, graph.input), (config.output, graph.output)):
        assert [tensor.name for tensor in described] == [tensor.name for tensor in tensors]
        for tensor, wanted in zip(described, tensors, strict=True):
            kind = wanted.type.tensor_type
            sizes = [size.dim_value for size in kind.shape.dim[1:]]
            shape = tensor.reshape.shape if tensor.HasField("reshape") else tensor.dims
            assert list(shape) == sizes
            assert tensor.data_type == KINDS[kind.elem_type]
            assert not kind.shape.dim[0].dim_value  # free, as max_batch_size above 0 demands


def test_its_folder_holds_versions_as_numbers_and_nothing_else(folder: ModelFolder) -> None:
    published(folder, "tic_tac_toe", versions=3)
    entries = {path.name for path in (folder.root / "my-run").iterdir()}
    assert entries == {"config.pbtxt", "1", "2", "3"}
    for version in ("1", "2", "3"):
        inside = [path.name for path in (folder.root / "my-run" / version).iterdir()]
        assert inside == ["model.onnx"]
