"""A run in a notebook or a script: its games, models and curves as data frames, and its player."""

from __future__ import annotations

import contextlib
import importlib
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

from zerofleet.cli.run_options import chosen_folder, logged_in
from zerofleet.cli.serving import serving
from zerofleet.client import PlayedAction, Player, SearchOptions, SearchTable
from zerofleet.config import RunConfig
from zerofleet.config.renamed import MARKER
from zerofleet.database.exported_games import ExportedGames, GameChoice
from zerofleet.database.exported_tables import arrow_table, games_table, searches_table
from zerofleet.errors import ConfigError, InvalidRequestError
from zerofleet.games import State, parse_actions
from zerofleet.games.board_svg import board_svg
from zerofleet.games.game_board import board_of
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.stores import joined

if TYPE_CHECKING:
    import pandas as pd

Line = str | Sequence[int] | Sequence[str]
"""Actions from the start: text in the game's notation (``"4 4 3"``), or action numbers."""

_MODELS = """
SELECT
    m.version, m.step, m.created_at, p.at AS promoted_at, r.elo, r.elo_error,
    e.kind AS exam, e.error_rate, m.removed_at IS NULL AS is_kept
FROM models AS m
LEFT JOIN LATERAL (
    SELECT max(at) AS at FROM promotions AS p WHERE p.run = m.run AND p.version = m.version
) AS p ON true
LEFT JOIN ratings AS r ON r.run = m.run AND r.version = m.version
LEFT JOIN LATERAL (
    SELECT kind, error_rate FROM exams AS e
    WHERE e.run = m.run AND e.version = m.version ORDER BY exam_id DESC LIMIT 1
) AS e ON true
WHERE m.run = :run ORDER BY m.version
"""
_LOSSES = "SELECT * FROM training_curve WHERE run = :run ORDER BY step"
_EXAMS = """
SELECT m.step, m.created_at, e.* FROM exam_results AS e
JOIN models AS m ON m.run = e.run AND m.version = e.model
WHERE e.run = :run ORDER BY m.version, e.kind
"""
_RATINGS = """
SELECT m.step, m.created_at, r.* FROM ratings_with_interval AS r
JOIN models AS m ON m.run = r.run AND m.version = r.model
WHERE r.run = :run ORDER BY m.version
"""


class Curves(NamedTuple):
    """The history of a run, as data frames."""

    losses: pd.DataFrame
    """Losses and other training figures by ``step``: columns of the view ``training_curve``."""
    exams: pd.DataFrame
    """Results of exams by ``step``: columns of the view ``exam_results``."""
    ratings: pd.DataFrame
    """Elo of the models by ``step``: columns of the view ``ratings_with_interval``."""


@dataclass(frozen=True, slots=True)
class BoardPicture:
    """A position, which a notebook shows as a picture.

    Args:
        game: game name.
        actions: actions from the start position.
        start: start position; empty: the usual one.
        search: a search of the position, whose visits are drawn; None: there is none.
    """

    game: str
    actions: tuple[int, ...] = ()
    start: str = ""
    search: SearchTable | None = None

    def _repr_svg_(self) -> str:
        board = board_of(self.game).starting_at(self.start)
        shares: dict[int, float] = {}
        if self.search is not None:
            visits = sum(child.visit_count for child in self.search.children) or 1
            shares = {child.action: child.visit_count / visits for child in self.search.children}
        return board_svg(board, board.position(self.actions), shares)

    def __str__(self) -> str:
        return str(State(self.game, self.actions, self.start))


def open(  # noqa: A001 - as in gzip and wave
    source: str | Path, *, run: str | None = None, password_file: str | Path | None = None
) -> OpenedRun:
    """Open a run, to read its games and to use its player: ``zerofleet.open``.

    If the run of a data folder is stopped, this starts its database, and ``close`` stops it. Data
    folders need ``zerofleet[local]``, databases ``zerofleet[fleet]``, and data frames
    ``zerofleet[data]``.

    Args:
        source: a data folder, the name of a run in ``zerofleet-data`` or of a trained model, or the
            address of a Postgres database.
        run: name of the run, for a database with several.
        password_file: file whose first line is the password of the database.

    Raises:
        ConfigError: there is no such run.
        StoreUnavailableError: the database does not answer.
    """
    return OpenedRun(source, run, password_file)


