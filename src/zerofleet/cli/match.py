"""``zerofleet match``: a test match between two players, played by the run's evaluator."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.run_options import (
    DataOption,
    PasswordFile,
    RunFile,
    chosen_folder,
    fleet_settings,
    in_fleet,
    logged_in,
)
from zerofleet.cli.serving import evaluating
from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError, StaleEpochError, StoreUnavailableError

if TYPE_CHECKING:
    from zerofleet.config import RunConfig
    from zerofleet.database import Database, MatchRow
    from zerofleet.fleet.heartbeat import Heartbeats

_Check = Callable[[], None]
_Evaluator = Callable[[], AbstractContextManager[_Check]]

_POLL_SECONDS = 1.0


def match(
    player: Annotated[str, typer.Argument(help="A version, VERSION/PRECISION, or an anchor.")],
    opponent: Annotated[str, typer.Argument(help="The same.")],
    run_file: RunFile = None,
    games: Annotated[
        int, typer.Option(min=2, max=10_000, help="Games, in pairs with colours swapped.")
    ] = 40,
    simulations: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="Simulations per move of models and the anchor search [rating.num_simulations].",
        ),
    ] = None,
    openings: Annotated[
        Path | None,
        typer.Option(
            help="Opening book: a start position (or EPD) per line, or games as SGF or PGN."
        ),
    ] = None,
    data: DataOption = None,
    database_url: Annotated[
        str | None, typer.Option(help="Any Postgres instead of a data folder's; needs RUN.toml.")
    ] = None,
    password_file: PasswordFile = None,
    wait: Annotated[
        bool, typer.Option(help="Wait for the games. After Ctrl-C the evaluator continues.")
    ] = True,
) -> None:
    """Play a test match between two players. Never promotes a model.

    Players are models (12), models in one precision (12/int8), and the anchors random, search,
    gnugo:LEVEL, uci:PROGRAM?OPTION=VALUE, gtp:COMMAND and python:MODULE:CLASS. ZEROFLEET_ENGINES of
    a running evaluator must allow the programs and classes of the last three. If one player names a
    precision, a version without one means fp32.

    The running evaluator plays the games between its other matches. For a stopped run, the command
    starts an evaluator until the games are played, unless --no-wait is given. The evaluator skips a
    match that it cannot play, with the reason.

    Repeat the command to resume a match, to show its games, or to try a skipped match again. A
    larger number of games adds to the games that were played.

    Openings are random unless --openings names a book. Each position of the book is played twice,
    in the order of the file. A different book makes a separate match.

    Games count for the ratings unless --simulations differs from rating.num_simulations, or a
    player names a precision. A different number of simulations makes a separate match.

    If ZEROFLEET_DATABASE_URL is set, as in the containers of a fleet, the match belongs to that
    fleet. The command needs the evaluator's rights, so run it in the evaluator's container.
    """
    from zerofleet.config import load_run
    from zerofleet.local.stores import joined

    names = stored_names(player, opponent)
    if database_url is not None:
        if run_file is None:
            raise ConfigError("--database-url needs the run file too, for the name of the run")
        run = load_run(run_file)
        url = logged_in(database_url, password_file)
        _play(run, names, games, url, wait, book=_book(run, openings), simulations=simulations)
        return
    if in_fleet(data):
        settings = fleet_settings(run_file)
        # The evaluator's user of Redis, which is ours here, reads no heartbeats.
        run = load_run(settings.run_file)
        book = _book(run, openings)
        _play(run, names, games, settings.database_url, wait, book=book, simulations=simulations)
        return
    folder = chosen_folder(data, run_file)
    with joined(folder, "match") as running:
        run = folder.read_run()
        book = _book(run, openings)
        url, redis_url = running.database_urls["evaluator"], running.redis_url
        evaluator = None
        if running.inference_address is None and wait:
            evaluator = partial(evaluating, folder, running, _programs(names))
        _play(run, names, games, url, wait, redis_url, evaluator, book, simulations)


def _book(run: RunConfig, path: Path | None) -> list[str]:
    """Return the positions of an opening book; none without a book."""
    from zerofleet.match.opening_book import read_book

    return [] if path is None else read_book(path, run.game.name)


def stored_names(player: str, opponent: str) -> tuple[str, str]:
    """Return the names of two players as the database stores them.

    Raises:
        ConfigError: a name is not a player's, or both are the same.
    """
    from zerofleet.config import ANCHORS, check_anchor
    from zerofleet.database import ModelName

    models = [ModelName.of(name) for name in (player, opponent)]
    for name, model in zip((player, opponent), models, strict=True):
        try:
            if model is None:
                check_anchor(name)
        except ValueError as error:
            if name.startswith(("uci:", "gtp:", "python:")):
                raise ConfigError(str(error)) from error
            raise ConfigError(
                f"'{name}' is not a player: give a version (12), a version in one precision "
                f"(12/fp32, 12/int8, 12/fp16), {ANCHORS}"
            ) from error
    if any(model is not None and model.precision for model in models):
        # Without a precision, either may answer in the same one.
        player, opponent = (f"{n}/fp32" if n.isdecimal() else n for n in (player, opponent))
    if player == opponent:
        raise ConfigError(f"'{player}' cannot play against itself: name another opponent")
    return player, opponent


def _play(
    run: RunConfig,
    names: tuple[str, str],
    games: int,
    url: str,
    wait: bool,
    redis_url: str | None = None,
    evaluator: _Evaluator | None = None,
    book: Sequence[str] = (),
    simulations: int | None = None,
) -> None:
    """Open the test match, wait for its games, and show the result.

    Args:
        url: URL of Postgres for the evaluator's role.
        redis_url: Redis with the evaluator's heartbeats; None: its status is not shown.
        evaluator: starts an evaluator for the match and yields a function that raises when it has
            ended; None: the run has its own.
        book: start positions of the games, each for two; empty: random openings.
        simulations: simulations per move; None: as in rating games.
    """
    from zerofleet.database import Database

    if book and games > 2 * len(book):
        games = 2 * len(book)
        echo(f"the opening book has {len(book)} positions, enough for {games} games", err=True)

    _check_anchors(names, run.game.name)
    with Database(url, pool_size=1) as database:
        database.wait_ready(5.0)
        for name in names:
            _check_model(database, run.name, name)
        trial = _open(database, run, names, games, book, simulations)
        try:
            if wait and _games_to_play(database, trial):
                with evaluator() if evaluator else nullcontext(None) as check:
                    trial = _wait(database, run.name, trial, redis_url, check)
        except KeyboardInterrupt:
            goes_on = "the evaluator continues; " if evaluator is None else ""
            echo(f"{goes_on}the same command shows the games", err=True)
        echo(_result(database, trial))
        if trial.left_out is not None:
            raise ConfigError(
                f"the evaluator skipped this match: {trial.left_out}; correct that, then repeat "
                "the command"
            )


def _check_anchors(names: tuple[str, str], game: str) -> None:
    from zerofleet.match.anchors import why_unsuited

    for name in names:
        reason = why_unsuited(name, game)
        if reason is not None:
            raise ConfigError(f"{reason}, so '{name}' cannot play: name another player")


def _programs(names: tuple[str, str]) -> list[str]:
    """Return the programs of anchors, which the evaluator of this command may start."""
    from zerofleet.config import EngineName

    engines = (EngineName.of(name) for name in names)
    return [engine.command for engine in engines if engine is not None]


def _open(
    database: Database,
    run: RunConfig,
    names: tuple[str, str],
    games: int,
    book: Sequence[str],
    simulations: int | None,
) -> MatchRow:
    """Open the match with the running evaluator's epoch, which must not be fenced off."""
    from zerofleet.database import match_seed

    while True:
        epoch = database.evaluator_epoch(run.name)
        if not epoch:
            raise ConfigError(
                f"the run '{run.name}' has never had an evaluator in this database, and only an "
                "evaluator plays matches: start the run, or check the run and the database"
            )
        try:
            return database.open_match(
                run.name,
                "trial",
                *names,
                games=games + games % 2,
                num_simulations=simulations or run.rating.num_simulations,
                seed=match_seed(run.seed, "trial", *names),
                epoch=epoch,
                openings=book,
                rated=simulations in (None, run.rating.num_simulations),
            )
        except StaleEpochError:
            if database.evaluator_epoch(run.name) == epoch:
                raise  # otherwise an evaluator has started in between


