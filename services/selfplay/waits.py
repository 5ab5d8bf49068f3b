"""What keeps this worker from playing: never a silent stall."""

from __future__ import annotations

import structlog

_log = structlog.get_logger()


class Waits:
    """The things waited for, by who waits; each change is logged once, not each retry."""

    def __init__(self) -> None:
        self._things: dict[str, str] = {}

    def begin(self, who: str, thing: str) -> None:
        """``who`` (a part of this worker) waits for ``thing``."""
        if self._things.get(who) != thing:
            self._things[who] = thing
            _log.warning("waiting", part=who, waiting_for=thing)

    def end(self, who: str) -> None:
        """``who`` goes on."""
        thing = self._things.pop(who, None)
        if thing is not None:
            _log.info("waited", part=who, waited_for=thing)

    def __str__(self) -> str:
        """Everything waited for, each thing once; empty while nothing is."""
        return ", ".join(dict.fromkeys(self._things.values()))

    def __bool__(self) -> bool:
        return bool(self._things)
