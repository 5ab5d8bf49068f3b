"""A training step that is captured once as a CUDA graph, and replayed from then on.

With a small network, a GPU is idle while Python launches one kernel after the other. A graph
launches all kernels at once (PyTorch, "CUDA semantics", section "CUDA Graphs").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import structlog
import torch
from torch import Tensor

Step = Callable[[Sequence[Tensor]], Mapping[str, Tensor]]
"""A step on the columns of a batch; returns scalars by name."""

_log = structlog.get_logger()


class CapturedStep:
    """Runs a training step on a GPU: eagerly during the warm-up, then as a CUDA graph.

    The warm-up consists of real steps, so that nothing has to be undone after it. If the capture
    fails, all later steps run without a graph. So do batches of another size than the captured
    one. An error during a replay is raised, because the state of the GPU is lost.

    Args:
        step: reads nothing from the device, and changes the tensors that it keeps in place.
        warm_up: steps on a side stream before the capture, in which libraries choose their kernels.
    """

    def __init__(self, step: Step, warm_up: int = 3) -> None:
        self._step = step
        self._warm_up_steps = warm_up  # still to come
        self._graph: torch.cuda.CUDAGraph | None = None
        self._has_failed = False
        self._inputs: list[Tensor] = []
        self._outputs: Mapping[str, Tensor] = {}

    @property
    def is_captured(self) -> bool:
        """Whether the step is captured."""
        return self._graph is not None

    def __call__(self, columns: Sequence[Tensor]) -> Mapping[str, Tensor]:
        """Take a step.

        Args:
            columns: the batch, on the device.

        Returns:
            The step's scalars; the next call may overwrite them.
        """
        if self._has_failed:
            return self._step(columns)
        if self._graph is None:
            if self._warm_up_steps > 0:
                return self._warm_up(columns)
            self._capture(columns)
        if self._graph is None or not self._fits(columns):
            return self._step(columns)
        for held, column in zip(self._inputs, columns, strict=True):
            held.copy_(column)
        self._graph.replay()
        return self._outputs

    def _warm_up(self, columns: Sequence[Tensor]) -> Mapping[str, Tensor]:
        self._warm_up_steps -= 1
        main, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            losses = self._step(columns)
        main.wait_stream(side)
        return losses

    def _capture(self, columns: Sequence[Tensor]) -> None:
        """Capture the step without taking it; log a failure."""
        try:
            self._inputs = [column.clone() for column in columns]
            graph = torch.cuda.CUDAGraph()
            # Other threads of this process may allocate memory on the GPU meanwhile.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._outputs = self._step(self._inputs)
        except RuntimeError as error:
            self._has_failed = True
            self._inputs, self._outputs = [], {}
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            _log.warning("step_not_captured", reason=reason)
        else:
            self._graph = graph
            _log.info("step_captured", batch=len(columns[0]))

    def _fits(self, columns: Sequence[Tensor]) -> bool:
        return [each.shape for each in columns] == [each.shape for each in self._inputs]
