"""A position as a line of text, which a visitor copies, changes and sets up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.games.notation import checked_start
from zerofleet.services.dashboard.toolkit import ui

_LONGEST_POSITION = 2_000  # characters that are read; the rules refuse far fewer
_NOTATION_NOTE = (
    "The position in the notation of the game, with the side to move. Copy the text to keep the "
    "position, or change it and press Set up."
)


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
                self._field = ui.input("Position").classes("zf-position")
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
