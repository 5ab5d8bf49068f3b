"""Models in memory: verified bytes, loaded once for each model thread, and warm.

A version may have variants in several precisions. ``Precisions`` chooses the one that answers: the
one that is fastest here, or the one that the run file names.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Protocol

import numpy as np
import structlog
from numpy.typing import NDArray

from zerofleet.errors import (
    IncompatibleModelError,
    InferenceUnavailableError,
    ModelNotFoundError,
    StoreUnavailableError,
    ZerofleetError,
)
from zerofleet.models.session import not_loaded
from zerofleet.prediction import FP32, ModelFile

_log = structlog.get_logger()

_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 30.0
_LOADING_THREADS = 2
_BANNED = "gave non-finite outputs or failed again and again"

Key = tuple[int, str]
"""Version and precision."""

AUTO = "auto"


class Session(Protocol):
    """A model that runs on one thread; ``zerofleet.models.ModelSession`` is one."""

    def run(
        self, observations: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        """Logits ``[batch, num_actions]`` and value ``[batch]``."""
        ...

    def paused(self) -> AbstractContextManager[object]:
        """Let no other thread run it meanwhile, where it shares a device with other sessions."""
        ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LoadedModel:
    """One version in one precision, ready to run."""

    file: ModelFile
    sessions: Sequence[Session]  # one for each model thread
    loaded_at: float = field(default_factory=time.time)

    @property
    def version(self) -> int:
        """Number of the model."""
        return self.file.version

    @property
    def precision(self) -> str:
        """Precision of this file of it."""
        return self.file.precision

    def run(
        self, thread: int, observations: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        """Predict on the calling model thread's own session."""
        return self.sessions[thread].run(observations)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Let no other thread run it meanwhile, where it shares a device with other models."""
        with ExitStack() as stack:
            for session in self.sessions:
                stack.enter_context(session.paused())
            yield


class ModelLoader:
    """Turns a file into a loaded model; blocking, so call it on another thread.

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

    def __call__(self, file: ModelFile) -> LoadedModel:
        """Load a file.

        Raises:
            IncompatibleModelError: the file is missing or damaged, does not fit the game, or does
                not answer a real position with finite numbers.
            InferenceUnavailableError: memory is short, or the GPU fails.
            StoreUnavailableError: the disk or the bucket does not give it now.
        """
        version = file.version
        try:
            model_bytes = self._read(file.sha256)
        except ModelNotFoundError as error:
            raise IncompatibleModelError(f"cannot load model version {version}: {error}") from error
        except (StoreUnavailableError, OSError) as error:
            raise StoreUnavailableError(f"cannot load model version {version}: {error}") from error
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
        return LoadedModel(file, tuple(sessions))


@dataclass(slots=True)
class _Failure:
    """A file that could not be loaded; tried again later, since disks and networks recover.

    Not the error itself, whose traceback would keep the half-loaded model in memory.
    """

    kind: type[ZerofleetError]
    reason: str
    retry_at: float
    pause: float


