"""The inference service of a run, for commands that need its moves."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zerofleet.cli.run_options import chosen_folder, client_credentials
from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError, ZerofleetError

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

    from zerofleet.database import Promotion
    from zerofleet.engine_lines import EngineOptions
    from zerofleet.local.data_folder import DataFolder
    from zerofleet.local.programs import LocalPrograms
    from zerofleet.local.stores import Running
    from zerofleet.rpc.tls import ClientCredentials

_READY_SECONDS = 60.0


def with_port(address: str | None) -> str | None:
    """Return the value of ``--address HOST:PORT`` unchanged if it has a port.

    Raises:
        ConfigError: it has none; gRPC would take 443, where none of our services listens.
    """
    from zerofleet.rpc.tls import require_target

    if address is None:
        return None
    require_target(address)
    if re.fullmatch(r"unix:.+|.*[^:]:[0-9]+|\[.+\]:[0-9]+", address):
        return address
    raise ConfigError(f"--address {address}: give HOST:PORT, as `zerofleet status` names it")


Address = Annotated[
    str | None,
    typer.Option(
        callback=with_port, help="Address of another inference service.", metavar="HOST:PORT"
    ),
]
ModelVersion = Annotated[str, typer.Option(help="A version, or 'best'.", metavar="VERSION")]
Leaves = Annotated[
    int, typer.Option(min=1, help="Leaves of the tree predicted at once: faster, and weaker.")
]


def refuse_two_services(address: str | None, run_file: Path | None, data: Path | None) -> None:
    """Refuse ``--address`` together with a run, which may have another service.

    Raises:
        ConfigError: both are given.
    """
    run = run_file or data
    if address is not None and run is not None:
        raise ConfigError(f"--address {address} and the run of {run} are two services: give one")


def serve_controller(
    program: str,
    serve: Callable[[str, EngineOptions, ClientCredentials], Coroutine[Any, Any, None]],
    options: EngineOptions,
    service: tuple[str | None, Path | None, Path | None],
    credentials: tuple[Path | None, Path | None, bool],
) -> None:
    """Run an engine for a controller until it ends.

    Args:
        program: the command's name.
        serve: answers the controller, given the address of an inference service.
        options: of the engine's searches.
        service: the address of another service; or the run file and data folder of the run.
        credentials: TLS folder, token file and permission of plaintext, for another service.
    """
    address, run_file, data = service
    refuse_two_services(address, run_file, data)
    if address is not None:
        asyncio.run(serve(address, options, client_credentials(*credentials)))
        return
    with serving(chosen_folder(data, run_file), program) as found:
        # The run's own service is on this machine and needs no credentials.
        asyncio.run(serve(found, options, client_credentials(None, None, False)))


@contextlib.contextmanager
def serving(folder: DataFolder, program: str) -> Generator[str]:
    """Yield the address of this run's inference service, started for the time if none is running.

    Args:
        program: the command's name, which ``joined`` shows to other commands.

    Raises:
        ConfigError: the run has no usable model.
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
def evaluating(
    folder: DataFolder, running: Running, engines: Sequence[str] = ()
) -> Generator[Callable[[], None]]:
    """Run an evaluator that plays only a stopped run's test matches, and inference for it.

    Args:
        folder: the run's data folder.
        running: its stores.
        engines: commands that anchors may start, in addition to ``ZEROFLEET_ENGINES``.

    Yields:
        A function that raises ``ConfigError`` when one of them has ended.

    Raises:
        ConfigError: the run has no usable model.
    """
    from zerofleet.local.processes import start_child, stop_child

    point_at_best(folder, running)
    with _lone_inference(folder, running) as (address, inference):
        echo("starting an evaluator", err=True)
        program = _programs(folder, running, address).trials(engines)
        process = start_child(program.arguments, program.environment, program.log)

        def check() -> None:
            if process.poll() == 0:
                raise ConfigError(
                    "another evaluator of this run has taken over: repeat the command"
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
    """Warn about a damaged best model, and set the pointer in a Redis that may be new.

    Raises:
        ConfigError: the run has no best model.
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
    """Warn on stderr if the best model's file cannot be used, so that an earlier model answers."""
    from zerofleet.models.folder import ModelFolder

    try:
        ModelFolder(folder.models, folder.run).read_verified(best.sha256)
    except ZerofleetError as error:
        echo(
            f"the best model, {best.version}, cannot be used: {error}; the newest usable one "
            "answers instead",
            err=True,
        )


@contextlib.contextmanager
def _lone_inference(folder: DataFolder, running: Running) -> Generator[tuple[str, Popen[bytes]]]:
    """Run inference over running stores, with the best model loaded; yield its address.

    Raises:
        ConfigError: it ends, or does not become ready.
    """
    from zerofleet.local.processes import start_child, stop_child
    from zerofleet.local.programs import chosen_address

    echo("starting the inference service", err=True)
    address = chosen_address(None)
    program = _programs(folder, running, address).inference()
    process = start_child(program.arguments, program.environment, program.log)
    try:
        deadline = time.monotonic() + _READY_SECONDS
        while not _is_ready(address, folder.run):
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


def _is_ready(address: str, run: str) -> bool:
    from zerofleet.client import Model

    # The blocking client also works in a notebook, whose thread runs an event loop.
    with Model(address, run) as model:
        return model.server_ready()
