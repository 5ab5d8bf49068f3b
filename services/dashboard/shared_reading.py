"""Values that many open pages look at, each read once for all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from zerofleet.errors import ZerofleetError

_Value = TypeVar("_Value")

_LEAST_REST = 25  # times what a reading took, so that none takes more than 4% of a core

_log = structlog.get_logger()


class SharedReading(Generic[_Value]):
    """One value, read every few seconds while somebody looks, and not at all while nobody does.

    Twenty pages cost as much as one: the value is read once, and they are told of it only when it
    is another one than before. What cannot be read leaves the last value as it is.

    Args:
        name: for the log.
        read: what is read; it must not block the event loop.
        every: seconds between two readings; more where they take long.
        keep: it though nobody looks: ``read`` goes on from what it has read.
    """

    def __init__(
        self, name: str, read: Callable[[], Awaitable[_Value]], every: float, *, keep: bool = False
    ) -> None:
        self.keep = keep
        self._name = name
        self._read = read
        self._every = every
        self._watchers: dict[object, Callable[[_Value], None]] = {}
        self._task: asyncio.Task[None] | None = None
        self.value: _Value | None = None
        """As it was last read; None: it was not read yet, or nobody looks."""

    def watch(self, told: Callable[[_Value], None]) -> Callable[[], None]:
        """Be told the value: at once if it is known, then whenever it changes.

        Args:
            told: called in the event loop.

        Returns:
            What ends it; to call it again does no harm.
        """
        key = object()
        self._watchers[key] = told
        if self.value is not None:
            self._tell(told, self.value)
        if self._task is None:
            self._task = asyncio.create_task(self._keep_reading())
        return lambda: self._leave(key)

    @property
    def watchers(self) -> int:
        """How many look."""
        return len(self._watchers)

    def _leave(self, key: object) -> None:
        self._watchers.pop(key, None)
        if not self._watchers and self._task is not None:
            self._task.cancel()
            self._task = None
            self.value = None  # whoever looks next is not told what was true hours ago

    async def _keep_reading(self) -> None:
        while True:
            began = time.monotonic()
            try:
                value = await self._read()
            except ZerofleetError as error:
                _log.debug("not_read", reading=self._name, error=str(error))
            except Exception:
                # A fault in one panel must not end the service, nor the readings of the others.
                _log.exception("reading_failed", reading=self._name)
            else:
                self._take(value)
            await asyncio.sleep(max(self._every, _LEAST_REST * (time.monotonic() - began)))

    def _take(self, value: _Value) -> None:
        if value == self.value:
            return
        self.value = value
        for told in list(self._watchers.values()):
            self._tell(told, value)

    def _tell(self, told: Callable[[_Value], None], value: _Value) -> None:
        try:
            told(value)
        except Exception:
            _log.exception("drawing_failed", reading=self._name)
