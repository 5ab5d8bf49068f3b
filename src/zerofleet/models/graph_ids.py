"""Which recorded CUDA graph belongs to which buffers.

ONNX Runtime replays the graph of the number that a run names and looks at nothing else: with other
shapes or other buffers it would write the answer of an earlier run, without an error.
"""

from __future__ import annotations

from collections.abc import Sequence

Buffers = tuple[tuple[int, tuple[int, ...]], ...]
"""Address and shape of each input and output, in order."""


class GraphIds:
    """The numbers of one session's graphs; 0 is left to ONNX Runtime, which uses it unasked."""

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
            AssertionError: they are not; the answer would be wrong and nobody would be told.
        """
        recorded = self._recorded.get(graph_id)
        if recorded != buffers:
            raise AssertionError(
                f"CUDA graph {graph_id} was recorded with {_told(recorded)} and would be replayed "
                f"for {_told(buffers)}"
            )


def _told(buffers: Sequence[tuple[int, tuple[int, ...]]] | None) -> str:
    if buffers is None:
        return "nothing"
    return ", ".join(f"{shape} at {address:#x}" for address, shape in buffers)
