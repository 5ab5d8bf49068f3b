"""``zerofleet rollback``: make an earlier promoted model the best again."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.run_options import (
    DataOption,
    PasswordFile,
    RedisPasswordFile,
    RunFile,
    chosen_folder,
    fleet_settings,
    in_fleet,
    logged_in,
)
from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError, StaleEpochError, StoreUnavailableError

if TYPE_CHECKING:
    from zerofleet.best_pointer import BestPointer
    from zerofleet.database import Database, Promotion, PromotionRow


def rollback(
    run_file: RunFile = None,
    data: DataOption = None,
    to: Annotated[
        int | None,
        typer.Option(help="Version to restore [the best before this one].", metavar="VERSION"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    database_url: Annotated[
        str | None, typer.Option(help="Any Postgres instead of a data folder's; needs RUN.toml.")
    ] = None,
    password_file: PasswordFile = None,
    redis_url: Annotated[
        str | None, typer.Option(help="With --database-url: the run's Redis, to update it at once.")
    ] = None,
    redis_password_file: RedisPasswordFile = None,
) -> None:
    """Make an earlier promoted model the best again.

    It is a promotion like any other: the history keeps both, later candidates play against it, and
    verdicts on models stay. A running evaluator notices by itself. If ZEROFLEET_DATABASE_URL is
    set, as in the containers of a fleet, the run is that fleet's. The command needs the
    evaluator's rights, so run it in the evaluator's container.
    """
    from zerofleet.config import load_run
    from zerofleet.local.stores import joined

    if database_url is not None:
        if run_file is None:
            raise ConfigError("--database-url needs the run file too, for the name of the run")
        database_url = logged_in(database_url, password_file)
        if redis_url is not None:
            redis_url = logged_in(redis_url, redis_password_file)
        _roll_back(load_run(run_file).name, to, yes, database_url, redis_url)
        return
    if in_fleet(data):
        settings = fleet_settings(run_file)
        run = load_run(settings.run_file).name
        _roll_back(run, to, yes, settings.database_url, settings.redis_url)
        return
    folder = chosen_folder(data, run_file)
    with joined(folder, "rollback") as running:
        url = running.database_urls["evaluator"]
        _roll_back(folder.run, to, yes, url, running.redis_url)


def _roll_back(
    run: str, to: int | None, yes: bool, database_url: str, redis_url: str | None
) -> None:
    from zerofleet.best_pointer import BestPointer
    from zerofleet.database import Database

    with contextlib.ExitStack() as stack:
        # Checked before any write: an invalid Redis URL must not leave half a rollback.
        pointer = None
        if redis_url is not None:
            pointer = stack.enter_context(contextlib.closing(BestPointer(redis_url, run)))
        database = stack.enter_context(Database(database_url, pool_size=1))
        database.wait_ready(5.0)
        history = database.promotion_history(run)
        chain = [row.promotion for row in history]
        target = chosen_version(run, chain, to)
        _confirm(history[0], target, yes)
        promotion = _promote(database, run, chain[0], target)
        if pointer is not None:
            _point(pointer, promotion)
    echo(
        f"model {target} is the best of the run '{run}' again (promotion {promotion.seq}); "
        "workers take it up within seconds"
    )


def chosen_version(run: str, chain: Sequence[Promotion], to: int | None) -> int:
    """Return the model to go back to.

    Args:
        chain: its promotions, newest first.
        to: the requested version; None for the model that was best before the current one first
            became best, so that a second rollback goes further back.

    Raises:
        ConfigError: there is no such model, it was never promoted, or it is the best already.
    """
    if not chain:
        raise ConfigError(f"the run '{run}' has promoted no model yet: there is none to go back to")
    best = chain[0].version
    order = [promotion.version for promotion in reversed(chain)]
    if to is None:
        before = order[: order.index(best)]
        if not before:
            raise ConfigError(f"model {best} was promoted first: there is none before it")
        return before[-1]
    if to == best:
        raise ConfigError(f"model {to} is the best of the run '{run}' already")
    if to not in order:
        promoted = ", ".join(str(version) for version in sorted(set(order) - {best}))
        raise ConfigError(
            f"model {to} was never promoted in the run '{run}': give --to one of {promoted or '-'}"
        )
    return to


def _confirm(head: PromotionRow, target: int, yes: bool) -> None:
    version = head.promotion.version
    echo(f"best now: model {version}, promoted {head.at:%Y-%m-%d %H:%M} by {head.actor}")
    if not yes:
        typer.confirm(f"make model {target} the best again?", abort=True)


def _promote(database: Database, run: str, head: Promotion, target: int) -> Promotion:
    """Add a promotion with the running evaluator's epoch, which must not be fenced off."""
    epoch = database.evaluator_epoch(run) or database.acquire_fence(run, "evaluator")
    try:
        return database.promote(run, target, None, _actor(), head.seq, epoch=epoch)
    except StaleEpochError as error:
        raise ConfigError(
            f"another model was promoted in the run '{run}' since model {head.version} was read: "
            f"see `zerofleet status`, then try again ({error})"
        ) from error


def _point(pointer: BestPointer, promotion: Promotion) -> None:
    """Move the pointer now; if Redis is down, the evaluator moves it later."""
    try:
        pointer.set_if_newer(promotion)
    except StoreUnavailableError as error:
        echo(f"{error}: the evaluator moves the pointer when it is back", err=True)


def _actor() -> str:
    import getpass

    try:
        return f"rollback by {getpass.getuser()}"
    except (KeyError, OSError):  # the user of a container may have no name
        return "rollback"
