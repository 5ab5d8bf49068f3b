"""A thread that keeps an embedded store running."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

_LOOK_SECONDS = 0.5
_PAUSE_SECONDS = 5.0


class Store(Protocol):
    """An embedded store; started again, it listens where it did before."""

    def start(self) -> str:
        """Start, and answer the URL."""
        ...

    def stop(self) -> None:
        """Stop cleanly."""
        ...

    def is_gone(self) -> bool:
        """Whether it has died, or is ending because somebody else told it to."""
        ...


class Keeper(threading.Thread):
    """The thread that starts a store, starts it again should it die, and stops it.

    A child that dies with its parent (PR_SET_PDEATHSIG) dies with the *thread* that made it, so
    that thread must live as long as the store; and starting each store in a thread of its own is
    starting both at once.

    Args:
        name: of the store, for a person.
        store: not started yet.
        say: told of deaths, from this thread.
    """

    def __init__(self, name: str, store: Store, say: Callable[[str], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._store = store
        self._say = say
        self._url: Future[str] = Future()
        self._leave = threading.Event()

    def run(self) -> None:
        """Keep it until ``stop``."""
        try:
            self._url.set_result(self._store.start())
        except BaseException as error:
            self._url.set_exception(error)
            return
        while not self._leave.wait(_LOOK_SECONDS):
            if self._store.is_gone():
                self._start_again()
        self._store.stop()

    def wait_started(self) -> str:
        """The store's URL; raises what its start raised."""
        return self._url.result()

    def stop(self) -> None:
        """Stop the store and wait until it has."""
        self._leave.set()
        with contextlib.suppress(RuntimeError):  # it was never started
            self.join()

    def _start_again(self) -> None:
        self._say(f"{self.name} has ended; starting it again")
        try:
            self._store.stop()
            self._store.start()
        except Exception as error:  # this thread alone starts the store, so it must not end
            self._say(f"{error}; trying again in {_PAUSE_SECONDS:g} s")
            self._leave.wait(_PAUSE_SECONDS)
