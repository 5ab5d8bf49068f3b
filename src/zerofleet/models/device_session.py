"""A session whose inputs and outputs stay on the device: what a GPU needs to be fast.

Each batch goes into the smallest bucket that holds it. A bucket has its own buffers on the device
and its own page-locked rows on the host, made and warmed once; so no run allocates anything, meets
a shape that cuDNN has not tuned for, or changes an address under a recorded CUDA graph.
"""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from zerofleet.models.driver import pinned_array
from zerofleet.models.provider import Provider
from zerofleet.models.runtime import OrtSession, RunOptions, Value, graph_options, new_value
from zerofleet.models.session import ModelSession
from zerofleet.models.shape import INPUT, POLICY_OUTPUT, VALUE_OUTPUT, ModelShape

Buffers = tuple[tuple[int, tuple[int, ...]], ...]
"""Address and shape of each input and output, in order."""


class GraphIds:
    """Which recorded CUDA graph of a session belongs to which buffers.

    ONNX Runtime replays the graph of the number that a run names and looks at nothing else: with
    other shapes or other buffers it would write the answer of an earlier run, without an error.
    Number 0 is left to ONNX Runtime, which uses it unasked.
    """

    def __init__(self) -> None:
        self._recorded: dict[int, Buffers] = {}

    def new(self, buffers: Buffers) -> int:
        """A number for these buffers, which they keep as long as the session lives."""
        graph_id = len(self._recorded) + 1
        self._recorded[graph_id] = buffers
        return graph_id

    def check(self, graph_id: int, buffers: Buffers) -> None:
        """Make sure that a run's buffers are those that its graph was recorded with.

        Raises:
            AssertionError: they are not; the answer would be wrong without any sign of it.
        """
        recorded = self._recorded.get(graph_id)
        if recorded != buffers:
            raise AssertionError(
                f"CUDA graph {graph_id} was recorded with {_text(recorded)} and would be replayed "
                f"for {_text(buffers)}"
            )


def _text(buffers: Sequence[tuple[int, tuple[int, ...]]] | None) -> str:
    if buffers is None:
        return "nothing"
    return ", ".join(f"{shape} at {address:#x}" for address, shape in buffers)


# While a thread records a graph, no other thread may allocate on the device or wait for it. So
# where graphs are used, one model is made at a time, and no model runs while another one records.
_MAKING = threading.Lock()
_RUNNING = threading.RLock()

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

    def buffers(self) -> Buffers:
        """Where its tensors are now."""
        tensors = (self._observation, self._policy_logits, self._value)
        return tuple((tensor.data_ptr(), tuple(tensor.shape())) for tensor in tensors)

    def run(self, rows: int, options: RunOptions | None) -> _Answer:
        """Predict ``self.rows`` and return the first of them, in arrays that the caller keeps."""
        self._observation.update_inplace(self.rows)
        self._session.run_with_iobinding(self._binding, options)
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
        self._run_lock = _RUNNING if provider.records_graphs else threading.RLock()
        self._graphs = GraphIds()
        with _MAKING if provider.records_graphs else contextlib.nullcontext():
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

    def _prepare(self) -> None:
        self._sizes = self.provider.buckets
        self._buckets = [_Bucket(self._session, size, self, self.provider) for size in self._sizes]
        graphs = self.provider.cuda_graphs
        self._graph_ids = [self._graphs.new(b.buffers()) if graphs else 0 for b in self._buckets]
        self._options = [graph_options(number) if number else None for number in self._graph_ids]
        for bucket in self._buckets:  # tunes, allocates and records, all in the first run of each
            self._run_bucket(bucket.rows.copy())

    def _run_bucket(self, observations: NDArray[np.uint8]) -> _Answer:
        rows = len(observations)
        place = bisect_left(self._sizes, rows)
        bucket, graph_id = self._buckets[place], self._graph_ids[place]
        with self._run_lock:
            # What earlier batches left behind these rows is predicted too, and cut off.
            bucket.rows[:rows] = observations
            if graph_id:
                self._graphs.check(graph_id, bucket.buffers())
            return bucket.run(rows, self._options[place])


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
