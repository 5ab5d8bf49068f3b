"""``zerofleet import``: a new run that begins with games from files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.given_games import (
    Counter,
    NewData,
    NewRun,
    OwnersUrl,
    Retrain,
    Tries,
    require_enough,
    resumable,
)
from zerofleet.cli.run_options import OverrideOption, PasswordFile
from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from datetime import datetime

    from zerofleet.database import Submission
    from zerofleet.games.recorded_games import FileGame, SkippedGames

_BATCH_GAMES = 100
_WORKER = "import"
_SHOWN_FILES = 3


def import_games(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES...",
            help="SGF (Go, Othello), PGN (chess), or text with one game per line, as actions.",
        ),
    ],
    run_file: Annotated[
        Path, typer.Option("--run", metavar="NEW.toml", help="Run file of the new run.")
    ],
    data: NewData = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Skip games that are illegal, unfinished or of other rules, and count them.",
        ),
    ] = False,
    retrain: Retrain = False,
    override: OverrideOption = None,
    database_url: OwnersUrl = None,
    password_file: PasswordFile = None,
) -> None:
    """Prepare a new run that first learns from games in files.

    The policy learns the moves that were played, and the value learns the results.

    Then start the new run with `zerofleet up NEW.toml`. It trains on these games first, and
    continues with self-play unless --retrain was given. After an interruption the same command
    continues the import.

    If ZEROFLEET_DATABASE_URL is set, the run belongs to that fleet. The command needs the owner's
    rights there.
    """
    from zerofleet.games.recorded_games import SkippedGames, read_files

    new = NewRun.of_options(run_file, override, data, database_url, password_file)
    game = new.run.game.name
    with resumable("import"):
        bad = SkippedGames(raises=not skip_bad)
        found = list(read_files(files, game, bad))  # all, before anything is written
        _say_bad(bad, len(found))
        if not found:
            raise ConfigError(f"{_names(files)}: no game to learn from")
        positions = sum(len(each.actions) for each in found)
        if retrain:
            require_enough(new.run, positions)
        keys = "\n".join([game, *(each.key for each in found)])
        with new.opened() as target:
            database, name = target.database, new.run.name
            state = database.begin_origin(
                name,
                "import",
                source=_names(files),
                place=str(files[0].resolve().parent),
                source_id=hashlib.sha256(keys.encode()).hexdigest(),
                retrain=retrain,
                chosen=len(found) + bad.number,
            )
            target.keep()
            if not state.is_finished:
                counter, tries = Counter("imported", len(found)), Tries()
                for first in range(0, len(found), _BATCH_GAMES):
                    batch = submissions(
                        name, game, found[first : first + _BATCH_GAMES], state.began_at
                    )
                    answers = tries(lambda batch=batch: database.submit_games(name, _WORKER, batch))
                    _require_stored(answers, found[first:])
                    counter.show(first + len(batch))
                database.finish_origin(
                    name, games=len(found), positions=positions, left_out=bad.number
                )
            new.report(database, until=" --until 5000steps" if retrain else "")


def submissions(
    run: str, game: str, found: Iterable[FileGame], began_at: datetime
) -> list[Submission]:
    """Return the records of games from files.

    The policy target of each ply is the action that was played; its value is the result for the
    player to move. The uids depend on the run, the file and the game's place in it alone, so a
    repeated import stores no game twice.

    Args:
        run: name of the run.
        game: game with its rules.
        found: the games.
        began_at: when the import began.
    """
    import numpy as np
    from zerofleet_core import GameColumns, State

    from zerofleet.database import Submission
    from zerofleet.records import GameRecord, game_uid_of

    made: list[Submission] = []
    for each in found:
        state = State(game, [], each.start)
        legal, visits, to_play = list[int](), list[int](), list[int]()
        offsets = [0]
        for action in each.actions:
            choices = [int(choice) for choice in state.legal_actions()]
            legal += choices
            visits += [int(choice == action) for choice in choices]
            offsets.append(len(legal))
            to_play.append(state.to_play)
            state.apply(action)
        plies, entries = len(each.actions), len(legal)
        players = np.array(to_play, np.int8)
        values = np.where(players == 0, each.result, -each.result).astype(np.float32)
        counts = np.array(visits, np.int32)
        columns = GameColumns(
            result=each.result,
            reason="adjudicated" if each.adjudicated else "rules",
            start=each.start,
            action=np.array(each.actions, np.int16),
            to_play=players,
            model_version=np.zeros(plies, np.int32),
            root_value=values,
            network_value=values,
            best_child_value=values,
            simulations=np.ones(plies, np.int32),
            full_search=np.ones(plies, np.bool_),
            offsets=np.array(offsets, np.int32),
            legal_actions=np.array(legal, np.int16),
            visit_counts=counts,
            priors=np.zeros(entries, np.float32),
            policy_weights=counts,
        )
        digest = hashlib.sha256(f"{run}/{each.key}".encode()).digest()
        uid = game_uid_of(began_at, int.from_bytes(digest[:16], "big"))
        record = GameRecord(uid, game, columns, began_at, began_at)
        made.append(Submission(record, kind="given"))
    return made


def _require_stored(answers: Sequence[str], found: Sequence[FileGame]) -> None:
    """Check that Postgres took each game, which was checked before.

    Raises:
        ConfigError: Postgres did not take a game.
    """
    for answer, each in zip(answers, found, strict=False):
        if answer not in ("stored", "duplicate"):
            raise ConfigError(f"{each.where}: Postgres does not take the game ({answer})")


def _names(files: Sequence[Path]) -> str:
    names = ", ".join(file.name for file in files[:_SHOWN_FILES])
    more = len(files) - _SHOWN_FILES
    return f"{names} and {more:,} more" if more > 0 else names


def _say_bad(bad: SkippedGames, good: int) -> None:
    if not bad.number:
        return
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in bad.reasons.most_common())
    echo(f"skipped {bad.number:,} of {bad.number + good:,} games ({kinds}); the first:")
    for line in bad.first:
        echo(f"  {line}")
