"""The board on a page: positions of any game, with what a search thinks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from services.dashboard.board_position import BoardPosition, GameBoard, VariationStep
from services.dashboard.toolkit import Element, events

_MOST_ARROWS = 12


@dataclass(frozen=True, slots=True)
class BoardMark:
    """What is drawn for an action: the greater its share, the larger or the darker."""

    action: int
    share: float  # in [0, 1], of what is shown: visits, or probability
    label: str = ""


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
        shape = game_board.shape
        self._can_play = on_play is not None
        self._props["shape"] = asdict(shape)
        self._props["playable"] = False
        if shape.rows:  # the whole board is seen without scrolling, the controls below it too
            aspect = shape.columns / shape.rows
            self.style(f"max-width: min(100%, calc((100vh - 11rem) * {aspect:.3f}), 46rem)")
        self.show(game_board.position(()))
        if on_play is not None:
            self.on("play", lambda event: self._chosen(event, on_play))
        if on_hover is not None:
            self.on("hover", lambda event: on_hover(_action(event)))

    @property
    def position(self) -> BoardPosition:
        """What is shown."""
        assert self._position is not None
        return self._position

    def show(self, position: BoardPosition, *, playable: bool = True) -> None:
        """Show a position, without marks.

        Args:
            position: of the board's game.
            playable: whether the visitor may choose an action now.
        """
        self._position = position
        self._props["position"] = {
            "pieces": [asdict(piece) for piece in position.pieces],
            "actions": [asdict(action) for action in position.actions],
            "last": None if position.last is None else asdict(position.last),
            "ko": position.ko,
            "text": position.text if self._game_board.shape.style == "text" else "",
        }
        self._props["mover"] = self._game_board.owner_of_moves(position.to_play)
        self._props["playable"] = self._can_play and playable and bool(position.actions)
        self._props["label"] = _label(position)
        self.draw_marks(())

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
        self._props["line"] = []
        self.update()

    def draw_line(self, steps: Sequence[VariationStep]) -> None:
        """Draw a variation as numbered pieces or arrows; an empty one takes it away."""
        self._props["line"] = [
            {**asdict(step.action), "owner": step.owner, "glyph": step.glyph} for step in steps
        ]
        self.update()

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
    return f"Board after {position.ply} plies{last}"
