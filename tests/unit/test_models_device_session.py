"""Sessions with buffers of their own, here in the host's memory: the code is the GPU's."""

from __future__ import annotations

import threading
from ctypes.util import find_library
from functools import cache
from typing import Any

import numpy as np
import pytest

from zerofleet.config import NetworkSection
from zerofleet.errors import IncompatibleModelError
from zerofleet.games import spec
from zerofleet.learning import export_onnx, make_network
from zerofleet.models.driver import device_count, pinned_array
from zerofleet.models.runtime import CPU, ONNX_NAMES, Provider
from zerofleet.models.session import (
    DeviceSession,
    ModelSession,
    _Bucket,  # pyright: ignore[reportPrivateUsage]
    open_session,
)

GAME = "tic_tac_toe"


@cache
def model_bytes(seed: int = 1) -> bytes:
    network = make_network(spec(GAME), NetworkSection(blocks=1, channels=8), seed=seed)
    return export_onnx(network, spec(GAME).observation_bytes, {})


def rows(count: int) -> np.ndarray:
    shape = (count, spec(GAME).observation_bytes)
    return np.random.default_rng(count).integers(0, 256, shape, np.uint8)


def test_batches_of_any_size_are_answered_as_by_a_plain_session() -> None:
    plain = ModelSession(model_bytes(), spec(GAME))
    session = DeviceSession(model_bytes(), spec(GAME), Provider(max_rows=66))
    for count in (1, 2, 4, 5, 16, 17, 64, 65, 66, 67, 132, 200, 4, 1):
        for answer, wanted in zip(session.run(rows(count)), plain.run(rows(count)), strict=True):
            assert answer.dtype == wanted.dtype
            assert answer.shape == wanted.shape
            np.testing.assert_allclose(answer, wanted, atol=2e-3)


def test_answers_are_the_callers_to_keep() -> None:
    session = DeviceSession(model_bytes(), spec(GAME), Provider(max_rows=4))
    kept = session.run(rows(3))
    first = [array.copy() for array in kept]
    session.run(rows(4))
    for array, copy in zip(kept, first, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_threads_take_turns() -> None:
    session = DeviceSession(model_bytes(), spec(GAME), Provider(max_rows=8))
    wanted = {count: session.run(rows(count)) for count in (3, 8)}
    wrong: list[int] = []

    def ask(count: int) -> None:
        for _ in range(50):
            answers = zip(session.run(rows(count)), wanted[count], strict=True)
            if not all(np.array_equal(answer, right) for answer, right in answers):
                wrong.append(count)

    threads = [threading.Thread(target=ask, args=(count,)) for count in (3, 8, 3, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_while_it_is_paused_only_who_paused_it_runs_it() -> None:
    session = DeviceSession(model_bytes(), spec(GAME), Provider())
    ran = threading.Event()
    other = threading.Thread(target=lambda: (session.run(rows(2)), ran.set()))
    with session.paused():
        other.start()
        session.run(rows(3))
        assert not ran.wait(0.2)
    assert ran.wait(60)
    other.join()


def test_each_batch_size_has_a_session_of_its_own_but_with_tensorrt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CUDA's sessions are slow after each change of the shape; TensorRT's take minutes to make."""
    shapes: dict[int, set[int]] = {}
    bucket_run = _Bucket.run

    def note(bucket: _Bucket, count: int) -> Any:
        session = bucket._session  # pyright: ignore[reportPrivateUsage]
        shapes.setdefault(id(session), set()).add(len(bucket.rows))
        return bucket_run(bucket, count)

    monkeypatch.setattr(_Bucket, "run", note)
    session = DeviceSession(model_bytes(), spec(GAME), Provider(max_rows=128))
    for count in (1, 5, 60, 100, 3, 128):
        session.run(rows(count))
    assert sorted(shapes.values(), key=max) == [{1}, {4}, {16}, {64}, {128}]
    shapes.clear()
    monkeypatch.setattr(
        Provider, "options", lambda *_: [("CPUExecutionProvider", dict[str, str]())]
    )
    monkeypatch.setitem(ONNX_NAMES, "tensorrt", "CPUExecutionProvider")
    monkeypatch.setattr(Provider, "is_gpu", False)  # its buffers
    DeviceSession(model_bytes(), spec(GAME), Provider("tensorrt", max_rows=128))
    assert list(shapes.values()) == [{1, 4, 16, 64, 128}]


def test_what_a_plain_session_refuses_is_refused() -> None:
    with pytest.raises(IncompatibleModelError, match="does not fit this game"):
        DeviceSession(model_bytes(), spec("connect_four"), CPU)
    with pytest.raises(IncompatibleModelError):
        DeviceSession(model_bytes()[:-50], spec(GAME), CPU)


def test_the_cpu_gets_a_plain_session() -> None:
    session = open_session(model_bytes(), spec(GAME), CPU)
    assert type(session) is ModelSession


@pytest.mark.skipif(find_library("cuda") is not None, reason="needs a machine without a GPU")
def test_memory_for_a_gpu_that_is_not_there_is_ordinary() -> None:
    with pytest.raises(OSError, match=r"libcuda\.so\.1"):
        device_count()
    assert pinned_array((3, 5), Provider("cuda")).tolist() == [[0] * 5] * 3
