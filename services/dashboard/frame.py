"""The frame around every page, and the parameters of its address.

The frame has the navigation, the strip, and the error pages. A page shows a note when it replaces
an invalid value of a parameter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from fastapi import Request

from zerofleet.errors import (
    ConfigError,
    IllegalActionError,
    InferenceUnavailableError,
    StoreUnavailableError,
)
from zerofleet.fleet.report import best_text, elo_text, short_best_text
from zerofleet.games import parse_actions
from zerofleet.games.notation import checked_start, numbered_moves, player_names, whole_number
from zerofleet.games.python_game import UNNAMED_PLAYERS
from zerofleet.services.dashboard.gate import PageLimits
from zerofleet.services.dashboard.sources import (
    SERVICES_SECONDS,
    STRIP_SECONDS,
    Lamp,
    Outage,
    ServiceFigures,
    SharedReading,
    ShownRun,
    Sources,
    StripFigures,
    StripReader,
)
from zerofleet.services.dashboard.toolkit import NONE, Client, Element, TextElement, ui
from zerofleet.services.dashboard.visitors import Visitor

_Value = TypeVar("_Value")

_STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
_COLOURS = {
    "primary": "#2f6db3",
    "secondary": "#5b6472",
    "accent": "#7a5cc0",
    "dark": "#1d2127",
    "dark_page": "#14171b",
    "positive": "#1e7f4f",
    "negative": "#c0392b",
    "warning": "#9a6700",
    "info": "#2f6db3",
}
_HEADING = 'role="heading" aria-level="1"'
_BUILD_SECONDS = 15.0  # longer than a database statement may take
_RECONNECT_SECONDS = 10.0
_MOST_KEPT = 32  # readings kept without a watcher
_MOST_NAMED = 10  # unknown parameters of an address that a note names
_MOST_CHOICES = 20  # choices that a note names for an unknown value
_LONGEST_MOVES = 20_000  # characters
_YEAR_SECONDS = 365 * 24 * 3600

HIGHEST = 2_147_483_647
"""Largest integer in Postgres."""


class NothingThereError(LookupError):
    """A link to something that does not exist; the message says what, and is shown."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One page that is being opened: its parameters and its sources."""

    sources: Sources
    run: ShownRun
    parameters: Mapping[str, str]
    """Parameters of the path and of the query."""
    frame: Frame
    notes: Element
    """Place for notes about parameters of the address that the page does not use."""

    @property
    def player_names(self) -> tuple[str, str]:
        """Names of the players of the run's game.

        The class of another run's game is not imported, so its players have no names.
        """
        game = self.run.game
        if game.startswith("python:") and game != self.sources.run.game:
            return UNNAMED_PLAYERS
        return player_names(game)

    def note(self, words: str) -> None:
        """Show a note at the top of the page about a replaced value of the address."""
        with self.notes:
            ui.label(words)

    def shared(
        self,
        name: str,
        read: Callable[[], Awaitable[_Value]],
        every: float,
        *,
        keep: bool = False,
        is_loading: Callable[[_Value], bool] = lambda _: False,
    ) -> SharedReading[_Value]:
        """Return the reading of this name that all pages of this run share; made at the first call.

        Args:
            name: unique for everything that ``read`` depends on except the run.
            read: reads the value; it must not block the event loop.
            every: seconds between two readings.
            keep: keep it without watchers, because ``read`` continues from its last result.
            is_loading: whether a value is incomplete, so that the next reading follows soon.
        """
        return self.frame.reading(
            (self.run.name, name), read, every, keep=keep, is_loading=is_loading
        )

    def watch(
        self, reading: SharedReading[_Value], draw: Callable[[_Value], None]
    ) -> Callable[[], None]:
        """Draw a value, and draw it again when it changes, for as long as the page is open.

        Args:
            draw: draws the value; its elements go where ``watch`` was called.

        Returns:
            A function that ends it earlier.
        """
        place = ui.context.slot.parent

        def redraw(value: _Value) -> None:
            with place:
                draw(value)

        end = reading.watch(redraw)
        ui.context.client.on_delete(end)
        return end

    def while_here(self, stop: Callable[[], bool], resume: Callable[[], None]) -> None:
        """Stop expensive work while the visitor is disconnected, and resume it afterwards.

        Args:
            stop: ends the work; returns whether there was any.
            resume: begins it again.
        """
        client = ui.context.client
        stopped = False

        def left() -> None:
            nonlocal stopped
            # otherwise a new connection came before the end of the old one
            if not client.has_socket_connection:
                stopped = stop() or stopped

        def back() -> None:
            nonlocal stopped
            if stopped:
                stopped = False
                resume()

        client.on_disconnect(left)
        client.on_connect(back)
        client.on_delete(stop)

    def link(self, path: str, **parameters: object) -> str:
        """Return the address of a page of the same run.

        Args:
            path: such as ``/games``.
            parameters: parameters of the query; None values are left out.
        """
        given = {name: str(value) for name, value in parameters.items() if value is not None}
        if self.run.name != self.sources.run.name:
            given["run"] = self.run.name
        return f"{path}?{urlencode(given)}" if given else path


