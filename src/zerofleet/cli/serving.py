"""The inference service of a run, for commands that ask it for moves."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Generator
from shlex import quote
from typing import TYPE_CHECKING

from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError, ZerofleetError

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

    from zerofleet.database import Promotion
    from zerofleet.local.data_folder import DataFolder
    from zerofleet.local.programs import LocalPrograms
    from zerofleet.local.stores import Running

_READY_SECONDS = 60.0


def with_port(address: str | None) -> str | None:
    """The value of ``--address HOST:PORT`` as it was given, if it names a port.

    Raises:
        ConfigError: it does not; gRPC would take 443, where none of our services listens.
    """
    from zerofleet.rpc.tls import require_target

    if address is None:
        return None
    require_target(address)
    if re.fullmatch(r"unix:.+|.*[^:]:[0-9]+|\[.+\]:[0-9]+", address):
        return address
    raise ConfigError(f"--address {address}: give HOST:PORT, as `zerofleet status` names it")


def refuse_two_services(address: str | None, run_file: Path | None, data: Path | None) -> None:
    """Refuse ``--address`` beside a run, whose service may be another.

    Raises:
        ConfigError: both are given.
    """
    run = run_file or data
    if address is not None and run is not None:
        raise ConfigError(f"--address {address} and the run of {run} are two services: give one")


@contextlib.contextmanager
def serving(folder: DataFolder, program: str) -> Generator[str]:
    """The address of this run's inference service, started for the time if none is running.

    Args:
        folder: of the run.
        program: the command's name, which ``joined`` tells to other commands.

    Raises:
        ConfigError: there is no model that could be asked.
    """
    from zerofleet.local.stores import joined

    with joined(folder, program) as running:
        point_at_best(folder, running)
        if running.inference_address is not None:
            yield running.inference_address
            return
        with _lone_inference(folder, running) as (address, _):
            yield address


@contextlib.contextmanager
def evaluating(folder: DataFolder, running: Running) -> Generator[Callable[[], None]]:
    """An evaluator that plays a stopped run's trials alone, and the inference that it asks.

    Yields:
        A function that raises ``ConfigError`` when one of them has ended.

    Raises:
        ConfigError: there is no model that could be asked.
    """
    from zerofleet.local.processes import start_child, stop_child

    point_at_best(folder, running)
    with _lone_inference(folder, running) as (address, inference):
        echo("starting an evaluator", err=True)
        program = _programs(folder, running, address).trials()
        process = start_child(program.arguments, program.environment, program.log)

        def check() -> None:
            if process.poll() == 0:
                raise ConfigError(
                    "another evaluator of this run has taken over: give the same command again"
                )
            if process.poll() is not None:
                raise ConfigError(f"the evaluator has ended: {program.last_words()}")
            if inference.poll() is not None:
                raise ConfigError(f"the inference service has ended, see {folder.logs}")

        try:
            yield check
        finally:
            stop_child(process)


def point_at_best(folder: DataFolder, running: Running) -> None:
    """Tell of a damaged best model, and name the best to a Redis that may be new.

    Raises:
        ConfigError: the run has none.
    """
    from zerofleet.best_pointer import BestPointer
    from zerofleet.database import Database

    with Database(running.database_urls["console"]) as database:
        best = database.promotion_head(folder.run)
        if best is None:
            raise ConfigError(
                f"the run '{folder.run}' has promoted no model yet: train it first with "
                f"`zerofleet up {quote(str(folder.run_file))} --data {quote(str(folder.root))}`"
            )
        tell_of_damage(folder, best)
        if running.inference_address is None:
            with contextlib.closing(BestPointer(running.redis_url, folder.run)) as pointer:
                pointer.reconcile(database)


def tell_of_damage(folder: DataFolder, best: Promotion) -> None:
    """Say on stderr that the best model's file cannot be used: then an earlier one answers."""
    from zerofleet.models.folder import ModelFolder

    try:
        ModelFolder(folder.models, folder.run).read_verified(best.sha256)
    except ZerofleetError as error:
        echo(
            f"the best model, {best.version}, cannot be used: {error}; the newest one that can be "
            "answers in its place",
            err=True,
        )


@contextlib.contextmanager
def _lone_inference(folder: DataFolder, running: Running) -> Generator[tuple[str, Popen[bytes]]]:
    """An inference service over running stores, with the best model loaded; its address.

    Raises:
        ConfigError: it ends, or does not get ready.
    """
    from zerofleet.local.processes import start_child, stop_child
    from zerofleet.local.programs import chosen_address

    echo("starting the inference service", err=True)
    address = chosen_address(None)
    program = _programs(folder, running, address).inference()
    process = start_child(program.arguments, program.environment, program.log)
    try:
        deadline = time.monotonic() + _READY_SECONDS
        while not asyncio.run(_is_ready(address, folder.run)):
            if process.poll() is not None or time.monotonic() > deadline:
                raise ConfigError(f"the inference service does not start: {program.last_words()}")
            time.sleep(0.1)
        yield address, process
    finally:
        stop_child(process)


def _programs(folder: DataFolder, running: Running, address: str) -> LocalPrograms:
    from zerofleet.local.programs import LocalPrograms
    from zerofleet.local.stores import StoreUrls

    urls = StoreUrls(running.database_urls, running.redis_url)
    return LocalPrograms(folder, urls, address)


async def _is_ready(address: str, run: str) -> bool:
    from zerofleet.client import AsyncModel

    async with AsyncModel(address, run) as model:
        return await model.server_ready()
