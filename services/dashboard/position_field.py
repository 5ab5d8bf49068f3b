"""A position and its game as text: to copy, and to change and set up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from zerofleet.database.played_games import record_format
from zerofleet.errors import ConfigError
from zerofleet.games import State, sgf, spec
from zerofleet.games.chess import is_chess
from zerofleet.games.notation import checked_start
from zerofleet.games.pgn_text import PgnGame, write_pgn
from zerofleet.services.dashboard.toolkit import ui

_LONGEST_POSITION = 2_000  # characters that are read; the rules refuse far fewer
_NOTATION_NOTE = (
    "A position in the notation of the game, with the side to move. Change the text and press "
    "Set up to play from there."
)
# Browsers have no clipboard for pages that come over plain HTTP from another machine.
_COPY = """async (event) => {
    const field = event.target.closest(".zf-copy").querySelector("input, textarea");
    field.focus();
    field.select();
    try { await navigator.clipboard.writeText(field.value); }
    catch { document.execCommand("copy"); }
    emit();
}"""


class PositionField:
    """The position as one line of text: to copy, and to change and set up.

    Args:
        game: name of the game.
        apply: called with a checked start position, empty for the usual start.
    """

    def __init__(self, game: str, apply: Callable[[str], None]) -> None:
        self._game = game
        self._apply = apply
        self._shown = ""
        panel = ui.element("section").classes("zf-panel")
        with panel, ui.expansion("Set up a position").props("dense"):
            with ui.element("div").classes("zf-tools"):
                self._field = ui.input("Position to set up").classes("zf-position")
                self._field.props("dense outlined spellcheck=false autocomplete=off")
                self._field.on("keydown.enter", self._set_up)
                button = ui.button("Set up", on_click=self._set_up)
                button.props('outline dense no-caps padding="2px 10px"')
            self._trouble = ui.label("").classes("zf-trouble").props('role="alert"')
            ui.label(_NOTATION_NOTE).classes("zf-note")

    def show(self, position: str) -> None:
        """Show the present position, unless the visitor has changed the text."""
        if self._field.value in ("", self._shown):
            self._field.set_value(position)
            self._trouble.set_text("")
        self._shown = position

    async def _set_up(self) -> None:
        text = self._field.value or ""
        try:
            start = await asyncio.to_thread(self._checked, text[:_LONGEST_POSITION])
        except ConfigError as error:
            self._trouble.set_text(str(error))
        else:
            self._apply(start)

    def _checked(self, text: str) -> str:
        start = checked_start(self._game, text)
        if start and State(self._game, [], start).is_terminal:
            raise ConfigError("the game is over in this position: change it, or the side to move")
        return start


def line_record(
    game: str, actions: Sequence[int], start: str, players: tuple[str, str], *, resigned: bool
) -> str:
    """Return the PGN or SGF of a game that is not stored; empty for a game without either.

    Args:
        players: names of those who play; empty: unknown.
        resigned: whether the player to move after the last action resigned.
    """
    first, second = players
    if is_chess(game):
        tags = {"White": first or "?", "Black": second or "?"}
        return write_pgn(PgnGame(game, actions, start, tags, resigned))
    if record_format(game) is None:
        return ""
    return sgf.write(sgf.SgfGame(game, actions, start, first, second, resigned))


class CopyFields:
    """The position and its game as text, each with a button that copies it.

    The names are FEN and PGN in chess. Games without a notation for either have no field for it.

    Args:
        game: name of the game.
    """

    def __init__(self, game: str) -> None:
        file = record_format(game)
        with ui.element("div").classes("zf-copies"):
            self._position = (
                CopyField("FEN" if is_chess(game) else "Position", ui.input)
                if spec(game).sets_up_positions
                else None
            )
            self._record = CopyField(file.suffix.upper(), ui.textarea) if file else None

    def show(self, position: str, record: str | None = None) -> None:
        """Show a position, and its game unless it is None."""
        if self._position is not None:
            self._position.show(position)
        if self._record is not None and record is not None:
            self._record.show(record)


class CopyField:
    """A text that a visitor can select, and a button that copies it.

    Args:
        name: name of its notation.
        kind: makes the field from its label.
    """

    def __init__(self, name: str, kind: Callable[[str], ui.input | ui.textarea]) -> None:
        self._name = name
        with ui.element("div").classes("zf-copy"):
            self._field = kind(name)
            self._field.props("dense outlined readonly spellcheck=false rows=5")
            self._button = ui.button()
            self._button.props('outline dense no-caps padding="2px 10px"')
            self._button.on("click", self._copied, js_handler=_COPY)
        self.show("")

    def show(self, text: str) -> None:
        """Show a text."""
        self._field.set_value(text)
        self._button.set_text(f"Copy {self._name}")

    def _copied(self) -> None:
        self._button.set_text("Copied")
