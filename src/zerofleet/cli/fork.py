"""``zerofleet fork``: a new run that begins with the games of another."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.given_games import (
    Counter,
    NewData,
    NewRun,
    OwnersUrl,
    Retrain,
    Target,
    Tries,
    require_enough,
    resumable,
)
from zerofleet.cli.run_options import (
    DEFAULT_ROOT,
    OverrideOption,
    PasswordFile,
    default_folder,
)
from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from zerofleet.config import RunConfig
    from zerofleet.database import Database
    from zerofleet.database.origins import SourceWindow

_REPLAYED_GAMES = 20
_PARTITION_CHUNKS = 20  # copied between two looks for partitions


def fork(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Name, run file or data folder of the other run; in a fleet, its name in the "
            "database. Or the folder of a Parquet export.",
        ),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="NEW.toml", help="Run file of the new run.")],
    data: NewData = None,
    games: Annotated[
        int | None,
        typer.Option(
            min=1, help="At most N games, the newest ones [as many as fit into the new window]."
        ),
    ] = None,
    retrain: Retrain = False,
    override: OverrideOption = None,
    database_url: OwnersUrl = None,
    password_file: PasswordFile = None,
) -> None:
    """Prepare a new run that first learns from the games of another one.

    The network, the losses and all settings may differ. The game must be the same. The command
    copies the newest games of the other run with their searches. The other run may be running.
    RUN may also be the folder of a Parquet export; this needs `pip install 'zerofleet[data]'`.

    Then start the new run with `zerofleet up NEW.toml`. It trains on these games first, and
    continues with self-play unless --retrain was given. After an interruption the same command
    continues the copy.

    If ZEROFLEET_DATABASE_URL is set, both runs belong to that fleet. The command needs the owner's
    rights there.
    """
    new = NewRun.of_options(to, override, data, database_url, password_file)
    if _is_export(source):
        from zerofleet.cli.exported_source import fork_export

        with resumable("fork"):
            fork_export(Path(source), new, games, retrain=retrain)
        return
    with resumable("fork"), _opened(source, new) as other:
        run = new.run
        about = other.database.source_run(other.run)
        if about.game != run.game.name:
            raise ConfigError(
                f"the run '{other.run}' plays {about.game}, and {new.run_file} {run.game.name}: "
                "`zerofleet fork` needs the same game with the same options"
            )
        window = _window(other, run, games)
        _require_replay(other, run, window)
        if retrain:
            require_enough(run, window.plies)
        with new.opened() as target:
            _copy(other, about.identity, new, target, window, retrain)


def _is_export(source: str) -> bool:
    from zerofleet.cli.exported_source import is_export
    from zerofleet.config.renamed import MARKER

    path = Path(source)
    return not (path / MARKER).exists() and is_export(path)


@dataclass(frozen=True, slots=True)
class _Source:
    """The other run."""

    run: str
    database: Database
    place: str


@contextlib.contextmanager
def _opened(source: str, new: NewRun) -> Generator[_Source]:
    from zerofleet.database import Database

    folder = _folder(source, new)
    if folder is None:
        assert new.database_url is not None
        if source == new.run.name:
            raise ConfigError(
                f"'{source}' is the name of the new run, too: give the new run another name"
            )
        with Database(new.database_url) as database:
            database.wait_ready(5.0)
            yield _Source(source, database, "this database")
        return
    from zerofleet.local.data_folder import DataFolder
    from zerofleet.local.stores import joined

    opened = DataFolder.open(folder)
    if new.database_url is None and new.folder.resolve() == opened.root:
        raise ConfigError(
            f"{folder} is the data folder of the new run, too: give the new run another name, or "
            "another --data"
        )
    opened.undo_killed_start()
    with (
        joined(opened, "fork") as running,
        Database(running.database_urls["owner"]) as database,
    ):
        database.wait_ready(5.0)
        if running.inference_address is not None:
            echo(f"the run '{opened.run}' is running: the games that it has now are copied")
        yield _Source(opened.run, database, str(opened.root))


def _folder(source: str, new: NewRun) -> Path | None:
    """Return the data folder of the other run; None: it is in the fleet's database.

    Raises:
        ConfigError: there is no such run.
    """
    from zerofleet.config import load_run
    from zerofleet.config.renamed import MARKER

    path = Path(source)
    if (path / MARKER).exists():
        return path
    if new.database_url is not None:
        return None
    is_run_file = path.suffix == ".toml" and path.is_file()
    folder = default_folder(load_run(path).name if is_run_file else source)
    if not (folder / MARKER).exists():
        here = sorted(marker.parent.name for marker in DEFAULT_ROOT.glob(f"*/{MARKER}"))
        runs = f"; runs in {DEFAULT_ROOT}/: {', '.join(here)}" if here else ""
        raise ConfigError(
            f"'{source}' is no run, no data folder and no Parquet export: give one of them{runs}"
        )
    return folder


def _window(other: _Source, run: RunConfig, games: int | None) -> SourceWindow:
    """Return the games to copy: the newest ones, as many as the new window holds.

    Raises:
        ConfigError: there are none, or none has its searches any more.
    """
    trainer = run.trainer
    share = 1 - trainer.held_out_share
    most_games = math.ceil(trainer.window_games / share) if games is None else games
    most_positions = trainer.window_positions / share if games is None else None
    window = other.database.source_window(other.run, most_games, most_positions)
    if not window.games:
        raise ConfigError(f"the run '{other.run}' has no games: there is nothing to learn from")
    if not other.database.has_searches(other.run, window):
        raise ConfigError(
            f"the searches of all {window.games:,} games of the run '{other.run}' were dropped, so "
            "there is nothing to learn from: [retention] forget = false in its run file keeps them"
        )
    return window


def _require_replay(other: _Source, run: RunConfig, window: SourceWindow) -> None:
    """Refuse games that do not replay under the rules of this version of the game.

    Raises:
        ConfigError: none of the last ones does.
    """
    from zerofleet_core import ReplayBuffer

    from zerofleet.database import add_to_buffer

    after = other.database.window_start(other.run, _REPLAYED_GAMES)
    found = other.database.read_games(other.run, after, _REPLAYED_GAMES).games
    buffer = ReplayBuffer(run.game.name, 1_000_000, 1_000_000)
    reasons: list[str] = []
    for game in found:
        try:
            add_to_buffer(buffer, game)
        except ValueError as error:
            reasons.append(f"game {game.game_uid}: {error}")
    if reasons and len(reasons) == len(found):
        raise ConfigError(
            f"the games of the run '{other.run}' do not replay under the rules that "
            f"{run.game.name} has now: {reasons[0]}"
        )


def _copy(
    other: _Source, identity: str, new: NewRun, target: Target, window: SourceWindow, retrain: bool
) -> None:
    """Copy the games, or the rest of them."""
    from zerofleet.database.origins import chunk_games
    from zerofleet.games import spec

    database, name = target.database, new.run.name
    state = database.begin_origin(
        name,
        "fork",
        source=f"the run {other.run}",
        place=other.place,
        source_id=identity,
        retrain=retrain,
        window=window,
    )
    target.keep()
    origin = database.origin(name)
    assert origin is not None
    if not state.is_finished:
        limit = chunk_games(window, spec(new.run.game.name).num_actions)
        counter, tries, chunks = Counter("copied", origin.chosen), Tries(), 0
        while state.next_tx < state.last_tx:
            state = tries(partial(database.copy_chunk, other.database, other.run, name, limit))
            counter.show(state.games + state.left_out)
            chunks += 1
            if chunks % _PARTITION_CHUNKS == 0:
                database.make_partitions()
        if not state.games:
            raise ConfigError(
                f"the searches of all {state.left_out:,} games of the run '{other.run}' were "
                "dropped while they were copied: [retention] forget = false in its run file keeps "
                "them"
            )
        database.finish_origin(name)
    new.report(database, until=" --until 5000steps" if retrain else "")