Builder = Callable[[Visit], Awaitable[None]]


@dataclass(slots=True)
class Frame:
    """Registers pages, and puts the frame around each when it is opened.

    Args:
        sources: the sources that pages read.
    """

    sources: Sources
    menu: dict[str, str] = field(default_factory=dict[str, str])
    """Pages of the navigation: title by path."""
    paths: list[str] = field(default_factory=list[str])
    """Paths of all pages."""
    limits: PageLimits = field(default_factory=PageLimits)
    """Limits of open pages."""
    _sections: dict[str, str] = field(default_factory=dict[str, str])
    """Page of the navigation to mark, by path."""
    _readings: dict[tuple[str, str], SharedReading[Any]] = field(
        default_factory=dict[tuple[str, str], SharedReading[Any]]
    )

    def page(
        self, path: str, title: str, *parameters: str, under: str | None = None
    ) -> Callable[[Builder], Builder]:
        """Register a page with a function that builds its contents.

        Args:
            path: such as ``/models/{version}``; values of the path are text, and the builder checks
                them.
            title: title of the browser's tab, and in the navigation.
            parameters: names that the builder reads from the query. The page lists others as
                ignored.
            under: page of the navigation that is marked while this one is open; it may be empty.
                None: this page is in the navigation.

        Returns:
            A decorator for ``async def builder(visit)``. The builder raises ``NothingThereError``
                if the address refers to something that does not exist.
        """

        def register(builder: Builder) -> Builder:
            if under is None:
                self.menu[path] = title
            self._sections[path] = path if under is None else under
            self.paths.append(path)

            @ui.page(path, response_timeout=_BUILD_SECONDS, reconnect_timeout=_RECONNECT_SECONDS)
            async def _(request: Request, client: Client) -> None:
                await self._open(request, client, path, title, parameters, builder)

            return builder

        return register

    def reading(
        self,
        key: tuple[str, str],
        read: Callable[[], Awaitable[_Value]],
        every: float,
        *,
        keep: bool = False,
        is_loading: Callable[[_Value], bool] = lambda _: False,
    ) -> SharedReading[_Value]:
        """Return the reading of this key; it is made unless one is watched or kept."""
        unwatched = [old for old, each in self._readings.items() if not each.watchers]
        kept = [old for old in unwatched if self._readings[old].keep]
        for old in set(unwatched) - set(kept[-_MOST_KEPT:]):
            del self._readings[old]
        if key not in self._readings:
            self._readings[key] = SharedReading(
                " ".join(key), read, every, keep=keep, is_loading=is_loading
            )
        return cast("SharedReading[_Value]", self._readings[key])

    async def _open(
        self,
        request: Request,
        client: Client,
        path: str,
        title: str,
        known: Sequence[str],
        builder: Builder,
    ) -> None:
        """Build a page, or an error page."""
        visitor: Visitor = request.state.visitor
        self.limits.admit(client, visitor)
        parameters = {**request.query_params, **request.path_params}
        theme = _head(request)
        try:
            run = await self._run(parameters.pop("run", ""))
        except NothingThereError as error:
            client.status_code, client.title = 404, "Page not found · zerofleet"
            _nothing_there(str(error))
            return
        except StoreUnavailableError as error:
            client.status_code, client.title = 503, "zerofleet"
            _comes_back(str(error))
            return
        client.title = f"{title} · {run.name} · zerofleet"
        notes = ui.element("div").classes("zf-notes").props('role="status"')
        visit = Visit(self.sources.of(visitor), run, parameters, self, notes)
        with client.layout:  # outside the main part of the page, which NiceGUI makes
            header = self._header(visit, path, visitor, theme)
        header.move(target_index=0)
        _note_unknown(visit, sorted(request.query_params.keys() - {"run", *known}), known)
        with ui.element("div").classes("zf-main") as main:
            try:
                await builder(visit)
            except NothingThereError as error:
                client.status_code = 404
                main.clear()
                _nothing_there(str(error))
            except (StoreUnavailableError, InferenceUnavailableError) as error:
                client.status_code = 503
                main.clear()
                _comes_back(str(error))

    async def _run(self, name: str) -> ShownRun:
        run = await self.sources.find_run(name)
        if run is None:
            raise NothingThereError(f"there is no run '{name[:80]}' in this database")
        return run

    def _header(self, visit: Visit, path: str, visitor: Visitor, theme: ui.dark_mode) -> Element:
        """Draw the run, the navigation, the theme button and the strip."""
        with ui.element("header").classes("zf-header") as header:
            with ui.element("div").classes("zf-bar"):
                ui.label("zerofleet").classes("zf-brand")
                self._run_choice(visit, path)
                self._navigation(visit, path)
                _theme_button(theme)
                if visitor.token:
                    _logout_button()
            strip = Strip()
        reader = StripReader(self.sources, visit.run)
        reading: SharedReading[StripFigures] = visit.shared("strip", reader.read, STRIP_SECONDS)
        visit.watch(reading, strip.show)
        services: SharedReading[ServiceFigures] = visit.shared(
            "services", reader.read_services, SERVICES_SECONDS
        )
        visit.watch(services, strip.show_services)
        return header

    def _navigation(self, visit: Visit, path: str) -> None:
        """Draw the links to all pages; on a phone they are behind a button."""
        with ui.element("nav").classes("zf-nav").props('aria-label="Pages"') as place:
            button = ui.button(icon="menu").classes("zf-menu")
            button.props('flat dense round aria-label="Menu"')
            with ui.element("div").classes("zf-pages"):
                for target, title in self.menu.items():
                    link = ui.link(title, visit.link(target)).classes("zf-link")
                    if target == self._sections[path]:
                        link.props(f'aria-current="{"page" if target == path else "true"}"')
        _opens(button, place)

    def _run_choice(self, visit: Visit, path: str) -> None:
        """Draw the run's name, and a choice once another run of the database is known."""
        ui.label(visit.run.name).classes("zf-run")
        place = ui.element("div").classes("zf-runs")

        def draw(runs: list[tuple[str, str]]) -> None:
            others = {name: f"{name} ({game})" for name, game in runs if name != visit.run.name}
            place.clear()
            if not others:
                return
            with place:
                more = ui.button(icon="expand_more")
            more.props('flat dense aria-label="Other runs"')
            with more, ui.menu():
                for name, text in others.items():
                    ui.menu_item(text, on_click=partial(_go_to_run, self.sources.run.name, name))

        visit.watch(visit.shared("runs", self.sources.runs, 30.0), draw)


