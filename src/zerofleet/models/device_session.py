"""A session whose inputs and outputs stay on the device: what a GPU needs to be fast.

Each batch goes into the smallest bucket that holds it. A bucket has its own buffers on the device
and its own page-locked rows on the host, made and warmed once, so that no run allocates anything;
and a session of ONNX Runtime of its own, which plans each convolution anew whenever the shape
differs from the last run's: 26 to 45 ms in place of 0.5 to 1.2 for 4 blocks of 48 channels on an
H200 (bench/NOTES.md).
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from zerofleet.models.driver import pinned_array
from zerofleet.models.provider import Provider
from zerofleet.models.runtime import OrtSession, Value, new_value
from zerofleet.models.session import ModelSession
from zerofleet.models.shape import INPUT, POLICY_OUTPUT, VALUE_OUTPUT, ModelShape

_Answer = tuple[NDArray[np.float16], NDArray[np.float32]]


class _Bucket:
    """The buffers of one batch size.

    Args:
        session: theirs.
        size: rows.
        shape: of the model.
        provider: says where the buffers are.
    """

    def __init__(
        self, session: OrtSession, size: int, shape: ModelShape, provider: Provider
    ) -> None:
        self._session = session
        self.rows = pinned_array((size, shape.observation_bytes), provider)
        self._observation = _on_device((size, shape.observation_bytes), np.uint8, provider)
        self._policy_logits = _on_device((size, shape.num_actions), np.float16, provider)
        self._value = _on_device((size,), np.float32, provider)
        self._binding = session.io_binding()
        self._binding.bind_ortvalue_input(INPUT, self._observation)
        self._binding.bind_ortvalue_output(POLICY_OUTPUT, self._policy_logits)
        self._binding.bind_ortvalue_output(VALUE_OUTPUT, self._value)

    def run(self, rows: int) -> _Answer:
        """Predict ``self.rows`` and return the first of them, in arrays that the caller keeps."""
        self._observation.update_inplace(self.rows)
        self._session.run_with_iobinding(self._binding)
        # Copied, because on some devices numpy() shows the very memory that is used again.
        return self._policy_logits.numpy()[:rows].copy(), self._value.numpy()[:rows].copy()


class DeviceSession(ModelSession):
    """A ``ModelSession`` with buffers on the device.

    One run at a time: a second thread waits. What overlaps the copies of one batch with the
    computation of another is a second session.

    Args:
        model_bytes: see ``ModelSession``.
        spec: see ``ModelSession``.
        provider: what it computes on, and the buckets.

    Raises:
        IncompatibleModelError: see ``ModelSession``, as for the next.
        InferenceUnavailableError: memory is short, or the GPU fails.
    """

    def __init__(self, model_bytes: bytes, spec: ModelShape, provider: Provider) -> None:
        self._run_lock = threading.RLock()
        super().__init__(model_bytes, spec, provider=provider)

    def run(self, observations: NDArray[np.uint8]) -> _Answer:
        """Predict a batch of any size; see ``ModelSession``."""
        most = self.provider.max_rows
        if len(observations) <= most:
            return self._run_bucket(observations)
        parts = [
            self._run_bucket(observations[start : start + most])
            for start in range(0, len(observations), most)
        ]
        return np.concatenate([logits for logits, _ in parts]), np.concatenate(
            [value for _, value in parts]
        )

    def paused(self) -> AbstractContextManager[object]:
        """Let no other thread run it meanwhile; the one that asked may."""
        return self._run_lock

    def _prepare(self, opened: Callable[[], OrtSession]) -> None:
        self._sizes = self.provider.buckets
        # TensorRT's engine is for all shapes, and takes minutes to build.
        one = self.provider.name == "tensorrt"
        others = [self._session if one else opened() for _ in self._sizes[:-1]]
        self._buckets = [
            _Bucket(session, size, self, self.provider)
            for session, size in zip([*others, self._session], self._sizes, strict=True)
        ]
        for bucket in self._buckets:  # plans and allocates, all in the first run of each
            bucket.run(1)

    def _run_bucket(self, observations: NDArray[np.uint8]) -> _Answer:
        rows = len(observations)
        bucket = self._buckets[bisect_left(self._sizes, rows)]
        with self._run_lock:
            # What earlier batches left behind these rows is predicted too, and cut off.
            bucket.rows[:rows] = observations
            return bucket.run(rows)


def open_session(model_bytes: bytes, spec: ModelShape, provider: Provider) -> ModelSession:
    """The fastest kind of session for a provider, of one thread.

    Raises:
        IncompatibleModelError: see ``ModelSession``, as for the next.
        InferenceUnavailableError: memory is short, or the GPU fails.
    """
    if provider.is_gpu:
        return DeviceSession(model_bytes, spec, provider)
    return ModelSession(model_bytes, spec, provider=provider)


def _on_device(shape: tuple[int, ...], kind: type[np.generic], provider: Provider) -> Value:
    memory, number = ("cuda", provider.device) if provider.is_gpu else ("cpu", 0)
    return new_value(shape, kind, memory, number)
