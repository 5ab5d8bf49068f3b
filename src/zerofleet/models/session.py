"""One model, loaded and ready: bit-packed observations in, policy logits and values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from zerofleet.errors import IncompatibleModelError
from zerofleet.models.graph import check_graph
from zerofleet.models.shape import INPUT, POLICY_OUTPUT, VALUE_OUTPUT, ModelShape


class _Node(Protocol):
    """An input or output, as ONNX Runtime describes it (it ships no types)."""

    name: str
    type: str
    shape: Sequence[int | str | None]


class _Session(Protocol):
    """The part of ``onnxruntime.InferenceSession`` that is used."""

    def get_inputs(self) -> Sequence[_Node]: ...
    def get_outputs(self) -> Sequence[_Node]: ...
    def run(self, outputs: Sequence[str], inputs: Mapping[str, object]) -> Sequence[object]: ...


class ModelSession:
    """An ONNX Runtime session on the CPU, for one calling thread at a time.

    The model is given as bytes, never as a path: what was verified is what runs.

    Args:
        model_bytes: an ONNX file as ``zerofleet.models.folder`` keeps it.
        spec: the game, or anything else with its two sizes.
        threads: threads of one ``run``. Several sessions of one thread each give more positions
            per second than one session of several.

    Raises:
        IncompatibleModelError: the file is damaged, holds foreign parts, does not fit the game,
            or answers with numbers that are not finite.
    """

    def __init__(self, model_bytes: bytes, spec: ModelShape, threads: int = 1) -> None:
        check_graph(model_bytes)
        self.observation_bytes = spec.observation_bytes
        self.num_actions = spec.num_actions
        try:
            self._session = _load(model_bytes, threads)
        except Exception as error:  # ONNX Runtime's own classes share no base of their own
            raise IncompatibleModelError(f"ONNX Runtime refuses the model: {error}") from error
        self._check_interface()
        self._check_answers()

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
        policy_logits, value = self._session.run(
            [POLICY_OUTPUT, VALUE_OUTPUT], {INPUT: observations}
        )
        return cast("NDArray[np.float16]", policy_logits), cast("NDArray[np.float32]", value)

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
        try:
            policy_logits, value = self.run(empty_and_full)
        except Exception as error:
            raise IncompatibleModelError(f"the model does not run: {error}") from error
        if policy_logits.shape != (2, self.num_actions) or value.shape != (2,):
            raise IncompatibleModelError(
                f"the model answers with shapes {policy_logits.shape} and {value.shape}"
            )
        if not (np.isfinite(policy_logits).all() and np.isfinite(value).all()):
            raise IncompatibleModelError("the model answers with numbers that are not finite")


def _load(model_bytes: bytes, threads: int) -> _Session:
    runtime = cast("Any", ort)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Threads that spin while they wait take the cores that the search needs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return runtime.InferenceSession(model_bytes, options, providers=["CPUExecutionProvider"])


def _describe(node: _Node) -> tuple[str, str, tuple[int | None, ...]]:
    """Name, type and shape, with None for a dimension that is free."""
    shape = tuple(size if isinstance(size, int) else None for size in node.shape)
    return node.name, node.type, shape