class Strip:
    """The strip on one page, drawn where it is made: figures, and the health of the services.

    It is one row, and nothing in it moves by itself: long texts are cut off, and the tooltip has
    the whole text. A click on the health shows each service, and on a phone also the figures.
    """

    def __init__(self) -> None:
        with ui.element("div").classes("zf-status") as self._place:
            with ui.element("button").classes("zf-health").props('type="button"') as button:
                self._worst = ui.element("span")
                self._health = ui.label("Service status unknown").classes("zf-words")
                ui.icon("expand_more").classes("zf-more")
            with ui.element("div").classes("zf-strip"):
                self._best = _cell("Best model")
                self._elo = _cell("Elo")
                self._games = _cell("Games")
                self._games_per_hour = _cell("Games/hour")
                self._positions = _cell("Positions/s")
                self._next = _cell("Next model")
            self._lamps_row = ui.element("div").classes("zf-lamps")
        _opens(button, self._place)
        self._lamps: dict[str, tuple[Element, TextElement]] = {}
        self._outages = ui.element("div").classes("zf-outages").props('role="alert"')
        self._shown_outages: tuple[Outage, ...] = ()

    def show(self, strip: StripFigures) -> None:
        """Show the figures of the run."""
        figures = strip.figures
        if figures is not None:
            _set(self._best, short_best_text(figures), best_text(figures))
            _set(self._elo, elo_text(figures))
            _set(self._games, f"{figures.games:,}")
        if strip.outages != self._shown_outages:
            self._show_outages(strip.outages)

    def show_services(self, services: ServiceFigures) -> None:
        """Show the status of the services, and their rates."""
        _set(self._games_per_hour, _rate(services.games_per_hour))
        _set(self._positions, _rate(services.positions_per_second))
        _set(self._next, services.next_model)
        health, colour = services.health
        _set(self._health, health)
        self._worst.classes(replace=f"zf-light zf-{colour}")
        lamps = services.lamps or tuple(Lamp(name, "Unknown", "idle") for name in self._lamps)
        if [lamp.service for lamp in lamps] != list(self._lamps):
            self._draw_lamps(lamps)
        for lamp in lamps:
            light, words = self._lamps[lamp.service]
            light.classes(replace=f"zf-light zf-{lamp.colour}")
            _set(words, lamp.words)

    def _draw_lamps(self, lamps: tuple[Lamp, ...]) -> None:
        self._lamps_row.clear()
        self._lamps = {}
        with self._lamps_row:
            for lamp in lamps:
                with ui.element("div").classes("zf-lamp"):
                    light = ui.element("span")
                    ui.label(lamp.service).classes("zf-name")
                    self._lamps[lamp.service] = light, ui.label().classes("zf-words")

    def _show_outages(self, outages: tuple[Outage, ...]) -> None:
        self._shown_outages = outages
        self._outages.clear()
        with self._outages:
            for outage in outages:
                ui.label(outage.words)


