"""What the tensor-level service asks of the process that runs the models."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from zerofleet.prediction import Prediction
from zerofleet.rpc.codec import RequestShape


@dataclass(frozen=True, slots=True)
class Duration:
    """How often something happened, and the nanoseconds of all times together."""

    count: int = 0
    ns: int = 0


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """Batches of one size."""

    rows: int
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


@dataclass(frozen=True, slots=True)
class ModelCounters:
    """What one model has done since it was loaded.

    ``success``, ``queue`` and the three ``compute_*`` have equal counts (answered requests), as
    measuring clients demand.
    """

    version: int
    rows: int = 0
    executions: int = 0
    last_inference_ms: int = 0
    success: Duration = Duration()
    fail: Duration = Duration()
    queue: Duration = Duration()
    compute_input: Duration = Duration()
    compute_infer: Duration = Duration()
    compute_output: Duration = Duration()
    batches: Sequence[BatchStatistics] = field(default=())


@dataclass(frozen=True, slots=True)
class ModelState:
    """One known version; ``reason`` says why it is not ready."""

    run: str
    version: int
    ready: bool
    reason: str = ""


class InferenceBackend(Protocol):
    """Runs models; versions are numbers, and None stands for the best one."""

    def ready(self) -> bool:
        """Whether the best model is loaded."""
        ...

    def runs(self) -> Sequence[str]:
        """The runs whose models are served here."""
        ...

    @property
    def provider(self) -> str:
        """What the models run on: cpu, cuda, tensorrt or openvino."""
        ...

    def shape(self, run: str) -> RequestShape:
        """What models of the run take and give.

        Raises:
            ModelNotFoundError: not a run of this server.
        """
        ...

    def submit(
        self,
        run: str,
        version: int | None,
        observations: NDArray[np.uint8],
        deadline: float | None,
        precision: str | None = None,
    ) -> asyncio.Future[Prediction]:
        """Queue a batch. Cancelling the future takes it back.

        Args:
            run: a run that ``shape`` knows.
            version: None for the best.
            observations: ``[rows, observation_bytes]`` uint8, checked.
            deadline: by ``time.monotonic()``; rows still waiting then are dropped.
            precision: the variant that has to answer; None: whichever this server takes.

        Raises:
            ZerofleetError: at once or from the future.
        """
        ...

    async def model_ready(self, run: str, version: int | None) -> bool:
        """Whether the version answers, loading it first if need be."""
        ...

    async def check(self, run: str, version: int | None) -> None:
        """Find out whether the version exists.

        Raises:
            ModelNotFoundError: it does not.
        """
        ...

    def loaded_versions(self, run: str) -> list[int]:
        """Versions in memory, ascending."""
        ...

    def parameters(self, run: str, version: int | None) -> Mapping[str, str]:
        """What clients are told of how a version is run: its provider, its precision."""
        ...

    def counters(self, run: str) -> list[ModelCounters]:
        """Counters of the versions in memory."""
        ...

    async def index(self) -> list[ModelState]:
        """Every known version."""
        ...