def _games_to_play(database: Database, trial: MatchRow) -> int:
    """Return the number of games left to play; 0 if the evaluator skipped the match."""
    if trial.left_out is not None:
        return 0
    return max(0, trial.games - database.match_score(trial.match_id).games)


def _wait(
    database: Database, run: str, trial: MatchRow, redis_url: str | None, check: _Check | None
) -> MatchRow:
    """Return the match when it is over; show its progress and call ``check`` meanwhile."""
    from zerofleet.fleet.heartbeat import Heartbeats

    shown = ""
    with contextlib.ExitStack() as closing:
        heartbeats = None
        if redis_url is not None:
            heartbeats = closing.enter_context(contextlib.closing(Heartbeats(redis_url, run)))
        while left := _games_to_play(database, trial):
            if check is not None:
                check()
            first = (database.unfinished_trials(run) or [trial])[0]
            if first.match_id == trial.match_id:
                doing = _evaluator_words(heartbeats)
            else:
                doing = f"waiting for the match of {first.player} against {first.opponent}"
            now = f"{trial.games - left} of {trial.games} games: {doing}"
            if now != shown:
                shown = now
                echo(now, err=True)
            time.sleep(_POLL_SECONDS)
            trial = database.match(trial.match_id)
        return trial


def _evaluator_words(heartbeats: Heartbeats | None) -> str:
    """Return what the evaluator does, or why that is unknown."""
    from zerofleet.fleet.figures import EvaluatorFigures
    from zerofleet.fleet.report import states_of

    unknown = "waiting for the evaluator; `zerofleet status` says whether it runs"
    if heartbeats is None:
        return unknown
    try:
        states = states_of(heartbeats.read(), heartbeats.state)
    except StoreUnavailableError:
        return unknown
    for state in states:
        if isinstance(state.figures, EvaluatorFigures):
            doing = state.doing
            return f"evaluator: {doing if state.status != 'running' else doing.partition(':')[0]}"
    if heartbeats.state.status != "up":
        return f"waiting for the evaluator; {heartbeats.state.reason}"
    return "waiting for an evaluator to start"