def _note_unknown(visit: Visit, unknown: Sequence[str], known: Sequence[str]) -> None:
    if unknown:
        names = ", ".join(name[:20] for name in unknown[:_MOST_NAMED])
        reads = f"It has {', '.join(known)}." if known else "It only has run."
        visit.note(f"Ignored in the address: {names}. This page has no such parameter. {reads}")


def page_heading(title: str) -> TextElement:
    """Draw the heading of a page; return it."""
    return ui.label(title).classes("zf-title").props(_HEADING)


def hidden_heading(title: str) -> None:
    """Draw the heading of a page for screen readers alone."""
    ui.label(title).classes("zf-visually-hidden").props(_HEADING)


def _cell(name: str) -> TextElement:
    """Draw a figure with its name; return the figure."""
    with ui.element("div").classes("zf-cell"):
        ui.label(name).classes("zf-name")
        return ui.label(NONE).classes("zf-figure")


def _opens(button: Element, place: Element) -> None:
    """Let a button open and close what a place hides."""

    def toggle() -> None:
        is_open = "zf-open" not in place.classes
        place.classes(**{"add" if is_open else "remove": "zf-open"})
        button.props(f'aria-expanded="{str(is_open).lower()}"')

    button.props('aria-expanded="false"').on("click", toggle)


def _set(label: TextElement, text: str, tooltip: str = "") -> None:
    """Set a text that may be cut off, and its tooltip: by default the whole text."""
    if label.text != text or label.props.get("title") != (tooltip or text):
        label.set_text(text)
        label.props["title"] = tooltip or text


