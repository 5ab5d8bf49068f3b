"""Overrides of run-file keys: ``ZEROFLEET_SET=KEY=VALUE,...``, and ``--set KEY=VALUE`` over it."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self, cast, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from zerofleet.config.presets import Values, merge
from zerofleet.config.process_settings import ENV_PREFIX
from zerofleet.config.renamed import GONE, MOVED, renamed
from zerofleet.config.run import RunConfig
from zerofleet.printable import shortened

SET_VARIABLE = f"{ENV_PREFIX}SET"
"""Variable with keys of the run file, such as ``search.c_puct=2,rating.anchors=["random"]``."""

_OPENING, _CLOSING = "([{", ")]}"
_NAMED = (["game"], ["network"])  # sections that a run file may give as their name alone


@dataclass(frozen=True, slots=True)
class Override:
    """A key or section with a value that overrides the run file."""

    label: str
    """Option or variable, with its text, for messages."""
    key: str
    """Key, with its section before the dot; or a section."""
    value: object

    def holds(self, location: Sequence[str]) -> bool:
        """Return whether this gave the value at a location, such as ``("search", "c_puct")``."""
        path = self.key.split(".")
        return list(location[: len(path)]) == path and _holds(self.value, location[len(path) :])


@dataclass(frozen=True, slots=True)
class Overrides:
    """All overrides of a run file, the strongest last."""

    given: tuple[Override, ...] = ()
    mistakes: tuple[str, ...] = ()
    """Message for each text that is not a valid override."""

    @classmethod
    def read(cls, options: Sequence[str] = ()) -> Self:
        """Read the environment variable and the command's options, which override it.

        Args:
            options: the texts of ``--set``.
        """
        variable = split_settings(os.environ.get(SET_VARIABLE, ""))
        texts = [(SET_VARIABLE + ": ", text) for text in variable]
        return cls.parse([*texts, *(("--set ", text) for text in options)])

    @classmethod
    def parse(cls, texts: Sequence[tuple[str, str]]) -> Self:
        """Parse texts of the form ``KEY=VALUE``, without the environment variable.

        Args:
            texts: pairs of a prefix for messages, such as ``"--set "``, and a text. Later texts
                override earlier ones.
        """
        given: list[Override] = []
        mistakes: list[str] = []
        for source, text in texts:
            found = _override(source, text)
            if isinstance(found, Override):
                given.append(found)
            else:
                mistakes.append(found)
        return cls(tuple(given), tuple(mistakes))

    @property
    def values(self) -> Values:
        """The overriding values, nested by section."""
        nested = (
            reduce(lambda inner, part: {part: inner}, reversed(each.key.split(".")), each.value)
            for each in self.given
        )
        return reduce(merge, cast("Iterator[Values]", nested), {})

    def source_of(self, location: Sequence[str]) -> Override | None:
        """Return the override that gave the value at a location; None: the run file gave it."""
        return next((each for each in reversed(self.given) if each.holds(location)), None)


def misplaced_keys() -> list[str]:
    """Return a message for each mistake in environment variables that are named like a key.

    ``ZEROFLEET_SET`` alone sets keys of the run file; the messages say how.
    """
    mistakes: list[str] = []
    settings: dict[str, str] = {}
    moved: list[str] = []
    for variable in sorted(os.environ):
        path = variable.upper().removeprefix(ENV_PREFIX).lower().split("__")
        if not variable.upper().startswith(ENV_PREFIX):
            continue
        key = ".".join(path)
        if key in GONE:
            mistakes.append(f"{variable}: unknown key '{key}'{renamed(key)}")
        elif path[0] in RunConfig.model_fields:
            if key in MOVED:
                moved.append(f"'{key}' is '{MOVED[key]}' now")
            settings[variable] = f"{MOVED.get(key, key)}={os.environ[variable]}"
        elif len(path) > 1:
            mistakes.append(f"{variable}: unknown section '{path[0]}'{near_key(path[0], [])}")
    if settings:
        mistakes.append(
            f"{', '.join(settings)}: keys of the run file are given by {SET_VARIABLE}, as "
            f"{SET_VARIABLE}='{','.join(settings.values())}'{'; ' if moved else ''}"
            f"{', '.join(moved)}"
        )
    return mistakes


def section_of(path: Sequence[str]) -> type[BaseModel] | None:
    """Return the model of a section; None if there is no section at this path."""
    model: type[BaseModel] = RunConfig
    for part in path:
        field = model.model_fields.get(part)
        if field is None:
            return None
        candidates = [field.annotation, *get_args(field.annotation)]
        sections = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not sections:
            return None
        model = sections[0]
    return model


def near_key(key: str, path: Sequence[str]) -> str:
    """Return a hint for an unknown key: the key that may have been meant, or the known ones.

    Args:
        key: the unknown key.
        path: the section it was in; empty for the top level.
    """
    known = _known_keys(path)
    sections = [name for name in RunConfig.model_fields if section_of([name])]
    elsewhere = [f"{name}.{key}" for name in sections if key in _known_keys([name])]
    if elsewhere:
        *others, last = [f"'{each}'" for each in elsewhere]
        return f": did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
    here = {each: ".".join([*path, each]) for each in known}
    all_keys = {each: f"{name}.{each}" for name in sections for each in _known_keys([name])}
    for keys, cutoff in ((here, 0.8), (all_keys, 0.8), (here, 0.5)):
        if near := difflib.get_close_matches(key, keys, n=1, cutoff=cutoff):
            return f": did you mean '{keys[near[0]]}'?"
    return f": known keys here are {', '.join(known)}" if known else ""


def _known_keys(path: Sequence[str]) -> list[str]:
    model = section_of(path)
    return [name for name, each in model.model_fields.items() if not each.exclude] if model else []


def split_settings(text: str) -> list[str]:
    """Split ``search.c_puct=2,trainer.l2=0`` at commas outside brackets and quotes."""
    parts, start, depth, is_quoted = list[str](), 0, 0, False
    for index, letter in enumerate(text):
        if letter == '"':
            is_quoted = not is_quoted
        elif is_quoted:
            continue
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        elif letter == "," and depth <= 0:
            parts.append(text[start:index])
            start = index + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _override(source: str, text: str) -> Override | str:
    """Parse ``KEY=VALUE``; return the override, or a message about the mistake in it."""
    label = f"{source}{shortened(text)}"
    key, equals, value = text.partition("=")
    path = key.strip().split(".")
    if not equals:
        return f"{label}: give KEY=VALUE, such as search.c_puct=2"
    for depth, part in enumerate(path):
        section = path[:depth]
        if section_of(section) is None:
            known = ".".join(section)
            return f"{label}: '{known}' is a key, not a section: give {known}=VALUE"
        is_keys_name = depth > 0 and depth == len(path) - 1  # the run's own check reports it
        if part not in _known_keys(section) and not is_keys_name:
            unknown = shortened(".".join(path[: depth + 1]))
            return f"{label}: unknown key '{unknown}'{near_key(part, section)}"
    model = section_of(path[:-1])
    field = model.model_fields.get(path[-1]) if model else None
    default = cast("object", field.default) if field is not None else None
    example = cast("tuple[object, ...]", default) if isinstance(default, tuple) else None
    decoded: object = _unquoted(value.strip())
    if example is not None or section_of(path) is not None:
        try:
            decoded = json.loads(value)
        except (ValueError, RecursionError):
            if path not in _NAMED:
                name = source.rstrip(": ")
                equals = "=" if source.startswith(SET_VARIABLE) else " "
                way = f"or one key of it, as {name}{equals}{key}.KEY=VALUE"
                hint = way if example is None else f"such as {json.dumps(example)}"
                return f"{label}: give JSON, {hint}"
        if path in _NAMED and isinstance(decoded, str):
            path = [*path, "name"]
    elif field is not None:
        with contextlib.suppress(ValidationError):  # the run's own check reports the text
            decoded = TypeAdapter[object](cast("Any", field.annotation)).validate_python(decoded)
    elif path[0] == "network":  # a key of a network of one's own
        with contextlib.suppress(ValueError, RecursionError):
            decoded = json.loads(value)
    return Override(label, ".".join(path), decoded)


def _unquoted(value: str) -> str:
    """Return a value without the quotes around it, which a run file needs and a shell removes."""
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def _holds(value: object, path: Sequence[str]) -> bool:
    """Return whether a value has something at this path."""
    for part in path:
        if isinstance(value, dict) and part in value:
            value = cast("dict[str, object]", value)[part]
        elif isinstance(value, list) and part.isdecimal():
            items = cast("list[object]", value)
            if int(part) >= len(items):
                return False
            value = items[int(part)]
        else:
            return False
    return True
