"""Options of each ONNX Runtime provider, and the message about a missing one."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from zerofleet.errors import ConfigError, IncompatibleModelError, InferenceUnavailableError
from zerofleet.models.graph import Shape, has_half_weights
from zerofleet.models.runtime import (
    CPU,
    ONNX_NAMES,
    Provider,
    choose,
    installed_runtimes,
    offered_providers,
    prune_engines,
)
from zerofleet.models.session import ModelSession
from zerofleet.services.inference.devices import PROBE_MODEL, probe

CPU_ONLY = ["CPUExecutionProvider"]
WITH_CUDA = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("most", "buckets"),
    [
        (1, (1,)),
        (2, (1, 2)),
        (64, (1, 4, 16, 64)),
        (66, (1, 4, 16, 64, 66)),
        (1024, (1, 4, 16, 64, 128, 256, 512, 1024)),
        (1000, (1, 4, 16, 64, 128, 256, 512, 1000)),
    ],
)
def test_buckets_up_to_the_limit(most: int, buckets: tuple[int, ...]) -> None:
    assert Provider(max_rows=most).buckets == buckets


@pytest.mark.parametrize(
    ("wanted", "offered", "name"),
    [
        ("auto", CPU_ONLY, "cpu"),
        ("auto", WITH_CUDA, "cuda"),
        ("auto", ["OpenVINOExecutionProvider", *CPU_ONLY], "cpu"),  # only when it is named
        ("cpu", WITH_CUDA, "cpu"),
        ("cuda", WITH_CUDA, "cuda"),
        ("tensorrt", WITH_CUDA, "tensorrt"),
        ("openvino", ["OpenVINOExecutionProvider", *CPU_ONLY], "openvino"),
    ],
)
def test_choice(wanted: str, offered: list[str], name: str) -> None:
    assert choose(wanted, offered) == name


@pytest.mark.parametrize(
    ("wanted", "wheel"),
    [
        ("cuda", "onnxruntime-gpu"),
        ("tensorrt", "onnxruntime-gpu"),
        ("openvino", "onnxruntime-openvino"),
    ],
)
def test_one_that_is_not_offered_is_named_with_the_wheel_that_has_it(
    wanted: str, wheel: str
) -> None:
    with pytest.raises(ConfigError) as error:
        choose(wanted, CPU_ONLY, ["onnxruntime 1.31.1"])
    message = str(error.value)
    assert f"[inference] provider = '{wanted}'" in message
    assert "(onnxruntime 1.31.1) offers CPUExecutionProvider" in message
    assert message.endswith(f"pip uninstall -y onnxruntime && pip install {wheel}")


def test_wheels_that_overwrote_each_other_are_all_to_be_removed() -> None:
    with pytest.raises(ConfigError, match="uninstall -y onnxruntime onnxruntime-gpu && pip"):
        choose("cuda", CPU_ONLY, ["onnxruntime 1.31.1", "onnxruntime-gpu 1.31.1"])


def test_one_that_nobody_knows() -> None:
    with pytest.raises(ConfigError, match=r"provider = 'rocm': give auto, cpu, cuda, tensorrt"):
        choose("rocm", CPU_ONLY)


def test_the_installed_runtime_has_a_name_and_a_cpu() -> None:
    assert any(re.fullmatch(r"onnxruntime\S* \d+\.\d+.*", name) for name in installed_runtimes())
    assert "CPUExecutionProvider" in offered_providers()


def test_a_gpu_comes_before_the_cpu_on_the_device_that_is_meant() -> None:
    options = Provider("cuda", device=3).options(PROBE_MODEL, 1)
    assert [name for name, _ in options] == ["CUDAExecutionProvider", "CPUExecutionProvider"]
    cuda = dict(options)["CUDAExecutionProvider"]
    assert cuda["device_id"] == "3"
    assert cuda["use_tf32"] == "0"
    assert cuda["do_copy_in_default_stream"] == "1"
    assert all(isinstance(value, str) for value in cuda.values())


def test_openvino_keeps_the_files_precision_and_one_thread() -> None:
    options = dict(Provider("openvino").options(PROBE_MODEL, 1))["OpenVINOExecutionProvider"]
    assert options["precision"] == "ACCURACY"
    assert options["num_of_threads"] == "1"


def tensorrt(model_bytes: bytes, **values: object) -> dict[str, str]:
    provider = Provider("tensorrt", max_rows=512, **values)  # type: ignore[arg-type]
    options = provider.options(model_bytes, 168)
    assert [name for name, _ in options] == WITH_CUDA
    return dict(options)["TensorrtExecutionProvider"]


def test_tensorrt_gets_one_profile_over_all_buckets() -> None:
    options = tensorrt(PROBE_MODEL)
    assert options["trt_profile_min_shapes"] == "observation:1x168"
    assert options["trt_profile_opt_shapes"] == "observation:128x168"
    assert options["trt_profile_max_shapes"] == "observation:512x168"
    assert "trt_engine_cache_enable" not in options


def test_two_models_of_one_shape_never_share_an_engine(tmp_path: Path) -> None:
    """TensorRT names engines by the graph: the weights have to come into the name by us."""
    prefixes = set[str]()
    for weight in (0.5, 0.25):
        options = tensorrt(probe_model(weight), cache_folder=tmp_path)
        assert options["trt_engine_cache_path"] == str(tmp_path)
        assert options["trt_timing_cache_path"] == str(tmp_path)
        assert options["trt_engine_cache_enable"] == options["trt_timing_cache_enable"] == "1"
        prefixes.add(options["trt_engine_cache_prefix"])
    assert len(prefixes) == 2


def test_tensorrt_may_use_half_only_for_files_of_half() -> None:
    assert not has_half_weights(PROBE_MODEL)
    assert tensorrt(PROBE_MODEL)["trt_fp16_enable"] == "0"
    half = probe_model(0.5, np.float16)
    assert has_half_weights(half)
    assert tensorrt(half)["trt_fp16_enable"] == "1"


def test_tensor_cores_are_for_files_of_half() -> None:
    """To ONNX Runtime use_tf32 stands for all of them, and fp16 has no other convolutions."""
    half = probe_model(0.5, np.float16)
    for name in ("cuda", "tensorrt"):
        told = [
            dict(Provider(name).options(model, 1))["CUDAExecutionProvider"]["use_tf32"]
            for model in (PROBE_MODEL, half)
        ]
        assert told == ["0", "1"]


def probe_model(weight: float = 1 / 256, kind: type = np.float32) -> bytes:
    """The model of ``zerofleet.services.inference.devices``, written out."""
    nodes = [
        helper.make_node("Cast", ["observation"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["floats", "plane"], ["planes"]),
        helper.make_node("Conv", ["planes", "kernel"], ["convolved"]),
        helper.make_node("Flatten", ["convolved"], ["column"]),
        helper.make_node("Cast", ["column"], ["policy_logits"], to=TensorProto.FLOAT16),
        helper.make_node("Reshape", ["column", "flat"], ["value"]),
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "probe",
        [tensor("observation", TensorProto.UINT8, ["batch", 1])],
        [
            tensor("policy_logits", TensorProto.FLOAT16, ["batch", 1]),
            tensor("value", TensorProto.FLOAT, ["batch"]),
        ],
        [
            numpy_helper.from_array(np.full((1, 1, 1, 1), weight, kind), "kernel"),
            numpy_helper.from_array(np.array([-1, 1, 1, 1], np.int64), "plane"),
            numpy_helper.from_array(np.array([-1], np.int64), "flat"),
        ],
    )
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    return model.SerializeToString()


def test_the_probe_is_what_its_comment_says() -> None:
    assert onnx.load_model_from_string(PROBE_MODEL) == onnx.load_model_from_string(probe_model())


def test_the_cpu_passes_the_probe() -> None:
    probe(CPU)


def test_a_provider_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime drops what it cannot load and goes on with the CPU."""
    if "CUDAExecutionProvider" in offered_providers():
        pytest.skip("needs ONNX Runtime for CPUs (make setup)")
    with pytest.raises(IncompatibleModelError, match="CUDAExecutionProvider"):
        probe(Provider("cuda"))
    # Whatever a provider is called: the session says what it runs on, and is asked.
    monkeypatch.setitem(ONNX_NAMES, "cpu", "SomeOtherProvider")
    monkeypatch.setattr(Provider, "options", lambda *_: [("CPUExecutionProvider", {})])
    with pytest.raises(InferenceUnavailableError, match="left SomeOtherProvider out and would"):
        ModelSession(PROBE_MODEL, Shape(1, 1))


def test_the_newest_engines_stay_and_so_do_the_timings(tmp_path: Path) -> None:
    for age in range(5):
        for kind in ("engine", "profile"):
            path = tmp_path / f"model{age}.{kind}"
            path.touch()
            os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "sm90.timing").touch()
    assert prune_engines(tmp_path, kept=2) == 3
    names = sorted(path.name for path in tmp_path.iterdir())
    kept = ["model0.engine", "model0.profile", "model1.engine", "model1.profile"]
    assert names == [*kept, "sm90.timing"]
    assert prune_engines(tmp_path, kept=2) == 0


def test_engines_in_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert prune_engines(tmp_path / "engines") == 0


def test_an_engine_that_another_process_removes_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "model0.engine").touch()
    (tmp_path / "gone.engine").symlink_to(tmp_path / "removed")  # listed, and not there any more
    assert prune_engines(tmp_path, kept=1) == 0
    assert (tmp_path / "model0.engine").exists()
