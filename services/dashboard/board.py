"""The board on a page: positions of any game, with the results of a search."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from zerofleet.errors import ConfigError
from zerofleet.games.game_board import BoardPosition, GameBoard, VariationStep
from zerofleet.services.dashboard.toolkit import Element, events, ui

_MOST_ARROWS = 12
_WIDEST, _WIDEST_CELL = 46, 8  # rem: width of the board, and of a cell of a small one
_NAMES = 0.6  # width and height of names of rows and columns, in cells (board.js)
_NARROWEST = 14  # rem: in a lower window the page scrolls
_REST, _CAPTURED = 19, 3.5  # rem: height of the rest of the page Play, and of captured pieces


def require_known(game: str, own_game: str) -> None:
    """Refuse a game that only the database names, for another run, and that could do harm here.

    A class would be imported, and parameters of OpenSpiel may be of any size.

    Raises:
        ConfigError: it is a class, or a game of OpenSpiel with parameters.
    """
    if game == own_game:
        return
    kind, colon, name = game.partition(":")
    if colon and (kind != "openspiel" or not re.fullmatch(r"\w{1,80}(\(\))?", name)):
        what = "is a Python class" if kind == "python" else "has parameters or is no game's name"
        raise ConfigError(
            f"'{game[:80]}' {what} and belongs to another run: start the dashboard with that run's "
            "file"
        )


@dataclass(frozen=True, slots=True)
class BoardMark:
    """A mark for an action: the greater its share, the larger or the darker."""

    action: int
    share: float  # share in [0, 1] of the visits or the probability
    label: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class SoughtPosition:
    """The next position for a board."""

    actions: tuple[int, ...]
    playable: bool
    then: Callable[[], None] | None


class Board(Element, component="board.js"):
    """A board of one game, as SVG; a game without a grid is its text and its actions as a list.

    Args:
        game_board: board of the game to show.
        on_play: called with a legal action that the visitor chose; None: the visitor cannot choose.
        on_hover: called with the action under the pointer or the keyboard's cursor, and with None
            if there is none.
        flips: whether ``flip_button`` turns it.
    """

    def __init__(
        self,
        game_board: GameBoard,
        *,
        on_play: Callable[[int], Any] | None = None,
        on_hover: Callable[[int | None], Any] | None = None,
        flips: bool = False,
    ) -> None:
        super().__init__()
        self._game_board = game_board
        self._position: BoardPosition | None = None
        self._shown = 0  # positions shown so far
        self._variation: object = None  # the newest requested one
        self._sought: SoughtPosition | None = None
        self._seeking: asyncio.Task[None] | None = None
        shape = game_board.shape
        self._can_play = on_play is not None
        self._props["shape"] = asdict(shape)
        self._props["playable"] = False
        self._props["flips"] = flips
        self._props["turned"] = False
        if shape.rows:  # the whole board and the controls below it are visible without scrolling
            names_left, names_below = bool(shape.row_names), bool(shape.column_names)
            aspect = (shape.columns + _NAMES * names_left) / (shape.rows + _NAMES * names_below)
            most = min(_WIDEST, _WIDEST_CELL * shape.columns)
            rest = _REST + (_CAPTURED if game_board.start.captured else 0)
            fitting = f"max({_NARROWEST}rem, (100vh - {rest:g}rem) * {aspect:.3f})"
            self.style(f"max-width: min(100%, {fitting}, {most:g}rem)")
        self.show(game_board.start)
        if on_play is not None:
            self.on("play", lambda event: self._chosen(event, on_play))
        if on_hover is not None:
            self.on("hover", lambda event: on_hover(_action(event)))

    @property
    def position(self) -> BoardPosition:
        """The position shown now."""
        assert self._position is not None
        return self._position

    @property
    def is_seeking(self) -> bool:
        """Whether the last requested position is not shown yet."""
        return self._sought is not None

    def show(self, position: BoardPosition, *, playable: bool = True) -> None:
        """Show a position, without marks.

        Args:
            position: a position of the board's game.
            playable: whether the visitor may choose an action now.
        """
        self._position = position
        self._shown += 1
        self._variation = None
        self._props["line"] = []
        self._props["position"] = {
            "number": self._shown,
            "pieces": [asdict(piece) for piece in position.pieces],
            "actions": [asdict(action) for action in position.actions],
            "last": None if position.last is None else asdict(position.last),
            "ko": position.ko,
            "won_by": position.won_by,
            "check": position.check,
            "captured": [asdict(each) for each in position.captured],
            "text": position.text if self._game_board.shape.style == "text" else "",
            "picture": position.picture,
        }
        self._props["mover"] = self._game_board.owner_of_moves(position.to_play)
        self._props["playable"] = self._can_play and playable and bool(position.actions)
        self._props["label"] = _label(position)
        self.draw_marks(())

    def seek(
        self,
        actions: Sequence[int],
        *,
        start: str | None = None,
        playable: bool = True,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Show the position after those actions as soon as a thread has computed it.

        With rules of OpenSpiel or in Python that takes up to a tenth of a second, in which the
        event loop serves other pages. If several are requested in the meantime, only the newest is
        shown.

        Args:
            actions: legal actions from the start position.
            start: the start position if it changes; None: the one before.
            playable: whether the visitor may choose an action there.
            then: called when it is shown, for example to draw its marks.
        """
        if start is not None:
            self._game_board = self._game_board.starting_at(start)
        self._sought = SoughtPosition(tuple(actions), playable, then)
        self._props["playable"] = False  # the position still shown is outdated
        if self._seeking is None or self._seeking.done():
            self._seeking = asyncio.create_task(self._keep_seeking())

    def turn(self, player: int) -> None:
        """Show a board of chess from a player's side; other boards stay as they are."""
        self._props["turned"] = player == 1 and self._game_board.shape.pieces == "chess"
        self.update()

    def lock(self) -> None:
        """Let the visitor choose nothing until the next ``seek``."""
        self._props["playable"] = False
        if self._sought is not None:
            self._sought = replace(self._sought, playable=False)

    def stop_waiting(self) -> bool:
        """Drop the callback of the requested position; return whether there was one."""
        sought = self._sought
        if sought is None or sought.then is None:
            return False
        self._sought = replace(sought, then=None)
        return True

    async def sought(self) -> None:
        """Wait until the requested position is shown."""
        if self._seeking is not None:
            await self._seeking

    async def _keep_seeking(self) -> None:
        while (sought := self._sought) is not None:
            position = await asyncio.to_thread(self._game_board.position, sought.actions)
            newest = self._sought is sought
            # While a key is held down, each position comes too late but still shows the progress.
            self.show(position, playable=newest and sought.playable)
            if newest:
                self._sought = None
                if sought.then is not None:
                    sought.then()

    def draw_marks(
        self, marks: Sequence[BoardMark], *, heat: bool = False, best: int | None = None
    ) -> None:
        """Draw the evaluation of the actions by a search or the network.

        Args:
            marks: in any order; of arrows the greatest dozen are drawn.
            heat: draw a heat map; otherwise circles that grow with the share.
            best: an action to ring.
        """
        ordered = sorted(marks, key=lambda mark: -mark.share)
        if any(action.source is not None for action in self.position.actions):
            ordered = ordered[:_MOST_ARROWS]
        self._props["marks"] = [asdict(mark) for mark in ordered]
        self._props["heat"] = heat
        self._props["best"] = best
        self.update()

    async def draw_variation(self, actions: Sequence[int], line: Sequence[int]) -> None:
        """Draw the actions of ``line`` as numbered pieces or arrows; an empty line removes them.

        A thread computes them, as in ``seek``. If several are requested in the meantime, only the
        newest is drawn, and none if another position is shown by then.

        Args:
            actions: actions that led to the position shown.
            line: played after them; one that the rules forbid, such as one of the previous
                position, counts as empty.
        """
        request = self._variation = object()
        steps: Sequence[VariationStep] = ()
        with contextlib.suppress(ValueError):
            if line:
                steps = await asyncio.to_thread(
                    self._game_board.variation, tuple(actions), tuple(line)
                )
        if self._variation is not request:
            return
        drawn = [
            {**asdict(step.action), "owner": step.owner, "glyph": step.glyph} for step in steps
        ]
        if drawn != self._props["line"]:
            self._props["line"] = drawn

    def _chosen(self, event: events.GenericEventArguments, on_play: Callable[[int], Any]) -> Any:  # noqa: ANN401  NiceGUI awaits what a handler returns
        action = _action(event)
        legal = {each.action for each in self.position.actions}
        # A click may cross an answer of the server on its way.
        return on_play(action) if action in legal and self._props["playable"] else None


def _action(event: events.GenericEventArguments) -> int | None:
    """Return the action of an event of the component, whose content is untrusted."""
    value = cast("object", event.args)
    if isinstance(value, list) and value:
        value = cast("list[object]", value)[0]
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _label(position: BoardPosition) -> str:
    last = "" if position.last is None else f", last {position.last.text}"
    won = ", the winning row is marked" if position.won_by else ""
    check = "" if position.check is None else ", the king is in check"
    return f"Board after {position.ply} plies{last}{won}{check}"


def flip_button() -> None:
    """Draw the button that turns the boards of a page; the browser remembers it for its session."""
    button = ui.button("Flip board")
    button.props('outline dense no-caps padding="2px 10px"')
    button.on(
        "click",
        js_handler='() => dispatchEvent(new Event("zf-flipped"))',
    )
