"""The trainer as a service in a thread of the test's own process, and patience with servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event

import pytest

from zerofleet import service
from zerofleet.client import async_model
from zerofleet.config import ProcessSettings, RunConfig
from zerofleet.errors import InferenceUnavailableError

Train = Callable[..., AbstractContextManager[Future[None]]]
DEADLINE = 120.0


@pytest.fixture(autouse=True)
def patient_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is up answers at once, but on a machine that stalls."""
    monkeypatch.setattr(async_model, "_READY_SECONDS", 60.0)


@pytest.fixture
def refusal() -> Callable[[Callable[[], Awaitable[object]]], Awaitable[str]]:
    """The words with which a server refuses a call for now.

    A call whose time was over before the first refusal came is made again.
    """

    async def refused(call: Callable[[], Awaitable[object]]) -> str:
        async with asyncio.timeout(120):
            while True:
                with pytest.raises(InferenceUnavailableError) as caught:
                    await call()
                if "DEADLINE_EXCEEDED" not in str(caught.value):
                    return str(caught.value)

    return refused


@pytest.fixture
def train(
    role_url: Callable[[str], str],
    valkey_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Train:
    """Run a trainer while the context is entered, with the rights of its role alone.

    Its folders are ``models`` and ``checkpoints`` of the test's own. At the end it is told to stop;
    how it ended is in the future that is yielded.
    """
    from zerofleet.services.trainer.service import serve

    monkeypatch.setattr(service, "BEAT_SECONDS", 0.1)

    @contextlib.contextmanager
    def training(
        run: RunConfig,
        worker: str = "trainer",
        redis_url: str = valkey_url,
        database_url: str | None = None,
    ) -> Iterator[Future[None]]:
        settings = ProcessSettings(
            run_file=tmp_path / "run.toml",
            database_url=database_url or role_url("trainer"),
            redis_url=redis_url,
            model_folder=tmp_path / "models",
            checkpoint_folder=tmp_path / "checkpoints",
            worker=worker,
        )
        told: list[Callable[[], object]] = []
        begun = Event()

        async def serving() -> None:
            stop, loop = asyncio.Event(), asyncio.get_running_loop()
            told.append(lambda: loop.call_soon_threadsafe(stop.set))
            begun.set()
            await serve(run, settings, stop)

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(asyncio.run, serving())
            try:
                yield running
            finally:
                assert begun.wait(DEADLINE)
                with contextlib.suppress(RuntimeError):  # it has ended by itself
                    told[0]()
                running.exception(timeout=DEADLINE)

    return training
