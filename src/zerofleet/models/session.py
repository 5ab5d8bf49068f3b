"""One model, loaded and ready: bit-packed observations in, policy logits and values out."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import IncompatibleModelError, InferenceUnavailableError, ZerofleetError
from zerofleet.models.graph import check_graph
from zerofleet.models.provider import CPU, ONNX_NAMES, Provider
from zerofleet.models.runtime import Node, OrtSession, is_machine_failure, open_runtime
from zerofleet.models.shape import INPUT, POLICY_OUTPUT, VALUE_OUTPUT, ModelShape

# Rows of one run on a CPU. Measured on networks of 31 to 73 MFLOP: runs of 64 rows are 4 to 8%
# faster than those of 512, whose activations leave the cache; smaller ones gain nothing more. A
# small network's activations stay in it, and each run costs as much as ten rows and takes Python's
# lock once.
_LEAST_PART_ROWS, _MOST_PART_ROWS = 64, 512
_PART_SECONDS = 0.0015
_MOST_PART_NUMBERS = 1 << 28  # all that one run computes: 1 GiB of fp32, if nothing were freed
_TRIES = 3  # the fastest counts: other programs disturb the others


class ModelSession:
    """An ONNX Runtime session, for one calling thread at a time.

    The model is given as bytes, never as a path: what was verified is what runs. On a GPU each
    ``run`` copies its arrays; ``zerofleet.models.device_session`` keeps buffers there instead.

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
            [POLICY_OUTPUT, VALUE_OUTPUT], {INPUT: observations}
        )
        return cast("NDArray[np.float16]", policy_logits), cast("NDArray[np.float32]", value)

    def _choose_part(self) -> int:
        """As many rows as take long enough for a run of their own."""
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
        """What has to be done once before the first run.

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
            (INPUT, "tensor(uint8)", (None, self.observation_bytes)),
            (POLICY_OUTPUT, "tensor(float16)", (None, self.num_actions)),
            (VALUE_OUTPUT, "tensor(float)", (None,)),
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
