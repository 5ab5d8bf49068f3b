"""One model, loaded and ready: bit-packed observations in, policy logits and values out.

A GPU needs inputs and outputs that stay on the device to be fast. There, each batch goes into the
smallest bucket that holds it. A bucket has its own buffers on the device and its own page-locked
rows on the host, made and warmed once, so no run allocates anything. It also has its own session of
ONNX Runtime, which plans each convolution again whenever the shape differs from the last run's. For
4 blocks of 48 channels on an H200 that takes 26 to 45 ms in place of 0.5 to 1.2 (lab/notes.md).
"""

from __future__ import annotations

import itertools
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import IncompatibleModelError, InferenceUnavailableError, ZerofleetError
from zerofleet.models.driver import pinned_array
from zerofleet.models.graph import ModelShape, check_graph
from zerofleet.models.runtime import (
    CPU,
    ONNX_NAMES,
    Node,
    OrtSession,
    Provider,
    Value,
    is_machine_failure,
    new_value,
    open_runtime,
)
from zerofleet.prediction import OBSERVATION, POLICY_LOGITS, VALUE

# Rows of one run on a CPU. Measured on networks of 31 to 73 MFLOP: runs of 64 rows are 4 to 8%
# faster than runs of 512, whose activations leave the cache; smaller ones gain nothing more. A
# small network's activations stay in it, and each run costs as much as ten rows and takes Python's
# lock once.
_LEAST_PART_ROWS, _MOST_PART_ROWS = 64, 512
_PART_SECONDS = 0.0015
_MOST_PART_NUMBERS = 1 << 28  # all that one run computes: 1 GiB of fp32, if nothing were freed
_TRIES = 3  # the fastest counts: other programs disturb the others


