"""A training step that is recorded once as a CUDA graph, and replayed from then on.

Small networks leave a GPU idle while Python launches one kernel after the other. A graph launches
all of them at once (PyTorch, "CUDA semantics", section "CUDA Graphs").
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
    """Calls a step on a GPU: the first times as it is, then from a CUDA graph.

    The warm-up consists of real steps, so that nothing has to be undone after it. If the capture
    fails, all later steps run without a graph. Batches of another size than the captured one run
    without it, too. An error within a replay is raised, because the state of the GPU is lost.

    Args:
        step: reads nothing from the device. Its tensors stay where they are, except new ones.
        warm_up: steps on a side stream before the capture, in which libraries choose their kernels.
    """

    def __init__(self, step: Step, warm_up: int = 3) -> None:
        self._step = step
        self._left = warm_up
        self._graph: torch.cuda.CUDAGraph | None = None
        self._fails = False
        self._inputs: list[Tensor] = []
        self._outputs: Mapping[str, Tensor] = {}

    @property
    def is_captured(self) -> bool:
        """Whether a graph holds the step."""
        return self._graph is not None

    def __call__(self, columns: Sequence[Tensor]) -> Mapping[str, Tensor]:
        """Take a step.

        Args:
            columns: the batch, on the device.

        Returns:
            The step's scalars; the next call may overwrite them.
        """
        if self._fails:
            return self._step(columns)
        if self._graph is None:
            if self._left > 0:
                return self._warm_up(columns)
            self._capture(columns)
        if self._graph is None or not self._fits(columns):
            return self._step(columns)
        for ours, column in zip(self._inputs, columns, strict=True):
            ours.copy_(column)
        self._graph.replay()
        return self._outputs

    def _warm_up(self, columns: Sequence[Tensor]) -> Mapping[str, Tensor]:
        self._left -= 1
        main, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            found = self._step(columns)
        main.wait_stream(side)
        return found

    def _capture(self, columns: Sequence[Tensor]) -> None:
        """Record the step without taking it; after a failure there is no graph."""
        try:
            self._inputs = [column.clone() for column in columns]
            graph = torch.cuda.CUDAGraph()
            # Other threads of this process may allocate memory on the GPU meanwhile.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._outputs = self._step(self._inputs)
        except RuntimeError as error:
            self._fails = True
            self._inputs, self._outputs = [], {}
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            _log.warning("step_not_captured", reason=reason)
        else:
            self._graph = graph
            _log.info("step_captured", batch=len(columns[0]))

    def _fits(self, columns: Sequence[Tensor]) -> bool:
        return [each.shape for each in columns] == [each.shape for each in self._inputs]
