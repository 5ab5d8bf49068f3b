"""Sessions on a real GPU: what they answer, what they keep, and what goes on at the same time."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zerofleet import games
from zerofleet.config import run_from_values
from zerofleet.errors import ConfigError, IncompatibleModelError, InferenceUnavailableError
from zerofleet.models.driver import gpu_of, pinned_array
from zerofleet.models.quantize import to_fp16
from zerofleet.models.runtime import Provider
from zerofleet.models.session import DeviceSession, ModelSession, open_session
from zerofleet.services.inference.devices import active_provider, probe
from zerofleet.services.inference.settings import InferenceSettings

pytestmark = pytest.mark.gpu

SPEC = games.spec("connect_four")
MOST = 256
SIZES = (1, 2, 3, 4, 5, 16, 17, 64, 65, 255, 256, 257, 600)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def assert_alike(answer: Any, wanted: Any, logits: float = 4e-3, value: float = 1e-3) -> None:
    for mine, theirs, most in zip(answer, wanted, (logits, value), strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine.astype(np.float32), theirs.astype(np.float32), atol=most)


def test_the_gpu_says_what_the_cpu_says(make_model: Any, rows: Any) -> None:
    provider = Provider("cuda", max_rows=MOST)
    session, plain = open_session(make_model(), SPEC, provider), ModelSession(make_model(), SPEC)
    assert isinstance(session, DeviceSession)
    for _ in range(3):
        for size in SIZES:
            assert_alike(session.run(rows(size)), plain.run(rows(size)))


def test_a_session_without_buffers_of_its_own(make_model: Any, rows: Any) -> None:
    session = ModelSession(make_model(), SPEC, provider=Provider("cuda"))
    assert_alike(session.run(rows(40)), ModelSession(make_model(), SPEC).run(rows(40)))


def test_half_precision_stays_close(make_model: Any, rows: Any) -> None:
    model_bytes = make_model(blocks=5, channels=64)
    provider = Provider("cuda", max_rows=MOST)
    half = open_session(to_fp16(model_bytes), SPEC, provider)
    logits, value = half.run(rows(500))
    wanted_logits, wanted_value = ModelSession(model_bytes, SPEC).run(rows(500))
    wanted, answered = log_softmax(wanted_logits), log_softmax(logits)
    kl = (np.exp(wanted) * (wanted - answered)).sum(axis=1).mean()
    assert kl < 1e-3
    assert np.abs(value - wanted_value).mean() < 1e-2


def test_models_come_and_go_while_others_answer(make_model: Any, rows: Any) -> None:
    """A new model is loaded and run once while the one before answers."""
    provider = Provider("cuda", max_rows=MOST)
    wanted = {seed: ModelSession(make_model(seed), SPEC).run(rows(100)) for seed in range(6)}
    present = [(0, open_session(make_model(0), SPEC, provider))]
    stop, failures, answers = threading.Event(), list[BaseException](), [0, 0]

    def ask(number: int) -> None:
        try:
            while not stop.is_set():
                seed, session = present[0]
                assert_alike(session.run(rows(100)), wanted[seed])
                answers[number] += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for seed in range(1, 6):
        present[0] = (seed, open_session(make_model(seed), SPEC, provider))
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert min(answers) > 0


def used_mebibytes() -> int:
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout)


def test_swaps_leave_no_memory_behind(make_model: Any, rows: Any) -> None:
    provider = Provider("cuda", max_rows=MOST)
    for swap in range(24):
        open_session(make_model(swap % 3), SPEC, provider).run(rows(10))
        if swap == 3:  # the libraries have what they keep for good
            before = used_mebibytes()
    assert used_mebibytes() - before < 256


def test_host_rows_are_page_locked() -> None:
    array = pinned_array((64, 100), Provider("cuda"))
    flags = ctypes.c_uint()
    address = ctypes.c_void_p(array.ctypes.data)
    driver = ctypes.CDLL("libcuda.so.1")
    assert driver.cuMemHostGetFlags(ctypes.byref(flags), address) == 0
    array[:] = 7
    part = array[3:5]
    del array
    assert part.sum() == 7 * 200  # a view keeps the memory


def test_a_gpu_that_there_is_none() -> None:
    with pytest.raises((IncompatibleModelError, InferenceUnavailableError)):
        probe(Provider("cuda", device=99))


def test_what_is_active_by_default() -> None:
    def active(**inference: object) -> Provider:
        values = {"name": "r", "game": {"name": "connect_four"}, "inference": inference}
        return active_provider(run_from_values(values), InferenceSettings(run_file=Path("r.toml")))

    for wish in ({}, {"require_gpu": True}, {"provider": "cuda"}):
        provider = active(**wish)
        assert provider.is_gpu
        assert provider.name == "cuda"
    with pytest.raises(ConfigError, match="require_gpu = true contradicts provider = 'cpu'"):
        active(provider="cpu", require_gpu=True)


def test_a_gpu_has_a_name_and_memory() -> None:
    gpu = gpu_of(0)
    assert gpu.name
    assert gpu.memory_bytes > 1 << 30
    with pytest.raises(OSError, match="has no GPU 99"):
        gpu_of(99)


def test_tensorrt_keeps_engines_apart(make_model: Any, rows: Any, tmp_path: Path) -> None:
    """All models of a run have one graph: an engine found by that alone has others' weights."""
    provider = Provider("tensorrt", max_rows=64, cache_folder=tmp_path)
    try:
        probe(provider)
    except (IncompatibleModelError, InferenceUnavailableError) as error:
        pytest.skip(f"TensorRT is not here: {error}")
    for _ in range(2):  # built, then found in the folder
        for seed in (1, 2):
            session = open_session(make_model(seed), SPEC, provider)
            wanted = ModelSession(make_model(seed), SPEC).run(rows(50))
            assert_alike(session.run(rows(50)), wanted, logits=2e-2, value=1e-2)
        engines = {path.name for path in tmp_path.glob("*.engine")}
        assert len(engines) >= 3  # the probe's is among them
