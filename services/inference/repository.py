"""Which models are in memory, and which of them is the best.

The best one follows the promotions: a newly promoted model is loaded and warmed beside the old,
then one reference changes. A model that cannot be loaded leaves the old one in place. Other
versions are loaded when somebody asks for them, and the longest unused leave first.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import structlog

from services.inference.model import LoadedModel
from zerofleet import rpc
from zerofleet.errors import (
    IncompatibleModelError,
    InferenceUnavailableError,
    StoreUnavailableError,
)

_log = structlog.get_logger()

_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 30.0
_EARLIER = 8  # promotions that are tried, newest first, when the best model does not load


@dataclass(frozen=True, slots=True)
class Promoted:
    """A promotion: the greater ``seq``, the newer."""

    seq: int
    version: int
    sha256: str


class ModelSource(Protocol):
    """What the stores know about one run's models; all methods block."""

    def best(self) -> Promoted | None:
        """The newest promotion as far as is cheap to know; None before the first.

        It is checked against ``promotions`` before it is followed.

        Raises:
            StoreUnavailableError: neither store answers.
        """
        ...

    def promotions(self) -> Sequence[Promoted]:
        """All promotions, newest first.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        ...

    def sha256(self, version: int) -> str:
        """The name of a version's file.

        Raises:
            ModelNotFoundError: there is no such version.
            StoreUnavailableError: Postgres does not answer.
        """
        ...

    def versions(self) -> Sequence[int]:
        """All versions.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        ...


@dataclass(slots=True)
class _Failure:
    """A file that could not be loaded; tried again later, since disks and networks recover."""

    reason: str
    retry_at: float
    pause: float