def _rate(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def _go_to_run(own: str, name: str) -> None:
    ui.navigate.to("/" if name == own else f"/?{urlencode({'run': name})}")


def _head(request: Request) -> ui.dark_mode:
    """Add colours, style, and the theme: the browser's, unless a person chose one."""
    ui.colors(**_COLOURS)
    ui.add_css(_STYLE)
    return ui.dark_mode({"dark": True, "light": False}.get(request.cookies.get("theme", "")))


def _theme_button(theme: ui.dark_mode) -> None:
    """Draw the button for light or dark; the browser saves the choice."""
    ui.button(icon="contrast").props('flat dense round aria-label="Light or dark"').on(
        "click",
        # Each redraw of the page sets the server's value, so the server must know the choice.
        lambda event: theme.set_value(event.args is True),
        js_handler=f"""() => {{
            const dark = !Quasar.Dark.isActive;
            const theme = dark ? "dark" : "light";
            document.cookie = `theme=${{theme}}; path=/; max-age={_YEAR_SECONDS}; samesite=strict`;
            emit(dark);
        }}""",
    )


def _logout_button() -> None:
    """Draw a button that ends the login, with all pages that are open in it."""
    ui.button(icon="logout").props('flat dense round aria-label="Log out"').on(
        "click",
        js_handler='() => fetch("/logout", {method: "POST"}).then(() => location.reload())',
    )


def _nothing_there(why: str) -> None:
    with ui.element("section").classes("zf-message"):
        page_heading("Page not found")
        ui.label(why)
        ui.link("Go to the run", "/").classes("zf-link")


def _comes_back(why: str) -> None:
    """Draw the source that is down; the page reloads itself until the source is up."""
    with ui.element("section").classes("zf-message"):
        page_heading("This page is unavailable")
        ui.label(why)
        ui.label("Reconnecting automatically.")
    ui.timer(5.0, ui.navigate.reload, once=True)


def asked_start(visit: Visit, game: str) -> str:
    """Return the position in ``start``, that the actions in ``moves`` begin at.

    Raises:
        NothingThereError: it is not a position of the game; the message says why.
    """
    try:
        return checked_start(game, visit.parameters.get("start", ""))
    except ConfigError as error:
        raise NothingThereError(f"start: {error}") from error


def asked_actions(visit: Visit, game: str, start: str = "") -> list[int]:
    """Return the actions in ``moves``, from a start position.

    Raises:
        NothingThereError: the rules forbid an action, or there are too many.
    """
    moves = visit.parameters.get("moves", "")
    if len(moves) > _LONGEST_MOVES:
        raise NothingThereError(
            f"moves has {len(moves):,} characters: give at most {_LONGEST_MOVES:,}"
        )
    try:
        return parse_actions(game, moves, start)
    except IllegalActionError as error:
        raise NothingThereError(f"moves={moves[:80]}: {error}") from error


def asked_choice(visit: Visit, name: str, known: Iterable[str], default: str) -> str:
    """Return one of several values, or the default if the address has none of them.

    A note on the page says when the default replaces the value in the address.
    """
    value = visit.parameters.get(name) or default
    if value != default and value not in known:
        visit.note(
            f"{name}={value[:80]} does not exist. {default} is used instead. {there_are(known)}"
        )
        return default
    return value


def there_are(known: Iterable[object]) -> str:
    """Return a sentence with the values that can be chosen."""
    named = [str(each) for each in known]
    more = ", ..." if len(named) > _MOST_CHOICES else ""
    return f"Choose from: {', '.join(named[:_MOST_CHOICES])}{more}." if named else "None exist yet."


def asked_number(parameters: Mapping[str, str], name: str) -> int | None:
    """Return a whole number that fits an integer of Postgres; None without the parameter.

    Raises:
        NothingThereError: the value is not such a number.
    """
    value = parameters.get(name, "")
    if not value:
        return None
    number = whole_number(value, HIGHEST)
    if number is None:
        raise NothingThereError(f"{name}={value[:80]}: give a whole number up to {HIGHEST:,}")
    return number


def sentence(words: str) -> str:
    """Return words with a capital letter at the start."""
    return words[:1].upper() + words[1:]


def result_words(result: int, names: tuple[str, str]) -> str:
    """Return a game's result, such as ``White won``; ``draw`` for a draw."""
    return "draw" if result == 0 else f"{names[0 if result > 0 else 1]} won"


def models_words(versions: Iterable[int | None]) -> str:
    """Return the models of a game of self-play: several if the best model changed in the game."""
    known = {version for version in versions if version is not None}
    least, most = min(known), max(known)
    return f"model {most}" if least == most else f"models {least} to {most}"


def first_moves(game: str, moves: str, most: int, start: str) -> str:
    """Return the first moves of a game with their numbers.

    Args:
        game: game name.
        moves: the moves, cut off after ``most`` characters.
        most: the cut; a move that it may have shortened is left out.
        start: start position of the game; empty: the usual one.
    """
    words = moves.split()
    if len(moves) < most:
        return numbered_moves(game, words, start)
    return f"{numbered_moves(game, words[:-1], start)} ..."


def page_links(
    visit: Visit,
    path: str,
    rows: Sequence[Any],
    most: int,
    key: str,
    *,
    first: bool,
    **more: object,
) -> None:
    """Draw links to the newest page and to the older one.

    Args:
        rows: rows as read: one more than ``most`` if there are older ones.
        most: rows of a page.
        key: the column by which the next page begins.
        first: whether this is the newest page.
        more: further parameters of the query.
    """
    before = getattr(rows[most - 1], key) if len(rows) > most else None
    links_around(visit, path, before, first=first, **more)


def links_around(
    visit: Visit, path: str, before: object | None, *, first: bool, **more: object
) -> None:
    """Draw links to the newest page and to the page before a place.

    Args:
        before: the place; None: there is no older page.
        first: whether this is the newest page.
        more: further parameters of the query.
    """
    if not first:
        ui.link("Newest", visit.link(path, **more)).classes("zf-link")
    if before is not None:
        ui.link("Older", visit.link(path, **more, before=before)).classes("zf-link")


def rated_every(run: ShownRun) -> int:
    """Return N if every Nth promoted model of a run is rated; 1 if its settings are unknown."""
    return run.config.rating.every if run.config is not None else 1


def rated_words(run: ShownRun) -> str:
    """Return a sentence on which models of a run are rated; empty if all promoted ones are."""
    every = rated_every(run)
    return "" if every == 1 else f"Every {ordinal(every)} promoted model is rated."


def ordinal(number: int) -> str:
    """Return the ordinal number, such as ``2nd``, ``5th`` and ``11th``."""
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"
