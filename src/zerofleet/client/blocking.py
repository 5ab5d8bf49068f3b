"""An asynchronous client for callers that have no event loop."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

from zerofleet.client.background import BackgroundLoop, background_loop
from zerofleet.errors import ConfigError, InferenceUnavailableError

_Client = TypeVar("_Client")
_Answer = TypeVar("_Answer")

_CLOSE_SECONDS = 5.0


class Blocking(Generic[_Client]):
    """Holds a client open in the background; any thread may call it, many at once.

    Why not gRPC's blocking interface: connecting, credentials that follow their files, retries and
    deadlines would be there twice. Here one loop serves all callers over one connection, and a call
    costs two switches between threads. The client is entered by the first call, and left by
    ``close``, or when its owner is forgotten or the program ends.

    Args:
        make: makes the client; called in the background.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[_Client]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._entered: _Entered[_Client] | None = None
        self._closed = False

    def call(self, ask: Callable[[_Client], Awaitable[_Answer]]) -> _Answer:
        """Ask the client, and wait for the answer.

        Raises:
            ConfigError: it is closed, or this process is a fork of one that has used a client.
            InferenceUnavailableError: it was closed before the answer came.
            ZerofleetError: whatever the client raises, also on being entered.
        """
        entered = self._opened()
        return entered.wait(lambda: ask(entered.client))

    def iterate(self, ask: Callable[[_Client], AsyncGenerator[_Answer]]) -> Generator[_Answer]:
        """Ask the client for one answer after the other; errors as ``call``."""
        entered = self._opened()
        answers = ask(entered.client)
        try:
            while (answer := entered.wait(lambda: anext(answers, None))) is not None:
                yield answer
        finally:
            # Not waited for: the thread that forgets the generator may be the loop's own.
            entered.loop.begin(answers.aclose)

    def close(self) -> None:
        """Leave the client; calls that are out are given up."""
        with self._lock:
            self._closed = True
            entered, self._entered = self._entered, None
        if entered is not None:
            with contextlib.suppress(TimeoutError, CancelledError):
                entered.leave().result(_CLOSE_SECONDS)

    def _opened(self) -> _Entered[_Client]:
        loop = background_loop()
        with self._lock:
            if self._closed:
                raise ConfigError("this client is closed: make another one")
            if self._entered is None:
                self._entered = _Entered(loop, self._make)
                weakref.finalize(self, self._entered.leave)
            return self._entered


class _Entered(Generic[_Client]):
    """A client that is open, and what it is asked at the moment.

    Raises:
        ZerofleetError: whatever the client raises on being entered.
    """

    def __init__(
        self, loop: BackgroundLoop, make: Callable[[], AbstractAsyncContextManager[_Client]]
    ) -> None:
        self.loop = loop
        self._asked: set[Future[Any]] = set()
        self._left: Future[bool | None] | None = None
        self._manager, self.client = loop.begin(lambda: _enter(make)).result()

    def wait(self, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Run something and wait for it; a caller that stops waiting takes it back."""
        future = self.loop.begin(ask)
        self._asked.add(future)
        try:
            if self._left is not None:
                future.cancel()
            return future.result()
        except CancelledError:
            raise InferenceUnavailableError(
                "this client was closed before the answer came"
            ) from None
        finally:
            future.cancel()  # after KeyboardInterrupt; nothing otherwise
            self._asked.discard(future)

    def leave(self) -> Future[bool | None]:
        """Give up what is asked, and leave the client; the second time nothing more."""
        left = self._left
        if left is None:
            left = self.loop.begin(lambda: self._manager.__aexit__(None, None, None))
            self._left = left
        for future in list(self._asked):
            future.cancel()
        return left


async def _enter(
    make: Callable[[], AbstractAsyncContextManager[_Client]],
) -> tuple[AbstractAsyncContextManager[_Client], _Client]:
    manager = make()
    return manager, await manager.__aenter__()