class Repository:
    """The models of one run; used from one event loop.

    Args:
        run: name of the run.
        source: the stores.
        load: blocking; raises ``IncompatibleModelError``.
        keep: versions in memory at once, the best and its predecessor among them.
    """

    def __init__(
        self,
        run: str,
        source: ModelSource,
        load: Callable[[int, str], LoadedModel],
        keep: int = 6,
    ) -> None:
        self.run = run
        self.waiting_for = "the first promoted model"
        """What keeps the best model away, for people; empty when it serves."""
        self.failed_loads = 0
        self._source = source
        self._load_blocking = load
        self._keep = max(3, keep)
        self._loaded: OrderedDict[int, LoadedModel] = OrderedDict()  # longest unused first
        self._best: list[tuple[Promoted, LoadedModel]] = []  # newest first, two at most
        self._loading: dict[str, asyncio.Task[LoadedModel]] = {}
        self._failures: dict[str, _Failure] = {}  # by sha256
        self._lookups = ThreadPoolExecutor(2, thread_name_prefix="lookup")
        self._bad: set[str] = set()  # sha256 of models that gave non-finite outputs

    def peek(self, version: int | None) -> LoadedModel | None:
        """A version that is in memory, None for the best; costs next to nothing."""
        if version is None:
            return self._best[0][1] if self._best else None
        model = self._loaded.get(version)
        if model is not None:
            self._loaded.move_to_end(version)
        return model

    async def get(self, version: int | None) -> LoadedModel:
        """A version, loaded if need be.

        Raises:
            ModelNotFoundError: there is no such version.
            IncompatibleModelError: it cannot be used.
            InferenceUnavailableError: there is no best model yet.
            StoreUnavailableError: it is not in memory and Postgres does not answer.
        """
        model = self.peek(version)
        if model is not None:
            return model
        if version is None:
            raise InferenceUnavailableError(f"waiting for {self.waiting_for}")
        return await self._load(version, await self._look_up(version))

    async def check(self, version: int | None) -> None:
        """Raise ``ModelNotFoundError`` when there is no such version."""
        if version is not None and version not in self._loaded:
            await self._look_up(version)

    async def _look_up(self, version: int) -> str:
        # On threads of its own: when Postgres hangs, so do these, and nothing else should.
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._lookups, self._source.sha256, version)

    def loaded(self) -> list[LoadedModel]:
        """Models in memory, by version."""
        return sorted(self._loaded.values(), key=lambda model: model.version)

    async def index(self) -> list[rpc.ModelState]:
        """Every version that is known, with what is wrong with it."""
        try:
            versions = set(await asyncio.to_thread(self._source.versions))
        except StoreUnavailableError:
            versions = set[int]()
        states: list[rpc.ModelState] = []
        for version in sorted(versions | set(self._loaded)):
            ready = version in self._loaded
            reason = "" if ready else await self._why_not(version)
            states.append(rpc.ModelState(self.run, version, ready, reason))
        return states

    async def _why_not(self, version: int) -> str:
        if not self._failures and not self._bad:
            return "not in memory"
        sha256 = await self._look_up(version)
        if sha256 in self._bad:
            return "gave non-finite outputs"
        failure = self._failures.get(sha256)
        return failure.reason if failure else "not in memory"

    async def follow_best(self, every_seconds: float) -> None:
        """Keep up with the promotions, for ever."""
        while True:
            await self.refresh()
            await asyncio.sleep(every_seconds)

    async def refresh(self) -> None:
        """Look once; swap when a newer promotion can be loaded."""
        try:
            newest = await asyncio.to_thread(self._source.best)
            if newest is None:
                if not self._best:
                    self.waiting_for = "the first promoted model"
            elif not self._best or newest != self._best[0][0]:
                await self._follow(newest)
        except StoreUnavailableError as error:
            if not self._best:
                self.waiting_for = f"a store that names the best model: {error}"

    async def _follow(self, pointed: Promoted) -> None:
        """Move to the end of the chain; without Postgres, to what the pointer names if newer.

        A best model that is no part of the chain (the pointer was left by an older run of this
        name) gives way to any promotion that loads, whatever its ``seq``.
        """
        try:
            chain = await asyncio.to_thread(self._source.promotions)
        except StoreUnavailableError:
            if not self._best or pointed.seq > self._best[0][0].seq:
                await self._try(pointed)
            return
        if not chain:
            if not self._best:
                self.waiting_for = "the first promoted model"
            return
        present = self._best[0][0] if self._best else None
        if present is not None and present in chain:
            if chain[0].seq > present.seq:
                await self._try(chain[0])
            return
        for promoted in chain[:_EARLIER]:  # an earlier best model is better than none
            if await self._try(promoted):
                self._forget_others(chain)
                return

    def _forget_others(self, chain: Sequence[Promoted]) -> None:
        """Drop best models that are no part of the chain: it has other models of their versions."""
        others = [model for promoted, model in self._best if promoted not in chain]
        self._best = [entry for entry in self._best if entry[0] in chain]
        for model in others:
            if self._loaded.get(model.version) is model and model is not self._best[0][1]:
                del self._loaded[model.version]

    async def _try(self, promoted: Promoted) -> bool:
        try:
            model = await self._load(promoted.version, promoted.sha256)
        except IncompatibleModelError as error:
            if not self._best:
                self.waiting_for = f"a best model that loads: {error}"
            return False
        self._swap(promoted, model)
        return True

    def _swap(self, promoted: Promoted, model: LoadedModel) -> None:
        self._best.insert(0, (promoted, model))
        del self._best[2:]
        self.waiting_for = ""
        _log.info("best_model_changed", version=model.version, seq=promoted.seq)

    async def _load(self, version: int, sha256: str) -> LoadedModel:
        model = self._loaded.get(version)
        if model is not None and model.sha256 == sha256:
            return model
        if sha256 in self._bad:
            raise IncompatibleModelError(f"model version {version} gave non-finite outputs")
        failure = self._failures.get(sha256)
        if failure is not None and time.monotonic() < failure.retry_at:
            raise IncompatibleModelError(failure.reason)
        task = self._loading.get(sha256)
        if task is None:
            task = asyncio.create_task(self._load_once(version, sha256))
            task.add_done_callback(_look_at_error)
            self._loading[sha256] = task
        # Shielded: a client that goes away must not take the load from the others who wait.
        return await asyncio.shield(task)

    async def _load_once(self, version: int, sha256: str) -> LoadedModel:
        try:
            model = await asyncio.to_thread(self._load_blocking, version, sha256)
        except IncompatibleModelError as error:
            self._note_failure(version, sha256, str(error))
            raise
        finally:
            del self._loading[sha256]
        self._failures.pop(sha256, None)
        self._loaded[version] = model
        self._loaded.move_to_end(version)
        self._evict()
        _log.info("model_loaded", version=version, sha256=sha256)
        return model

    def _note_failure(self, version: int, sha256: str, reason: str) -> None:
        last = self._failures.get(sha256)
        pause = _FIRST_RETRY_SECONDS if last is None else min(2 * last.pause, _LAST_RETRY_SECONDS)
        self._failures[sha256] = _Failure(reason, time.monotonic() + pause, pause)
        self.failed_loads += 1
        if last is None or last.reason != reason:
            _log.error("model_not_loaded", version=version, sha256=sha256, reason=reason)

    def _evict(self) -> None:
        pinned = {model.version for _, model in self._best}
        for version in [v for v in self._loaded if v not in pinned]:
            if len(self._loaded) <= self._keep:
                return
            del self._loaded[version]  # its session goes when its last batch is done

    def mark_bad(self, model: LoadedModel) -> None:
        """Use a model no more; if it was the best, its predecessor is again."""
        if model.sha256 in self._bad:
            return
        self._bad.add(model.sha256)
        if self._loaded.get(model.version) is model:
            del self._loaded[model.version]
        self._best = [entry for entry in self._best if entry[1] is not model]
        if not self._best:
            self.waiting_for = (
                f"a best model other than {model.version}, whose outputs are not finite"
            )
        _log.error("model_marked_bad", version=model.version, sha256=model.sha256)


def _look_at_error(task: asyncio.Task[LoadedModel]) -> None:
    """Everybody who waited may have gone; asyncio complains of errors that nobody looked at."""
    if not task.cancelled():
        task.exception()
