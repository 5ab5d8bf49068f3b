"""The models that are in memory, by version and precision, and those that could not be loaded."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import structlog

from services.inference.loaded_model import FP32, LoadedModel
from zerofleet.errors import IncompatibleModelError, ZerofleetError

_log = structlog.get_logger()

_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 30.0
_LOADING_THREADS = 2
_BANNED = "gave non-finite outputs or failed again and again"

Key = tuple[int, str]
"""Version and precision."""


@dataclass(slots=True)
class _Failure:
    """A file that could not be loaded; tried again later, since disks and networks recover.

    Not the error itself, whose traceback would keep the half-loaded model in memory.
    """

    kind: type[ZerofleetError]
    reason: str
    retry_at: float
    pause: float


class Shelf:
    """Models in memory; used from one event loop.

    Args:
        load: version and sha256 to a model, blocking; raises as ``load`` here.
        keep: how many files at once; beyond, the longest unused leave.
    """

    def __init__(self, load: Callable[[int, str], LoadedModel], keep: int) -> None:
        self.failed_loads = 0
        self.pinned: frozenset[Key] = frozenset()
        """Models that stay, whoever else comes."""
        self._load_blocking = load
        self._keep = max(3, keep)
        self._models: OrderedDict[Key, LoadedModel] = OrderedDict()  # longest unused first
        self._loading: dict[str, asyncio.Task[LoadedModel]] = {}  # by sha256, as the next two
        self._failures: dict[str, _Failure] = {}
        self._bad: set[str] = set()  # banned
        # Loads take seconds of work or wait for a store; promotions and heartbeats go on meanwhile.
        self._threads = ThreadPoolExecutor(_LOADING_THREADS, thread_name_prefix="load")

    def get(self, version: int, precision: str) -> LoadedModel | None:
        """A model that is in memory; it counts as used."""
        model = self._models.get((version, precision))
        if model is not None:
            self._models.move_to_end((version, precision))
        return model

    def models(self) -> list[LoadedModel]:
        """All, by version."""
        return [self._models[key] for key in sorted(self._models)]

    async def load(self, version: int, precision: str, sha256: str) -> LoadedModel:
        """The model of this file; whoever asks while it is being loaded waits for the same load.

        Raises:
            IncompatibleModelError: it cannot be used.
            InferenceUnavailableError: this machine cannot run it now.
            StoreUnavailableError: the store of models does not give it now.
        """
        model = self._models.get((version, precision))
        if model is not None and model.sha256 == sha256:
            return model
        self.check(version, sha256)
        failure = self._failures.get(sha256)
        if failure is not None and time.monotonic() < failure.retry_at:
            raise failure.kind(failure.reason)
        task = self._loading.get(sha256)
        if task is None:
            task = asyncio.create_task(self._load_once(version, precision, sha256))
            task.add_done_callback(_look_at_error)
            self._loading[sha256] = task
        # Shielded: a client that goes away must not take the load from the others who wait.
        return await asyncio.shield(task)

    def check(self, version: int, sha256: str) -> None:
        """Raise ``IncompatibleModelError`` for a file that was banned."""
        if sha256 in self._bad:
            raise IncompatibleModelError(f"model version {version} {_BANNED}")

    def remove(self, model: LoadedModel) -> None:
        """Forget a model; its session goes when its last batch is done."""
        if self._models.get((model.version, model.precision)) is model:
            del self._models[model.version, model.precision]

    def ban(self, model: LoadedModel) -> bool:
        """Never use this file again; False when that was said before."""
        if model.sha256 in self._bad:
            return False
        self._bad.add(model.sha256)
        self.remove(model)
        return True

    def close(self) -> None:
        """Begin no more loads; one that runs ends by itself, and nobody waits for it."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def has_troubles(self) -> bool:
        """Whether any file could not be loaded or was banned."""
        return bool(self._failures or self._bad)

    def why_not(self, sha256: str) -> str:
        """Why a file is not in memory."""
        if sha256 in self._bad:
            return _BANNED
        failure = self._failures.get(sha256)
        return failure.reason if failure else "not in memory"

    async def _load_once(self, version: int, precision: str, sha256: str) -> LoadedModel:
        try:
            model = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._load_blocking, version, sha256
            )
        except ZerofleetError as error:
            self._note_failure(version, precision, sha256, error)
            raise
        finally:
            del self._loading[sha256]
        self._failures.pop(sha256, None)
        model = replace(model, precision=precision)
        self._models[version, precision] = model
        self._models.move_to_end((version, precision))
        self._evict((version, precision))
        _log.info("model_loaded", version=version, precision=precision, sha256=sha256)
        return model

    def _note_failure(
        self,
        version: int,
        precision: str,
        sha256: str,
        error: ZerofleetError,
    ) -> None:
        last = self._failures.get(sha256)
        pause = _FIRST_RETRY_SECONDS if last is None else min(2 * last.pause, _LAST_RETRY_SECONDS)
        reason = str(error)
        self._failures[sha256] = _Failure(type(error), reason, time.monotonic() + pause, pause)
        self.failed_loads += 1
        if last is None or last.reason != reason:
            # A variant that does not load costs speed, a version that does not is missing.
            say = _log.error if precision == FP32 else _log.warning
            say(
                "model_not_loaded",
                version=version,
                precision=precision,
                sha256=sha256,
                reason=reason,
            )

    def _evict(self, newest: Key) -> None:
        for key in [key for key in self._models if key not in self.pinned and key != newest]:
            if len(self._models) <= self._keep:
                return
            del self._models[key]  # its session goes when its last batch is done


def _look_at_error(task: asyncio.Task[LoadedModel]) -> None:
    """Everybody who waited may have gone; asyncio complains of errors that nobody looked at."""
    if not task.cancelled():
        task.exception()
