"""The device of a process: the run file's choice, and the GPUs by number."""

from __future__ import annotations

from ctypes.util import find_library
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from zerofleet.config import run_from_values
from zerofleet.errors import ConfigError, InferenceUnavailableError
from zerofleet.models.driver import Gpu
from zerofleet.models.runtime import CPU, Provider, ProviderName, offered_providers
from zerofleet.services.inference.devices import (
    active_provider,
    numbers,
    runs_on_text,
    sessions_of,
)
from zerofleet.services.inference.settings import InferenceSettings

NO_GPU = pytest.mark.skipif(
    "CUDAExecutionProvider" in offered_providers(),
    reason="needs ONNX Runtime for CPUs (make setup)",
)


def active(**inference: object) -> Provider:
    run = run_from_values({"name": "r", "game": {"name": "tic_tac_toe"}, "inference": inference})
    return active_provider(run, InferenceSettings(run_file=Path("r.toml")))


@pytest.mark.parametrize(
    ("devices", "wanted"),
    [("", [0]), ("0", [0]), ("3", [3]), ("0,1", [0, 1]), (" 2 , 0 ", [2, 0])],
)
def test_devices(devices: str, wanted: list[int]) -> None:
    assert numbers(devices) == wanted


@pytest.mark.parametrize("devices", ["x", "0,", "-1", "0 1", "1.5", "gpu", "²"])
def test_devices_that_are_no_numbers(devices: str) -> None:
    with pytest.raises(ConfigError, match="ZEROFLEET_DEVICES = "):
        numbers(devices)


def test_a_device_named_twice() -> None:
    with pytest.raises(ConfigError, match="twice"):
        numbers("1,0,1")


@pytest.mark.skipif(find_library("cuda") is not None, reason="needs a machine without a GPU")
def test_all_devices_where_there_is_none() -> None:
    with pytest.raises(ConfigError, match=r"'all': no NVIDIA GPU can be found .*by number"):
        numbers("all")


def test_two_batches_at_once_on_a_gpu_where_the_run_file_says_nothing() -> None:
    def sessions(provider: ProviderName, **inference: int) -> int:
        values = {"name": "r", "game": {"name": "connect_four"}, "inference": inference}
        return sessions_of(run_from_values(values), Provider(provider))

    assert [sessions(name) for name in ("cpu", "openvino", "cuda", "tensorrt")] == [1, 1, 2, 2]
    assert [sessions(name, sessions=3) for name in ("cpu", "cuda")] == [3, 3]


@NO_GPU
def test_auto_is_the_cpu_where_there_is_no_other() -> None:
    assert active() == CPU


@NO_GPU
def test_require_gpu_fails_loudly_on_the_cpu() -> None:
    with pytest.raises(ConfigError) as error:
        active(require_gpu=True)
    message = str(error.value)
    assert "true, but predictions would run without a GPU, on provider 'cpu'" in message
    assert "install zerofleet[gpu]" in message
    assert "\n" not in message


def test_require_gpu_contradicts_the_cpu() -> None:
    with pytest.raises(ConfigError, match="require_gpu = true contradicts provider = 'cpu'"):
        active(provider="cpu", require_gpu=True)


@NO_GPU
@pytest.mark.parametrize("provider", ["cuda", "tensorrt"])
def test_a_provider_that_was_named_is_not_replaced(provider: str) -> None:
    with pytest.raises(ConfigError, match="pip install onnxruntime-gpu"):
        active(provider=provider)


def test_a_provider_that_is_offered_and_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ONNX Runtime with CUDA on a machine without a GPU: it says that it has the provider."""
    offered = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr("zerofleet.services.inference.devices.offered_providers", lambda: offered)
    if "CUDAExecutionProvider" in offered_providers():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with capture_logs() as logs:
        assert active().name == "cpu"
    (line,) = logs
    reason = line.pop("gpu_not_used")
    assert line == {
        "event": "provider",
        "log_level": "warning",
        "requested": "auto",
        "name": "cpu",
        "runs_on": "cpu, 1 session, batches of up to 1024 positions",
    }
    if find_library("cuda") is None:
        assert reason.startswith("NVIDIA's driver is missing (libcuda.so.1: ")
    wanted = f"provider 'cuda' on device 0 does not work here: {reason}. To run on the CPU, set "
    for wish in ({"provider": "cuda"}, {"require_gpu": True}):
        with pytest.raises(ConfigError) as error:
            active(**wish)
        assert wanted in str(error.value)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (
            "the model: a.cc:63 FromProviderOptions(const X&) FAIL : x.h:187 Parse Failed to parse "
            "provider option: CUDA failure 35: CUDA driver version is insufficient for CUDA "
            "runtime version ; GPU=-1 ; hostname=a ; file=a.cc ; expr=cudaGetDeviceCount(&n);",
            "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version",
        ),
        ("it answers [1.0]\nwhere [0.5] is right", "it answers [1.0] where [0.5] is right"),
    ],
)
def test_a_failure_of_cuda_is_one_readable_line(
    monkeypatch: pytest.MonkeyPatch, said: str, wanted: str
) -> None:
    """As ONNX Runtime 1.31 reports a driver that is too old."""

    def fail(_: Provider) -> None:
        raise InferenceUnavailableError(said)

    module = "zerofleet.services.inference.devices"
    monkeypatch.setattr(f"{module}.offered_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(f"{module}.gpu_of", lambda _: Gpu("NVIDIA H200", 1 << 30))
    monkeypatch.setattr(f"{module}.probe", fail)
    monkeypatch.setattr(f"{module}.library_fault", lambda _: "")
    with pytest.raises(ConfigError) as error:
        active(provider="cuda")
    assert f"on device 0 does not work here: {wanted}. To run on the CPU" in str(error.value)


def test_one_line_says_what_was_chosen() -> None:
    with capture_logs() as logs:
        active(provider="cpu", sessions=3, max_batch_rows=256)
    assert logs == [
        {
            "event": "provider",
            "log_level": "info",
            "requested": "cpu",
            "name": "cpu",
            "runs_on": "cpu, 3 sessions, batches of up to 256 positions",
        }
    ]


def test_the_sizes_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("NVIDIA H200", 150_754_820_096)
    monkeypatch.setattr("zerofleet.services.inference.devices.gpu_of", lambda _: gpu)
    run = run_from_values({"name": "r", "game": {"name": "tic_tac_toe"}})
    assert runs_on_text(run, Provider("cuda", device=1, max_rows=256)) == (
        "cuda on GPU 1 (NVIDIA H200, 140 GiB), 2 sessions, batches of 1, 4, 16, 64, 128, 256 "
        "positions"
    )
