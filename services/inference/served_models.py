"""The models that a run serves: as the stores name them, and in which precision each answers.

The best one follows the promotions: a newly promoted model is loaded and warmed next to the old,
then one reference changes. A model that cannot be loaded leaves the old one in place. Other
versions are loaded when a client asks for them, and the longest unused are dropped first.

A promoted version answers in fp32 first. A faster variant of it is loaded as well, and then one
reference changes again; fp32 stays in memory, and takes over from a variant that fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeVar, TypeVarTuple

import structlog

from zerofleet.best_pointer import BestPointer
from zerofleet.database import InferenceDatabase, Promotion
from zerofleet.errors import (
    InferenceUnavailableError,
    ModelNotFoundError,
    StoreUnavailableError,
    ZerofleetError,
)
from zerofleet.prediction import FP32, ModelFile
from zerofleet.rpc.inference_service import ModelState
from zerofleet.services.inference.loaded_models import LoadedModel, LoadedModels, Precisions
from zerofleet.waiting import FIRST_MODEL, WorkStatus

_log = structlog.get_logger()

_MOST_CHARACTERS = 60  # an error repeats no more than this of a client's text
_CHECK_SECONDS = 60.0  # between two checks of the loaded versions' rows
_EARLIER = 8  # promotions that are tried, newest first, when the best model does not load

_T = TypeVar("_T")
_Arguments = TypeVarTuple("_Arguments")


class ModelSource(Protocol):
    """Rows and promotions of one run's models, as the stores have them; all methods block."""

    def best(self) -> Promotion | None:
        """The newest promotion as far as is cheap to know; None before the first.

        It is checked against ``promotions`` before it is followed.

        Raises:
            StoreUnavailableError: neither store answers.
        """
        ...

    def promotions(self) -> Sequence[Promotion]:
        """All promotions, newest first.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        ...

    def files(self, version: int) -> Mapping[str, ModelFile]:
        """Return the files of a version by precision: fp32 and the accepted variants.

        Raises:
            ModelNotFoundError: there is no such version, or its files are not kept.
            StoreUnavailableError: Postgres does not answer.
        """
        ...

    def refresh(self) -> None:
        """Read again what is cached of versions.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        ...

    def versions(self) -> Sequence[int]:
        """All versions.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        ...


class StoredModels:
    """A ``ModelSource`` over both stores.

    The pointer in Redis may belong to another chain until the evaluator repairs it, so
    ``ServedModels`` believes ``promotions`` before it. Models and variants are append-only, so
    their rows are cached. Only a failover of Postgres that loses the newest rows can replace a
    version: ``refresh`` finds it.
    """

    def __init__(self, run: str, database: InferenceDatabase, pointer: BestPointer) -> None:
        self._run = run
        self._database = database
        self._pointer = pointer
        self._files: dict[int, dict[str, ModelFile]] = {}

    def best(self) -> Promotion | None:
        """See ``ModelSource``."""
        return self._pointer.newest(self._database)

    def promotions(self) -> list[Promotion]:
        """See ``ModelSource``."""
        return self._database.promotions(self._run)

    def files(self, version: int) -> dict[str, ModelFile]:
        """See ``ModelSource``."""
        known = self._files.get(version)
        if known is None:
            row = self._database.model(self._run, version)
            found = self._read([version])
            if row is None or version not in found:
                raise ModelNotFoundError(f"model '{self._run}' has no version {version}")
            if row.removed_at is not None and row.removed_at <= datetime.now(UTC):
                raise ModelNotFoundError(
                    f"model '{self._run}' version {version} is not kept any more: its files "
                    f"went at {row.removed_at:%Y-%m-%d %H:%M} UTC ([retention] of the run file)"
                )
            known = self._files[version] = found[version]
        return known

    def refresh(self) -> None:
        """See ``ModelSource``."""
        self._files = self._read(list(self._files))

    def _read(self, versions: Collection[int]) -> dict[int, dict[str, ModelFile]]:
        found: dict[int, dict[str, ModelFile]] = {}
        for file in self._database.model_files(self._run, versions):
            found.setdefault(file.version, {})[file.precision] = file
        return found

    def versions(self) -> list[int]:
        """See ``ModelSource``."""
        return [row.version for row in self._database.models(self._run)]


@dataclass(slots=True)
class _Answering:
    """A promotion and the model that answers for it."""

    promoted: Promotion
    model: LoadedModel


class ServedModels:
    """The models of one run; used from one event loop.

    Args:
        load: file to a model, blocking; raises as ``ModelLoader``.
        keep: files in memory at once, with the files of the best version and its predecessor.
        precisions: which variant answers; unset: fp32 alone.
    """

    def __init__(
        self,
        run: str,
        source: ModelSource,
        load: Callable[[ModelFile], LoadedModel],
        keep: int = 6,
        precisions: Precisions | None = None,
    ) -> None:
        self.run = run
        self.waiting_for = FIRST_MODEL
        """The reason that the best model does not serve, for people; empty when it does."""
        self._source = source
        self._in_memory = LoadedModels(load, keep)
        self._precisions = precisions or Precisions()
        self._best: list[_Answering] = []  # newest first, two at most
        self._failed: tuple[Promotion, str] | None = None  # the newest that did not load, and why
        self._answering: dict[int, str] = {}  # by version: the precision, where it is not fp32
        self._lookups = ThreadPoolExecutor(2, thread_name_prefix="lookup")
        self._swapped = asyncio.Event()

    def close(self) -> None:
        """Look up and load nothing more."""
        self._lookups.shutdown(wait=False, cancel_futures=True)
        self._in_memory.close()

    def require(self, run: str) -> None:
        """Refuse models of other runs.

        Raises:
            ModelNotFoundError: it is another run.
        """
        if run != self.run:
            shown = run[:_MOST_CHARACTERS]
            raise ModelNotFoundError(f"unknown model '{shown}': this server has '{self.run}'")

    @property
    def status(self) -> WorkStatus:
        """Idle before the first promotion, blocked while the best model cannot be served."""
        if not self.waiting_for:
            return "running"
        return "idle" if self.waiting_for == FIRST_MODEL else "blocked"

    @property
    def best_fault(self) -> str:
        """Why an earlier model answers for the best one, for people; empty: none has to."""
        if self._failed is None or not self._best:
            return ""
        failed, reason = self._failed
        return (
            f"model {failed.version}: {reason}" if failed.seq > self._best[0].promoted.seq else ""
        )

    @property
    def failed_loads(self) -> int:
        """How often a file could not be loaded."""
        return self._in_memory.failed_loads

    def peek(self, version: int | None, precision: str | None = None) -> LoadedModel | None:
        """A version that is in memory, None for the best; costs next to nothing.

        Args:
            version: None for the best.
            precision: None for the one that answers for this version here.
        """
        if version is None:
            if not self._best or precision is None:
                return self._best[0].model if self._best else None
            version = self._best[0].promoted.version
        return self._in_memory.get(version, precision or self._answering.get(version, FP32))

    async def get(self, version: int | None, precision: str | None = None) -> LoadedModel:
        """A version, loaded if need be; for ``precision`` see ``peek``.

        Raises:
            ModelNotFoundError: there is no such version, or it has no accepted file of this
                precision.
            IncompatibleModelError: it cannot be used.
            InferenceUnavailableError: there is no best model yet, or this machine has no room for
                the one that is meant.
            StoreUnavailableError: it is not in memory, and Postgres or the store of models is down.
        """
        model = self.peek(version, precision)
        if model is not None:
            return model
        if version is None:
            if not self._best:
                raise InferenceUnavailableError(f"waiting for {self.waiting_for}")
            version = self._best[0].promoted.version
        if precision is None:
            return await self._load_answering(version)
        files = await self._files(version)
        if precision not in files:
            raise ModelNotFoundError(
                f"model '{self.run}' version {version} has no accepted variant {precision}"
            )
        return await self._in_memory.load(files[precision])

    async def check(self, version: int | None) -> None:
        """Raise ``ModelNotFoundError`` when there is no such version."""
        if version is not None and self.peek(version) is None:
            await self._files(version)

    async def _files(self, version: int) -> Mapping[str, ModelFile]:
        return await self._look_up(self._source.files, version)

    async def _look_up(self, ask: Callable[[*_Arguments], _T], *arguments: *_Arguments) -> _T:
        # On threads of its own: when Postgres hangs, so do these, and nothing else should.
        return await asyncio.get_running_loop().run_in_executor(self._lookups, ask, *arguments)

    def loaded(self) -> list[LoadedModel]:
        """Models in memory, by version."""
        return self._in_memory.models()

    async def index(self) -> list[ModelState]:
        """Every version that is known, with what is wrong with it."""
        try:
            versions = set(await self._look_up(self._source.versions))
        except StoreUnavailableError:
            versions = set[int]()
        loaded = {model.version for model in self.loaded()}
        states: list[ModelState] = []
        for version in sorted(versions | loaded):
            ready = version in loaded
            reason = "" if ready else await self._why_not(version)
            states.append(ModelState(self.run, version, ready, reason))
        return states

    async def _why_not(self, version: int) -> str:
        if not self._in_memory.has_troubles:
            return "not in memory"
        return self._in_memory.why_not((await self._files(version))[FP32].sha256)

    async def follow_best(self, every_seconds: float) -> None:
        """Follow the promotions, forever."""
        while True:
            await self.refresh()
            await asyncio.sleep(every_seconds)

    async def follow_variants(self, every_seconds: float) -> None:
        """Follow the best version's variants, forever; at once after each promotion.

        Also drop replaced versions once a minute.
        """
        check_at = time.monotonic() + _CHECK_SECONDS
        while True:
            self._swapped.clear()
            await self.refresh_variants()
            if time.monotonic() >= check_at:
                await self.drop_replaced()
                check_at = time.monotonic() + _CHECK_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every_seconds):
                    await self._swapped.wait()

    async def refresh(self) -> None:
        """Look once; swap when a newer promotion can be loaded."""
        try:
            newest = await asyncio.to_thread(self._source.best)
            if newest is None:
                if not self._best:
                    self.waiting_for = FIRST_MODEL
            elif not self._best or newest != self._best[0].promoted:
                await self._follow(newest)
        except StoreUnavailableError as error:
            if not self._best:
                self.waiting_for = f"the best model: {error}"

    async def refresh_variants(self) -> None:
        """Look once; let the best version's fastest variant answer."""
        if self._precisions.only_fp32:
            return
        try:
            if self._best:
                await self._improve(self._best[0])
        except ZerofleetError:
            return  # the precision that answers now goes on

    async def drop_replaced(self) -> None:
        """Drop loaded versions whose rows are gone or name another file; not the best ones.

        A failover of Postgres may lose the newest rows, and the trainer may then publish another
        model under the same number. Best models follow the promotions instead.
        """
        try:
            await self._look_up(self._source.refresh)
            for model in self.loaded():
                best = {answering.promoted.version for answering in self._best}
                if model.version not in best and await self._is_replaced(model):
                    self._in_memory.remove(model)
                    self._answering.pop(model.version, None)
                    _log.warning("replaced_model_dropped", **asdict(model.file))
        except ZerofleetError:
            return  # the stores are down; the next check will do

    async def _is_replaced(self, model: LoadedModel) -> bool:
        """Return whether the stores name no file or another one for this version and precision."""
        try:
            files = await self._files(model.version)
        except ModelNotFoundError:
            return True
        return files.get(model.precision) != model.file

    async def _follow(self, pointed: Promotion) -> None:
        """Move to the end of the chain; without Postgres, to what the pointer names if newer.

        A best model that is no part of the chain (the pointer was left by an older run of this
        name) gives way to any promotion that loads, whatever its ``seq``.
        """
        try:
            chain = await asyncio.to_thread(self._source.promotions)
        except StoreUnavailableError:
            if not self._best or pointed.seq > self._best[0].promoted.seq:
                await self._try(pointed)
            return
        if not chain:
            if not self._best:
                self.waiting_for = FIRST_MODEL
            return
        present = self._best[0].promoted if self._best else None
        if present is not None and present in chain:
            if chain[0].seq > present.seq:
                await self._try(chain[0])
            return
        for promoted in chain[:_EARLIER]:  # an earlier best model is better than none
            if await self._try(promoted):
                self._forget_others(chain)
                return

    def _forget_others(self, chain: Sequence[Promotion]) -> None:
        """Drop best models that are no part of the chain: it has other models of their versions."""
        if self._failed is not None and self._failed[0] not in chain:
            self._failed = None
        others = [best.model for best in self._best if best.promoted not in chain]
        self._best = [best for best in self._best if best.promoted in chain]
        for model in others:
            if model is not self._best[0].model:
                self._in_memory.remove(model)

    async def _try(self, promoted: Promotion) -> bool:
        try:
            model = await self._in_memory.load(ModelFile(promoted.version, FP32, promoted.sha256))
        except ZerofleetError as error:
            if self._failed is None or promoted.seq >= self._failed[0].seq:
                self._failed = promoted, str(error)
            if not self._best:
                self.waiting_for = f"a best model that loads: {error}"
            return False
        self._best.insert(0, _Answering(promoted, model))
        del self._best[2:]
        self._answering.pop(promoted.version, None)
        self._pin()
        self.waiting_for = ""
        self._swapped.set()
        _log.info("best_model_changed", version=model.version, seq=promoted.seq)
        return True

    async def _improve(self, best: _Answering) -> None:
        """Let the variant answer that should, for the best version."""
        version = best.promoted.version
        files = await self._files(version)
        if files[FP32].sha256 != best.promoted.sha256:
            return  # the stores speak of another model of this number
        usable = self._precisions.usable(files)
        if not usable:
            self._precisions.miss(version)
        precision = self._precisions.settled(usable)
        if precision is None:
            models = [await self._in_memory.load(files[FP32])]
            for variant in usable.values():
                models += [m for m in [await self._variant(variant)] if m]
            precision = self._precisions.settled([m.precision for m in models[1:]])
            if precision is None:
                precision = await asyncio.to_thread(self._precisions.settle, models)
        model = None
        if precision != FP32:
            model = await self._variant(files[precision])
        if model is None:
            model = await self._in_memory.load(files[FP32])
        self._answer_with(best, model)

    async def _variant(self, file: ModelFile) -> LoadedModel | None:
        """A variant, or None where it cannot be used, which was logged."""
        try:
            return await self._in_memory.load(file)
        except ZerofleetError:
            return None

    def _answer_with(self, best: _Answering, model: LoadedModel) -> None:
        self._answering[model.version] = model.precision
        if best.model is not model:
            best.model = model
            self._pin()
            _log.info("precision_answers", version=model.version, precision=model.precision)

    async def _load_answering(self, version: int) -> LoadedModel:
        """Load a version in the precision that the best one's measurement settled on."""
        files = await self._files(version)
        self._in_memory.check(files[FP32])  # a variant of a banned model is no better
        precision = self._precisions.settled(self._precisions.usable(files)) or FP32
        model = None
        if precision != FP32:
            model = await self._variant(files[precision])
        if model is None:
            model = await self._in_memory.load(files[FP32])
        self._answering[version] = model.precision
        return model

    def _pin(self) -> None:
        """Keep what answers for the two newest promotions, and their fp32."""
        self._in_memory.pinned = frozenset(
            (best.promoted.version, precision)
            for best in self._best
            for precision in (FP32, best.model.precision)
        )

    def is_best(self, model: LoadedModel) -> bool:
        """Whether this is the best version, in whatever precision."""
        return bool(self._best) and self._best[0].promoted.version == model.version

    def mark_bad(self, model: LoadedModel) -> None:
        """Stop using a model.

        A variant gives way to its version's fp32; the best version in fp32 to its predecessor.
        """
        if not self._in_memory.ban(model):
            return
        _log.error("model_marked_bad", **asdict(model.file))
        self._answering.pop(model.version, None)
        for best in self._best:
            if best.model is model:
                best.model = self._in_memory.get(model.version, FP32) or model
        self._best = [
            best
            for best in self._best
            if best.model is not model and best.promoted.sha256 != model.file.sha256
        ]
        self._pin()
        if not self._best:
            self.waiting_for = (
                f"a best model other than {model.version}, whose outputs are not finite"
            )
