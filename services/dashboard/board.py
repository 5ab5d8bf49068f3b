"""The board on a page: positions of any game, with what a search thinks of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from zerofleet.services.dashboard.board_position import BoardPosition, GameBoard, VariationStep
from zerofleet.services.dashboard.toolkit import Element, events

_MOST_ARROWS = 12
_WIDEST, _WIDEST_CELL = 46, 8  # rem: of the board, and of a cell of a small one


@dataclass(frozen=True, slots=True)
class BoardMark:
    """What is drawn for an action: the greater its share, the larger or the darker."""

    action: int
    share: float  # in [0, 1], of what is shown: visits, or probability
    label: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class SoughtPosition:
    """What a board is to show next."""

    actions: tuple[int, ...]
    playable: bool
    then: Callable[[], None] | None


class Board(Element, component="board.js"):
    """A board of one game, as SVG; where the game has none, its text and its actions as a list.

    Args:
        game_board: of the game that is shown.
        on_play: called with a legal action that the visitor chose; None: nothing can be chosen.
        on_hover: called with the action under the pointer or the keyboard's cursor, and with None
            when it is on none.
    """

    def __init__(
        self,
        game_board: GameBoard,
        *,
        on_play: Callable[[int], Any] | None = None,
        on_hover: Callable[[int | None], Any] | None = None,
    ) -> None:
        super().__init__()
        self._game_board = game_board
        self._position: BoardPosition | None = None
        self._shown = 0  # positions so far
        self._variation: object = None  # the newest that was asked for
        self._sought: SoughtPosition | None = None
        self._seeking: asyncio.Task[None] | None = None
        shape = game_board.shape
        self._can_play = on_play is not None
        self._props["shape"] = asdict(shape)
        self._props["playable"] = False
        if shape.rows:  # the whole board is seen without scrolling, the controls below it too
            aspect = shape.columns / shape.rows
            most = min(_WIDEST, _WIDEST_CELL * shape.columns)
            self.style(f"max-width: min(100%, calc((100vh - 11rem) * {aspect:.3f}), {most:g}rem)")
        self.show(game_board.start)
        if on_play is not None:
            self.on("play", lambda event: self._chosen(event, on_play))
        if on_hover is not None:
            self.on("hover", lambda event: on_hover(_action(event)))

    @property
    def position(self) -> BoardPosition:
        """What is shown."""
        assert self._position is not None
        return self._position

    @property
    def is_seeking(self) -> bool:
        """Whether the position that was sought last is not shown yet."""
        return self._sought is not None

    def show(self, position: BoardPosition, *, playable: bool = True) -> None:
        """Show a position, without marks.

        Args:
            position: of the board's game.
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
            "text": position.text if self._game_board.shape.style == "text" else "",
        }
        self._props["mover"] = self._game_board.owner_of_moves(position.to_play)
        self._props["playable"] = self._can_play and playable and bool(position.actions)
        self._props["label"] = _label(position)
        self.draw_marks(())

    def seek(
        self,
        actions: Sequence[int],
        *,
        playable: bool = True,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Show the position after those actions as soon as a thread has worked it out.

        With rules of OpenSpiel or in Python that takes up to a tenth of a second, in which the
        event loop answers other pages. Of positions asked for meanwhile only the newest is shown.

        Args:
            actions: legal ones, from the start.
            playable: whether the visitor may choose an action there.
            then: called when it is shown, such as to draw its marks.
        """
        self._sought = SoughtPosition(tuple(actions), playable, then)
        self._props["playable"] = False  # what still stands there was left
        if self._seeking is None or self._seeking.done():
            self._seeking = asyncio.create_task(self._keep_seeking())

    def stop_waiting(self) -> bool:
        """Nobody is told when what is sought is shown; whether somebody would have been."""
        sought = self._sought
        if sought is None or sought.then is None:
            return False
        self._sought = SoughtPosition(sought.actions, sought.playable, None)
        return True

    async def sought(self) -> None:
        """Wait until what was sought is shown."""
        if self._seeking is not None:
            await self._seeking

    async def _keep_seeking(self) -> None:
        while (sought := self._sought) is not None:
            position = await asyncio.to_thread(self._game_board.position, sought.actions)
            newest = self._sought is sought
            # While a key is held down each step is too late, and yet it shows the way.
            self.show(position, playable=newest and sought.playable)
            if newest:
                self._sought = None
                if sought.then is not None:
                    sought.then()

    def draw_marks(
        self, marks: Sequence[BoardMark], *, heat: bool = False, best: int | None = None
    ) -> None:
        """Draw what a search, or the network, thinks of the actions.

        Args:
            marks: in any order; of arrows the greatest dozen are drawn.
            heat: as a heat map; else as circles that grow with the share.
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
        """Draw the actions of ``line`` as numbered pieces or arrows; with none they are taken away.

        A thread works them out, as in ``seek``. Of variations asked for meanwhile only the newest
        is drawn, and none when another position is shown by then.

        Args:
            actions: what led to the position that is shown.
            line: played after them; one that the rules forbid, such as one of the position
                before, counts as none.
        """
        asked = self._variation = object()
        steps: Sequence[VariationStep] = ()
        with contextlib.suppress(ValueError):
            if line:
                steps = await asyncio.to_thread(
                    self._game_board.variation, tuple(actions), tuple(line)
                )
        if self._variation is not asked:
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
    """The action that an event of the component names; it is a visitor's word."""
    value = cast("object", event.args)
    if isinstance(value, list) and value:
        value = cast("list[object]", value)[0]
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _label(position: BoardPosition) -> str:
    last = "" if position.last is None else f", last {position.last.text}"
    won = ", the winning row is marked" if position.won_by else ""
    return f"Board after {position.ply} plies{last}{won}"
