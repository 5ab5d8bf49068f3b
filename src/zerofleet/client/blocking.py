"""Blocking players and models: the asynchronous ones, run in a background thread."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from zerofleet.client.async_model import AsyncModel
from zerofleet.client.async_player import AsyncPlayer
from zerofleet.errors import ConfigError, InferenceUnavailableError

_FINISH_SECONDS = 2.0
_CLOSE_SECONDS = 5.0

_Answer = TypeVar("_Answer")
_Args = ParamSpec("_Args")
_Client = TypeVar("_Client")


class BackgroundLoop:
    """An event loop in a thread; made by ``background_loop``."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._finished = False
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_complain)
        self._thread = threading.Thread(target=self._run, name="zerofleet-client", daemon=True)
        self._thread.start()
        atexit.register(self._finish)

    def begin(self, ask: Callable[[], Awaitable[_Answer]]) -> Future[_Answer]:
        """Run a call and return its future, which is cancelled if nothing can run any more."""

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
        """Cancel open calls at the end of the program, before the interpreter shuts down."""
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
    """Return the loop of this process.

    Raises:
        ConfigError: this process is a fork of one that has such a loop.
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
    """Log an error, unless it is gRPC's event for a loop that is closed."""
    if "PollerCompletionQueue" not in str(context.get("handle")):
        loop.default_exception_handler(context)


class Blocking(Generic[_Client]):
    """Holds a client open in the background; many threads may call it at once.

    gRPC's own blocking interface would need a second copy of connecting, credentials that follow
    their files, retries and deadlines. Here one loop serves all callers over one connection, and a
    call costs two switches between threads. The first call opens the client. It is closed by
    ``close``, at the end of a ``with`` block, when it is garbage-collected, or when the program
    ends.

    Args:
        client: opened in the background.
    """

    def __init__(self, client: AbstractAsyncContextManager[_Client]) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._entered: _Entered[_Client] | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and cancel calls in progress."""
        with self._lock:
            self._closed = True
            entered, self._entered = self._entered, None
        if entered is not None:
            with contextlib.suppress(TimeoutError, CancelledError):
                entered.leave().result(_CLOSE_SECONDS)

    def _call(self, ask: Callable[[_Client], Awaitable[_Answer]]) -> _Answer:
        """Call the client, and wait for the answer.

        Raises:
            ConfigError: the client is closed, or this process is a fork of one that has used a
                client.
            InferenceUnavailableError: the client was closed before the answer came.
            ZerofleetError: any error of the client, also when it is opened.
        """
        entered = self._opened()
        return entered.wait(lambda: ask(entered.client))

    def _iterate(self, ask: Callable[[_Client], AsyncGenerator[_Answer]]) -> Generator[_Answer]:
        """Yield the client's answers one after the other; errors as for ``_call``."""
        entered = self._opened()
        answers = ask(entered.client)
        try:
            while (answer := entered.wait(lambda: anext(answers, None))) is not None:
                yield answer
        finally:
            # Do not wait: garbage collection may run this in the loop's own thread.
            entered.loop.begin(answers.aclose)

    def _opened(self) -> _Entered[_Client]:
        loop = background_loop()
        with self._lock:
            if self._closed:
                raise ConfigError("this client is closed: make another one")
            if self._entered is None:
                self._entered = _Entered(loop, self._client)
                weakref.finalize(self, self._entered.leave)
            return self._entered


