"""A client of a chess engine that speaks the Universal Chess Interface on its standard streams."""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from zerofleet.engine_process import EngineError, EngineProcess, next_line
from zerofleet.printable import printable, shortened

_OPTION = re.compile(r"option name (.+?) type (check|spin|combo|string|button)\b(.*)")
_MOST_OPTIONS = 1_000
_WORD = {"min", "max", "default", "var"}
_LONGEST_REASON = 300
_RATED = "uci_elo"
_LIMITED = "uci_limitstrength"


@dataclass(frozen=True, slots=True)
class UciOption:
    """An option, as the engine declares it."""

    name: str
    kind: str
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, line: str) -> UciOption | None:
        """Read a line of the engine's answer to ``uci``; None if it declares no option."""
        found = _OPTION.fullmatch(" ".join(line.split()))
        if found is None:
            return None
        least: int | None = None
        most: int | None = None
        choices: list[str] = []
        words = found[3].split()
        for place in [i for i, word in enumerate(words) if word in _WORD]:
            value = " ".join(itertools.takewhile(lambda w: w not in _WORD, words[place + 1 :]))
            if words[place] == "var":
                choices.append(value)
            elif words[place] == "min":
                least = _whole_number(value)
            elif words[place] == "max":
                most = _whole_number(value)
        return cls(found[1], found[2], least, most, tuple(choices))

    def why_not(self, value: str) -> str | None:
        """Return why the option cannot have a value; None if it can.

        A string may name a file that the engine then reads or writes, as Stockfish's ``Debug Log
        File`` does. A button has no value.
        """
        if self.kind in ("string", "button"):
            return f"is a {self.kind}: only numbers, true or false, and choices can be set"
        if self.kind == "check":
            return None if value in ("true", "false") else f"is '{value}': give true or false"
        if self.kind == "combo":
            known = value in self.choices
            return None if known else f"is '{value}': give one of {', '.join(self.choices)}"
        number = _whole_number(value)
        if number is None:
            return f"is '{value}': give a whole number"
        least = -math.inf if self.least is None else self.least
        most = math.inf if self.most is None else self.most
        if least <= number <= most:
            return None
        if self.most is None:
            return f"is {number}: give at least {self.least}"
        if self.least is None:
            return f"is {number}: give at most {self.most}"
        return f"is {number}: give {self.least} to {self.most}"


class UciClient(EngineProcess):
    """One running engine; see ``EngineProcess``."""

    async def prepare(self, options: Sequence[tuple[str, str]]) -> None:
        """Greet the engine and set its options.

        Raises:
            EngineError: the engine lacks an option, or the option refuses its value or needs
                another option.
            EngineGoneError: it has ended, or does not answer in time.
        """
        declared = await self._greet()
        given = {name.lower(): value for name, value in options}
        limited = {_RATED, _LIMITED} <= declared.keys()
        # Stockfish would play at full strength.
        if limited and _RATED in given and given.get(_LIMITED, "false") == "false":
            raise EngineError(
                f"{self.name}: UCI_Elo has no effect alone: add UCI_LimitStrength=true"
            )
        for name, value in options:
            option = declared.get(name.lower())
            if option is None:
                raise EngineError(self._no_option(name, [each.name for each in declared.values()]))
            reason = option.why_not(value)
            if reason is not None:
                text = f"{self.name}: the option '{option.name}' {reason}"
                raise EngineError(printable(text[:_LONGEST_REASON]))
            await self.tell(f"setoption name {option.name} value {value}")
        await self._wait_ready()

    async def best_move(self, position: str, limits: str, seconds: float) -> str:
        """Return the engine's move in a position that it has not seen.

        Args:
            position: arguments of ``position``.
            limits: arguments of ``go``.
            seconds: how long to wait for the move.

        Returns:
            The word after ``bestmove``, which may be any text; empty without one.

        Raises:
            EngineGoneError: it has ended, or does not answer in time.
        """
        await self.tell("ucinewgame")
        await self._wait_ready()
        await self.tell(f"position {position}")
        async with self.answer_to(f"go {limits}", seconds=seconds) as stream:
            while True:
                words = (await next_line(stream)).split()
                if words and words[0] == "bestmove":
                    return words[1] if len(words) > 1 else ""

    async def _greet(self) -> dict[str, UciOption]:
        """Return the engine's options, by name in lower case."""
        options: dict[str, UciOption] = {}
        async with self.answer_to("uci") as stream:
            while (line := await next_line(stream)).split() != ["uciok"]:
                option = UciOption.of(line)
                if option is not None and len(options) < _MOST_OPTIONS:
                    options[option.name.lower()] = option
        return options

    async def _wait_ready(self) -> None:
        async with self.answer_to("isready") as stream:
            while (await next_line(stream)).split() != ["readyok"]:
                pass

    def _no_option(self, name: str, known: Sequence[str]) -> str:
        near = difflib.get_close_matches(name, known, 1)
        remedy = f"did you mean '{near[0]}'?" if near else "`uci` in the program lists its options"
        return printable(f"{self.name} has no option '{shortened(name)}': {shortened(remedy)}")


def _whole_number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None