class LoadedModels:
    """The models in memory, by version and precision, and the files that could not be loaded.

    Used from one event loop.

    Args:
        load: file to a model, blocking; raises as ``load`` here.
        keep: how many files at once; beyond, the longest unused are dropped. Where this machine
            fails to load one, memory may be short: the longest unused is dropped then, too.
    """

    def __init__(self, load: Callable[[ModelFile], LoadedModel], keep: int) -> None:
        self.failed_loads = 0
        self.pinned: frozenset[Key] = frozenset()
        """Models that are never dropped for others."""
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

    async def load(self, file: ModelFile) -> LoadedModel:
        """The model of this file; callers that ask while it is being loaded wait for the same load.

        Raises:
            IncompatibleModelError: it cannot be used.
            InferenceUnavailableError: this machine cannot run it now.
            StoreUnavailableError: the store of models does not give it now.
        """
        model = self._models.get((file.version, file.precision))
        if model is not None and model.file == file:
            return model
        self.check(file)
        failure = self._failures.get(file.sha256)
        if failure is not None and time.monotonic() < failure.retry_at:
            raise failure.kind(failure.reason)
        task = self._loading.get(file.sha256)
        if task is None:
            task = asyncio.create_task(self._load_once(file))
            task.add_done_callback(_look_at_error)
            self._loading[file.sha256] = task
        # Shielded: a client that goes away must not end the load for others that wait for it.
        return await asyncio.shield(task)

    def check(self, file: ModelFile) -> None:
        """Raise ``IncompatibleModelError`` for a file that was banned."""
        if file.sha256 in self._bad:
            raise IncompatibleModelError(f"model version {file.version} {_BANNED}")

    def remove(self, model: LoadedModel) -> None:
        """Forget a model; its session goes when its last batch is done."""
        if self._models.get((model.version, model.precision)) is model:
            del self._models[model.version, model.precision]

    def ban(self, model: LoadedModel) -> bool:
        """Never use this file again; False when that was said before."""
        if model.file.sha256 in self._bad:
            return False
        self._bad.add(model.file.sha256)
        self.remove(model)
        return True

    def close(self) -> None:
        """Begin no further loads; one that runs ends before the process does."""
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

    async def _load_once(self, file: ModelFile) -> LoadedModel:
        try:
            model = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._load_blocking, file
            )
        except ZerofleetError as error:
            failure = self._note_failure(file, error)
        else:
            return self._take_in(model)
        finally:
            del self._loading[file.sha256]
        if issubclass(failure.kind, InferenceUnavailableError):
            self._evict(len(self._models) - 1)
        raise failure.kind(failure.reason)  # the error itself is let go: see `_Failure`

    def _take_in(self, model: LoadedModel) -> LoadedModel:
        key = model.version, model.precision
        self._failures.pop(model.file.sha256, None)
        self._models[key] = model
        self._models.move_to_end(key)
        self._evict(self._keep, newest=key)
        _log.info("model_loaded", **asdict(model.file))
        return model

    def _note_failure(self, file: ModelFile, error: ZerofleetError) -> _Failure:
        last = self._failures.get(file.sha256)
        pause = _FIRST_RETRY_SECONDS if last is None else min(2 * last.pause, _LAST_RETRY_SECONDS)
        reason = str(error)
        failure = _Failure(type(error), reason, time.monotonic() + pause, pause)
        self._failures[file.sha256] = failure
        self.failed_loads += 1
        if last is None or last.reason != reason:
            # A variant that does not load costs speed, a version that does not is missing.
            say = _log.error if file.precision == FP32 else _log.warning
            say("model_not_loaded", **asdict(file), reason=reason)
        return failure

    def _evict(self, keep: int, newest: Key | None = None) -> None:
        for key in [key for key in self._models if key not in self.pinned and key != newest]:
            if len(self._models) <= keep:
                return
            del self._models[key]  # its session goes when its last batch is done


def _look_at_error(task: asyncio.Task[LoadedModel]) -> None:
    """Read the error: if all clients have gone, asyncio would complain that it was never read."""
    if not task.cancelled():
        task.exception()


class Precisions:
    """The choice for one process.

    Args:
        wanted: ``auto``, or the precision that answers where a version has it.
        runs: precisions that ``auto`` may take here.
        fastest: of several precisions of one version; blocking.
    """

    def __init__(
        self,
        wanted: str = FP32,
        runs: Collection[str] = (),
        fastest: Callable[[Sequence[LoadedModel]], LoadedModel] | None = None,
    ) -> None:
        self._wanted = wanted
        self._runs = runs
        self._fastest = fastest
        self._settled: dict[frozenset[str], str] = {}
        self._said_missing = False

    @property
    def only_fp32(self) -> bool:
        """Whether no version's variants need to be looked up."""
        return self._wanted == FP32

    def usable(self, files: Mapping[str, ModelFile]) -> dict[str, ModelFile]:
        """Return a version's variants that may answer for it unasked, by precision."""
        allowed = self._runs if self._wanted == AUTO else {self._wanted} - {FP32}
        return {precision: file for precision, file in files.items() if precision in allowed}

    def settled(self, usable: Collection[str]) -> str | None:
        """Return the precision that answers for these variants; None: measure first."""
        if not usable:
            return FP32
        return self._wanted if self._wanted != AUTO else self._settled.get(frozenset(usable))

    def settle(self, models: Sequence[LoadedModel]) -> str:
        """Measure one version's models, fp32 among them, and keep to what comes out. Blocking."""
        assert self._fastest is not None
        fastest = self._fastest(models).precision
        variants = frozenset(model.precision for model in models) - {FP32}
        self._settled[variants] = fastest
        return fastest

    def miss(self, version: int) -> None:
        """Say once that a version lacks the precision that was named."""
        if self._wanted not in (AUTO, FP32) and not self._said_missing:
            self._said_missing = True
            reason = "not published or not accepted"
            _log.warning("precision_missing", wanted=self._wanted, version=version, reason=reason)