def _check_model(database: Database, run: str, name: str) -> None:
    from zerofleet.database import ModelName
    from zerofleet.prediction import FP32

    model = ModelName.of(name)
    if model is None:
        return
    row = database.model(run, model.version)
    if row is None:
        raise ConfigError(f"the run '{run}' has no model {model.version}")
    if row.removed_at is not None and row.removed_at <= datetime.now(UTC):
        raise ConfigError(
            f"the files of model {model.version} have been deleted: name a promoted model, or a "
            "newer one ([retention] of the run file)"
        )
    if model.precision in (None, FP32):
        return
    accepted = [row.precision for row in database.variants(run, model.version) if row.accepted]
    if model.precision not in accepted:
        there_is = ", ".join([FP32, *accepted])
        raise ConfigError(
            f"model {model.version} has no accepted variant {model.precision}: it has {there_is}"
        )


def _result(database: Database, trial: MatchRow) -> str:
    """Return a result like ``12/int8 against 12/fp32: 18.5 of 40 games, 95% 0.34 to 0.59``.

    A second line counts the forfeits of programs, if there are any.
    """
    from zerofleet.fleet.report import counted

    score = database.match_score(trial.match_id)
    players = f"{trial.player} against {trial.opponent}"
    if not trial.rated:
        players += f" with {trial.num_simulations:,} simulations, not rated"
    text = (
        f"{players}: {score.wins + score.draws / 2:g} points of "
        f"{score.games} games ({score.wins} won, {score.draws} drawn, {score.losses} lost)"
    )
    pairs = [pair for pair in database.match_pairs(trial.match_id) if not pair.repeated]
    if pairs:
        from zerofleet.match.play_match import score_interval

        low, high = score_interval(pairs)
        text += f", 95% {low:.2f} to {high:.2f}"
    left = trial.games - score.games
    if left > 0:
        text += f", {left} games to play"
    if remarks := database.match_remarks(trial.match_id):
        text += f"\n{counted(len(remarks), 'game')} forfeited by a program, the first: {remarks[0]}"
    return text
