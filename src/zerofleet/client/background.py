"""One event loop for all callers that have none, on a thread of its own.

It begins with the first call and stays until the program ends, because gRPC keeps handing events to
a loop that it has once seen: closing one would make the others complain.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from zerofleet.errors import ConfigError

_Answer = TypeVar("_Answer")

_FINISH_SECONDS = 2.0


class BackgroundLoop:
    """A running loop; made by ``background_loop``."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._finished = False
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_complain)
        self._thread = threading.Thread(target=self._run, name="zerofleet-client", daemon=True)
        self._thread.start()
        atexit.register(self._finish)

    def begin(self, ask: Callable[[], Awaitable[_Answer]]) -> Future[_Answer]:
        """Run something; its errors are the future's, which is cancelled where nothing can run."""

        async def run() -> _Answer:
            return await ask()

        if self._finished or self.pid != os.getpid():
            nothing = Future[_Answer]()
            nothing.cancel()
            nothing.set_running_or_notify_cancel()
            return nothing
        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _finish(self) -> None:
        """At the end of the program: cancel open calls before the interpreter is taken down."""
        if self.pid != os.getpid():
            return
        with contextlib.suppress(TimeoutError):
            self.begin(_cancel_others).result(_FINISH_SECONDS)
        self._finished = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_FINISH_SECONDS)


_lock = threading.Lock()
_loops: list[BackgroundLoop] = []  # one at most


def background_loop() -> BackgroundLoop:
    """The loop of this process.

    Raises:
        ConfigError: the process is a fork of one that has such a loop.
    """
    with _lock:
        if not _loops:
            _loops.append(BackgroundLoop())
        loop = _loops[0]
    if loop.pid != os.getpid():
        raise ConfigError(
            f"process {os.getpid()} is a fork of process {loop.pid}, which has used this client, "
            "and gRPC does not survive a fork: start a new process instead (subprocess, or "
            "multiprocessing's 'spawn'), or fork before the first call"
        )
    return loop


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _complain(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say what went wrong, unless it is gRPC with an event for a loop that is closed."""
    if "PollerCompletionQueue" not in str(context.get("handle")):
        loop.default_exception_handler(context)
