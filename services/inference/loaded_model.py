"""A model in memory: verified bytes, loaded once for each model thread, and warm."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import (
    IncompatibleModelError,
    ModelNotFoundError,
    StoreUnavailableError,
)
from zerofleet.models.session import not_loaded

FP32 = "fp32"


class Session(Protocol):
    """A model that runs on one thread; ``zerofleet.models.ModelSession`` is one."""

    def run(
        self, observations: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        """Logits ``[batch, num_actions]`` and value ``[batch]``."""
        ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LoadedModel:
    """One version in one precision, ready to run."""

    version: int
    sha256: str
    sessions: Sequence[Session]  # one for each model thread
    precision: str = FP32
    loaded_at: float = field(default_factory=time.time)

    def run(
        self, thread: int, observations: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        """Predict on the calling model thread's own session."""
        return self.sessions[thread].run(observations)


class ModelLoader:
    """Turns a name into a loaded model; blocking, so call it on another thread.

    Args:
        read: verified bytes of a sha256.
        open_session: a session of one thread from those bytes.
        sessions: how many to open.
        warm_up: observations ``[rows, observation_bytes]`` of a real position, run once on each
            session, so that the first client does not pay for what is set up lazily.
    """

    def __init__(
        self,
        read: Callable[[str], bytes],
        open_session: Callable[[bytes], Session],
        sessions: int,
        warm_up: NDArray[np.uint8],
    ) -> None:
        self._read = read
        self._open_session = open_session
        self._sessions = sessions
        self._warm_up = warm_up

    def __call__(self, version: int, sha256: str) -> LoadedModel:
        """Load a version.

        Raises:
            IncompatibleModelError: the file is missing or damaged, does not fit the game, or does
                not answer a real position with finite numbers.
            InferenceUnavailableError: memory is short, or the GPU fails.
            StoreUnavailableError: the disk or the bucket does not give it now.
        """
        try:
            model_bytes = self._read(sha256)
        except ModelNotFoundError as error:
            raise IncompatibleModelError(f"model version {version}: {error}") from error
        except (StoreUnavailableError, OSError) as error:
            raise StoreUnavailableError(f"model version {version}: {error}") from error
        sessions = [self._open_session(model_bytes) for _ in range(self._sessions)]
        for session in sessions:
            try:
                policy_logits, value = session.run(self._warm_up)
            except Exception as error:
                raise not_loaded(f"model version {version} does not run", error) from error
            if not (np.isfinite(policy_logits).all() and np.isfinite(value).all()):
                raise IncompatibleModelError(
                    f"model version {version} answers the start of the game with numbers that are "
                    "not finite"
                )
        return LoadedModel(version, sha256, tuple(sessions))
