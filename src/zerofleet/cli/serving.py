"""The inference service of a run, for commands that ask it for moves."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING

import typer

from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from zerofleet.local.folder import DataFolder


@contextlib.contextmanager
def serving(folder: DataFolder, program: str) -> Generator[str]:
    """The address of this run's inference service, started if nobody runs it.

    Args:
        folder: of the run.
        program: who asks, as ``joined`` names it to others.

    Raises:
        ConfigError: there is no model that could be asked.
    """
    from zerofleet.best import BestPointer
    from zerofleet.database import Database
    from zerofleet.local.lone_inference import lone_inference
    from zerofleet.local.running import joined

    with joined(folder, program) as running:
        with Database(running.database_urls["console"]) as database:
            if database.promotion_head(folder.run) is None:
                raise ConfigError(
                    f"the run '{folder.run}' has promoted no model yet: train it first with "
                    f"`zerofleet up {folder.run_file} --data {folder.root}`"
                )
            if running.inference_address is not None:
                yield running.inference_address
                return
            # The pointer's store may be new: it knows nothing yet.
            with contextlib.closing(BestPointer(running.redis_url, folder.run)) as pointer:
                pointer.reconcile(database)
        typer.echo("starting the inference service", err=True)
        with lone_inference(folder, running) as address:
            yield address