class _Entered(Generic[_Client]):
    """A client that is open, and its calls in progress.

    Raises:
        ZerofleetError: any error of the client when it is opened.
    """

    def __init__(self, loop: BackgroundLoop, manager: AbstractAsyncContextManager[_Client]) -> None:
        self.loop = loop
        self._manager = manager
        self._calls: set[Future[Any]] = set()
        self._left: Future[bool | None] | None = None
        self.client = loop.begin(manager.__aenter__).result()

    def wait(self, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Run a call and wait for it; cancel it if the caller stops waiting."""
        future = self.loop.begin(ask)
        self._calls.add(future)
        try:
            if self._left is not None:
                future.cancel()
            return future.result()
        except CancelledError:
            raise InferenceUnavailableError(
                "this client was closed before the answer came"
            ) from None
        finally:
            future.cancel()  # matters after KeyboardInterrupt only
            self._calls.discard(future)

    def leave(self) -> Future[bool | None]:
        """Cancel all calls and close the client; a second call changes nothing."""
        left = self._left
        if left is None:
            left = self.loop.begin(lambda: self._manager.__aexit__(None, None, None))
            self._left = left
        for future in list(self._calls):
            future.cancel()
        return left


def _opened_by(
    client: Callable[_Args, AbstractAsyncContextManager[_Client]],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Blocking[_Client], _Args], None]]:
    """Make a constructor that takes the arguments of a client's class."""

    def decorate(
        _: Callable[..., None],
    ) -> Callable[Concatenate[Blocking[_Client], _Args], None]:
        @functools.wraps(client.__init__)
        def init(self: Blocking[_Client], *args: _Args.args, **named: _Args.kwargs) -> None:
            made = client(*args, **named)
            Blocking.__init__(self, made)  # pyright: ignore[reportUnknownMemberType]

        return init

    return decorate


def _blocking(
    method: Callable[Concatenate[_Client, _Args], Coroutine[Any, Any, _Answer]],
) -> Callable[Concatenate[Blocking[_Client], _Args], _Answer]:
    """Make the blocking form of a client's method: same arguments, same documentation."""

    @functools.wraps(method)
    def call(self: Blocking[_Client], *args: _Args.args, **named: _Args.kwargs) -> _Answer:
        return self._call(  # pyright: ignore[reportPrivateUsage] - it becomes a method
            lambda client: method(client, *args, **named)
        )

    return call


def _iterating(
    method: Callable[Concatenate[_Client, _Args], AsyncGenerator[_Answer]],
) -> Callable[Concatenate[Blocking[_Client], _Args], Generator[_Answer]]:
    """Make the blocking form of a client's generator."""

    @functools.wraps(method)
    def iterate(
        self: Blocking[_Client], *args: _Args.args, **named: _Args.kwargs
    ) -> Generator[_Answer]:
        return self._iterate(  # pyright: ignore[reportPrivateUsage] - it becomes a method
            lambda client: method(client, *args, **named)
        )

    return iterate


class Player(Blocking[AsyncPlayer]):
    """``AsyncPlayer`` with blocking methods; many threads may share one.

    It connects with the first call. Use it in a ``with`` block, or ``close`` it. It takes the
    arguments of ``AsyncPlayer`` and raises its errors. The first call also raises ``ConfigError``
    if a file cannot be used. In a process forked after the first call, every call does.
    """

    @_opened_by(AsyncPlayer)
    def __init__(self) -> None:
        """See ``AsyncPlayer``."""

    describe = _blocking(AsyncPlayer.describe)
    """See ``AsyncPlayer.describe``."""
    predict = _blocking(AsyncPlayer.predict)
    """See ``AsyncPlayer.predict``."""
    search = _blocking(AsyncPlayer.search)
    """See ``AsyncPlayer.search``."""
    analyze = _iterating(AsyncPlayer.analyze)
    """See ``AsyncPlayer.analyze``; the search ends when the generator is closed or left."""
    play = _blocking(AsyncPlayer.play)
    """See ``AsyncPlayer.play``."""


class Model(Blocking[AsyncModel]):
    """``AsyncModel`` with blocking methods; many threads may share one.

    It connects with the first call. Use it in a ``with`` block, or ``close`` it. It takes the
    arguments of ``AsyncModel`` and raises its errors; see ``Player`` for two more errors.
    """

    @_opened_by(AsyncModel)
    def __init__(self) -> None:
        """See ``AsyncModel``."""

    server_ready = _blocking(AsyncModel.server_ready)
    """See ``AsyncModel.server_ready``."""
    ready = _blocking(AsyncModel.ready)
    """See ``AsyncModel.ready``."""
    predict = _blocking(AsyncModel.predict)
    """See ``AsyncModel.predict``."""
