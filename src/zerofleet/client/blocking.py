"""Blocking players and models: the asynchronous ones, run in a background thread."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from zerofleet.client.async_model import AsyncModel
from zerofleet.client.async_player import AsyncPlayer, Position
from zerofleet.errors import ConfigError, InferenceUnavailableError
from zerofleet.prediction import Prediction
from zerofleet.rpc.codec import BEST
from zerofleet.rpc.player_service import (
    PlayedAction,
    PlayerDescription,
    PositionPrediction,
    SearchTable,
)

_Answer = TypeVar("_Answer")

_FINISH_SECONDS = 2.0
_CLOSE_SECONDS = 5.0
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
    ``close``, or when its owner is garbage-collected or the program ends.

    Args:
        make: makes the client; called in the background.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[_Client]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._entered: _Entered[_Client] | None = None
        self._closed = False

    def call(self, ask: Callable[[_Client], Awaitable[_Answer]]) -> _Answer:
        """Call the client, and wait for the answer.

        Raises:
            ConfigError: the client is closed, or this process is a fork of one that has used a
                client.
            InferenceUnavailableError: the client was closed before the answer came.
            ZerofleetError: any error of the client, also when it is opened.
        """
        entered = self._opened()
        return entered.wait(lambda: ask(entered.client))

    def iterate(self, ask: Callable[[_Client], AsyncGenerator[_Answer]]) -> Generator[_Answer]:
        """Yield the client's answers one after the other; errors as for ``call``."""
        entered = self._opened()
        answers = ask(entered.client)
        try:
            while (answer := entered.wait(lambda: anext(answers, None))) is not None:
                yield answer
        finally:
            # Do not wait: garbage collection may run this in the loop's own thread.
            entered.loop.begin(answers.aclose)

    def close(self) -> None:
        """Close the client and cancel its calls."""
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
    """A client that is open, and its calls in progress.

    Raises:
        ZerofleetError: any error of the client when it is opened.
    """

    def __init__(
        self, loop: BackgroundLoop, make: Callable[[], AbstractAsyncContextManager[_Client]]
    ) -> None:
        self.loop = loop
        self._calls: set[Future[Any]] = set()
        self._left: Future[bool | None] | None = None
        self._manager, self.client = loop.begin(lambda: _enter(make)).result()

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


async def _enter(
    make: Callable[[], AbstractAsyncContextManager[_Client]],
) -> tuple[AbstractAsyncContextManager[_Client], _Client]:
    manager = make()
    return manager, await manager.__aenter__()


class Player:
    """``AsyncPlayer`` with blocking methods; many threads may share one.

    It connects with the first call. Use it in a ``with`` block, or ``close`` it.

    Args:
        address: ``host:port``, ``unix:path`` or any gRPC target.
        run: name of the run whose models answer; empty: the server's.
        timeout: seconds for an answer, all tries together; in ``analyze`` for each table.
        tls_folder: folder with ``ca.crt``, and with ``tls.crt`` and ``tls.key`` if the server wants
            a certificate; None: plaintext.
        token_file: file whose first line is the bearer token.
        allow_plaintext: allow a server on another machine without a ``tls_folder``.

    Methods raise the errors of ``AsyncPlayer``'s. The first call also raises ``ConfigError`` if a
    file cannot be used. In a process forked after the first call, every call does.
    """

    def __init__(
        self,
        address: str,
        *,
        run: str = "",
        timeout: float = 60.0,
        tls_folder: str | Path | None = None,
        token_file: str | Path | None = None,
        allow_plaintext: bool = False,
    ) -> None:
        self._blocking = Blocking(
            lambda: AsyncPlayer(
                address,
                run=run,
                timeout=timeout,
                tls_folder=tls_folder,
                token_file=token_file,
                allow_plaintext=allow_plaintext,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and cancel calls in progress."""
        self._blocking.close()

    def describe(self) -> PlayerDescription:
        """See ``AsyncPlayer.describe``."""
        return self._blocking.call(lambda player: player.describe())

    def predict(
        self, position: Position = (), *, game: str = "", version: int | str = BEST
    ) -> PositionPrediction:
        """See ``AsyncPlayer.predict``."""
        return self._blocking.call(
            lambda player: player.predict(position, game=game, version=version)
        )

    def search(
        self,
        position: Position = (),
        *,
        simulations: int | None = None,
        leaves: int = 1,
        seed: int | None = None,
        noise: bool = False,
        game: str = "",
        version: int | str = BEST,
    ) -> SearchTable:
        """See ``AsyncPlayer.search``."""
        return self._blocking.call(
            lambda player: player.search(
                position,
                simulations=simulations,
                leaves=leaves,
                seed=seed,
                noise=noise,
                game=game,
                version=version,
            )
        )

    def analyze(
        self,
        position: Position = (),
        *,
        every_simulations: int = 0,
        every_seconds: float = 0.0,
        simulations: int | None = None,
        leaves: int = 1,
        seed: int | None = None,
        game: str = "",
        version: int | str = BEST,
    ) -> Generator[SearchTable, None, None]:
        """See ``AsyncPlayer.analyze``; the search ends when the generator is closed or left."""
        return self._blocking.iterate(
            lambda player: player.analyze(
                position,
                every_simulations=every_simulations,
                every_seconds=every_seconds,
                simulations=simulations,
                leaves=leaves,
                seed=seed,
                game=game,
                version=version,
            )
        )

    def play(
        self,
        position: Position = (),
        *,
        temperature: float = 0.0,
        simulations: int | None = None,
        leaves: int = 1,
        seed: int | None = None,
        game: str = "",
        version: int | str = BEST,
    ) -> PlayedAction:
        """See ``AsyncPlayer.play``."""
        return self._blocking.call(
            lambda player: player.play(
                position,
                temperature=temperature,
                simulations=simulations,
                leaves=leaves,
                seed=seed,
                game=game,
                version=version,
            )
        )


class Model:
    """``AsyncModel``, whose method blocks here; many threads may share one.

    It connects with the first call. Use it in a ``with`` block, or ``close`` it.

    Args:
        address: ``host:port``, ``unix:path`` or any gRPC target.
        run: name of the run whose models answer.
        version, precision, message_rows, timeout: see ``AsyncModel``.
        tls_folder, token_file, allow_plaintext: see ``AsyncPlayer``.
    """

    def __init__(
        self,
        address: str,
        run: str,
        *,
        version: int | str = BEST,
        precision: str | None = None,
        message_rows: int = 256,
        timeout: float = 30.0,
        tls_folder: str | Path | None = None,
        token_file: str | Path | None = None,
        allow_plaintext: bool = False,
    ) -> None:
        self._blocking = Blocking(
            lambda: AsyncModel(
                address,
                run,
                version=version,
                precision=precision,
                message_rows=message_rows,
                timeout=timeout,
                tls_folder=tls_folder,
                token_file=token_file,
                allow_plaintext=allow_plaintext,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and cancel calls in progress."""
        self._blocking.close()

    def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """See ``AsyncModel.predict``."""
        return self._blocking.call(lambda model: model.predict(observations))