class OpenedRun:
    """A run, opened by ``zerofleet.open``; a context manager.

    Data frames need pandas and pyarrow: ``pip install 'zerofleet[data]'``. Nothing is written.

    Args:
        source: see ``zerofleet.open``.
        run: name of the run, for a database with several.
        password_file: file whose first line is the password of the database.

    Raises:
        ConfigError: there is no such run.
        StoreUnavailableError: the database does not answer.
    """

    config: RunConfig
    """The run file of the last start."""

    def __init__(
        self, source: str | Path, run: str | None = None, password_file: str | Path | None = None
    ) -> None:
        self._stack = contextlib.ExitStack()
        self._close = weakref.finalize(self, self._stack.close)  # also at the end of the program
        self._folder: DataFolder | None = None
        self._player: Player | None = None
        with contextlib.ExitStack() as failed:
            failed.callback(self._close)
            if _is_database(source):
                path = None if password_file is None else Path(password_file)
                self._open_database(logged_in(str(source), path), run)
            else:
                if run is not None or password_file is not None:
                    raise ConfigError("run and password_file are for the address of a database")
                self._open_folder(Path(source))
            failed.pop_all()

    def _open_folder(self, source: Path) -> None:
        if (source / MARKER).exists():
            self._folder = chosen_folder(source)
        elif source.parent == Path() and not source.suffix:
            self._folder = chosen_folder(None, source)  # the name of a run or a trained model
        else:
            raise ConfigError(
                f"{source} is not a data folder (no {MARKER} in it): give a data folder, the name "
                "of a run, or the address of a database"
            )
        running = self._stack.enter_context(joined(self._folder, "open"))
        self._database = self._stack.enter_context(ExportedGames(running.database_urls["console"]))
        self.config = self._folder.read_run()

    def _open_database(self, url: str, run: str | None) -> None:
        self._database = self._stack.enter_context(ExportedGames(url))
        self.config = self._database.run_of(run)

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.config.name

    @property
    def game(self) -> str:
        """Name of the game."""
        return self.config.game.name

    def __repr__(self) -> str:
        where = self._folder.root if self._folder else "a database"
        return f"<run {self.name} of {self.game} in {where}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections, and stop the services that this object started; may be repeated."""
        self._close()

    def games(
        self,
        *,
        since: str | datetime | None = None,
        model: int | None = None,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """Return games, oldest first: one row per game.

        Args:
            since: only games stored since this time; a string is ISO 8601, in UTC if it has no
                offset.
            model: only games of this model version.
            limit: at most this many games, the newest ones; None: all.

        Raises:
            ConfigError: no game fits, there is no such model, or pandas is not installed.
        """
        return self._frame("games", since, model, limit)

    def searches(
        self,
        *,
        since: str | datetime | None = None,
        model: int | None = None,
        limit: int | None = 1000,
    ) -> pd.DataFrame:
        """Return the searches of games: one row per ply, with arrays over its legal actions.

        Args:
            since: only games stored since this time; a string is ISO 8601, in UTC if it has no
                offset.
            model: only games of this model version.
            limit: searches of at most this many games, the newest ones; None: of all games, which
                may need much memory.

        Raises:
            ConfigError: no game fits, there is no such model, or pandas is not installed.
        """
        return self._frame("searches", since, model, limit)

    def _frame(
        self, name: str, since: str | datetime | None, model: int | None, limit: int | None
    ) -> pd.DataFrame:
        require_pandas()
        pa: Any = importlib.import_module("pyarrow")
        choice = GameChoice(_time(since), model, limit)
        database, run = self._opened(), self.config
        bounds = database.bounds(run.name, choice)
        if name == "games":
            tables = [
                arrow_table(games_table(rows, run))
                for rows in database.pages(bounds, lambda rows: rows, lambda _: 0)
            ]
        else:
            tables = [
                arrow_table(searches_table(page))
                for page in database.pages(
                    bounds, database.with_searches, lambda page: page.entries
                )
            ]
        return pa.concat_tables(tables).to_pandas()

    def models(self) -> pd.DataFrame:
        """Return the published models by version, with promotion, Elo and newest exam."""
        return self.sql(_MODELS)

    def curves(self) -> Curves:
        """Return losses, exams and Elo by training step."""
        return Curves(self.sql(_LOSSES), self.sql(_EXAMS), self.sql(_RATINGS))

    def sql(self, query: str, **parameters: object) -> pd.DataFrame:
        """Return the result of a query to the run's database.

        Args:
            query: SQL; ``:run`` is the name of this run.
            parameters: values of other ``:NAME`` parameters of the query.

        Raises:
            ConfigError: pandas is not installed, or the database's user may not read a table.
            InvalidRequestError: the query is wrong, or would write.
        """
        require_pandas()
        import pandas as pd

        names, rows = self._opened().query(query, run=self.name, **parameters)
        return pd.DataFrame(rows, columns=names)

    def board(self, line: Line = (), start: str = "") -> BoardPicture:
        """Return the position after a line of actions, such as the ``moves`` of a game.

        Args:
            line: actions from the start position.
            start: start position; empty: the usual one.

        Raises:
            IllegalActionError: an action that the rules forbid.
        """
        return BoardPicture(self.game, tuple(self._actions(line, start)), start)

    def play(
        self,
        line: Line = (),
        *,
        start: str = "",
        temperature: float = 0.0,
        version: int | str = "best",
        **options: Unpack[SearchOptions],
    ) -> PlayedAction:
        """Return the move of a model after a line of actions.

        The first call connects to the run's inference service. If the run is stopped, the call
        starts a service, which ``close`` stops.

        Args:
            line: actions from the start position.
            start: start position; empty: the usual one.
            temperature: 0 plays the best move; see ``zerofleet.client.Player.play``.
            version: a model version, or ``"best"``.
            options: ``simulations``, ``seed`` and others of ``SearchOptions``.

        Raises:
            ConfigError: the run has no model, or was opened from a database.
            InvalidRequestError: the game is over.
            IllegalActionError: an action that the rules forbid.
        """
        actions = self._actions(line, start)
        return self._served().play(
            actions, start=start, temperature=temperature, version=version, **options
        )

    def analyze(
        self,
        line: Line = (),
        *,
        start: str = "",
        version: int | str = "best",
        **options: Unpack[SearchOptions],
    ) -> BoardPicture:
        """Search the position after a line of actions; the arguments are as in ``play``.

        A notebook shows the board with each action's share of the visits. ``search`` of the result
        has the table.
        """
        actions = self._actions(line, start)
        table = self._served().search(actions, start=start, version=version, **options)
        return BoardPicture(self.game, tuple(actions), start, table)

    def _actions(self, line: Line, start: str) -> list[int]:
        if self._folder is None and self.game.startswith("python:"):
            # Anybody who writes to the database may have stored the name: do not import its module.
            raise ConfigError(f"the rules of {self.game} are a Python class: open the data folder")
        if isinstance(line, str):
            return parse_actions(self.game, line, start)
        return parse_actions(self.game, " ".join(map(str, line)), start)

    def _served(self) -> Player:
        self._opened()
        if self._player is None:
            if self._folder is None:
                raise ConfigError(
                    "a database has no inference service: connect to the fleet's with "
                    "zerofleet.client.Player(ADDRESS)"
                )
            address = self._stack.enter_context(serving(self._folder, "open"))
            self._player = self._stack.enter_context(Player(address, run=self.name))
        return self._player

    def _opened(self) -> ExportedGames:
        if not self._close.alive:
            raise ConfigError(f"the run {self.name} is closed: open it again")
        return self._database


def require_pandas() -> None:
    """Check that pandas and pyarrow are installed.

    Raises:
        ConfigError: one is missing.
    """
    try:
        for module in ("pandas", "pyarrow"):
            importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            "data frames need pandas and pyarrow: pip install 'zerofleet[data]'"
        ) from error


def _is_database(source: str | Path) -> bool:
    return isinstance(source, str) and source.startswith(("postgres://", "postgresql", "postgres+"))


def _time(since: str | datetime | None) -> datetime | None:
    if isinstance(since, str):
        try:
            since = datetime.fromisoformat(since)
        except ValueError as error:
            raise InvalidRequestError(f"since={since!r} is not a time in ISO 8601") from error
    if since is not None and since.tzinfo is None:
        return since.replace(tzinfo=UTC)
    return since
