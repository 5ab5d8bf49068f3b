"""The parts of NiceGUI that are used.

Only this module imports it (linted): NiceGUI reads and writes ``.nicegui`` in the folder that a
process is started in, unless it is told of another place before the import.
"""

from __future__ import annotations

import os
from typing import Any

os.environ["NICEGUI_REDIS_URL"] = ""  # that of another program; this one stores nothing
# Nothing is there and nothing can be written there; whoever tried to keep something would fail.
os.environ["NICEGUI_STORAGE_PATH"] = "/dev/null/nothing-is-kept"

from nicegui import Client, Event, app, core, events, run, ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

__all__ = ["Client", "Element", "Event", "TextElement", "app", "events", "run", "sio", "ui"]

sio: Any = core.sio
"""The server of all pages' sockets, of python-socketio, which has no types."""