class ModelSession:
    """An ONNX Runtime session, for one calling thread at a time.

    The model is given as bytes, never as a path: what was verified is what runs. On a GPU each
    ``run`` copies its arrays; ``DeviceSession`` keeps buffers there instead.

    Args:
        model_bytes: an ONNX file as ``zerofleet.models.folder`` keeps it.
        spec: the game, or anything else with its two sizes.
        threads: threads of one ``run`` on the CPU. Several sessions of one thread each give more
            positions per second than one session of several.
        provider: what it computes on.

    Raises:
        IncompatibleModelError: the file is damaged, holds foreign parts, does not fit the game,
            or answers with numbers that are not finite; or the provider does not take it.
        InferenceUnavailableError: memory is short, or the GPU fails or is not there: the same file
            may well load later, or elsewhere.
    """

    def __init__(
        self,
        model_bytes: bytes,
        spec: ModelShape,
        threads: int = 1,
        provider: Provider = CPU,
    ) -> None:
        self._cost = check_graph(model_bytes)
        self.observation_bytes = spec.observation_bytes
        self.num_actions = spec.num_actions
        self.provider = provider
        try:
            options = provider.options(model_bytes, spec.observation_bytes)
            opened = partial(open_runtime, model_bytes, options, threads)
            self._session = opened()
        except Exception as error:  # ONNX Runtime's own classes share no base of their own
            raise not_loaded("ONNX Runtime refuses the model", error) from error
        self._check_provider()
        self._check_interface()
        try:
            self._prepare(opened)
            self._part_rows = self._choose_part() if provider.name == "cpu" else 0
            self._check_answers()
        except IncompatibleModelError:
            raise
        except Exception as error:
            raise not_loaded("the model does not run", error) from error

    def run(
        self, observations: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        """Predict a batch.

        Args:
            observations: ``[batch, observation_bytes]`` uint8, C-contiguous.

        Returns:
            Policy logits ``[batch, num_actions]`` float16 and values ``[batch]`` float32, both in
            fresh arrays.
        """
        rows = self._part_rows or len(observations)
        if len(observations) <= rows:
            return self._run(observations)
        starts = range(0, len(observations), rows)
        parts = [self._run(observations[start : start + rows]) for start in starts]
        logits, values = zip(*parts, strict=True)
        return np.concatenate(logits), np.concatenate(values)

    def paused(self) -> AbstractContextManager[object]:
        """Let no other thread run it meanwhile, where it shares a device with other sessions."""
        return nullcontext()

    def _run(
        self, observations: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        policy_logits, value = self._session.run(
            [POLICY_LOGITS, VALUE], {OBSERVATION: observations}
        )
        return cast("NDArray[np.float16]", policy_logits), cast("NDArray[np.float32]", value)

    def _choose_part(self) -> int:
        """Return a number of rows that takes long enough for a run of its own."""
        rows = 1
        while rows < _MOST_PART_ROWS and self._seconds(rows) < _PART_SECONDS:
            rows *= 2
        most = max(1, _MOST_PART_NUMBERS // max(1, self._cost.numbers))
        return min(max(rows, _LEAST_PART_ROWS), most)

    def _seconds(self, rows: int) -> float:
        observations = np.zeros((rows, self.observation_bytes), np.uint8)
        starts = [time.perf_counter()]
        for _ in range(_TRIES):
            self._run(observations)
            starts.append(time.perf_counter())
        return min(end - start for start, end in itertools.pairwise(starts))

    def _prepare(self, opened: Callable[[], OrtSession]) -> None:
        """Prepare for the first run; called once.

        Args:
            opened: another session like the first one.
        """

    def _check_provider(self) -> None:
        """Raise where ONNX Runtime left the provider out: it does if a library cannot be loaded."""
        wanted, active = ONNX_NAMES[self.provider.name], self._session.get_providers()
        if wanted not in active:
            raise InferenceUnavailableError(
                f"ONNX Runtime left {wanted} out and would run on {', '.join(active)}: a library "
                "of it is missing, or the device is; what ONNX Runtime printed says which"
            )

    def _check_interface(self) -> None:
        found = [
            _describe(node) for node in (*self._session.get_inputs(), *self._session.get_outputs())
        ]
        wanted = [
            (OBSERVATION, "tensor(uint8)", (None, self.observation_bytes)),
            (POLICY_LOGITS, "tensor(float16)", (None, self.num_actions)),
            (VALUE, "tensor(float)", (None,)),
        ]
        if found != wanted:
            raise IncompatibleModelError(
                f"the model does not fit this game: it has {found}, needed is {wanted}"
            )

    def _check_answers(self) -> None:
        """Weights that are not finite show in any answer; so do outputs of a wrong size."""
        empty_and_full = np.zeros((2, self.observation_bytes), np.uint8)
        empty_and_full[1] = 255
        policy_logits, value = self.run(empty_and_full)
        if policy_logits.shape != (2, self.num_actions) or value.shape != (2,):
            raise IncompatibleModelError(
                f"the model answers with shapes {policy_logits.shape} and {value.shape}"
            )
        if not (np.isfinite(policy_logits).all() and np.isfinite(value).all()):
            raise IncompatibleModelError("the model answers with numbers that are not finite")


def not_loaded(what: str, error: Exception) -> ZerofleetError:
    """The error to raise where ONNX Runtime raised one: about the file, or about this machine."""
    if is_machine_failure(error):
        return InferenceUnavailableError(f"{what} on this machine now: {error}")
    return IncompatibleModelError(f"{what}: {error}")


def _describe(node: Node) -> tuple[str, str, tuple[int | None, ...]]:
    """Name, type and shape, with None for a dimension that is free."""
    shape = tuple(size if isinstance(size, int) else None for size in node.shape)
    return node.name, node.type, shape


_Answer = tuple[NDArray[np.float16], NDArray[np.float32]]


class _Bucket:
    """The buffers of one batch size.

    Args:
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
        self._binding.bind_ortvalue_input(OBSERVATION, self._observation)
        self._binding.bind_ortvalue_output(POLICY_LOGITS, self._policy_logits)
        self._binding.bind_ortvalue_output(VALUE, self._value)

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
            # Rows of earlier batches behind these are predicted too, and cut off.
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
